<?php

namespace Lazy;

// A framework that is loaded in the first request, and sets its handlers then; and one that sets them in each.

final class Framework
{
    private static bool $booted = false;

    public static function boot(): void
    {
        if (!self::$booted) {
            self::$booted = true;
            set_error_handler([new self(), 'error']);
        }
    }

    public static function bootAgain(): void
    {
        set_error_handler(static fn (int $level, string $text) => throw new \ErrorException("again: $text"));
    }

    public function error(int $level, string $text): never
    {
        throw new \ErrorException("lazily: $text");
    }
}
