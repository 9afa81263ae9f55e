<?php

declare(strict_types=1);

namespace Keepwarm\Handlers;

use Keepwarm\Log;
use Symfony\Component\DependencyInjection\Container;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\RequestStack;
use Symfony\Component\HttpKernel\KernelInterface;
use Symfony\Component\Routing\RequestContext;

/** What Symfony's own services keep of a request and no `kernel.reset` clears; and which proxies are trusted, where that depends on the request. */
final class SymfonyState
{
    private readonly ?RequestStack $stack;
    private readonly ?RequestContext $context;
    /** @var array<string, mixed> of the context */
    private readonly array $parameters;
    /** The dispatcher's listeners; null where it is another's. */
    private readonly ?\Closure $listeners;
    /** @var array<string, array<int, array<mixed>>> */
    private array $known = [];
    private int $count = 0;
    private readonly ?SymfonyServices $services;
    private readonly \Closure $statics;
    /** @var list<mixed> */
    private readonly array $static;
    /** @var array{list<string>, int}|null what to trust, where the client's own address is part of it */
    private readonly ?array $trusted;

    /** The kernel has booted. */
    public function __construct(KernelInterface $kernel)
    {
        $container = $kernel->getContainer();
        $this->stack = $container->has('request_stack') ? $container->get('request_stack') : null;
        $this->context = self::contextOf($container);
        $this->services = $container instanceof Container && ($container->has('twig') || $container->has('translator')) ? new SymfonyServices($container) : null;
        $this->parameters = $this->context?->getParameters() ?? [];
        $dispatcher = $container->has('event_dispatcher') ? $container->get('event_dispatcher') : null;
        $this->listeners = $dispatcher instanceof EventDispatcher ? \Closure::bind(fn (): array => $this->listeners, $dispatcher, EventDispatcher::class) : null;
        if ($this->listeners !== null) {
            $this->known = ($this->listeners)();
            $this->count = self::count($this->known);
        }
        $this->statics = \Closure::bind(static function (): array {
            if (self::$formats === null) {
                self::initializeFormats();
            }
            return [self::$trustedProxies, self::$trustedHostPatterns, self::$trustedHeaderSet, self::$httpMethodParameterOverride, self::$requestFactory, self::$formats];
        }, null, Request::class);
        $this->trusted = self::trustedOf($container);
        $this->static = ($this->statics)();
    }

    private static function contextOf(object $container): ?RequestContext
    {
        try {
            return $container->has('router') ? $container->get('router')->getContext() : null;
        } catch (\Throwable $error) {
            Log::exception($error); // the requests that need it will say so
            return null;
        }
    }

    /** @return array{list<string>, int}|null */
    private static function trustedOf(object $container): ?array
    {
        $proxies = $container->hasParameter('kernel.trusted_proxies') ? $container->getParameter('kernel.trusted_proxies') : null;
        $proxies = \is_array($proxies) ? $proxies : array_map(trim(...), explode(',', (string) $proxies));
        return \in_array('REMOTE_ADDR', $proxies, true) ? [$proxies, $container->getParameter('kernel.trusted_headers')] : null;
    }

    /** A request begins; its `$_SERVER` is there. */
    public function begin(): void
    {
        if ($this->trusted !== null) {
            Request::setTrustedProxies(...$this->trusted);
        }
    }

    /** Called after a request. Returns whether the kernel must be rebooted. */
    public function reset(): bool
    {
        while ($this->stack?->pop() !== null) {
        }
        $this->services?->reset();
        if ($this->context !== null && $this->context->getParameters() !== $this->parameters) {
            $this->context->setParameters($this->parameters);
        }
        if (($this->statics)() !== $this->static) {
            \Closure::bind(static function (array $values): void {
                [self::$trustedProxies, self::$trustedHostPatterns, self::$trustedHeaderSet, self::$httpMethodParameterOverride, self::$requestFactory, self::$formats] = $values;
                self::$trustedHosts = [];
            }, null, Request::class)($this->static);
        }
        return $this->listeners !== null && $this->isListening();
    }

    /** Whether listeners were added or removed. An array that nobody has changed is the same one, so that this costs nothing. */
    private function isListening(): bool
    {
        $now = ($this->listeners)();
        if ($now === $this->known) {
            return false;
        }
        $this->known = $now; // those of an event become objects when it happens for the first time
        return self::count($now) !== $this->count;
    }

    /** @param array<string, array<int, array<mixed>>> $listeners */
    private static function count(array $listeners): int
    {
        return array_sum(array_map(static fn (array $priorities): int => array_sum(array_map(\count(...), $priorities)), $listeners));
    }
}
