<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The handlers of errors and exceptions. What a request set goes with it; what a framework sets in its first request, because it is loaded only then,
 * stays: it will not set it again, and without it errors would pass unseen.
 *
 * A framework's are those in a package's files. If it sets its handlers in each request, they are reset after each.
 */
final class ErrorHandlers
{
    private const KINDS = ['error handler' => ['set_error_handler', 'restore_error_handler'], 'exception handler' => ['set_exception_handler', 'restore_exception_handler']];
    private const MOST = 100;

    /** @var array<string, mixed> kind => what holds between requests */
    private static array $normal = [];
    // Those two again, to compare in each request.
    private static mixed $error = null;
    private static mixed $exception = null;
    /** @var array<string, mixed> kind => what held before one was left standing */
    private static array $before = [];
    /** @var array<string, true> functions that were set more than once */
    private static array $repeated = [];

    public static function settle(): void
    {
        foreach (self::KINDS as $kind => [$set, $restore]) {
            self::$normal[$kind] = self::current($set, $restore);
        }
        self::$before = self::$repeated = [];
        self::remember();
    }

    private static function remember(): void
    {
        [self::$error, self::$exception] = [self::$normal['error handler'], self::$normal['exception handler']];
    }

    public static function reset(): void
    {
        $now = \set_error_handler(null);
        \restore_error_handler();
        if ($now !== self::$error) {
            ErrorHandlers::put('error handler');
        }
        $now = \set_exception_handler(null);
        \restore_exception_handler();
        if ($now !== self::$exception) {
            ErrorHandlers::put('exception handler');
        }
    }

    private static function put(string $kind): void
    {
        [$set, $restore] = self::KINDS[$kind];
        $now = self::current($set, $restore);
        $name = self::name($now);
        if ($now !== null && !\array_key_exists($kind, self::$before) && !isset(self::$repeated[$name]) && self::isPackaged($now)) {
            self::$before[$kind] = self::$normal[$kind];
            self::$normal[$kind] = $now;
            self::remember();
            return;
        }
        if (\array_key_exists($kind, self::$before) && $name === self::name(self::$normal[$kind])) {
            self::$repeated[$name] = true; // it comes by itself
            self::$normal[$kind] = self::$before[$kind];
            unset(self::$before[$kind]);
            self::remember();
        }
        Reset::say($kind);
        for ($count = 0; $count < self::MOST && ($now = self::current($set, $restore)) !== self::$normal[$kind] && $now !== null; $count++) {
            $restore();
        }
        if (self::current($set, $restore) !== self::$normal[$kind]) {
            $set(self::$normal[$kind]);
        }
    }

    private static function isPackaged(callable $handler): bool
    {
        return Frameworks::isPackaged((string) (new \ReflectionFunction($handler(...)))->getFileName());
    }

    /** The same for each closure created at one line of code, and for each object of a class. */
    private static function name(mixed $handler): string
    {
        if (!\is_callable($handler)) {
            return '';
        }
        $function = new \ReflectionFunction($handler(...));
        return "{$function->getFileName()}:{$function->getStartLine()}";
    }

    private static function current(string $set, string $restore): mixed
    {
        $current = $set(null);
        $restore();
        return $current;
    }
}
