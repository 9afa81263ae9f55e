<?php

declare(strict_types=1);

namespace Keepwarm;

use Symfony\Component\Console\Application;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\HttpFoundation\Request as SymfonyRequest;
use Symfony\Component\Runtime\Resolver\ClosureResolver;
use Symfony\Component\Runtime\ResolverInterface;
use Symfony\Component\Runtime\RunnerInterface;

/**
 * What `APP_RUNTIME` names in a worker, so that an unchanged project runs: Symfony's own runtime, whose runner takes requests until
 * Keepwarm says that it is enough.
 */
class SymfonyRuntime extends \Symfony\Component\Runtime\SymfonyRuntime
{
    /** Makes the application again, for one that threw. */
    private ?\Closure $again = null;

    public function getResolver(callable $callable, ?\ReflectionFunction $reflector = null): ResolverInterface
    {
        $closure = $callable(...);
        foreach (($reflector ?? new \ReflectionFunction($closure))->getParameters() as $parameter) {
            $type = $parameter->getType();
            if ($type instanceof \ReflectionNamedType && is_a($type->getName(), SymfonyRequest::class, true)) {
                // It answers requests itself; each gets one of its own.
                return new ClosureResolver(static fn (): \Closure => $closure, static fn (): array => []);
            }
        }
        $resolver = parent::getResolver($callable, $reflector);
        $this->again = static function () use ($resolver): mixed {
            [$make, $arguments] = $resolver->resolve();
            return $make(...$arguments);
        };
        return $resolver;
    }

    public function getRunner(?object $application): RunnerInterface
    {
        $entry = Main::entry();
        if ($application instanceof Application || $application instanceof Command) {
            throw new EntryError("$entry returned a console application, which answers no requests; run it with php.");
        }
        $handler = Entry::known($application, $this->again) ?? Entry::handler($application, $entry);
        return new class ($handler) implements RunnerInterface {
            public function __construct(private readonly Handler $handler)
            {
            }

            public function run(): int
            {
                return Main::run($this->handler);
            }
        };
    }
}
