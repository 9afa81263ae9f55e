<?php

declare(strict_types=1);

namespace Keepwarm;

/** The worker's log: standard error, one record per write, which Keepwarm marks with the app's name and the worker's. */
final class Log
{
    private const MAX_REMEMBERED = 1_024;
    private const CONTINUED = "\x1F"; // ends a line that the next one continues (spec/wire.md §1)

    /** @var array<string, true> */
    private static array $said = [];

    /** Writes one record, however many lines it has. */
    public static function write(string $text): void
    {
        self::lines(str_replace("\n", self::CONTINUED . "\n", rtrim($text, "\n")));
    }

    /** Writes lines that are the application's. A log that cannot be written, or that the application has closed, must not end the worker. */
    public static function lines(string $text): void
    {
        try {
            @fwrite(\STDERR, str_ends_with($text, "\n") ? $text : $text . "\n");
        } catch (\Throwable) {
        }
    }

    /** Does something of Keepwarm's own of which the application's error handler must not hear: it may throw. */
    public static function quietly(\Closure $do): mixed
    {
        set_error_handler([self::class, 'warning']);
        try {
            return $do();
        } finally {
            restore_error_handler();
        }
    }

    /** An error handler: a warning that is not silenced is a record, and that is all. */
    public static function warning(int $level, string $text): bool
    {
        if ((error_reporting() & $level) !== 0) {
            self::write("PHP Warning:  $text");
        }
        return true;
    }

    /** Writes one record for each `$key` in the life of the worker. */
    public static function once(string $key, string $text): void
    {
        if (!isset(self::$said[$key]) && \count(self::$said) < self::MAX_REMEMBERED) {
            self::$said[$key] = true;
            self::write($text);
        }
    }

    /** Writes the application's exception with its trace, without the adapter's own frames at its end. */
    public static function exception(\Throwable $error): void
    {
        try {
            $text = 'PHP Fatal error:  Uncaught ' . str_replace("\0", ' ', (string) $error);
        } catch (\Throwable) {
            $text = 'PHP Fatal error:  Uncaught ' . $error::class . " in {$error->getFile()}:{$error->getLine()}";
        }
        $own = preg_quote(\dirname(__DIR__), '~') . '/(?:src|bin)/';
        self::write(preg_replace("~\n#\d+ {$own}[^\n]*(?=\n|$)~", '', $text) ?? $text);
    }
}
