<?php

declare(strict_types=1);

namespace Keepwarm;

/** The worker's log: standard error, one record per write, which Keepwarm marks with the app's name and the worker's. */
final class Log
{
    private const MAX_REMEMBERED = 1_024;

    /** @var array<string, true> */
    private static array $said = [];

    /** Writes one record. A log that cannot be written must not end the worker. */
    public static function write(string $text): void
    {
        @fwrite(\STDERR, str_ends_with($text, "\n") ? $text : $text . "\n");
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
