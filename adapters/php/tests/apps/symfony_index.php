<?php

// The front controller that php-cgi runs, as Symfony's runtime would.

$make = require __DIR__ . '/symfony.php';
$kernel = $make(['APP_ENV' => getenv('APP_ENV'), 'APP_DEBUG' => false]);
$response = $kernel->handle($request = Symfony\Component\HttpFoundation\Request::createFromGlobals());
$response->send();
$kernel->terminate($request, $response);
