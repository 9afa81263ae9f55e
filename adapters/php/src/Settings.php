<?php

declare(strict_types=1);

namespace Keepwarm;

/** The settings of php.ini: `ini_set()` is ours and says which were touched, so that a request that touches none pays for a few. */
final class Settings
{
    /** Those that other functions change: error_reporting(), set_time_limit(), gc_disable(), Locale::setDefault(), … */
    private const OTHERS = ['error_reporting', 'max_execution_time', 'zend.enable_gc', 'intl.default_locale', 'bcmath.scale', 'assert.active', 'assert.callback'];
    /** More of assert_options(), of use where assertions can be switched on. */
    private const ASSERTIONS = ['assert.warning', 'assert.bail', 'assert.exception'];
    /** Set in every request by Symfony, and by set_time_limit(): no news. */
    private const USUAL = ['max_execution_time' => true, 'intl.default_locale' => true];

    /** @var array<string, string|false> name => what it was, since the application was loaded or the last request ended */
    private static array $touched = [];
    /** @var array<string, string> name => value */
    private static array $watched = [];
    /** @var array<string, string> of `watched`: those that are not in OTHERS */
    private static array $own = [];
    /** @var list<mixed> OTHERS as `others` gives them */
    private static array $others = [];
    /** @var array<string, string> every setting; where `ini_set()` is not ours */
    private static array $all = [];

    /** `ini_set()` */
    public static function set(string $name, string|int|float|bool|null $value): string|false
    {
        $before = Diagnostics::named('ini_alter', 'ini_set', static fn (): string|false => ini_alter($name, $value));
        if ($before !== false && !isset(self::$touched[$name])) {
            self::$touched[$name] = $before;
        }
        return $before;
    }

    public static function settle(): void
    {
        self::$watched = [];
        // What the application set itself is also what ini_restore() changes.
        $assertions = \ini_get('zend.assertions') === '-1' ? [] : self::ASSERTIONS;
        foreach ([...self::OTHERS, ...$assertions, ...array_keys(self::$touched)] as $name) {
            $value = \ini_get($name); // false where the extension is not here
            if ($value !== false) {
                self::$watched[$name] = $value;
            }
        }
        self::$touched = [];
        self::$own = array_diff_key(self::$watched, array_flip(self::OTHERS));
        self::$others = self::others();
        self::$all = Web::$complete ? [] : self::all();
    }

    public static function reset(): void
    {
        $was = self::$others;
        // As `others`: most requests change none of them, and this asks each by what costs least.
        $same = \error_reporting() === $was[0] && \ini_get('max_execution_time') === $was[1] && \gc_enabled() === $was[2]
            && \ini_get('intl.default_locale') === $was[3] && \ini_get('bcmath.scale') === $was[4]
            && \ini_get('assert.active') === $was[5] && \ini_get('assert.callback') === $was[6];
        foreach ($same ? self::$own : self::$watched as $name => $value) {
            if (\ini_get($name) !== $value) {
                self::put($name, $value);
            }
        }
        if (self::$touched !== []) {
            $touched = self::$touched;
            self::$touched = [];
            foreach ($touched as $name => $value) {
                $value = self::$watched[$name] ?? $value;
                if (\ini_get($name) !== $value) {
                    self::put($name, $value);
                }
            }
        }
        if (self::$all !== []) {
            foreach (array_diff_assoc(self::$all, self::all()) as $name => $value) {
                self::put($name, $value);
            }
        }
    }

    /** @return list<mixed> the values of OTHERS, as `reset` compares them */
    private static function others(): array
    {
        return [
            \error_reporting(), \ini_get('max_execution_time'), \gc_enabled(), \ini_get('intl.default_locale'), \ini_get('bcmath.scale'),
            \ini_get('assert.active'), \ini_get('assert.callback'),
        ];
    }

    private static function put(string $name, string $value): void
    {
        if (isset(self::USUAL[$name])) {
            self::alter($name, $value);
            return;
        }
        $session = str_starts_with($name, 'session.'); // Symfony sets them with each session
        if (!$session) {
            Reset::say("setting $name");
        }
        Log::quietly(static function () use ($name, $value): void {
            @self::alter($name, $value);
        });
        if (!$session && \ini_get($name) !== $value) {
            Reset::giveUp("setting $name"); // open_basedir
        }
    }

    private static function alter(string $name, string $value): void
    {
        if (ini_alter($name, $value) === false) {
            ini_restore($name); // intl takes no empty locale, which is what it begins with
        }
    }

    /** @return array<string, string> */
    private static function all(): array
    {
        return array_map(strval(...), ini_get_all(null, false) ?: []);
    }
}
