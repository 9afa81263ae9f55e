<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * Puts back what a request changed in the process and PHP would put back at the end of a script.
 *
 * `settle` when the application is loaded: what holds then is normal. `after` each request, when its answer has left.
 */
final class Reset
{
    private const ROOTS = 2_000; // possible garbage, of the 10,001 at which PHP would collect within a request
    private const LOOK_EVERY = 8; // requests

    private string $directory = '';
    private string $zone = '';
    private string $locale = '';
    private int $umask = 0;
    /** @var array<string, string> settings of php.ini => value */
    private array $settings = [];
    private mixed $errorHandler = null;
    private mixed $exceptionHandler = null;
    private bool $mb = false;
    private string $mbEncoding = '';
    private string|int $mbSubstitute = '';
    private string $mbLanguage = '';
    private string $mbOutput = '';
    private string $mbRegex = '';
    /** @var list<string> */
    private array $mbOrder = [];
    private bool $libxml = false;
    private bool $libxmlErrors = false;
    /** @var array<string, mixed> */
    private array $env = [];
    private int $ignoreAbort = 0;
    private int $requests = 0;

    public function settle(): void
    {
        $this->directory = (string) getcwd();
        $this->zone = date_default_timezone_get();
        $this->locale = (string) setlocale(\LC_ALL, '0');
        $this->umask = umask();
        foreach (['max_execution_time', 'memory_limit', 'default_charset', 'default_mimetype', 'precision', 'serialize_precision', 'error_reporting', 'intl.default_locale'] as $name) {
            $value = \ini_get($name); // false where the extension is not here
            if ($value !== false) {
                $this->settings[$name] = $value;
            }
        }
        Session::settle();
        $this->errorHandler = self::current('set_error_handler', 'restore_error_handler');
        $this->exceptionHandler = self::current('set_exception_handler', 'restore_exception_handler');
        if ($this->mb = \extension_loaded('mbstring')) {
            $this->mbEncoding = (string) mb_internal_encoding();
            $this->mbSubstitute = mb_substitute_character();
            $this->mbLanguage = (string) mb_language();
            $this->mbOutput = (string) mb_http_output();
            $this->mbOrder = mb_detect_order();
            $this->mbRegex = \function_exists('mb_regex_encoding') ? (string) mb_regex_encoding() : '';
        }
        if ($this->libxml = \extension_loaded('libxml')) {
            $this->libxmlErrors = libxml_use_internal_errors();
        }
        $this->env = $_ENV;
        $this->ignoreAbort = ignore_user_abort();
        error_clear_last();
        gc_collect_cycles();
    }

    public function after(): void
    {
        if (getcwd() !== $this->directory) {
            $this->say('working directory');
            chdir($this->directory);
        }
        if (umask() !== $this->umask) {
            $this->say('umask');
            umask($this->umask);
        }
        if (date_default_timezone_get() !== $this->zone) {
            $this->say('time zone');
            date_default_timezone_set($this->zone);
        }
        if (setlocale(\LC_ALL, '0') !== $this->locale) {
            $this->say('locale');
            self::setLocale($this->locale);
        }
        foreach ($this->settings as $name => $value) {
            if (\ini_get($name) !== $value) {
                if (ini_alter($name, $value) === false) {
                    ini_restore($name); // intl takes no empty locale, which is what it begins with
                }
                if ($name !== 'max_execution_time' && $name !== 'intl.default_locale') { // Symfony sets the latter in every request
                    $this->say("setting $name");
                }
            }
        }
        Session::reset();
        $this->handlers();
        if ($this->mb) {
            $this->multibyte();
        }
        if ($this->libxml) {
            if (libxml_use_internal_errors() !== $this->libxmlErrors) {
                libxml_use_internal_errors($this->libxmlErrors);
            }
            libxml_clear_errors();
        }
        if (ignore_user_abort() !== $this->ignoreAbort) {
            ignore_user_abort((bool) $this->ignoreAbort);
        }
        if ($_ENV !== $this->env) {
            $_ENV = $this->env;
        }
        error_clear_last();
        if (++$this->requests % self::LOOK_EVERY === 0 && gc_status()['roots'] > self::ROOTS) {
            gc_collect_cycles();
        }
    }

    private function handlers(): void
    {
        foreach ([['set_error_handler', 'restore_error_handler', $this->errorHandler, 'error handler'],
            ['set_exception_handler', 'restore_exception_handler', $this->exceptionHandler, 'exception handler']] as [$set, $restore, $normal, $what]) {
            if (self::current($set, $restore) === $normal) {
                continue;
            }
            $this->say($what);
            for ($count = 0; $count < 100 && ($now = self::current($set, $restore)) !== $normal && $now !== null; $count++) {
                $restore();
            }
            if (self::current($set, $restore) !== $normal) {
                $set($normal);
            }
        }
    }

    private function multibyte(): void
    {
        if (mb_internal_encoding() !== $this->mbEncoding) {
            $this->say('mbstring encoding');
            mb_internal_encoding($this->mbEncoding);
        }
        if (mb_substitute_character() !== $this->mbSubstitute) {
            mb_substitute_character($this->mbSubstitute);
        }
        if (mb_language() !== $this->mbLanguage) {
            mb_language($this->mbLanguage);
        }
        if (mb_http_output() !== $this->mbOutput) {
            mb_http_output($this->mbOutput);
        }
        if (mb_detect_order() !== $this->mbOrder) {
            mb_detect_order($this->mbOrder);
        }
        if ($this->mbRegex !== '' && mb_regex_encoding() !== $this->mbRegex) {
            mb_regex_encoding($this->mbRegex);
        }
    }

    private static function current(string $set, string $restore): mixed
    {
        $current = $set(null);
        $restore();
        return $current;
    }

    /** Sets what `setlocale(LC_ALL, '0')` gave, which may be a list of categories. */
    private static function setLocale(string $locale): void
    {
        if (@setlocale(\LC_ALL, $locale) !== false) {
            return;
        }
        setlocale(\LC_ALL, 'C');
        foreach (explode(';', $locale) as $part) {
            [$category, $value] = explode('=', $part, 2);
            if (\defined($category)) {
                setlocale(\constant($category), $value);
            }
        }
    }

    private function say(string $what): void
    {
        Log::once("leak $what", "keepwarm: a request changed the $what of its process; it is put back after each request");
    }
}
