<?php

// Guzzle: only `base_uri` changes. This uses Debian's packages; with Composer, require vendor/autoload.php.
require 'GuzzleHttp/autoload.php';

$client = new GuzzleHttp\Client([
    'base_uri' => getenv('KEEPWARM_UPSTREAM_SEARCH') ?: 'https://search.internal:9243',
    'timeout' => 10,
]);
$response = $client->get('/documents?q=warm');
echo $response->getStatusCode(), ' ', $response->getBody(), "\n";
echo $client->post('/documents', ['json' => ['title' => 'Warm']])->getBody(), "\n";
