<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * When the application's signal handlers run (pcntl): while its own code does, and where a request waits.
 *
 * PHP runs them between two calls, and what they throw takes the place of what the call returned: in our own code, bytes that were read would be lost.
 */
final class Signals
{
    private readonly bool $exist;

    public function __construct()
    {
        $this->exist = \function_exists('pcntl_async_signals');
    }

    /** Code of the application follows. */
    public function admit(): void
    {
        if ($this->exist) {
            pcntl_async_signals(true);
        }
    }

    /** Handlers wait for `release`, or for `handle`. Gives whether they ran so far. */
    public function hold(): bool
    {
        return $this->exist && pcntl_async_signals(false);
    }

    /** `$async`: what `hold` gave. If handlers ran then, those that have waited run now. */
    public function release(bool $async): void
    {
        if ($async) {
            pcntl_async_signals(true);
            pcntl_signal_dispatch();
        }
    }

    /** Handlers that wait run now. What one throws is for the request in work (`$rescued`); where there is none, it is a record in the log. */
    public function handle(bool $rescued): void
    {
        if ($this->exist) {
            try {
                pcntl_signal_dispatch();
            } catch (\Throwable $error) {
                if ($rescued) {
                    throw $error;
                }
                Log::exception($error);
            }
        }
    }
}
