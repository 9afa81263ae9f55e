<?php

declare(strict_types=1);

namespace Keepwarm\Psr7;

use Keepwarm\Request;
use Nyholm\Psr7\ServerRequest;
use Nyholm\Psr7\UploadedFile;
use Nyholm\Psr7\Uri;

final class Nyholm extends Factory
{
    private readonly \Closure $fill;

    public function __construct()
    {
        $this->fill = self::filler(ServerRequest::class);
    }

    public function request(Request $request): object
    {
        $made = new ServerRequest($request->method, new Uri($request->uri()), $request->fields, self::body($request), self::version($request), $request->server);
        if ($request->body === null && $request->whole !== '' && $request->whole !== null) {
            $made->getBody()->rewind(); // it makes a stream of a string, and leaves it at its end
        }
        $files = $request->files === [] ? [] : Uploads::tree($request->files, static fn (array $file): UploadedFile => new UploadedFile(
            $file['error'] === \UPLOAD_ERR_OK ? $file['tmp_name'] : '', $file['size'], $file['error'], $file['name'], $file['type'],
        ));
        ($this->fill)($made, $request->get, self::parsed($request), $request->cookies, $files);
        return $request->rawPath === '*' ? $made->withRequestTarget('*') : $made;
    }
}
