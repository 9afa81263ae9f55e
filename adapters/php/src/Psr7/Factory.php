<?php

declare(strict_types=1);

namespace Keepwarm\Psr7;

use Keepwarm\EntryError;
use Keepwarm\Request;

/**
 * Makes PSR-7 requests with the classes that the application brings.
 *
 * Each is built by its constructor; what the constructor does not take is assigned directly, without a copy for each `with…`.
 */
abstract class Factory
{
    /** @var array<class-string, class-string<Factory>> in the order in which they are looked for */
    private const KNOWN = [
        'Nyholm\Psr7\ServerRequest' => Nyholm::class,
        'GuzzleHttp\Psr7\ServerRequest' => Guzzle::class,
        'Slim\Psr7\Request' => Slim::class,
        'Laminas\Diactoros\ServerRequest' => Laminas::class,
    ];

    /** One whose classes are loaded already, else the first that can be loaded. Throws `EntryError`. */
    public static function detect(): self
    {
        foreach ([false, true] as $load) {
            foreach (self::KNOWN as $class => $factory) {
                if (class_exists($class, $load)) {
                    return new $factory();
                }
            }
        }
        throw new EntryError('no PSR-7 implementation found: none of ' . implode(', ', array_keys(self::KNOWN)) . ' exists; install one, for example nyholm/psr7');
    }

    abstract public function request(Request $request): object;

    /** `1.1` of `HTTP/1.1`. */
    protected static function version(Request $request): string
    {
        return substr($request->protocol, 5);
    }

    /**
     * The body: a string when it is here and small (the implementation makes a stream when it is asked for), else a stream that reads as
     * it is read.
     *
     * @return string|resource
     */
    protected static function body(Request $request): mixed
    {
        if ($request->form() === 'multipart' && $request->method === 'POST') {
            return ''; // read already, as with PHP itself
        }
        return $request->body === null ? (string) $request->whole : $request->stream();
    }

    /** The parsed body: of forms only, and null when the body is none. */
    protected static function parsed(Request $request): ?array
    {
        return $request->method === 'POST' && $request->form() !== null ? $request->post : null;
    }

    /** A function that puts query, form, cookies and uploads where a class keeps them. */
    protected static function filler(string $class): \Closure
    {
        return \Closure::bind(static function (object $request, array $query, ?array $parsed, array $cookies, array $files): void {
            $request->queryParams = $query;
            $request->parsedBody = $parsed;
            $request->cookieParams = $cookies;
            $request->uploadedFiles = $files;
        }, null, $class);
    }
}
