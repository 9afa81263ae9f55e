<?php

declare(strict_types=1);

namespace Keepwarm;

/** What functions of extensions remember for the next call: the last error, how errors are reported, what is searched. */
final class Extensions
{
    private readonly bool $intl;
    private readonly bool $search;
    private readonly ?\mysqli_driver $mysqli;
    private readonly int $report;
    /** Assertions can be switched on, so the callback for failed ones matters. */
    private readonly bool $assertions;
    private readonly mixed $asserted;
    private readonly ?bool $soap;

    /** The application is loaded. */
    public function __construct()
    {
        $this->intl = \extension_loaded('intl');
        $this->search = \function_exists('mb_ereg_search_init');
        $this->mysqli = \extension_loaded('mysqli') ? new \mysqli_driver() : null;
        $this->report = $this->mysqli?->report_mode ?? 0;
        $this->assertions = \ini_get('zend.assertions') !== '-1' && \function_exists('assert_options');
        $this->asserted = $this->assertions ? self::assertCallback() : null;
        $this->soap = \function_exists('use_soap_error_handler') ? use_soap_error_handler(true) : null;
        $this->soap();
    }

    public function reset(): void
    {
        if (\preg_last_error() !== \PREG_NO_ERROR) {
            preg_match('//', '');
        }
        if (\json_last_error() !== \JSON_ERROR_NONE) {
            json_encode(0);
        }
        $date = \date_get_last_errors(); // an array without errors before PHP 8.2
        if ($date !== false && $date['warning_count'] + $date['error_count'] > 0) {
            date_create('@0');
        }
        if ($this->intl && \intl_get_error_code() !== 0) {
            normalizer_is_normalized('');
        }
        if ($this->search) {
            \mb_ereg_search_init(''); // forgets the text and its parts
        }
        if ($this->mysqli !== null && $this->mysqli->report_mode !== $this->report) {
            mysqli_report($this->report);
        }
        if ($this->assertions && self::assertCallback() !== $this->asserted) {
            Log::quietly(fn () => assert_options(\ASSERT_CALLBACK, $this->asserted));
        }
        if ($this->soap !== null) {
            $this->soap();
        }
    }

    /** No setting when it is not a string. */
    private static function assertCallback(): mixed
    {
        return \PHP_VERSION_ID < 80300 ? assert_options(\ASSERT_CALLBACK) : Log::quietly(static fn () => @assert_options(\ASSERT_CALLBACK));
    }

    private function soap(): void
    {
        if ($this->soap !== null) {
            use_soap_error_handler($this->soap);
        }
    }
}
