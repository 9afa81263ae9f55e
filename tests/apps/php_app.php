<?php

// The test application for PHP that is kept warm: each path is one way in which an application responds, as in wsgi_app.py.

const SILENCE = 30_000; // microseconds

/** Bytes, one a character. */
function shown(string $bytes): string
{
    return preg_replace_callback('/[\x80-\xff]/', fn ($byte) => mb_chr(ord($byte[0]), 'UTF-8'), $bytes);
}

function text(int $status, string $body, array $fields = []): array
{
    return [$status, ['Content-Type' => 'text/plain', 'Content-Length' => (string) strlen($body)] + $fields, $body];
}

function json($what): array
{
    return text(200, json_encode($what), ['X-Json' => '1']);
}

function digest(Keepwarm\Request $request): array
{
    [$length, $sha] = [0, hash_init('sha256')];
    for ($stream = $request->stream(); ($block = (string) fread($stream, 65_536)) !== '' || !feof($stream);) {
        $length += strlen($block);
        hash_update($sha, $block);
    }
    return json(['length' => $length, 'sha256' => hash_final($sha)]);
}

function parts(string ...$parts): iterable
{
    foreach ($parts as $number => $part) {
        if ($number > 0 && $part === 'second') {
            usleep(SILENCE);
        }
        yield $part;
    }
}

return static function (Keepwarm\Request $request) {
    // These have their own way with the body.
    switch ($request->path) {
        case '/unread':
            return text(403, 'no');
        case '/raise':
            throw new RuntimeException('before it reads');
        case '/digest':
            return digest($request);
        case '/explicit':
            Keepwarm\send_continue();
            return digest($request);
    }
    $body = $request->body();
    return match ($request->path) {
        '/pong' => text(200, 'pong'),
        '/pid' => text(200, (string) getmypid()),
        '/background' => text(200, exec('sleep 300 </dev/null >/dev/null 2>&1 & echo $!')),
        '/list' => [200, ['Content-Type' => 'text/plain'], 'pong'],
        '/empty' => [200, [], ''],
        '/short' => [200, [], parts('po', 'ng')],
        '/long' => [200, [], parts(...array_fill(0, 50, str_repeat('x', 4096)))],
        '/silent' => [200, [], parts('first,', 'second')],
        '/204' => [204, [], ''],
        '/204-length' => [204, ['Content-Length' => '0', 'Content-Type' => 'text/plain'], ''],
        '/204-body' => [204, ['Content-Length' => '4'], 'body'],
        '/304' => [304, ['ETag' => '"1"'], ''],
        '/304-length' => [304, ['ETag' => '"1"', 'Content-Length' => '0'], ''],
        '/205' => [205, [], ''],
        '/205-body' => [205, ['Content-Length' => '4'], 'body'],
        '/hop' => text(200, 'pong', [
            'Connection' => 'keep-alive, x-private', 'X-Private' => '1', 'Keep-Alive' => 'timeout=1, max=1',
            'Transfer-Encoding' => 'identity', 'Proxy-Connection' => 'keep-alive', 'X-Kept' => '1',
        ]),
        '/chunked-itself' => [200, ['Transfer-Encoding' => 'chunked'], 'pong'],
        '/close' => text(200, 'pong', ['Connection' => 'Close']),
        '/date' => text(200, 'pong', ['Date' => 'Sun, 06 Nov 1994 08:49:37 GMT', 'Server' => 'app/1']),
        '/echo' => json(array_map(shown(...), array_filter($request->server, is_string(...))) + ['body' => shown($body)]),
        '/sleep' => usleep((int) ($request->get['ms'] * 1000)) ?? text(200, 'pong'),
        default => [404, ['Content-Length' => '0', 'X-App' => 'php'], ''],
    };
};
