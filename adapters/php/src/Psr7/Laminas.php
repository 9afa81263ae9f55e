<?php

declare(strict_types=1);

namespace Keepwarm\Psr7;

use Keepwarm\Request;
use Laminas\Diactoros\ServerRequest;
use Laminas\Diactoros\Stream;
use Laminas\Diactoros\UploadedFile;

final class Laminas extends Factory
{
    public function request(Request $request): object
    {
        $files = $request->files === [] ? [] : Uploads::tree($request->files, static fn (array $file): UploadedFile => new UploadedFile(
            $file['tmp_name'], $file['size'], $file['error'], $file['name'], $file['type'],
        ));
        $body = self::body($request);
        $made = new ServerRequest(
            $request->server, $files, $request->uri(), $request->method, new Stream(\is_resource($body) ? $body : $request->stream(), 'r'), $request->fields,
            $request->cookies, $request->get, self::parsed($request), self::version($request),
        );
        return $request->rawPath === '*' ? $made->withRequestTarget('*') : $made;
    }
}
