<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * Runs something that may call `exit()`, and continues after it.
 *
 * PHP carries out `exit()` as an exception that nothing can catch, and that unwinds every frame. There is one boundary where it ends: a fiber
 * that is destroyed while it is suspended runs its `finally`, and forgets an `exit()` that came from there (`zend_fiber_execute`, PHP 8.1). So the
 * work is done in the `finally` of a fiber that is discarded.
 *
 * In there nothing can be suspended, and before PHP 8.4 no other fiber be started: an application that uses fibers is not run in it.
 */
final class ExitGuard
{
    private const STACK = '8M'; // of addresses: what a process has for C, where a fiber has 2M
    private const SUSPENDS = '/\bnew\s+\\\\?Fiber\s*\(|\bFiber::(?:suspend|getCurrent)\s*\(/';
    /** Classes of packages that suspend fibers, each by one of its classes. */
    private const PACKAGES = ['Revolt\EventLoop', 'React\Async\SimpleFiber'];

    private static ?bool $fits = null;

    /** Whether the application, as far as it is loaded or can be seen, uses no fibers. */
    public static function fits(): bool
    {
        return self::$fits ??= !self::hasPackage() && !self::isUsed();
    }

    /** Gives whether `$do` came to its end. */
    public static function run(\Closure $do): bool
    {
        $done = false;
        $fiber = new \Fiber(static function () use ($do, &$done): void {
            try {
                \Fiber::suspend();
            } finally {
                $do();
                $done = true;
            }
        });
        $size = ini_alter('fiber.stack_size', self::STACK);
        $fiber->start();
        if ($size !== false) {
            ini_alter('fiber.stack_size', $size);
        }
        unset($fiber);
        return $done;
    }

    private static function hasPackage(): bool
    {
        $loaders = method_exists('Composer\Autoload\ClassLoader', 'getRegisteredLoaders') ? \Composer\Autoload\ClassLoader::getRegisteredLoaders() : [];
        foreach (self::PACKAGES as $class) {
            if (class_exists($class, false)) {
                return true;
            }
            foreach ($loaders as $loader) {
                if ($loader->findFile($class) !== false) {
                    return true;
                }
            }
        }
        return false;
    }

    private static function isUsed(): bool
    {
        foreach (get_included_files() as $file) {
            if (!str_starts_with($file, __DIR__) && preg_match(self::SUSPENDS, (string) @file_get_contents($file)) === 1) {
                return true;
            }
        }
        return false;
    }
}
