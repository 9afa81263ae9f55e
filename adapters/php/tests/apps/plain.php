<?php

// A plain callable that does a bit of everything: one function for each path.

use Keepwarm\Request;

final class State
{
    public static int $count = 0;
    public static array $kept = [];
    public static ?string $wait = null;
    public static array $user = [];
    public static ?object $object = null;
    public static string $text = '';
}

function wait_for_line(): string
{
    file_put_contents(getenv('TEST_FIFO_OUT'), "here\n");
    return trim((string) fgets(fopen(getenv('TEST_FIFO_IN'), 'r')));
}

$text = '';
$routes = [
    '/keep-visitor' => fn () => 'kept',
    '/' => fn () => 'hello',
    '/server' => fn () => json_encode($_SERVER, JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE),
    '/plain.php/route/x' => fn () => json_encode(array_intersect_key($_SERVER, ['PATH_INFO' => 1, 'PHP_SELF' => 1, 'SCRIPT_NAME' => 1])),
    '/request' => fn (Request $r) => json_encode([
        'method' => $r->method, 'path' => $r->path, 'raw' => $r->rawPath, 'query' => $r->query, 'fields' => $r->fields, 'get' => $_GET,
        'post' => $_POST, 'cookies' => $_COOKIE, 'files' => $_FILES, 'request' => $_REQUEST, 'uri' => $r->uri(),
    ], JSON_INVALID_UTF8_SUBSTITUTE),
    '/array' => fn () => [201, ['X-One' => ['1', '2'], 'Content-Type' => 'text/plain'], 'made'],
    '/large-string' => fn () => str_repeat('s', 100_000),
    '/large-array' => fn () => [200, [], str_repeat('a', 100_000)],
    '/echo' => function () {
        header('X-Echo: yes');
        header('Set-Cookie: a=1');
        header('Set-Cookie: b=2', false);
        http_response_code(203);
        echo 'printed', ' and more';
    },
    '/redirect' => function () { header('Location: /elsewhere'); },
    '/cookie' => function () {
        setcookie('name', 'a value', ['expires' => 2000000000, 'path' => '/', 'httponly' => true, 'samesite' => 'Lax']);
        setrawcookie('raw', 'x%20y');
        setcookie('gone', '');
        return implode("\n", headers_list());
    },
    '/flushing' => function () {
        header('X-Flush: 1');
        foreach (['one ', 'two ', 'three'] as $piece) {
            echo $piece;
            flush();
        }
        return headers_sent() ? ' sent' : ' not sent';
    },
    '/large-echo' => function () { for ($i = 0; $i < 300; $i++) { echo str_repeat(chr(97 + $i % 26), 1000); } },
    '/buffers' => function () {
        ob_start();
        echo 'inner ';
        ob_start();
        echo 'innermost ';
        return 'returned';
    },
    '/end-buffers' => function () {
        ob_start();
        echo 'lost';
        while (ob_get_level() > 0) { ob_end_clean(); }
        echo 'level ' . ob_get_level();
    },
    '/clean-what-is-not-its-own' => function () { echo 'junk'; $junk = ob_get_clean(); header('Content-Type: application/json'); echo json_encode([$junk, ob_get_level()]); },
    '/flush-what-is-not-its-own' => function () { echo 'one '; ob_get_flush(); echo 'two '; flush(); @ob_end_flush(); ob_start(); echo 'three'; ob_end_flush(); return ' ' . ob_get_level(); },
    '/unremovable' => function () { ob_start(null, 0, 0); echo 'inside'; },
    '/unremovable-late' => function () { echo 'before '; ob_start(null, 0, 0); echo 'inside'; },
    '/status-line' => function () { header('Status: 403 Forbidden'); return json_encode([http_response_code(404), http_response_code()]); },
    '/unchanged' => function () { http_response_code(304); },
    '/cookies-that-are-none' => function () {
        $said = [];
        foreach ([['', 'x'], ['a=b', 'x'], ['a', 'x', ['path' => 'a;b']], ['a', 'x', ['bogus' => 1]], ['a', 'x', [1]], ['a', 'x', 253_402_300_800], ['a', 'x', [], '/'], ['a', 'x', ['samesite' => "x\r\nX-Evil: 1"]]] as $arguments) {
            try {
                $said[] = @setcookie(...$arguments);
            } catch (Error $error) {
                $said[] = $error->getMessage();
            }
        }
        return json_encode($said);
    },
    '/text' => function () { header('content-type: text/csv'); echo 'a;b'; },
    '/text-latin' => function () { header('Content-Type: text/csv; charset=latin-1'); echo 'a;b'; },
    '/image' => function () { header('Content-Type: image/png'); echo 'x'; },
    '/filter' => function () {
        $_GET = [];
        return json_encode([
            filter_input(INPUT_GET, 'n', FILTER_VALIDATE_INT), filter_input(INPUT_GET, 'bad', FILTER_VALIDATE_INT), filter_input(INPUT_GET, 'none'),
            filter_input(INPUT_GET, 'none', FILTER_VALIDATE_INT, ['options' => ['default' => 3]]), filter_input(INPUT_GET, 'none', FILTER_DEFAULT, FILTER_NULL_ON_FAILURE),
            filter_input(INPUT_GET, 'list', FILTER_DEFAULT, FILTER_REQUIRE_ARRAY), filter_input(INPUT_COOKIE, 'c'), filter_input(INPUT_SERVER, 'REQUEST_METHOD'),
            filter_has_var(INPUT_GET, 'n'), filter_has_var(INPUT_POST, 'n'), filter_input_array(INPUT_GET, ['n' => FILTER_VALIDATE_INT]), filter_input_array(INPUT_POST),
        ]);
    },
    '/mime' => function () { ini_set('default_mimetype', 'text/plain'); echo 'x'; },
    '/printed' => function () { echo 'x'; },
    '/session-id' => function () { session_id('left'); return 'set'; },
    '/session-settings' => function () {
        session_name('OTHER');
        session_set_cookie_params(['lifetime' => 60, 'path' => '/other', 'samesite' => 'Strict']);
        session_cache_limiter('public');
        session_start();
        return session_id();
    },
    '/pieces' => fn () => [200, [], (function () { yield 'a'; yield ''; yield 'b'; yield 'c'; })()],
    '/resource' => function () { $f = fopen('php://temp', 'w+'); fwrite($f, str_repeat('z', 200000)); rewind($f); return [200, [], $f]; },
    '/short' => fn () => [200, ['Content-Length' => '10'], 'short'],
    '/long' => fn () => [200, ['Content-Length' => '4'], 'longer'],
    '/hop' => fn () => [200, ['Connection' => 'X-Private, keep-alive', 'X-Private' => '1', 'Keep-Alive' => 'timeout=5', 'X-Kept' => '1'], ''],
    '/close' => fn () => [200, ['Connection' => 'close'], ''],
    '/bad-value' => fn () => [200, ['X-Bad' => "a\r\nb"], ''],
    '/nul-value' => fn () => [200, ['X-Bad' => "a\0b"], ''],
    '/bad-name' => fn () => [200, ['X Bad' => 'b'], ''],
    '/bad-status' => fn () => [99, [], ''],
    '/bad-return' => fn () => new stdClass(),
    '/no-content' => fn () => [204, [], 'not to be sent'],
    '/not-modified' => fn () => [304, ['Content-Length' => '500'], ''],
    '/throws' => function () { echo 'half'; throw new RuntimeException('a failure'); },
    '/throws-late' => function () { echo 'begun'; flush(); throw new RuntimeException('a late failure'); },
    '/body' => fn (Request $r) => strlen($b = $r->body()) . ' ' . md5($b),
    '/body-stream' => function (Request $r) {
        $stream = $r->stream();
        $first = md5((string) stream_get_contents($stream));
        rewind($stream);
        return "$first " . md5((string) stream_get_contents($stream)) . ' ' . (feof($stream) ? 'end' : 'more');
    },
    '/body-catch' => function (Request $r) {
        try {
            return $r->body();
        } catch (Keepwarm\ClientDisconnected $gone) {
            error_log('caught: ' . $gone->getMessage());
            throw $gone;
        }
    },
    '/continue' => function (Request $r) { Keepwarm\send_continue(); return $r->body(); },
    '/unicorn' => function (Request $r) {
        if (isset($_SERVER['HTTP_EXPECT'])) {
            header('X-First: 1');
            echo 'of the first call';
            return [100, [], ''];
        }
        return $r->body();
    },
    '/unicorn-printed' => function (Request $r) { http_response_code(isset($_SERVER['HTTP_EXPECT']) ? 100 : 202); echo $r->path; },
    '/unicorn-for-ever' => fn () => [100, [], ''],
    '/hints' => function () { Keepwarm\early_hints(['</a.css>; rel=preload', '</b.js>; rel=preload']); return 'ok'; },
    '/hints-symfony' => function () {
        header('Link: </a.css>; rel=preload');
        headers_send(103);
        return 'ok';
    },
    '/hints-large' => function () { Keepwarm\early_hints(['<' . str_repeat('a', 140_000) . '>']); return 'never'; },
    '/large-field' => fn () => [200, ['X-Large' => str_repeat('v', (int) $_GET['size'] - 10)], str_repeat('b', 100_000)],
    '/prints-on' => function () { try { while (true) { echo str_repeat('x', 10_000); flush(); } } finally { error_log('finally'); } },
    '/endless' => function () { ignore_user_abort(true); for ($i = 0; !Keepwarm\client_gone(); $i++) { echo str_repeat('x', 10_000); flush(); } error_log('saw that it was gone'); },
    '/finish' => function () { echo 'first'; fastcgi_finish_request(); echo 'unseen'; error_log('after the response'); },
    '/exit' => function () { header('X-Exit: 1'); echo 'before exit'; exit(3); },
    '/exit-in-shutdown' => function () {
        register_shutdown_function(function () { echo 'and more'; isset($_GET['throw']) && throw new Exception('in a shutdown function'); exit(2); });
        register_shutdown_function(function () { echo 'never'; });
        header('X-Exit: 1');
        echo 'produced ';
        exit;
    },
    '/exit-late' => function () { echo 'begun '; flush(); echo 'and ended'; exit; },
    '/exit-status' => function () { http_response_code(418); exit('a teapot'); },
    '/fatal' => function () { eval('class Twice {} class Twice {}'); },
    '/fatal-printed' => function () { echo 'printed before'; eval('function again() {} function again() {}'); },
    '/fatal-late' => function () { echo 'begun'; flush(); eval('class Late {} class Late {}'); },
    '/memory' => function () { $all = []; while (true) { $all[] = str_repeat('m', 1 << 20); } },
    '/memory-printed' => function () { echo 'printed before'; $all = []; while (true) { $all[] = str_repeat('m', 1 << 20); } },
    '/memory-page' => function () {
        register_shutdown_function(function () { echo ', and a page about it'; });
        echo 'printed before';
        $all = [];
        while (true) { $all[] = str_repeat('m', 1 << 20); }
    },
    '/clean' => function () { echo 'byte order mark'; ob_clean(); echo 'file'; },
    '/upload' => function (Request $r) {
        $out = [];
        array_walk_recursive($_FILES, function ($value, $key) use (&$out) {
            if (is_string($value) && is_file($value)) { $out[] = [md5_file($value), is_uploaded_file($value)]; }
        });
        return json_encode(['files' => $_FILES, 'post' => $_POST, 'sums' => $out]);
    },
    '/move' => function () {
        $to = tempnam(sys_get_temp_dir(), 'moved');
        $moved = move_uploaded_file($_FILES['file']['tmp_name'], $to);
        $text = file_get_contents($to);
        unlink($to);
        return json_encode([$moved, $text, is_uploaded_file($_FILES['file']['tmp_name']), move_uploaded_file('/etc/passwd', $to)]);
    },
    '/session' => function () {
        session_start();
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        return session_id() . ' ' . $_SESSION['n'];
    },
    '/session-new-id' => function () { session_start(); session_regenerate_id(true); return session_id(); },
    '/session-other' => function () { session_name('OTHER'); session_start(); $_SESSION['o'] = ($_SESSION['o'] ?? 0) + 1; return session_id() . ' ' . $_SESSION['o']; },
    '/session-options' => function () { session_start(['name' => 'OPTION']); return session_id(); },
    '/session-caching' => function () {
        header('Cache-Control: max-age=9');
        header('X-Kept: 1');
        session_start();
        isset($_GET['after']) && header('Cache-Control: max-age=5');
        isset($_GET['remove']) && header_remove('Pragma');
        return 'x';
    },
    '/session-written' => function (Request $r) {
        $write = function (): bool { wait_for_line(); return true; };
        session_set_save_handler(fn () => true, fn () => true, fn () => '', $write, fn () => true, fn () => 0);
        session_start();
        $_SESSION['n'] = 1;
        $how = $_GET['how'];
        if ($how === 'exit') {
            echo 'x';
            exit;
        }
        $how === 'printed' && print('x');
        if ($how === 'flushed') {
            echo 'x';
            flush();
        }
        return ['string' => 'x', 'array' => [200, [], 'x'], 'pieces' => [200, [], ['x']], 'printed' => null, 'flushed' => null][$how];
    },
    '/session-destroyed' => function () {
        session_start();
        $_SESSION = [];
        session_destroy();
        return isset($_GET['array']) ? [200, ['Content-Type' => 'text/plain'], 'destroyed'] : 'destroyed';
    },
    '/session-none' => fn () => json_encode([session_id(), isset($_SESSION), session_status() === PHP_SESSION_NONE]),
    '/place' => fn () => json_encode(array_slice([
        getcwd(), umask(), date_default_timezone_get(), setlocale(LC_ALL, '0'), ini_get('precision'), ini_get('memory_limit'), ob_get_level(),
        mb_internal_encoding(), set_error_handler(null), error_get_last(), $_ENV['LEAK'] ?? null, libxml_use_internal_errors(), restore_error_handler(),
    ], 0, 12)),
    '/leak' => function () {
        chdir('/');
        umask(0);
        date_default_timezone_set('Asia/Tokyo');
        setlocale(LC_ALL, 'C.UTF-8');
        ini_set('precision', '5');
        ini_set('memory_limit', '1G');
        set_time_limit(1000);
        ob_start();
        mb_internal_encoding('ISO-8859-1');
        set_error_handler(fn () => true);
        set_error_handler(fn () => false);
        $_ENV['LEAK'] = 'leaked';
        libxml_use_internal_errors(true);
        @file_get_contents('/nonexistent');
        return 'leaked';
    },
    '/encodings' => function (Request $r) {
        $found = json_encode([mb_internal_encoding(), mb_http_output(), mb_detect_order(), mb_regex_encoding(), mb_language(), mb_substitute_character(), error_reporting(), Locale::getDefault()]);
        mb_internal_encoding('EUC-JP');
        mb_http_output('SJIS');
        mb_detect_order(['ASCII']);
        mb_regex_encoding('EUC-JP');
        mb_language('Japanese');
        mb_substitute_character('none');
        error_reporting(0);
        Locale::setDefault('ja_JP');
        return $found;
    },
    '/who' => function (Request $r) { State::$user = ['name' => $r->query]; return 'known'; },
    '/whom' => function (Request $r) { State::$object ??= new stdClass(); State::$object->name = $r->query; return 'known'; },
    '/text-kept' => function (Request $r) { State::$text = str_repeat('x', 100) . $r->query; return 'known'; },
    '/under' => function (Request $r) { $GLOBALS['_current'] = $r->query; return 'known'; },
    '/env-kept' => function (Request $r) { putenv('SECRET=hunter' . $r->query); return 'kept'; },
    '/setting-kept' => function (Request $r) { ini_set('error_append_string', $r->query); return 'kept'; },
    '/number-kept' => function (Request $r) { State::$count = (int) $r->query; return 'kept'; },
    '/keep' => function () { State::$count++; State::$kept[] = str_repeat('k', 10_000 + State::$count); putenv('LEAKED=' . State::$count); ini_set('precision', '7'); $GLOBALS['grown'] = State::$count; return 'kept'; },
    '/dump' => function () { require_once 'Symfony/Component/VarDumper/autoload.php'; dump(['dumped' => 1]); return ' and more'; },
    '/dd' => function () { require_once 'Symfony/Component/VarDumper/autoload.php'; dd(['dumped' => 1]); },
    '/limits' => fn (Request $r) => json_encode([ini_get('memory_limit'), (bool) ini_get('display_errors'), (string) ini_get('error_log'), ob_get_level()]),
    '/buffered' => function () { echo 'junk'; $junk = ob_get_clean(); header('X-After: 1'); echo json_encode([$junk, ob_get_level()]); },
    '/buffered-late' => function () { echo str_repeat('x', 300); flush(); return headers_sent() ? ' sent' : ' not sent'; },
    '/session-automatic' => fn () => json_encode([session_id(), $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1]),
    '/buffer-in-callback' => function () { ob_start(function (string $text): string { ob_start(); return $text; }); echo 'lost'; ob_end_flush(); return 'never'; },
    '/unmodified' => function () { header('HTTP/1.1 304 Not Modified'); header('Location: /there'); },
    '/warnings' => function () {
        set_error_handler(function (int $level, string $text, string $file, int $line): bool { printf("%d %s %s %s\n", $level, $text, basename($file), $line === CALLS ? 'here' : $line); return true; });
        if (!defined('CALLS')) { define('CALLS', __LINE__ + 1); }
        ini_set('session.save_handler', 'user'); header("X: a\nb"); ob_end_clean(); ob_end_flush();
        restore_error_handler();
        ini_set('display_errors', '1'); header("X: a\nb");
        @header("X: a\nb");
    },
    '/log' => function () { error_log('to the error log'); fwrite(STDERR, "to stderr\n"); trigger_error('a warning', E_USER_WARNING); return 'logged'; },
    '/pid' => fn () => (string) getmypid(),
    '/fork' => function () {
        $pid = pcntl_fork();
        if ($pid === 0) {
            echo 'by the child';
            return 'by the child';
        }
        pcntl_waitpid($pid, $status);
        return 'by the parent';
    },
    '/descriptors' => fn () => (string) shell_exec('for f in /proc/self/fd/*; do readlink $f; done'),
    '/wait' => fn () => wait_for_line(),
    '/spin' => function () { file_put_contents(getenv('TEST_FIFO_OUT'), "here\n"); while (State::$wait === null) { if (is_file(getenv('TEST_GO'))) { return 'went on'; } } },
    '/die' => function () { posix_kill(getmypid(), SIGKILL); },
];

return function (Request $request) use ($routes) {
    static $seen = [];
    if ($request->path === '/keep-visitor') {
        $seen = [$request->query];
        State::$kept = ['visitor' => $request->query];
        $GLOBALS['text'] = str_repeat('=', 50) . $request->query;
    }
    $route = $routes[$request->path] ?? null;
    return $route === null ? [404, [], 'no such path'] : $route($request);
};
