<?php

// The front controller that php-cgi runs: as `public/index.php` of a Laravel project is.

$app = require __DIR__ . '/app.php';
$kernel = $app->make(Illuminate\Contracts\Http\Kernel::class);
$response = $kernel->handle($request = Illuminate\Http\Request::capture());
$response->send();
$kernel->terminate($request, $response);
