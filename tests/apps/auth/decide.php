<?php

// The service of auth_wsgi.py, for both ways to run PHP: status, fields and body.

const SEEN = ['X-Original-Method', 'X-Original-URI', 'X-Original-URL', 'X-Forwarded-Method', 'X-Forwarded-Uri',
    'X-Forwarded-For', 'Content-Length', 'Content-Type', 'Range', 'If-None-Match', 'Remote-User'];

function decide(array $server): array
{
    $field = function (string $name) use ($server): string {
        $name = strtr(strtoupper($name), '-', '_');
        return (string) ($server[str_starts_with($name, 'CONTENT_') ? $name : "HTTP_$name"] ?? '');
    };
    $seen = implode('|', [$server['REQUEST_METHOD'], ...array_map($field, SEEN)]);
    return match ($field('Authorization')) {
        'Bearer good' => [200, ['Remote-User' => 'jo', 'X-Auth-Groups' => 'staff', 'X-Auth-Seen' => $seen], 'welcome'],
        'Bearer silent' => [200, [], ''],
        'Bearer login' => [302, ['Location' => 'https://login.example/', 'Set-Cookie' => ['a=1', 'b=2']], 'go'],
        default => [401, ['WWW-Authenticate' => 'Bearer realm="x"', 'X-Auth-Seen' => $seen], 'who are you?'],
    };
}
