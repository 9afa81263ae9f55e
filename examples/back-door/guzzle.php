<?php

// Guzzle: `base_uri` is all that changes. From Debian's packages; with composer it is vendor/autoload.php.
require 'GuzzleHttp/autoload.php';

$client = new GuzzleHttp\Client([
    'base_uri' => getenv('KEEPWARM_UPSTREAM_SEARCH') ?: 'https://search.internal:9243',
    'timeout' => 10,
]);
$response = $client->get('/documents?q=warm');
echo $response->getStatusCode(), ' ', $response->getBody(), "\n";
echo $client->post('/documents', ['json' => ['title' => 'Warm']])->getBody(), "\n";
