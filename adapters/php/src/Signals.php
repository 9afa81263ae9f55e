<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * When the application's signal handlers run (pcntl): while its own code does, and where a request waits.
 *
 * PHP runs them between two calls, and an exception they throw replaces what the call returned: in our own code, bytes that were read would be lost.
 */
final class Signals
{
    private readonly bool $exist;
    /** Code of the application is beneath: handlers run, unless it holds them back itself. */
    private bool $admitted = true;
    /** They ran when they were held. */
    private bool $async = false;

    public function __construct()
    {
        $this->exist = \function_exists('pcntl_async_signals');
    }

    /** Code of the application follows. */
    public function admit(): void
    {
        $this->admitted = true;
        if ($this->exist) {
            \pcntl_async_signals(true);
        }
    }

    /** Handlers wait for `release`, or for `handle`. False: they were held before, and are for as long. */
    public function hold(): bool
    {
        if (!$this->admitted || !$this->exist) {
            return false;
        }
        $this->admitted = false;
        $this->async = \pcntl_async_signals(false);
        return true;
    }

    /** `$held`: what `hold` gave. If handlers ran before that, those that have waited run now. */
    public function release(bool $held): void
    {
        if (!$held) {
            return;
        }
        $this->admitted = true;
        if ($this->async) {
            \pcntl_async_signals(true);
            \pcntl_signal_dispatch();
        }
    }

    /** Handlers that wait run now. What one throws is for the request in work (`$rescued`); where there is none, it is a record in the log. */
    public function handle(bool $rescued): void
    {
        if ($this->exist) {
            try {
                \pcntl_signal_dispatch();
            } catch (\Throwable $error) {
                if ($rescued) {
                    throw $error;
                }
                Log::exception($error);
            }
        }
    }
}
