<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * `filter.default`: what php.ini has PHP do to each value of a query, a form and a cookie. An application that relies on it prints what it is given.
 *
 * PHP's `parse_str()` does it to queries and forms by itself; cookies and `multipart/form-data` are left. `filter_input()` has these as they came.
 */
final class DefaultFilter
{
    public static ?int $filter = null;
    private static int $flags = 0;
    private static ?Request $raw = null;

    public static function install(): void
    {
        $name = \extension_loaded('filter') ? (string) \ini_get('filter.default') : '';
        $filter = $name === '' || $name === 'unsafe_raw' ? false : filter_id($name);
        self::$filter = $filter === false ? null : $filter;
        $flags = (string) \ini_get('filter.default_flags');
        self::$flags = $flags === '' ? \FILTER_FLAG_NO_ENCODE_QUOTES : (int) $flags;
    }

    public static function apply(Request $request): void
    {
        self::$raw = clone $request;
        $filter = static function (mixed &$value): void {
            $value = (string) filter_var($value, self::$filter, self::$flags);
        };
        array_walk_recursive($request->cookies, $filter);
        if ($request->form() === 'multipart') {
            array_walk_recursive($request->post, $filter);
        }
    }

    /** The request as it came. */
    public static function raw(?Request $request): ?Request
    {
        return $request === null || self::$filter === null ? $request : self::$raw;
    }
}
