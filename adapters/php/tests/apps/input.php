<?php

// php://input and its neighbours, each read as applications read them: one function for each path.

use Keepwarm\Request;

final class Handles
{
    public static mixed $kept = null;
}

$read = fn (): string => (string) file_get_contents('php://input');
$sum = fn (string $text): string => strlen($text) . ' ' . md5($text);

$routes = [
    '/' => fn () => 'hello',
    '/none' => fn () => 'not read',
    '/read' => fn () => $read(),
    '/sum' => fn () => $sum($read()),
    '/twice' => fn () => $sum($read()) . ' ' . $sum($read()),
    '/with-request' => fn (Request $r) => $sum($read()) . ' ' . $sum($r->body()) . ' ' . $sum((string) stream_get_contents($r->stream())),
    '/form' => fn () => json_encode([$_POST, array_keys($_FILES), $read()]),
    '/handle' => function () {
        $input = fopen('php://input', 'rb');
        $seen = [fread($input, 3), ftell($input), feof($input)];
        $rest = stream_get_contents($input);
        $seen[] = strlen($rest);
        $seen[] = feof($input);
        $seen[] = fseek($input, 1);
        $seen[] = fread($input, 2);
        $seen[] = rewind($input);
        $seen[] = fgets($input);
        $about = stream_get_meta_data($input);
        return json_encode([...$seen, $about['wrapper_type'], $about['stream_type'], $about['seekable'], @fwrite($input, 'x')]);
    },
    '/two-handles' => function () use ($sum) {
        [$one, $two] = [fopen('php://input', 'r'), fopen('php://input', 'r')];
        $texts = ['', ''];
        while (!feof($one) || !feof($two)) {
            $texts[0] .= fread($one, 5_000);
            $texts[1] .= fread($two, 9_000);
        }
        return $sum($texts[0]) . ' ' . $sum($texts[1]);
    },
    '/unbuffered' => function () use ($sum) {
        $input = fopen('php://input', 'r');
        stream_set_read_buffer($input, 0);
        for ($text = ''; !feof($input); $text .= fread($input, 1_000));
        return $sum($text);
    },
    '/lines' => fn () => json_encode(iterator_to_array(new SplFileObject('php://input'))),
    '/file' => fn () => json_encode(file('php://input', FILE_IGNORE_NEW_LINES)),
    '/copy' => function () use ($sum) {
        $to = tempnam(sys_get_temp_dir(), 'copied');
        $copied = copy('php://input', $to);
        $text = file_get_contents($to);
        unlink($to);
        return json_encode($copied) . ' ' . $sum($text);
    },
    '/copy-stream' => function () use ($sum) {
        $to = fopen('php://temp', 'w+');
        $size = stream_copy_to_stream(fopen('php://input', 'r'), $to);
        rewind($to);
        return "$size " . $sum(stream_get_contents($to));
    },
    '/passthru' => function () { readfile('php://input'); },
    '/parts' => fn () => json_encode([file_get_contents('php://input', false, null, 2, 3), file_get_contents('php://input', length: 2)]),
    '/filtered' => fn () => file_get_contents('php://filter/read=string.toupper/resource=php://input'),
    '/symfony' => function () {
        require_once 'Symfony/Component/HttpFoundation/autoload.php';
        return Symfony\Component\HttpFoundation\Request::createFromGlobals()->getContent();
    },
    '/guzzle' => function () {
        require_once 'GuzzleHttp/Psr7/autoload.php';
        return (string) GuzzleHttp\Psr7\ServerRequest::fromGlobals()->getBody();
    },
    '/kept' => function () {
        Handles::$kept ??= fopen('php://input', 'r');
        return json_encode([(string) stream_get_contents(Handles::$kept, null, 0)]);
    },
    '/neighbours' => function () {
        $memory = fopen('php://memory', 'w+');
        $temp = fopen('php://temp/maxmemory:10', 'w+');
        foreach ([$memory, $temp] as $stream) {
            fwrite($stream, 'more than ten bytes');
            ftruncate($stream, 9);
            rewind($stream);
        }
        file_put_contents('php://output', 'output ');
        return json_encode([
            stream_get_contents($memory), stream_get_contents($temp), stream_get_meta_data($memory)['stream_type'], stream_get_meta_data($temp)['stream_type'],
            stream_get_meta_data($temp)['wrapper_type'], in_array('php', stream_get_wrappers(), true),
        ]);
    },
    '/catch' => function () use ($read) {
        try {
            return $read();
        } catch (Keepwarm\ClientDisconnected $gone) {
            error_log('caught: ' . $gone->getMessage());
            throw $gone;
        }
    },
    '/files' => function () use ($sum, $read) {
        $text = $sum($read());
        return json_encode([$text, glob(sys_get_temp_dir() . '/*'), count(array_filter(glob('/proc/self/fd/*'), fn ($fd) => str_contains((string) @readlink($fd), ' (deleted)')))]);
    },
    '/later' => function () use ($sum, $read) { echo 'responded'; fastcgi_finish_request(); error_log($sum($read())); },
    '/memory' => function () use ($sum) {
        $before = memory_get_peak_usage();
        $hash = hash_init('md5');
        hash_update_stream($hash, fopen('php://input', 'r'));
        return json_encode([hash_final($hash), memory_get_peak_usage() - $before < 4 << 20]);
    },
    '/exit' => function () use ($read) { echo $read(); exit; },
    '/fatal' => function () use ($read) { echo $read(); eval('class Again {} class Again {}'); },
];

// Not the request's: the entry is loaded before there is one.
$atBoot = $read();

return fn (Request $request) => $request->path === '/boot' ? "[$atBoot]" : $routes[$request->path]($request);
