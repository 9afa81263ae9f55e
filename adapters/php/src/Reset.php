<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * Resets what a request changed in the process and PHP would reset at the end of a script (docs/guide/php-reset.md has the whole list).
 *
 * `settle` when the application is loaded: that state is the baseline. `after` each request, when its response has been sent.
 */
final class Reset
{
    private const ROOTS = 2_000; // possible garbage, of the 10,001 at which PHP would collect within a request
    private const LOOK_EVERY = 8; // requests

    private string $directory = '';
    private string $zone = '';
    private string $locale = '';
    private int $umask = 0;
    private ?Multibyte $multibyte = null;
    private ?Extensions $remembered = null;
    private bool $libxml = false;
    private int $ignoreAbort = 0;
    private string $extensions = '';
    private bool $peak = false;
    private int $requests = 0;

    public function settle(): void
    {
        $this->directory = (string) \getcwd();
        $this->zone = \date_default_timezone_get();
        $this->locale = (string) \setlocale(\LC_ALL, '0');
        $this->umask = \umask();
        Settings::settle();
        Session::settle();
        ErrorHandlers::settle();
        Environment::settle();
        if ($this->libxml = \extension_loaded('libxml')) {
            Xml::settle();
        }
        Streams::settle();
        Generator::seed();
        $this->multibyte = \extension_loaded('mbstring') ? new Multibyte() : null;
        $this->remembered = new Extensions();
        $this->ignoreAbort = \ignore_user_abort();
        $this->extensions = \spl_autoload_extensions();
        $this->peak = \function_exists('memory_reset_peak_usage');
        \error_clear_last();
        gc_collect_cycles();
    }

    public function after(): void
    {
        if (\getcwd() !== $this->directory || \umask() !== $this->umask || \date_default_timezone_get() !== $this->zone
            || \setlocale(\LC_ALL, '0') !== $this->locale) {
            $this->process();
        }
        Settings::reset();
        Session::reset();
        ErrorHandlers::reset();
        Environment::reset();
        Streams::reset();
        Generator::reset();
        $this->multibyte?->reset();
        $this->remembered?->reset();
        if ($this->libxml) {
            Xml::reset();
        }
        if (\ignore_user_abort() !== $this->ignoreAbort) {
            \ignore_user_abort((bool) $this->ignoreAbort);
        }
        if (\spl_autoload_extensions() !== $this->extensions) {
            \spl_autoload_extensions($this->extensions);
        }
        \strtok('', ' ');
        \clearstatcache();
        \ob_implicit_flush(false);
        if ($this->peak) {
            \memory_reset_peak_usage();
        }
        \error_clear_last();
        if (++$this->requests % self::LOOK_EVERY === 0 && gc_status()['roots'] > self::ROOTS) {
            gc_collect_cycles();
        }
    }

    /** Says once what requests change. */
    public static function say(string $what): void
    {
        Log::once("leak $what", "keepwarm: a request changed the $what of its process; it is restored after each request");
    }

    /** Requests a replacement of the worker, for state that cannot be reset. */
    public static function giveUp(string $what): void
    {
        Log::once("stays $what", "keepwarm: a request changed the $what of its process, which cannot be restored; the worker is replaced after each such request");
        Web::$connection?->becomeUnfit();
    }

    private function process(): void
    {
        if (\getcwd() !== $this->directory) {
            self::say('working directory');
            chdir($this->directory);
        }
        if (\umask() !== $this->umask) {
            self::say('umask');
            \umask($this->umask);
        }
        if (\date_default_timezone_get() !== $this->zone) {
            self::say('time zone');
            date_default_timezone_set($this->zone);
        }
        if (\setlocale(\LC_ALL, '0') !== $this->locale) {
            self::say('locale');
            self::setLocale($this->locale);
        }
    }

    /** Sets what `setlocale(LC_ALL, '0')` gave, which may be a list of categories. */
    private static function setLocale(string $locale): void
    {
        if (@\setlocale(\LC_ALL, $locale) !== false) {
            return;
        }
        \setlocale(\LC_ALL, 'C');
        foreach (explode(';', $locale) as $part) {
            [$category, $value] = explode('=', $part, 2);
            if (\defined($category)) {
                \setlocale(\constant($category), $value);
            }
        }
    }
}
