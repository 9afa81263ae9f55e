<?php

// `exit()` from wherever an application may call it.

use Keepwarm\Request;

$routes = [
    '/' => fn () => 'hello',
    '/pid' => fn () => (string) getmypid(),
    '/message' => function () { http_response_code(418); header('X-Exit: 1'); exit('a teapot'); },
    '/nested' => fn () => array_map(function () { echo 'nested'; exit(3); }, [1]),
    '/generator' => fn () => [200, [], (function () { yield 'one '; yield 'two'; exit; })()],
    '/destructor' => function () { $one = new class { public function __destruct() { echo 'destroyed'; exit; } }; unset($one); return 'never'; },
    '/buffers' => function () { ob_start(); ob_start(fn (string $text) => strtoupper($text)); echo 'in buffers'; exit; },
    '/callback' => function () { ob_start(function () { exit('x'); }); echo 'lost'; ob_end_flush(); return 'never'; },
    '/callback-buffers' => function () { ob_start(function (string $text) { ob_start(); return $text; }); echo 'lost'; ob_end_flush(); return 'never'; },
    '/callback-throws' => function () { ob_start(fn () => throw new Exception('x')); echo 'lost'; try { ob_end_flush(); } catch (Exception) { return 'caught'; } },
    '/handler' => function () { set_error_handler(function () { exit('handled'); }); echo $none; return 'never'; },
    '/handler-kept' => function () { return (string) @$none . 'no handler'; },
    '/shutdown' => function () { register_shutdown_function(function () { echo ' and more'; exit; }); register_shutdown_function(fn () => print('never')); exit('page'); },
    '/session' => function () { session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; exit("{$_SESSION['n']}"); },
    '/read' => function () { echo file_get_contents('php://input'); exit; },
    '/upload' => function () { echo implode(',', array_map(fn ($file) => $file['tmp_name'], $_FILES)); exit; },
    '/settings' => function () { ini_set('precision', '3'); chdir('/'); putenv('VISITOR=1'); mt_srand(7); umask(0); exit('changed'); },
    '/see' => fn () => json_encode([ini_get('precision'), getcwd(), getenv('VISITOR'), umask(), ob_get_level()]),
    '/session-exits' => function () {
        session_set_save_handler(fn () => true, fn () => true, fn () => '', function (): bool { exit; }, fn () => true, fn () => 0);
        session_start();
        $_SESSION['n'] = 1;
        exit('page');
    },
    '/child' => function () {
        $pid = pcntl_fork();
        if ($pid === 0) {
            exit(7);
        }
        pcntl_waitpid($pid, $status);
        return 'the child ended with ' . pcntl_wexitstatus($status);
    },
    '/late' => function () { echo 'begun '; flush(); echo 'and ended'; exit; },
];
if (getenv('TEST_FIBERS') !== false) {
    $routes['/fiber'] = require __DIR__ . '/fiber.php';
}

return fn (Request $request) => $routes[$request->path]();
