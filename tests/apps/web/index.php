<?php

// The test application for classic PHP: each path is one way in which a script responds, as in wsgi_app.py.

/** Bytes, one a character. */
function shown(string $bytes): string
{
    return preg_replace_callback('/[\x80-\xff]/', fn ($byte) => mb_chr(ord($byte[0]), 'UTF-8'), $bytes);
}

function text(int $status, string $body, string ...$fields): void
{
    http_response_code($status);
    header('Content-Type: text/plain');
    header('Content-Length: ' . strlen($body));
    array_map(header(...), $fields);
    echo $body;
}

function json($what): void
{
    text(200, json_encode($what));
}

switch (strtok($_SERVER['REQUEST_URI'], '?')) {
    case '/unread':
        text(403, 'no');
        break;
    case '/raise':
        throw new RuntimeException('an exception that nobody catches');
    case '/digest':
        $body = file_get_contents('php://input');
        json(['length' => strlen($body), 'sha256' => hash('sha256', $body)]);
        break;
    case '/pong':
        text(200, 'pong');
        break;
    case '/empty':
        text(200, '');
        break;
    case '/list':
        header('Content-Type: text/plain');
        echo 'pong';
        break;
    case '/short':
        echo 'po', 'ng';
        break;
    case '/long':
        for ($n = 0; $n < 50; $n++) {
            echo str_repeat('x', 4096);
        }
        break;
    case '/silent':
        echo 'first,';
        while (ob_get_level() > 0) {
            ob_end_flush();
        }
        flush();
        usleep(30_000);
        echo 'second';
        break;
    case '/204':
        http_response_code(204);
        break;
    case '/204-length':
        text(204, '');
        break;
    case '/204-body':
        text(204, 'body');
        break;
    case '/304':
        http_response_code(304);
        header('ETag: "1"');
        break;
    case '/304-length':
        text(304, '', 'ETag: "1"');
        break;
    case '/205':
        http_response_code(205);
        break;
    case '/205-body':
        text(205, 'body');
        break;
    case '/hop':
        text(200, 'pong', 'Connection: keep-alive, x-private', 'X-Private: 1', 'Keep-Alive: timeout=1, max=1',
            'Transfer-Encoding: identity', 'Proxy-Connection: keep-alive', 'X-Kept: 1');
        break;
    case '/chunked-itself':
        header('Transfer-Encoding: chunked');
        echo 'pong';
        break;
    case '/close':
        text(200, 'pong', 'Connection: Close');
        break;
    case '/date':
        text(200, 'pong', 'Date: Sun, 06 Nov 1994 08:49:37 GMT', 'Server: app/1');
        break;
    case '/echo':
        json(array_map(shown(...), array_filter($_SERVER, is_string(...))) + ['body' => shown(file_get_contents('php://input'))]);
        break;
    case '/sleep':
        usleep((int) ($_GET['ms'] * 1000));
        text(200, 'pong');
        break;
    default:
        text(404, '', 'X-App: fastcgi');
}
