<?php

// What a request has become, as JSON: a script for php-cgi, an application for a worker.

function shown(mixed $value): mixed
{
    if (is_array($value)) {
        $shown = [];
        foreach ($value as $key => $one) {
            $shown['=' . rawurlencode((string) $key)] = shown($one); // in its order, and a list is no other thing
        }
        return $shown;
    }
    return is_string($value) ? rawurlencode($value) : $value;
}

function dump(): string
{
    $files = $_FILES;
    array_walk_recursive($files, static function (mixed &$value): void {
        if (is_string($value) && is_uploaded_file($value)) {
            $value = md5_file($value);
        }
    });
    $server = array_intersect_key($_SERVER, array_flip([
        'REQUEST_METHOD', 'QUERY_STRING', 'CONTENT_TYPE', 'CONTENT_LENGTH', 'HTTP_COOKIE', 'PHP_AUTH_USER', 'PHP_AUTH_PW', 'PHP_AUTH_DIGEST',
    ]));
    ksort($server);
    return json_encode(shown([
        'server' => $server, 'get' => $_GET, 'post' => $_POST, 'cookie' => $_COOKIE, 'files' => $files, 'request' => $_REQUEST, 'input' => file_get_contents('php://input'),
    ]), JSON_THROW_ON_ERROR);
}

if (PHP_SAPI === 'cli') {
    return static fn (): string => dump();
}
echo dump();
