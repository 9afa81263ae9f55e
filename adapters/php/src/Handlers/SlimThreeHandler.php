<?php

declare(strict_types=1);

namespace Keepwarm\Handlers;

use Keepwarm\Handler;
use Keepwarm\Psr7\Uploads;
use Keepwarm\Reply;
use Keepwarm\Request;
use Slim\App;
use Slim\Http\Body;
use Slim\Http\Environment;
use Slim\Http\Headers;
use Slim\Http\Request as SlimRequest;
use Slim\Http\Response;
use Slim\Http\UploadedFile;
use Slim\Http\Uri;

/**
 * A Slim 3 app, which wants Slim's own objects, and finds them in its container.
 *
 * A container of Pimple (Slim's own) is given the new ones for each request; any other has the app called with them.
 */
final class SlimThreeHandler implements Handler
{
    private readonly \Closure $finalize;
    private readonly ?\Closure $makeResponse;

    public function __construct(private readonly App $application)
    {
        $this->finalize = \Closure::bind(
            fn (object $response): object => $this->finalize($response),
            $application,
            App::class,
        );
        $container = $application->getContainer();
        $response = $container instanceof \ArrayAccess && method_exists($container, 'raw') ? $container->raw('response') : null;
        $this->makeResponse = $response instanceof \Closure ? $response : null;
    }

    public function handle(Request $request, Reply $reply): void
    {
        $slim = self::request($request);
        $container = $this->application->getContainer();
        if ($this->makeResponse !== null) {
            $environment = new Environment($request->server);
            foreach (['environment' => $environment, 'request' => $slim, 'response' => $this->makeResponse] as $name => $value) {
                unset($container[$name]);
                $container[$name] = $value;
            }
            $response = $this->application->run(true);
        } else {
            $version = $container->get('settings')['httpVersion'];
            $response = (new Response(200, new Headers(['Content-Type' => 'text/html; charset=UTF-8'])))->withProtocolVersion($version);
            $response = ($this->finalize)($this->application->process($slim, $response));
        }
        Psr15Handler::send($response, $reply);
    }

    public function failed(): void
    {
    }

    public function outlivesExit(): bool
    {
        return !CallableHandler::stacksRequests();
    }

    public function application(): object
    {
        return $this->application;
    }

    private static function request(Request $request): SlimRequest
    {
        $headers = new Headers();
        foreach ($request->fields as $name => $values) {
            $headers->set((string) $name, $values);
        }
        $files = Uploads::tree($request->files, static fn (array $file): UploadedFile => new UploadedFile(
            $file['tmp_name'], $file['name'], $file['type'], $file['size'], $file['error'], false,
        ));
        $uri = Uri::createFromEnvironment(new Environment($request->server));
        $slim = new SlimRequest($request->method, $uri, $headers, $request->cookies, $request->server, new Body($request->stream()), $files);
        return $request->method === 'POST' && $request->form() !== null ? $slim->withParsedBody($request->post) : $slim;
    }
}
