<?php

declare(strict_types=1);

// A Slim 3 application, as Debian packages it (php-slim), without Keepwarm code. It returns the app instead of running it.

use Slim\App;
use Slim\Http\Request;
use Slim\Http\Response;
use Slim\Http\UploadedFile;

require_once is_file($composer = dirname(__DIR__) . '/vendor/autoload.php') ? $composer : 'Slim/autoload.php';

$app = new App();

$app->get('/', fn (Request $request, Response $response) => $response->write('<!doctype html><title>Search</title><h1>Search</h1>'));

$app->get('/products', fn (Request $request, Response $response) => $response->withJson([['id' => 1, 'name' => 'kettle'], ['id' => 2, 'name' => 'teapot']]));

$app->post('/order', fn (Request $request, Response $response) => $response->withJson($request->getParsedBody() ?? []));

$describe = static fn (UploadedFile $file): array => [
    'size' => $file->getSize(), 'sha256' => hash('sha256', (string) $file->getStream()), 'filename' => $file->getClientFilename(),
];

$app->post('/upload', function (Request $request, Response $response) use ($describe) {
    $files = $request->getUploadedFiles();
    if ($files !== []) {
        $nested = static function (array $files) use (&$nested, $describe): array {
            return array_map(static fn ($file) => is_array($file) ? $nested($file) : $describe($file), $files);
        };
        return $response->withJson(['fields' => $request->getParsedBody(), 'files' => $nested($files)]);
    }
    $context = hash_init('sha256');
    $size = 0;
    for ($body = $request->getBody(); !$body->eof();) {
        $piece = $body->read(65536);
        $size += strlen($piece);
        hash_update($context, $piece);
    }
    return $response->withJson(['size' => $size, 'sha256' => hash_final($context)]);
});

$app->get('/cookies', function (Request $request, Response $response) {
    foreach (['basket=42', 'theme=dark', 'seen=yes'] as $cookie) {
        $response = $response->withAddedHeader('Set-Cookie', $cookie);
    }
    return $response->withJson($request->getCookieParams());
});

$app->get('/basket', function (Request $request, Response $response) {
    session_start();
    $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
    return $response->withJson(['id' => session_id(), 'visits' => $_SESSION['visits']]);
});

$app->get('/error', function () {
    throw new RuntimeException('an error on demand');
});

$app->get('/exit', function () {
    echo 'printed before exit()';
    exit;
});

$app->get('/fatal', function () {
    eval('function on_demand() {} function on_demand() {}');
});

$app->get('/big', function (Request $request, Response $response) {
    $size = (int) $request->getQueryParam('bytes', '1000000');
    return $response->write(substr(str_repeat('0123456789abcdef', intdiv($size, 16) + 1), 0, $size));
});

$app->post('/early', fn (Request $request, Response $response) => $response->withStatus(413)->withHeader('Connection', 'close')->write('too large'));

$app->get('/whoami', fn (Request $request, Response $response) => $response->withJson([
    'process' => getmypid(), 'method' => $request->getMethod(), 'uri' => (string) $request->getUri(), 'path' => $request->getUri()->getPath(),
    'query' => $request->getQueryParams(), 'client' => $request->getServerParam('REMOTE_ADDR'), 'thing' => $request->getHeaderLine('X-Thing'),
]));

$app->get('/pong', fn (Request $request, Response $response) => $response->withHeader('Content-Type', 'text/plain')->write('pong'));

$app->get('/moved', fn (Request $request, Response $response) => $response->withRedirect('/', 303));

return $app;
