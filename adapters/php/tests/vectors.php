<?php

// The vectors of spec/vectors with the adapter's own codec. Says what differs, and ends with status 1 when something does.

declare(strict_types=1);

use Keepwarm\Connection;
use Keepwarm\Fault;
use Keepwarm\Wire;

require __DIR__ . '/../src/autoload.php';

const FLAGS = ['END', 'EXPECT', 'REPEATS', 'EARLY_HINTS', 'WEBSOCKET', 'TRAILERS', 'USER'];
const FIXED = ['method', 'protocol', 'scheme', 'path', 'raw_path', 'query', 'script_name', 'server_name', 'server_port', 'client_address', 'client_port'];

$faults = 0;
$checks = 0;

function cases(string $file): array
{
    return json_decode(file_get_contents(__DIR__ . "/../../../spec/vectors/$file"), true, 512, JSON_THROW_ON_ERROR);
}

function raw(array $case): string
{
    return hex2bin($case['hex']) . str_repeat(hex2bin($case['pad']['hex'] ?? ''), $case['pad']['times'] ?? 0);
}

/** The vectors' strings are bytes, one a character. */
function bytes(string $text): string
{
    return mb_convert_encoding($text, 'ISO-8859-1', 'UTF-8');
}

function text(string $bytes): string
{
    return mb_convert_encoding($bytes, 'UTF-8', 'ISO-8859-1');
}

function pairs_of(array $pairs): array
{
    return array_map(fn (array $pair): array => array_map('text', $pair), $pairs);
}

function body(mixed $body): string
{
    return is_array($body) ? str_repeat(bytes($body['repeat']), $body['times']) : bytes($body);
}

function expected(array $frame): array
{
    if (array_key_exists('body', $frame)) {
        $frame['body'] = body($frame['body']);
    }
    ksort($frame);
    return $frame;
}

function described(int $kind, int $flags, int $stream, string $payload): array
{
    $name = array_flip(array_intersect_key((new ReflectionClass(Wire::class))->getConstants(), array_flip(
        ['WELCOME', 'REQUEST', 'DATA', 'TRAILERS', 'CREDIT', 'RESET', 'HALF_CLOSE', 'TEXT', 'BINARY', 'CLOSE', 'PING', 'DRAIN', 'LEAKS']
    )))[$kind];
    $frame = ['type' => $name, 'stream' => $stream];
    switch ($kind) {
        case Wire::WELCOME:
            [$frame['version_min'], $frame['version_max'], $frame['stream_credit'], $frame['connection_credit'], $about] = Wire::decodeWelcome($payload);
            $frame['about'] = pairs_of($about);
            break;
        case Wire::REQUEST:
            [$length, $strings, $frame['body']] = Wire::requestParts($payload, $flags);
            $frame['flags'] = array_values(array_filter(FLAGS, fn (int $place): bool => ($flags >> $place & 1) === 1, ARRAY_FILTER_USE_KEY));
            $frame['content_length'] = $length === Wire::UNKNOWN_LENGTH ? null : $length;
            $strings = array_map('text', $strings);
            if (($flags & Wire::USER) !== 0) {
                $frame['user'] = array_pop($strings);
                $frame['auth_type'] = array_pop($strings);
            }
            $frame += array_combine(FIXED, array_slice($strings, 0, 11));
            $frame['fields'] = array_chunk(array_slice($strings, 11), 2);
            break;
        case Wire::DATA:
        case Wire::TEXT:
        case Wire::BINARY:
            $frame += ['flags' => $flags !== 0 ? ['END'] : [], 'body' => $payload];
            break;
        case Wire::TRAILERS:
            $frame['fields'] = pairs_of(Wire::decodeTrailers($payload));
            break;
        case Wire::CREDIT:
            $frame['amount'] = Wire::decodeCredit($payload);
            break;
        case Wire::RESET:
        case Wire::CLOSE:
            [$frame['code'], $frame['reason']] = Wire::decodeReason($payload);
            break;
        case Wire::LEAKS:
            $frame['flags'] = $flags !== 0 ? ['END'] : [];
            break;
        case Wire::PING:
            $frame['payload'] = bin2hex($payload);
    }
    ksort($frame);
    return $frame;
}

function encoded(array $frame): string
{
    $stream = $frame['stream'];
    $flat = array_map('bytes', array_merge(...($frame['fields'] ?? $frame['about'] ?? []) ?: [[]]));
    $block = [count($flat), implode("\0", $flat)];
    $flags = $frame['flags'] ?? [];
    switch ($frame['type']) {
        case 'HELLO':
            $hello = Wire::hello($frame['streams'], $frame['stream_credit'], $frame['connection_credit'], $flat);
            return substr_replace($hello, pack('n', $frame['version']), 10, 2); // the adapter speaks one version only
        case 'RESPONSE':
            $bits = (in_array('END', $flags, true) ? Wire::END : 0) | (in_array('CLOSE', $flags, true) ? Wire::CLOSE_AFTER : 0);
            return Wire::response($stream, $bits, $frame['status'], $block[0], $block[1], body($frame['body']));
        case 'INFORM':
            return Wire::inform($stream, $frame['status'], ...$block);
        case 'TRAILERS':
            return Wire::trailers($stream, ...$block);
        case 'CREDIT':
            return Wire::credit($stream, $frame['amount']);
        case 'SAMPLES':
            return Wire::samples($frame['request'], $frame['dropped'], array_combine(array_map('bytes', array_column($frame['stacks'], 0)), array_column($frame['stacks'], 1)));
        case 'GROWTH':
            return Wire::growth($frame['request'], $frame['microseconds'], array_combine(array_map('bytes', array_column($frame['changes'], 0)), array_column($frame['changes'], 1)));
        case 'RESET':
            return Wire::reset($stream, $frame['code'], $frame['reason']);
        case 'CLOSE':
            return Wire::close($stream, $frame['code'], $frame['reason']);
    }
    $payload = $frame['type'] === 'PONG' ? hex2bin($frame['payload']) : body($frame['body'] ?? '');
    return Wire::frame(constant(Wire::class . '::' . $frame['type']), in_array('END', $flags, true) ? Wire::END : 0, $stream, $payload);
}

function check(string $what, mixed $wanted, mixed $found): void
{
    global $faults, $checks;
    $checks++;
    if ($wanted !== $found) {
        $faults++;
        echo "$what:\n  wanted ", substr(json_encode($wanted, JSON_INVALID_UTF8_SUBSTITUTE), 0, 400), "\n  found  ", substr(json_encode($found, JSON_INVALID_UTF8_SUBSTITUTE), 0, 400), "\n";
    }
}

/** Every frame at the front of `$buffer`, and the name of the fault that ends them. */
function frames(string &$buffer): array
{
    $frames = [];
    try {
        while (($frame = Wire::takeFrame($buffer)) !== null) {
            $frames[] = described(...$frame);
        }
    } catch (Fault $fault) {
        return [$frames, $fault->name];
    }
    return [$frames, null];
}

foreach (cases('frames.json') as $case) {
    $bytes = raw($case);
    if ($case['from'] === 'worker') {
        check("frames: {$case['name']}", bin2hex($bytes), bin2hex(encoded($case['frame'])));
        continue;
    }
    $buffer = $bytes . 'behind';
    $frame = Wire::takeFrame($buffer);
    check("frames: {$case['name']}", [expected($case['frame']), 'behind'], [described(...$frame), $buffer]);
    $lengths = strlen($bytes) < 300 ? range(0, strlen($bytes) - 1) : [...range(0, 150), intdiv(strlen($bytes), 2), strlen($bytes) - 1];
    foreach ($lengths as $length) {
        $piece = substr($bytes, 0, $length);
        check("frames: {$case['name']}, its first $length bytes", null, Wire::takeFrame($piece));
    }
}
foreach (['partials.json', 'faults.json'] as $file) {
    foreach (cases($file) as $case) {
        if ($case['from'] === 'keepwarm') {
            $buffer = raw($case);
            check("$file: {$case['name']}", [array_map('expected', $case['frames'] ?? []), $case['fault'] ?? null], frames($buffer));
        }
    }
}

/**
 * A transcript of one request after the other, with a real connection that reads what Keepwarm writes; gives the fault that it found.
 *
 * What the worker says in it is not repeated: a test of the worker does that.
 */
function play(array $steps): ?string
{
    [$mine, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $connection = new Connection($theirs, getmypid());
    $welcomed = false;
    foreach ($steps as $step) {
        $frame = $step['frame'];
        if ($step['from'] === 'worker') {
            if ($frame['type'] === 'HELLO') {
                $connection->sayHello([]);
            } elseif ($frame['type'] === 'GROWTH') {
                $connection->measure(new stdClass());
            } elseif (in_array('END', $frame['flags'] ?? [], true) || in_array($frame['type'], ['TRAILERS', 'RESET'], true)) {
                $connection->endStream();
            }
            continue;
        }
        fwrite($mine, raw($step));
        try {
            if (!$welcomed) {
                $welcomed = true;
                $connection->readWelcome();
                continue;
            }
            $found = $connection->nextFrame();
            if ($found[0] !== Wire::REQUEST) {
                $connection->handle(...$found);
                continue;
            }
            Wire::requestParts($found[3], $found[1]);
            $connection->beginStream($found[2]);
            if (($found[1] & Wire::END) === 0) {
                $connection->expectBody();
            }
        } catch (Fault $fault) {
            return $fault->name;
        }
    }
    return null;
}

$played = 0;
foreach (cases('sessions.json') as $case) {
    $steps = $case['steps'];
    $last = end($steps);
    $hello = array_values(array_filter($steps, fn (array $step): bool => $step['frame']['type'] === 'HELLO'))[0]['frame'] ?? null;
    $sockets = array_filter($steps, fn (array $step): bool => in_array('WEBSOCKET', $step['frame']['flags'] ?? [], true));
    if (($hello !== null && $hello['streams'] !== 1) || $sockets !== [] || (isset($last['fault']) && $last['from'] === 'worker')) {
        continue; // what this adapter never offers, or never sends
    }
    if (in_array($last['fault'] ?? null, ['stream_limit', 'after_drain', 'before_hello'], true) || $case['name'] === "Keepwarm: more than the stream's credit") {
        continue; // requests may wait here; after DRAIN nothing is read; the credit given here is another, and test_process.py spends it
    }
    $played++;
    check("sessions: {$case['name']}", $last['fault'] ?? null, play($steps));
}
echo "$played sessions\n";
echo "$checks checks, $faults faults\n";
exit($faults === 0 && $checks > 500 ? 0 : 1);
