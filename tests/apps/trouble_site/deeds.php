<?php

// As trouble_app.py, for PHP, kept warm (warm.php) and classic (index.php): it keeps a book of what it does, and does what it is asked to.

const PART = 3000;

function note(string $kind): void
{
    file_put_contents(getenv('DIR') . '/book', "$kind {$_GET['id']} " . getmypid() . "\n", FILE_APPEND);
}

function failure(): never
{
    throw new RuntimeException("request {$_GET['id']} was to fail");
}

function say(string $all): void
{
    note('e');
    header('Content-Length: ' . strlen($all));
    echo $all;
}

/** @return list<string> */
function parts(): array
{
    $name = $_GET['id'];
    return array_fill(0, (int) $_GET['n'], str_repeat("$name;", intdiv(PART, strlen($name) + 1)));
}

function stream(bool $fails): void
{
    $parts = parts();
    foreach ($parts as $number => $part) {
        if ($number === count($parts) - 1) {
            note('e'); // of a classic script that fails, this is all
            $fails && failure();
        }
        echo $part;
        flush();
    }
}

function form(): string
{
    $file = $_FILES['file'];
    $bytes = file_get_contents($file['tmp_name']);
    return "{$_GET['id']} {$_POST['field']} $file[size] " . crc32($bytes);
}

/** @param callable(): string $body reads the body */
function serve(string $path, callable $body): void
{
    $name = $_GET['id'] ?? exit('nobody asks');
    note('b');
    header("X-Name: $name");
    $read = $path === '/early' ? '' : $body();
    if ($_GET['ms'] > 0) {
        usleep(1000 * (int) $_GET['ms']);
    }
    switch ($path) {
        case '/die':
            posix_kill(getmypid(), 9);
            break;
        case '/exit':
            say($name);
            exit(4);
        case '/raise':
            failure();
        case '/stream':
        case '/late':
            stream($path === '/late');
            break;
        case '/large':
            say(implode('', parts()));
            break;
        case '/upload':
            say("$name " . strlen($read) . ' ' . crc32($read));
            break;
        case '/form':
            say(form());
            break;
        case '/empty':
            note('e');
            http_response_code(204);
            break;
        default:
            say($name);
    }
}
