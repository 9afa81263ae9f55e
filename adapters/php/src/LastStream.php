<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * A stream that is open until PHP closes all of them: after a fatal error that neither a shutdown function nor a destructor nor an output buffer learns
 * of (`ob_start()` in the callback of a buffer, after `exit()`), this is what PHP still calls.
 */
final class LastStream
{
    private static ?\Closure $atEnd = null;
    /** @var resource|false */
    private static mixed $open = false;

    /** @var resource|null given by PHP */
    public mixed $context = null;

    public static function install(\Closure $atEnd): void
    {
        self::$atEnd = $atEnd;
        if (self::$open === false) {
            Log::quietly(static function (): void {
                stream_wrapper_register('keepwarm-last', self::class);
                self::$open = @fopen('keepwarm-last://', 'r');
                stream_wrapper_unregister('keepwarm-last');
            });
        }
    }

    public function stream_open(string $path, string $mode, int $options, ?string &$opened): bool
    {
        return true;
    }

    public function stream_close(): void
    {
        if (self::$atEnd !== null) {
            (self::$atEnd)();
        }
    }
}
