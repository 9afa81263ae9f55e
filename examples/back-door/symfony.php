<?php

// Symfony's HttpClient: in a project, set `framework.http_client.scoped_clients.search.base_uri: '%env(KEEPWARM_UPSTREAM_SEARCH)%'`.
// This uses Debian's packages; with Composer, require vendor/autoload.php.
require 'Symfony/Component/HttpClient/autoload.php';

use Symfony\Component\HttpClient\HttpClient;

$client = HttpClient::createForBaseUri(getenv('KEEPWARM_UPSTREAM_SEARCH') ?: 'https://search.internal:9243', ['timeout' => 10]);
$response = $client->request('GET', '/documents?q=warm');
echo $response->getStatusCode(), ' ', $response->getContent(), "\n";
echo $client->request('POST', '/documents', ['json' => ['title' => 'Warm']])->getContent(), "\n";
