<?php

/*
 * What an application in a worker of Keepwarm may call, for editors and static analysis in a project without the composer package:
 * PHPStan reads it by `scanFiles`. Never load it.
 */

namespace Keepwarm;

/**
 * Requests the body now: with `Expect: 100-continue` this is what sends `100 Continue`.
 */
function send_continue(): void
{
}

/**
 * Sends `103 Early Hints`, if this client would understand it and the response has not begun.
 *
 * @param list<string> $links values of `Link`, for example `</app.css>; rel=preload; as=style`
 */
function early_hints(array $links): void
{
}

/** Whether the client has stopped waiting for this response. */
function client_gone(): bool
{
}

/** The current request; null outside of one, and in a process that Keepwarm did not start. */
function request(): ?Request
{
}

/** The client disconnected before its body was complete, or before a `flush()`. */
final class ClientDisconnected extends \RuntimeException
{
}

/** A request: what a plain callable is given. */
final class Request
{
    public string $method = '';
    /** `HTTP/1.1`, `HTTP/1.0`, `HTTP/2.0` */
    public string $protocol = '';
    /** `http` or `https` */
    public string $scheme = '';
    /** Below the script name, percent-decoded. */
    public string $path = '';
    /** As it was routed, percent-encoded, without the query. */
    public string $rawPath = '';
    /** Without `?`. */
    public string $query = '';
    public string $clientAddress = '';
    /** @var array<array-key, list<string>> name in lower case => its values */
    public array $fields = [];
    /** @var array<string, mixed> as `$_SERVER` */
    public array $server = [];
    /** @var array<array-key, mixed> as `$_GET` */
    public array $get = [];
    /** @var array<array-key, mixed> as `$_POST` */
    public array $post = [];
    /** @var array<array-key, mixed> as `$_COOKIE` */
    public array $cookies = [];
    /** @var array<array-key, mixed> as `$_FILES` */
    public array $files = [];

    /** The values of a header, joined; '' if there is none. */
    public function field(string $name): string
    {
    }

    /**
     * The whole body.
     *
     * @throws ClientDisconnected
     */
    public function body(): string
    {
    }

    /**
     * The body as a stream, which can be read again from its start. Reading waits for what has not arrived.
     *
     * @return resource
     */
    public function stream(): mixed
    {
    }

    /** `scheme://host/path?query`, with the client's `Host`. */
    public function uri(): string
    {
    }
}

/** Symfony's runtime in a worker: what `APP_RUNTIME` names. In any other process it is Symfony's own. */
class SymfonyRuntime extends \Symfony\Component\Runtime\SymfonyRuntime
{
}
