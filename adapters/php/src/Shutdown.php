<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The functions of `register_shutdown_function()`: those of a request are called when it ends, while what they print is part of its response.
 *
 * `register_shutdown_function` is ours, so PHP's own cannot be called to learn of the end of the script. But `session_register_shutdown` looks up
 * `session_write_close` by its name, and that one is ours too.
 */
final class Shutdown
{
    /** @var list<array{callable, array<array-key, mixed>}> of the script: registered while the application was loaded */
    private static array $script = [];
    /** @var list<array{callable, array<array-key, mixed>}> of the request */
    public static array $request = [];
    private static bool $serving = false;
    private static bool $ended = false;
    private static bool $called = true;
    /** Destroyed at the end, where PHP has no sessions. */
    private static ?object $last = null;

    /** Once: `Main::ended` will be called at the end of the script. */
    public static function install(): void
    {
        if (!Web::$complete) {
            register_shutdown_function([Main::class, 'ended']);
        } elseif (\function_exists('session_register_shutdown')) {
            session_register_shutdown();
        } else {
            self::$called = false;
            self::$last = new class {
                public function __destruct()
                {
                    Main::ended();
                }
            };
        }
    }

    /** Whether PHP learns of the end by a function that it calls, and nothing is destroyed yet. */
    public static function isCalled(): bool
    {
        return self::$called;
    }

    /** Functions registered from now on belong to a request. */
    public static function settle(): void
    {
        self::$serving = true;
    }

    /** @param array<array-key, mixed> $arguments */
    public static function register(callable $callback, array $arguments): void
    {
        if (self::$serving) {
            self::$request[] = [$callback, $arguments];
        } else {
            self::$script[] = [$callback, $arguments];
        }
    }

    /** `session_write_close()`, which PHP calls at the end of the script and nobody else calls from nowhere. */
    public static function sessionWriteClose(): bool
    {
        if (!self::$ended) {
            $frames = debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS, 3);
            if (!isset($frames[1]['file']) && !isset($frames[2])) {
                self::$ended = true;
                Main::ended();
            }
        }
        return session_commit();
    }

    /** The request ends, and has functions to call. */
    public static function request(): void
    {
        self::call(self::$request);
    }

    /** The script ends. */
    public static function script(): void
    {
        self::call(self::$script);
        self::call(self::$request);
    }

    /** @param list<array{callable, array<array-key, mixed>}> $functions */
    private static function call(array &$functions): void
    {
        while ($functions !== []) {
            $batch = $functions;
            $functions = []; // one that calls exit() is the last
            foreach ($batch as [$function, $arguments]) {
                try {
                    $function(...$arguments);
                } catch (\Throwable $error) {
                    Log::exception($error);
                    $functions = []; // as PHP leaves the rest out
                    return;
                }
            }
        }
    }
}
