<?php

declare(strict_types=1);

namespace Keepwarm\Handlers;

use Keepwarm\Forms;
use Keepwarm\Log;
use Keepwarm\Reply;
use Keepwarm\Request;
use Keepwarm\TerminableHandler;
use Keepwarm\Web;
use Symfony\Component\EventDispatcher\EventDispatcherInterface;
use Symfony\Component\HttpFoundation\BinaryFileResponse;
use Symfony\Component\HttpFoundation\Request as SymfonyRequest;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\EventListener\AbstractSessionListener;
use Symfony\Component\HttpKernel\EventListener\StreamedResponseListener;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\HttpKernel\KernelEvents;
use Symfony\Component\HttpKernel\KernelInterface;
use Symfony\Component\HttpKernel\TerminableInterface;

/** A Symfony kernel, or anything that is an `HttpKernelInterface`. */
final class SymfonyHandler implements TerminableHandler
{
    private ?SymfonyRequest $request = null;
    private ?Response $response = null;
    private ?SymfonyState $state = null;
    /** The kernel's `terminate` is not Symfony's. */
    private ?bool $ownTerminate = null;

    /** @param \Closure|null $again makes a new kernel */
    public function __construct(private HttpKernelInterface $kernel, private readonly ?\Closure $again = null)
    {
        $this->state = self::boot($kernel);
    }

    public function handle(Request $request, Reply $reply): void
    {
        $reply->prints();
        $this->state?->begin();
        $this->request = self::request($request);
        $this->response = $this->kernel->handle($this->request);
        if ($this->hasMoreToDo()) {
            Web::$connection?->staysBusy();
        }
        self::send($this->response, $reply);
    }

    /** Whether `terminate` will do something of the application's. */
    private function hasMoreToDo(): bool
    {
        if (!$this->kernel instanceof TerminableInterface) {
            return false;
        }
        $this->ownTerminate ??= !$this->kernel instanceof Kernel || (new \ReflectionMethod($this->kernel, 'terminate'))->class !== Kernel::class;
        return $this->ownTerminate || self::dispatcher($this->kernel)?->hasListeners(KernelEvents::TERMINATE) !== false;
    }

    public function terminate(): void
    {
        [$request, $response] = [$this->request, $this->response];
        $this->request = $this->response = null;
        if ($response === null) {
            return;
        }
        if ($this->kernel instanceof TerminableInterface) {
            $this->kernel->terminate($request, $response);
        }
        if ($this->kernel instanceof KernelInterface) {
            $this->kernel->boot(); // this is what resets its services; otherwise the next request would wait for it
            if ($this->state?->reset()) {
                Log::once('symfony listeners', 'keepwarm: a request added or removed listeners of Symfony\'s events; the kernel is rebooted after each such request');
                $this->failed();
            }
        }
    }

    public function failed(): void
    {
        $this->request = $this->response = null;
        if ($this->again !== null) {
            if ($this->kernel instanceof KernelInterface) {
                $this->kernel->shutdown();
            }
            $this->kernel = ($this->again)();
            $this->state = self::boot($this->kernel);
        } elseif ($this->kernel instanceof KernelInterface) {
            $this->kernel->shutdown();
            $this->state = self::boot($this->kernel);
        }
    }

    public function outlivesExit(): bool
    {
        return $this->again !== null || $this->kernel instanceof KernelInterface;
    }

    public function application(): object
    {
        return $this->kernel;
    }

    /** Boots a kernel before its first request: none waits for it, and a worker that cannot boot is never ready. */
    private static function boot(HttpKernelInterface $kernel): ?SymfonyState
    {
        if (!$kernel instanceof KernelInterface) {
            return null;
        }
        $kernel->boot();
        $dispatcher = self::dispatcher($kernel);
        if ($dispatcher !== null) {
            self::prepareSession($dispatcher);
            self::streamLater($dispatcher);
        }
        return new SymfonyState($kernel);
    }

    private static function streamLater(EventDispatcherInterface $dispatcher): void
    {
        if (!class_exists(StreamedResponseListener::class)) {
            return;
        }
        // Symfony 5 sends a streamed response from within the kernel, where an error in it becomes a page after its beginning.
        foreach ($dispatcher->getListeners(KernelEvents::RESPONSE) as $listener) {
            if (\is_array($listener) && $listener[0] instanceof StreamedResponseListener) {
                $dispatcher->removeListener(KernelEvents::RESPONSE, $listener);
            }
        }
    }

    /**
     * Symfony 5 makes the session's service once, and with it what it sets in PHP: the session's name, its path, the attributes of its cookie. That has to
     * be while the application is loaded: what the first request sets is reset after it.
     */
    private static function prepareSession(EventDispatcherInterface $dispatcher): void
    {
        foreach ($dispatcher->getListeners(KernelEvents::REQUEST) as $listener) {
            if (\is_array($listener) && $listener[0] instanceof AbstractSessionListener) {
                try {
                    \Closure::bind(fn (): mixed => $this->getSession(), $listener[0], $listener[0]::class)();
                } catch (\Throwable $error) {
                    Log::exception($error); // the store is unreachable: requests that need it will report that
                }
            }
        }
    }

    private static function dispatcher(KernelInterface $kernel): ?EventDispatcherInterface
    {
        $container = $kernel->getContainer();
        $dispatcher = $container->has('event_dispatcher') ? $container->get('event_dispatcher') : null;
        return $dispatcher instanceof EventDispatcherInterface ? $dispatcher : null;
    }

    /** The request as Symfony's `createFromGlobals` makes it, with the application's own class if it has set one. */
    public static function request(Request $request): SymfonyRequest
    {
        static $factory = null;
        $factory ??= \Closure::bind(static fn (): ?callable => self::$requestFactory, null, SymfonyRequest::class);
        $content = $request->body === null ? (string) $request->whole : $request->stream();
        $post = $request->post;
        if ($post === [] && \in_array($request->method, ['PUT', 'PATCH', 'DELETE'], true) && $request->form() === 'urlencoded') {
            $post = Forms::parsed($request->body());
        }
        $make = $factory();
        if ($make === null) {
            return new SymfonyRequest($request->get, $post, [], $request->cookies, $request->files, $request->server, $content);
        }
        return $make($request->get, $post, [], $request->cookies, $request->files, $request->server, $content);
    }

    /** Sends a Symfony response: whole when it is one, in pieces when it streams or is a file. */
    public static function send(Response $response, Reply $reply): void
    {
        $content = $response->getContent();
        if ($content === false && $response instanceof BinaryFileResponse && !$response->isSuccessful()) {
            $response->headers->remove('Content-Length'); // of the file, none of which is sent: a 416
            $content = '';
        }
        $flat = [];
        foreach ($response->headers->allPreserveCaseWithoutCookies() as $name => $values) {
            foreach ($values as $value) {
                $flat[] = (string) $name;
                $flat[] = (string) $value;
            }
        }
        foreach ($response->headers->getCookies() as $cookie) {
            $flat[] = 'Set-Cookie';
            $flat[] = (string) $cookie;
        }
        if ($content === false) {
            $reply->printed($response->getStatusCode(), $flat, static function () use ($response): void {
                $response->sendContent();
            });
        } else {
            $reply->whole($response->getStatusCode(), $flat, $content);
        }
    }
}
