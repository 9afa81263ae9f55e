<?php

declare(strict_types=1);

namespace Keepwarm;

/** The default stream context and the stream wrappers. */
final class Streams
{
    private const LAST = 'glob';

    /** @var list<string> PHP's own */
    private static array $own = [];
    /** @var list<string> */
    private static array $wrappers = [];
    /** @var list<string> those that the application registered while it was loaded, under names of PHP's own as well */
    private static array $applications = [];
    /** @var resource|null the default context: there is one for the life of the process */
    private static mixed $default = null;
    /** @var array<string, mixed> of the default context: its options and its notification callback */
    private static array $context = [];

    /** Before anything of the application runs. */
    public static function install(): void
    {
        self::$own = \stream_get_wrappers();
    }

    public static function settle(): void
    {
        self::$wrappers = \stream_get_wrappers();
        self::$applications = \array_slice(self::$wrappers, self::untouched());
        self::mark();
        self::$default = stream_context_get_default();
        self::$context = \stream_context_get_params(self::$default);
    }

    public static function reset(): void
    {
        if (\stream_get_wrappers() !== self::$wrappers) {
            Reset::say('stream wrappers');
            Log::quietly(self::wrappers(...));
        }
        if (\stream_context_get_params(self::$default) !== self::$context) {
            // An option can be set to another value, but not removed.
            stream_context_set_default(self::$context['options']);
            if (\stream_context_get_params(self::$default) === self::$context) {
                Reset::say('default stream context');
            } else {
                Reset::giveUp('default stream context');
            }
        }
    }

    /** One that is unregistered and registered again is the last in PHP's list. */
    private static function wrappers(): void
    {
        foreach (array_diff(\stream_get_wrappers(), self::$wrappers) as $name) {
            stream_wrapper_unregister($name);
        }
        foreach (array_diff(array_intersect(self::$own, self::$wrappers), self::$applications) as $name) {
            @stream_wrapper_restore($name); // a notice where nothing was changed
        }
        $now = \stream_get_wrappers();
        if (array_diff(self::$wrappers, $now) !== [] || array_values(array_intersect($now, self::$applications)) !== self::$applications) {
            Reset::giveUp('stream wrappers'); // one of the application's own, of which only it knows the class
        }
        self::mark();
    }

    /** Makes one that nobody replaces the last in the list: wrappers replaced from now on come after it. */
    private static function mark(): void
    {
        if (\in_array(self::LAST, self::$own, true) && \in_array(self::LAST, \stream_get_wrappers(), true) && !\in_array(self::LAST, self::$applications, true)) {
            stream_wrapper_unregister(self::LAST);
            stream_wrapper_restore(self::LAST);
        }
        self::$wrappers = \stream_get_wrappers();
    }

    /** How many of PHP's own are as they were when the application had been loaded: those before the first that it registered, or registered again. */
    private static function untouched(): int
    {
        $own = array_flip(self::$own);
        $last = -1;
        foreach (self::$wrappers as $count => $name) {
            if (($own[$name] ?? -1) <= $last) {
                return $count;
            }
            $last = $own[$name];
        }
        return \count(self::$wrappers);
    }
}
