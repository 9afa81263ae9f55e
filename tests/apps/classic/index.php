<?php

// A site of the classic kind: a script that runs from the top for every request. What it does is in the query, `do`.

$do = $_GET['do'] ?? 'pong';

function json($what): void
{
    header('Content-Type: application/json');
    echo json_encode($what, JSON_INVALID_UTF8_SUBSTITUTE);
}

switch ($do) {
    case 'pong':
        echo 'pong';
        break;
    case 'server':
        json($_SERVER + ['pid' => getmypid(), 'cwd' => getcwd()]);
        break;
    case 'form':
        $files = [];
        foreach ($_FILES as $file) {
            $names = (array) $file['tmp_name'];
            array_walk_recursive($names, function ($name) use (&$files) {
                $files[] = ['tmp' => is_uploaded_file($name), 'size' => filesize($name), 'md5' => md5_file($name)];
            });
        }
        json(['post' => $_POST, 'files' => $files, 'get' => $_GET]);
        break;
    case 'input':
        $body = file_get_contents('php://input');
        json(['length' => strlen($body), 'md5' => md5($body)]);
        break;
    case 'status':
        http_response_code((int) $_GET['code']);
        echo 'status';
        break;
    case 'redirect':
        header('Location: /elsewhere?a=b');
        break;
    case 'cookies':
        setcookie('a', '1');
        setcookie('b', '2');
        header('X-Two: 1');
        header('X-Two: 2', false);
        break;
    case 'session':
        session_save_path(sys_get_temp_dir());
        session_start();
        echo $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
        break;
    case 'big':
        $left = (int) $_GET['bytes'];
        while ($left > 0) {
            $part = min($left, 50000);
            echo str_repeat('x', $part);
            $left -= $part;
        }
        break;
    case 'stream':
        for ($n = 0; $n < 3; $n++) {
            echo "part $n\n";
            flush();
            usleep(100000);
        }
        break;
    case 'sleep':
        usleep((int) ($_GET['ms'] * 1000));
        echo 'slept ', getmypid();
        break;
    case 'count':
        file_put_contents($_GET['file'], $_GET['id'] . "\n", FILE_APPEND | LOCK_EX);
        echo $_GET['id'];
        break;
    case 'exit':
        echo 'before exit';
        exit(3);
    case 'fatal':
        echo 'before fatal';
        undefined_function_of_the_test();
        break;
    case 'memory':
        ini_set('memory_limit', '16M');
        $all = [];
        while (true) {
            $all[] = str_repeat('y', 100000);
        }
        break;
    case 'log':
        error_log('words for the log');
        echo 'logged';
        break;
    case 'wait':
        touch($_GET['file'] . '.begun');
        for ($n = 0; $n < 3000 && !file_exists($_GET['file']); $n++) {
            usleep(10000);
            clearstatcache();
        }
        echo 'waited';
        break;
    case 'local':
        // A local redirect has `Location` and nothing else.
        ini_set('default_mimetype', '');
        header_remove('X-Powered-By');
        header('Location: ' . $_GET['to']);
        http_response_code(200);
        break;
    case 'behind':
        echo 'responded';
        fastcgi_finish_request();
        for ($until = microtime(true) + $_GET['ms'] / 1000; microtime(true) < $until;) {
            usleep(10000);
        }
        file_put_contents($_GET['file'], 'done');
        break;
    case 'die':
        posix_kill(getmypid(), 9);
        break;
    case 'die-late':
        echo str_repeat('z', 100000);
        flush();
        posix_kill(getmypid(), 9);
        break;
    case 'send':
        header('Content-Type: application/x-handed');
        header('X-Accel-Redirect: ' . $_GET['file']);
        echo 'not this';
        break;
    case 'pid':
        echo getmypid();
        break;
    case 'user':
        echo posix_getpwuid(posix_geteuid())['name'];
        break;
    case 'generation':
        echo getenv('GENERATION');
        break;
    case 'slow-count':
        // Goes on when its client has gone, as a payment would.
        ignore_user_abort(true);
        touch($_GET['file'] . '.begun');
        usleep(300000);
        file_put_contents($_GET['file'], $_GET['id'] . "\n", FILE_APPEND | LOCK_EX);
        echo $_GET['id'];
        break;
    default:
        http_response_code(400);
        echo 'unknown: ', $do;
}
