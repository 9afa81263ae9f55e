<?php

declare(strict_types=1);

namespace Keepwarm;

use Keepwarm\Handlers\CallableHandler;
use Keepwarm\Handlers\LaravelHandler;
use Keepwarm\Handlers\Psr15Handler;
use Keepwarm\Handlers\SlimThreeHandler;
use Keepwarm\Handlers\SymfonyHandler;

/** From what an entry returned to the handler of its kind. */
final class Entry
{
    public const EXPECTED = 'a closure `function (array $context)` that returns the application (Symfony Runtime), an HttpKernelInterface, a Laravel application, '
        . 'a PSR-15 RequestHandlerInterface, a Slim app, or a callable that takes a request';

    private const KERNEL = 'Symfony\Component\HttpKernel\HttpKernelInterface';
    private const PSR15 = 'Psr\Http\Server\RequestHandlerInterface';

    /** Throws `EntryError` when there is no application in it. */
    public static function handler(mixed $returned, string $file): Handler
    {
        if ($returned instanceof \Closure && self::isFactory($returned)) {
            return self::made($returned, $file);
        }
        return self::known($returned)
            ?? (\is_callable($returned) ? new CallableHandler($returned) : throw self::unexpected($returned, "$file returned"));
    }

    /**
     * An application of a kind that is recognized by its class. `$again`: makes a new one. Throws `EntryError` for one that is rejected.
     */
    public static function known(mixed $application, ?\Closure $again = null): ?Handler
    {
        Frameworks::check($application);
        $laravel = Frameworks::laravel($application);
        return match (true) {
            $laravel !== null => new LaravelHandler($laravel),
            is_a($application, self::KERNEL) => new SymfonyHandler($application, $again),
            is_a($application, self::PSR15) => new Psr15Handler($application, $again),
            is_a($application, 'Slim\App') && method_exists($application, 'process') => new SlimThreeHandler($application),
            default => null,
        };
    }

    public static function unexpected(mixed $returned, string $what): EntryError
    {
        $shown = match (true) {
            $returned === 1 => 'nothing',
            \is_scalar($returned) => get_debug_type($returned) . ' ' . var_export($returned, true),
            \is_object($returned) => 'an object of ' . $returned::class,
            default => get_debug_type($returned),
        };
        $hint = \is_scalar($returned) || $returned === null
            ? ' A script that responds by itself, without returning an application, is served with kind = "fastcgi".' : '';
        return new EntryError("$what $shown; expected " . self::EXPECTED . ".$hint");
    }

    /** The context that a Symfony Runtime closure is given. */
    public static function context(): array
    {
        $_SERVER['APP_ENV'] ??= $_ENV['APP_ENV'] ?? 'dev';
        $_SERVER['APP_DEBUG'] ??= $_ENV['APP_DEBUG'] ?? ($_SERVER['APP_ENV'] !== 'prod' ? '1' : '0');
        return $_SERVER + $_ENV;
    }

    /**
     * Whether a closure gives the application, as those of Symfony Runtime do: it takes `array $context` or `array $argv` and no request, or
     * nothing and declares to return an application.
     */
    private static function isFactory(\Closure $closure): bool
    {
        $function = new \ReflectionFunction($closure);
        $given = false;
        foreach ($function->getParameters() as $parameter) {
            if (CallableHandler::takesRequest($parameter)) {
                return false;
            }
            $given = $given || \in_array($parameter->getName(), ['context', 'argv'], true);
        }
        if ($given) {
            return true;
        }
        $type = $function->getReturnType();
        return $function->getNumberOfParameters() === 0 && $type instanceof \ReflectionNamedType
            && (is_a($type->getName(), self::KERNEL, true) || is_a($type->getName(), self::PSR15, true) || is_a($type->getName(), 'Slim\App', true));
    }

    private static function made(\Closure $closure, string $file): Handler
    {
        $arguments = [];
        foreach ((new \ReflectionFunction($closure))->getParameters() as $parameter) {
            $arguments[] = match (true) {
                $parameter->getName() === 'context' => self::context(),
                $parameter->getName() === 'argv' => [],
                $parameter->isDefaultValueAvailable() => $parameter->getDefaultValue(),
                default => throw new EntryError("the closure from $file requires \${$parameter->getName()}; the only argument that it gets is `array \$context`"),
            };
        }
        $make = static fn (): mixed => $closure(...$arguments);
        $application = $make();
        return self::known($application, $make)
            ?? (\is_callable($application) ? new CallableHandler($application) : throw self::unexpected($application, "the closure from $file returned"));
    }
}
