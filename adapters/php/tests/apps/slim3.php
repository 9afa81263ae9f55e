<?php

// A Slim 3 app, as Debian packages it.

require_once 'Slim/autoload.php';

use Slim\Http\Request;
use Slim\Http\Response;

$app = new Slim\App(['settings' => ['displayErrorDetails' => false]]);
$app->get('/hello/{name}', fn (Request $q, Response $r, array $a) => $r->write("hello {$a['name']}"));
$app->any('/about', fn (Request $q, Response $r) => $r->withJson([
    'method' => $q->getMethod(), 'uri' => (string) $q->getUri(), 'query' => $q->getQueryParams(), 'parsed' => $q->getParsedBody(), 'cookies' => $q->getCookieParams(),
    'header' => $q->getHeaderLine('X-One'), 'body' => (string) $q->getBody(), 'container' => (string) $this->get('request')->getUri(),
    'files' => array_map(fn ($f) => [$f->getClientFilename(), $f->getSize(), md5((string) $f->getStream())], $q->getUploadedFiles()),
]));
$app->get('/echo', function (Request $q, Response $r) { echo 'printed '; return $r->write('written'); });
$app->get('/throws', function () { throw new RuntimeException('a failure'); });
$app->get('/redirect', fn (Request $q, Response $r) => $r->withRedirect('/elsewhere', 301));
$app->get('/none', fn (Request $q, Response $r) => $r->withStatus(204));
$app->get('/exit', function () { echo 'produced'; exit; });

return $app;
