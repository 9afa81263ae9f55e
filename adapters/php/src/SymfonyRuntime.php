<?php

declare(strict_types=1);

namespace Keepwarm;

use Keepwarm\Handlers\CallableHandler;
use Symfony\Component\Console\Application;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Runtime\Resolver\ClosureResolver;
use Symfony\Component\Runtime\ResolverInterface;
use Symfony\Component\Runtime\RunnerInterface;

/**
 * What `APP_RUNTIME` names in a worker, so that an unchanged project runs: Symfony's own runtime, whose runner takes requests until
 * Keepwarm says that it is enough. In any other process it is Symfony's own: a project may set it for all of them.
 */
class SymfonyRuntime extends \Symfony\Component\Runtime\SymfonyRuntime
{
    /** Makes the application again, for one that threw. */
    private ?\Closure $again = null;

    /** `$callable` is what the entry returned, whatever that is. */
    public function getResolver(mixed $callable, ?\ReflectionFunction $reflector = null): ResolverInterface
    {
        if (Main::entry() === '') {
            return parent::getResolver($callable, $reflector);
        }
        if (!\is_callable($callable)) {
            return new ClosureResolver(static fn (): mixed => $callable, static fn (): array => []);
        }
        $closure = $callable(...);
        foreach (($reflector ?? new \ReflectionFunction($closure))->getParameters() as $parameter) {
            if (CallableHandler::takesRequest($parameter)) {
                // It handles requests itself; each gets one of its own.
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

    public function getRunner(mixed $application): RunnerInterface
    {
        if (Main::entry() === '') {
            return parent::getRunner($application);
        }
        $entry = Main::entry();
        if ($application instanceof Application || $application instanceof Command) {
            throw new EntryError("$entry returned a console application, which does not serve requests; run it with php.");
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
