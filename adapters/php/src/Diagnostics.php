<?php

declare(strict_types=1);

namespace Keepwarm;

/** Warnings and notices of the functions with which Keepwarm replaces PHP's: raised as by PHP, for the application's file that called the function. */
final class Diagnostics
{
    private const NAMES = [\E_WARNING => 'Warning', \E_NOTICE => 'Notice', \E_DEPRECATED => 'Deprecated'];

    public static function raise(int $level, string $text): void
    {
        [$file, $line] = self::caller();
        $handler = set_error_handler(null);
        restore_error_handler();
        if ($handler !== null && $handler($level, $text, $file, $line) !== false) {
            return;
        }
        if ((error_reporting() & $level) === 0) {
            return;
        }
        $name = self::NAMES[$level] ?? 'Warning';
        $text = "$name: $text in $file on line $line";
        if (\ini_get('log_errors')) {
            error_log('PHP ' . substr_replace($text, ' ', \strlen($name) + 1, 0));
        }
        if (\in_array(strtolower((string) \ini_get('display_errors')), ['1', 'on', 'yes', 'true', 'stdout'], true)) {
            echo \ini_get('error_prepend_string'), "\n$text\n", \ini_get('error_append_string');
        }
    }

    /** Does something with PHP's own function of another name; what that warns of is raised as `$as`, instead of `$of`. */
    public static function named(string $of, string $as, \Closure $do): mixed
    {
        $raised = [];
        set_error_handler(static function (int $level, string $text) use (&$raised): bool {
            $raised[] = [$level, $text];
            return true;
        });
        try {
            $result = $do();
        } finally {
            restore_error_handler();
        }
        foreach ($raised as [$level, $text]) {
            self::raise($level, str_starts_with($text, "$of()") ? $as . substr($text, \strlen($of)) : $text);
        }
        return $result;
    }

    /** @return array{string, int} where the application called us */
    private static function caller(): array
    {
        foreach (debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS) as $frame) {
            if (isset($frame['file']) && !str_starts_with($frame['file'], __DIR__ . '/')) {
                return [$frame['file'], $frame['line'] ?? 0];
            }
        }
        return ['Unknown', 0];
    }
}
