<?php

// A PSR-15 handler; TEST_PSR7 names the implementation. Debian has no package of the interface itself, which is this one method.

namespace Psr\Http\Server {
    if (!interface_exists(RequestHandlerInterface::class)) {
        require_once 'Psr/Http/Message/autoload.php';

        interface RequestHandlerInterface
        {
            public function handle(\Psr\Http\Message\ServerRequestInterface $request): \Psr\Http\Message\ResponseInterface;
        }
    }
}

namespace {
    use Psr\Http\Message\ResponseInterface;
    use Psr\Http\Message\ServerRequestInterface;
    use Psr\Http\Server\RequestHandlerInterface;

    $implementation = getenv('TEST_PSR7');
    require_once ['nyholm' => 'Nyholm/Psr7/autoload.php', 'guzzle' => 'GuzzleHttp/Psr7/autoload.php', 'slim' => 'Slim/Psr7/autoload.php'][$implementation];
    // Loaded already, so that it is the one that is taken where all are installed.
    class_exists(['nyholm' => Nyholm\Psr7\ServerRequest::class, 'guzzle' => GuzzleHttp\Psr7\ServerRequest::class, 'slim' => Slim\Psr7\Request::class][$implementation]);

    final class Endless implements Psr\Http\Message\StreamInterface
    {
        private int $count = 0;

        public function __construct(private int $size, private bool $strings = false) {}
        public function __toString(): string { throw new \LogicException('cast to a string'); }
        public function close(): void { error_log("closed after $this->count pieces"); }
        public function detach() { return null; }
        public function getSize(): ?int { return null; }
        public function tell(): int { return 0; }
        public function eof(): bool { return $this->count >= $this->size; }
        public function isSeekable(): bool { return false; }
        public function seek($offset, $whence = SEEK_SET): void {}
        public function rewind(): void { throw new \LogicException('rewound'); }
        public function isWritable(): bool { return false; }
        public function write($string): int { return 0; }
        public function isReadable(): bool { return true; }
        public function read($length): string { $this->count++; return str_repeat('p', min($length, 1000)); }
        public function getContents(): string { throw new \LogicException('read as one string'); }
        public function getMetadata($key = null) { return null; }
    }

    return new class ($implementation) implements RequestHandlerInterface {
        public function __construct(private string $implementation) {}

        public function handle(ServerRequestInterface $request): ResponseInterface
        {
            return match ($request->getUri()->getPath()) {
                '/stream' => $this->response(200, [], new Endless(5)),
                '/endless' => $this->response(200, [], new Endless(PHP_INT_MAX)),
                '/large' => $this->large(),
                '/many' => $this->response(418, ['X-Many' => ['1', '2'], 'Set-Cookie' => ['a=1', 'b=2']], 'many'),
                '/body' => $this->response(200, [], strlen($body = (string) $request->getBody()) . ' ' . md5($body)),
                '/contents' => $this->response(200, [], json_encode([$request->getBody()->tell(), $request->getBody()->read(2), $request->getBody()->getContents()])),
                '/pipe' => $this->response(200, [], $this->stream(popen('sleep 0.05; echo piped', 'r'))),
                '/throws' => throw new DomainException('a failure'),
                default => $this->response(200, ['Content-Type' => 'application/json'], json_encode($this->about($request), JSON_THROW_ON_ERROR)),
            };
        }

        private function large(): ResponseInterface
        {
            $response = $this->response(200, [], '');
            for ($i = 0; $i < 300; $i++) {
                $response->getBody()->write(str_repeat(chr(97 + $i % 26), 1000));
            }
            return $response;
        }

        private function about(ServerRequestInterface $request): array
        {
            $files = [];
            foreach ($request->getUploadedFiles() as $name => $file) {
                $files[$name] = $this->files($file);
            }
            return [
                'class' => $request::class, 'method' => $request->getMethod(), 'target' => $request->getRequestTarget(), 'uri' => (string) $request->getUri(),
                'version' => $request->getProtocolVersion(), 'headers' => $request->getHeaders(), 'numeric' => $request->getHeaderLine('123'),
                'host' => $request->getHeaderLine('Host'), 'query' => $request->getQueryParams(), 'parsed' => $request->getParsedBody(), 'cookies' => $request->getCookieParams(),
                'body' => (string) $request->getBody(), 'files' => $files, 'attributes' => $request->getAttributes(),
                'server' => array_intersect_key($request->getServerParams(), array_flip(['SERVER_PROTOCOL', 'SERVER_NAME', 'SERVER_PORT', 'HTTPS', 'QUERY_STRING',
                    'SCRIPT_NAME', 'REQUEST_URI', 'CONTENT_TYPE', 'CONTENT_LENGTH', 'HTTP_CONTENT_TYPE', 'HTTP_CONTENT_LENGTH', 'REMOTE_ADDR', 'REQUEST_METHOD', 'argv'])),
            ];
        }

        private function files(mixed $file): mixed
        {
            if (is_array($file)) {
                return array_map($this->files(...), $file);
            }
            $to = tempnam(sys_get_temp_dir(), 'moved');
            $sum = null;
            if ($file->getError() === UPLOAD_ERR_OK) {
                $file->moveTo($to);
                $sum = md5_file($to);
            }
            @unlink($to);
            return [$file->getClientFilename(), $file->getClientMediaType(), $file->getSize(), $file->getError(), $sum];
        }

        private function stream(mixed $resource): Psr\Http\Message\StreamInterface
        {
            return match ($this->implementation) {
                'nyholm' => Nyholm\Psr7\Stream::create($resource),
                'guzzle' => GuzzleHttp\Psr7\Utils::streamFor($resource),
                'slim' => new Slim\Psr7\Stream($resource),
            };
        }

        private function response(int $status, array $headers, mixed $body): ResponseInterface
        {
            if ($this->implementation === 'slim') {
                $response = (new Slim\Psr7\Factory\ResponseFactory())->createResponse($status);
                foreach ($headers as $name => $value) {
                    $response = $response->withHeader($name, $value);
                }
                return $response->withBody(is_string($body) ? (new Slim\Psr7\Factory\StreamFactory())->createStream($body) : $body);
            }
            $class = ['nyholm' => Nyholm\Psr7\Response::class, 'guzzle' => GuzzleHttp\Psr7\Response::class][$this->implementation];
            return new $class($status, $headers, $body);
        }
    };
}
