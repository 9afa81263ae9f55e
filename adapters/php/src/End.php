<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * How the script ends during a request: by `exit()`, after which the worker keeps running, or by a fatal error, which ends it. Either way what the
 * application has produced is delivered.
 */
final class End
{
    /** Errors after which PHP ends the script. */
    private const FATAL = \E_ERROR | \E_PARSE | \E_CORE_ERROR | \E_COMPILE_ERROR | \E_USER_ERROR | \E_RECOVERABLE_ERROR;
    private const SHUTDOWN_MEMORY = 16 << 20; // bytes that an application which ran out of memory gets for its end

    private const COMPLETIONS = 3; // tries to end a request, each of which the application may leave by exit()

    private bool $delivered = false;
    /** The script ended by an error. */
    private bool $fatal = false;
    /** Destroyed at the very end. */
    private ?object $last = null;
    /** Room for what has to be done when there is no memory left. */
    private ?string $reserve;

    public function __construct(
        private readonly Worker $worker,
        private readonly Connection $connection,
        private readonly Handler $handler,
        private readonly Response $response,
        private readonly Reply $reply,
    ) {
        $this->reserve = str_repeat('.', 65_536);
    }

    /** @param array{type: int, ...}|null $error as `error_get_last` gives it */
    public static function isFatal(?array $error): bool
    {
        return $error !== null && ($error['type'] & self::FATAL) !== 0;
    }

    /**
     * The script ends while a request may be in work: `exit()`, or a fatal error. The application's own shutdown functions may still have
     * something to say; `deliver` comes after them.
     */
    public function ended(): void
    {
        $error = error_get_last();
        $fatal = self::isFatal($error);
        if ($fatal) {
            $this->makeRoom();
            if (str_contains($error['message'], 'in output buffering display handlers')) {
                $this->died(); // there is no buffer any more, and none can be begun
                return;
            }
            Output::open(); // PHP removes every buffer when memory runs out: later output goes where the rest went
        }
        $this->fatal = $fatal;
        // A shutdown function that calls exit() is the last to be called. Objects are still destroyed after it.
        $this->last = new class ($this) {
            public function __construct(private readonly End $end)
            {
            }

            public function __destruct()
            {
                $this->end->deliver();
            }
        };
    }

    /** Whether this worker can keep running after an `exit()` of the current request. */
    public function outlives(): bool
    {
        return $this->worker->busy && Web::$request !== null && !$this->connection->lost && !self::isFatal(error_get_last())
            && $this->handler->outlivesExit() && ExitGuard::fits();
    }

    /**
     * Continues after `exit()`, in a function that PHP calls at the end of a script. Gives the exit status, or null for a process that should end with
     * the application's own.
     */
    public function serveOn(): ?int
    {
        Output::$atEnd = $this->died(...);
        LastStream::install($this->died(...));
        $status = null;
        do {
            for ($tries = 0; $this->isInterrupted(); $tries++) {
                if ($tries === self::COMPLETIONS) {
                    $this->giveUp();
                }
                ExitGuard::run($this->complete(...));
            }
            $ended = !$this->worker->busy && ExitGuard::run(function () use (&$status): void {
                $status = $this->worker->serveForever();
            });
        } while (!$ended && $this->isInterrupted());
        if (!$ended && !$this->connection->isForked()) {
            $this->died(); // when memory runs out in a fiber that is discarded, PHP continues after it
            $this->connection->refuseWaiting();
        }
        return $status;
    }

    /** `exit()` left a request; not one that the application forked a child for, in that child. */
    private function isInterrupted(): bool
    {
        return $this->worker->busy && Web::$request !== null && !$this->connection->isForked() && !self::isFatal(error_get_last());
    }

    /** Ends the current request, which `exit()` left. The code called here may call `exit()` again. */
    private function complete(): void
    {
        Output::interrupted();
        Input::interrupted();
        $this->connection->takeRest();
        try {
            if (!$this->response->over) {
                $this->reply->finishPrinted();
            }
        } catch (\Throwable $error) {
            Log::exception($error);
            $this->response->abort(Wire::APP_ERROR, "the application's remaining output could not be sent");
        }
        try {
            $this->handler->failed(); // its `finally` blocks were not run
            if ($this->handler instanceof TerminableHandler) {
                $this->handler->terminate();
            }
        } catch (\Throwable $error) {
            Log::exception($error);
            $this->connection->askToDrain();
        }
        try {
            $this->worker->finish();
        } catch (Lost) {
        } catch (Fault $fault) {
            $this->connection->fail($fault);
        }
    }

    /** `exit()` wherever a request is completed: the worker goes, as it would at the end of a script. */
    private function giveUp(): never
    {
        Log::write('keepwarm: code that runs at the end of a request calls exit() each time; the worker is replaced');
        $this->response->abort(Wire::APP_ERROR, 'exit() in code that runs at the end of a request');
        Temporary::unlink(array_keys(Web::$uploads));
        $this->connection->refuseWaiting();
        $this->leave();
    }

    /** A fatal error after `exit()`: PHP does not call shutdown functions a second time, and only ends its buffers. */
    private function died(): void
    {
        if ($this->delivered || !$this->worker->busy || $this->connection->isForked() || !self::isFatal(error_get_last())) {
            return;
        }
        $printed = Output::taken();
        $this->delivered = true;
        $this->makeRoom();
        Log::write('keepwarm: a fatal error ended this worker in ' . self::what() . '; it is replaced');
        if ($printed === '' || $this->response->begun) {
            $this->response->abort(Wire::APP_ERROR, 'a fatal error in the application');
        } else {
            $this->reply->page($printed, Web::$status === false ? 500 : Web::$status);
        }
        Temporary::unlink(array_keys(Web::$uploads));
        $this->connection->refuseWaiting();
        Log::quietly(Temporary::end(...));
    }

    private static function what(): string
    {
        return Web::$request === null ? 'no request' : Web::$request->method . ' ' . Web::$request->rawPath;
    }

    /** Gives the end of an application memory that it may have run out of. */
    private function makeRoom(): void
    {
        $this->reserve = null;
        $limit = Forms::bytes((string) \ini_get('memory_limit'));
        if ($limit > 0) {
            ini_alter('memory_limit', (string) max($limit, memory_get_usage(true) + self::SHUTDOWN_MEMORY));
        }
    }

    /** Sends what there is of a response whose request ended the process. */
    public function deliver(): void
    {
        $fatal = $this->fatal;
        $connection = $this->connection;
        if ($this->delivered || $connection->isForked()) {
            return;
        }
        $this->delivered = true;
        $request = Web::$request;
        if ($this->worker->busy && $request !== null) {
            $what = self::what();
            Log::write($fatal
                ? "keepwarm: a fatal error ended this worker in $what; it is replaced"
                : "keepwarm: the application called exit() in $what; its output until then is delivered, and the worker is replaced");
            if (!$fatal) {
                // Before the response's end: after it the next request may arrive with the beginning of a long body, which could then go to no other worker.
                $connection->settleDrain();
            }
            try {
                $this->deliverResponse($fatal);
            } catch (\Throwable $error) {
                Log::exception($error);
                $this->response->abort(Wire::APP_ERROR, "the application's remaining output could not be sent");
            }
            if (\extension_loaded('session')) {
                Session::end();
            }
            Temporary::unlink(array_keys(Web::$uploads));
        } elseif ($this->worker->busy) {
            $this->response->abort(Wire::APP_ERROR, 'an error before the application was called');
        }
        $connection->refuseWaiting();
        Output::end();
        Log::quietly(Temporary::end(...));
        if (!$fatal && $this->worker->busy) {
            $this->leave();
        }
    }

    /** Requests a replacement, and exits when Keepwarm says so: `exit()` does not count as a failure of the worker. */
    private function leave(): never
    {
        $this->connection->endStream();
        try {
            $this->worker->refuse();
        } catch (Lost | Fault) {
        }
        exit(0);
    }

    private function deliverResponse(bool $fatal): void
    {
        if ($this->response->over) {
            return;
        }
        if ($fatal && $this->response->begun) {
            Output::discard();
            $this->response->abort(Wire::APP_ERROR, 'a fatal error in the application');
            return;
        }
        if ($fatal) {
            $printed = Output::held();
            if ($printed === '') {
                $this->response->abort(Wire::APP_ERROR, 'a fatal error in the application');
                return;
            }
            $status = Web::$status === false ? 500 : Web::$status;
            $this->reply->finishPrinted($printed, $status);
            return;
        }
        $this->reply->finishPrinted();
    }
}
