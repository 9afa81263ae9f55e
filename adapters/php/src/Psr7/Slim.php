<?php

declare(strict_types=1);

namespace Keepwarm\Psr7;

use Keepwarm\Request;
use Slim\Psr7\Factory\UriFactory;
use Slim\Psr7\Headers;
use Slim\Psr7\Request as SlimRequest;
use Slim\Psr7\Stream;
use Slim\Psr7\UploadedFile;

final class Slim extends Factory
{
    private readonly \Closure $fill;
    private readonly UriFactory $uris;

    public function __construct()
    {
        $this->uris = new UriFactory();
        $this->fill = \Closure::bind(static function (object $request, array $query, ?array $parsed, string $host): void {
            $request->queryParams = $query;
            $request->parsedBody = $parsed;
            if ($host !== '') {
                $request->headers->setHeader('Host', $host); // its constructor loses the port
            }
        }, null, SlimRequest::class);
    }

    public function request(Request $request): object
    {
        $headers = new Headers([], []);
        foreach ($request->fields as $name => $values) {
            $headers->setHeader((string) $name, $values);
        }
        $files = $request->files === [] ? [] : Uploads::tree($request->files, static fn (array $file): UploadedFile => new UploadedFile(
            $file['tmp_name'], $file['name'], $file['type'], $file['size'], $file['error'],
        ));
        $body = self::body($request);
        $stream = new Stream(\is_resource($body) ? $body : ($body === '' ? fopen('php://memory', 'r+b') : $request->stream()));
        $uri = $this->uris->createUri($request->uri());
        $made = new SlimRequest($request->method, $uri, $headers, $request->cookies, $request->server, $stream, $files);
        ($this->fill)($made, $request->get, self::parsed($request), $request->server['HTTP_HOST'] ?? '');
        return $request->rawPath === '*' ? $made->withRequestTarget('*') : $made;
    }
}
