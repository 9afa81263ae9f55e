<?php

declare(strict_types=1);

namespace Keepwarm;

/** The environment's variables: what `putenv()` changes, and `$_ENV`. */
final class Environment
{
    private static ?\FFI $libc = null;
    /** @var array<string, string> */
    private static array $variables = [];
    /** @var array<array-key, mixed> */
    private static array $global = [];
    /** The process's list of pointers to its variables, byte for byte: to compare it costs a tenth of reading them all. */
    private static string $pointers = '';
    private static int $bytes = 0;

    public static function settle(): void
    {
        self::$global = $_ENV;
        self::$variables = getenv();
        self::$libc = null;
        if (\extension_loaded('ffi')) {
            try {
                self::$libc = \FFI::cdef('extern char *environ;'); // its list, as bytes
            } catch (\Throwable) {
                // FFI is there but switched off.
            }
        }
        self::remember();
    }

    public static function reset(): void
    {
        if ($_ENV !== self::$global) {
            $_ENV = self::$global;
        }
        if (self::$libc === null ? getenv() !== self::$variables : Environment::pointers() !== self::$pointers) {
            Environment::restore();
        }
    }

    private static function restore(): void
    {
        $now = getenv();
        foreach (array_diff_assoc(self::$variables, $now) as $name => $value) {
            putenv("$name=$value");
        }
        foreach (array_diff_key($now, self::$variables) as $name => $_) {
            putenv((string) $name);
        }
        Reset::say('environment');
        self::$variables = getenv(); // in another order
        self::remember();
    }

    private static function remember(): void
    {
        // PHP names no variable twice, and none without a "=": the list may be longer than what it gives.
        $libc = self::$libc === null ? null : \FFI::cdef('extern char **environ;');
        $list = $libc?->environ; // of a type that lives as long as $libc does
        for (self::$bytes = \PHP_INT_SIZE; $list !== null && $list[intdiv(self::$bytes, \PHP_INT_SIZE) - 1] !== null; self::$bytes += \PHP_INT_SIZE) {
        }
        self::$pointers = self::pointers();
    }

    /** One more than there were: the list's end moves when a variable is added. */
    private static function pointers(): string
    {
        $list = self::$libc?->environ;
        return $list === null ? '' : \FFI::string($list, self::$bytes);
    }
}
