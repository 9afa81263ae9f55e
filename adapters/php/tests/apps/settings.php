<?php

// What settings of php.ini do to a request, as JSON: a script for php-cgi, an application for a worker.

$page = static function (): string {
    $known = fn (): array => ['begun' => session_status() === PHP_SESSION_ACTIVE, 'id' => strlen((string) session_id()) === 8 ? session_id() : null];
    switch ($_SERVER['PATH_INFO'] ?? parse_url($_SERVER['REQUEST_URI'] ?? '', PHP_URL_PATH)) {
        case '/session':
            session_start();
            $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
            return json_encode($known() + ['session' => $_SESSION]);
        case '/automatic':
            $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
            return json_encode($known() + ['session' => $_SESSION]);
        case '/ini_alter':
            return json_encode([ini_alter('precision', '3'), 1 / 3]);
        case '/rewrite':
            output_add_rewrite_var('visitor', $_GET['name'] ?? '');
            return '<a href="/page">page</a>';
        case '/filter':
            $server = array_intersect_key($_SERVER, ['QUERY_STRING' => 1, 'HTTP_X_SHOWN' => 1]);
            ksort($server);
            return json_encode([$_GET, $_POST, $_COOKIE, $_REQUEST, $server, filter_input(INPUT_COOKIE, 'a'), filter_has_var(INPUT_POST, 'p')]);
        case '/files':
            return json_encode([@file_get_contents('/etc/hostname'), @file_get_contents(__DIR__ . '/page.xml'), (bool) @tempnam(sys_get_temp_dir(), 'kw')]);
    }
    return '';
};

if (PHP_SAPI === 'cli') {
    return $page;
}
echo $page();
