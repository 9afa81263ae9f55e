<?php

declare(strict_types=1);

namespace Keepwarm;

use Keepwarm\Handlers\CallableHandler;

/** The loop of a worker: a read, the application, a write. */
final class Worker
{
    /** Errors after which PHP ends the script. */
    private const FATAL = \E_ERROR | \E_PARSE | \E_CORE_ERROR | \E_COMPILE_ERROR | \E_USER_ERROR | \E_RECOVERABLE_ERROR;
    private const SHUTDOWN_MEMORY = 16 << 20; // bytes that an application which ran out of memory gets for its end

    private const COMPLETIONS = 3; // tries to end a request, each of which the application may leave by exit()

    private readonly Answer $answer;
    private readonly Reply $reply;
    private readonly Reset $reset;
    private readonly ?Watch $watch;
    /** A request is in work. */
    private bool $busy = false;
    private bool $delivered = false;
    /** The script ended by an error. */
    private bool $fatal = false;
    /** Destroyed at the very end. */
    private ?object $last = null;
    /** Room for what has to be done when there is no memory left. */
    private ?string $reserve;

    /** @param array<string, mixed> $base what is in $_SERVER for every request */
    public function __construct(
        private readonly Connection $connection,
        private readonly Handler $handler,
        private readonly array $base,
    ) {
        $this->answer = new Answer($connection);
        $this->reply = new Reply($this->answer);
        $this->reset = new Reset();
        $this->watch = \in_array(getenv('KEEPWARM_WATCH'), ['', '0', false], true) ? null : new Watch($handler instanceof CallableHandler ? $handler->call : null);
        $this->reserve = str_repeat('.', 65_536);
        Web::$connection = $connection;
    }

    /** @param array{type: int, ...}|null $error as `error_get_last` gives it */
    public static function isFatal(?array $error): bool
    {
        return $error !== null && ($error['type'] & self::FATAL) !== 0;
    }

    /** The application is loaded; what it has set up is what each request begins with. */
    public function settle(): void
    {
        Output::end();
        $this->clearGlobals();
        $this->reset->settle();
        Shutdown::settle();
        $this->watch?->settle();
    }

    /** Takes requests until Keepwarm says DRAIN or goes away; gives the exit status. */
    public function serveForever(): int
    {
        $connection = $this->connection;
        try {
            while (!$connection->lost && !$connection->leaving) {
                if ($connection->unfit) {
                    $this->refuse();
                    break;
                }
                $connection->idle = true;
                if ($connection->drainAsked) {
                    $connection->settleDrain();
                }
                if ($connection->waiting !== []) {
                    $connection->idle = false;
                    $this->frame(...array_shift($connection->waiting));
                    continue;
                }
                if ($connection->buffer !== '') {
                    $frame = $connection->nextFrame();
                    $connection->idle = false;
                    $this->frame(...$frame);
                    continue;
                }
                $data = $connection->read();
                $connection->idle = false;
                if ($data === '') {
                    return 0;
                }
                $used = $this->fast($data);
                if ($used < \strlen($data)) {
                    $connection->buffer .= $used === 0 ? $data : substr($data, $used);
                }
            }
        } catch (Lost) {
        } catch (Fault $fault) {
            $connection->fail($fault);
        }
        return $connection->faulty ? 1 : 0;
    }

    /**
     * The script ends while a request may be in work: `exit()`, or a fatal error. The application's own shutdown functions may still have
     * something to say; `deliver` comes behind them.
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
            Output::open(); // PHP takes every buffer away when memory runs out: what is still printed goes where the rest went
        }
        $this->fatal = $fatal;
        // A shutdown function that calls exit() is the last to be called. Objects are destroyed behind it all the same.
        $this->last = new class ($this) {
            public function __construct(private readonly Worker $worker)
            {
            }

            public function __destruct()
            {
                $this->worker->deliver();
            }
        };
    }

    /** Whether this worker can go on behind an `exit()` of the request in work. */
    public function outlives(): bool
    {
        return $this->busy && Web::$request !== null && !$this->connection->lost && !self::isFatal(error_get_last())
            && $this->handler->outlivesExit() && ExitGuard::fits();
    }

    /**
     * Goes on behind `exit()`, in a function that PHP calls at the end of a script. Gives the exit status, or null for a process that is to end with
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
            $ended = !$this->busy && ExitGuard::run(function () use (&$status): void {
                $status = $this->serveForever();
            });
        } while (!$ended && $this->isInterrupted());
        if (!$ended && !$this->connection->isForked()) {
            $this->died(); // when memory runs out in a fiber that is thrown away, PHP goes on behind it
            $this->connection->refuseWaiting();
        }
        return $status;
    }

    /** `exit()` left a request; not one that the application forked a child for, in that child. */
    private function isInterrupted(): bool
    {
        return $this->busy && Web::$request !== null && !$this->connection->isForked() && !self::isFatal(error_get_last());
    }

    /** Ends the request in work, which `exit()` left. What is done here may call it again. */
    private function complete(): void
    {
        $request = Web::$request;
        Output::interrupted();
        Input::interrupted();
        $this->connection->takeRest();
        try {
            if (!$this->answer->over) {
                $this->reply->finishPrinted();
            }
        } catch (\Throwable $error) {
            Log::exception($error);
            $this->answer->abort(Wire::APP_ERROR, 'what the application left could not be sent');
        }
        try {
            $this->handler->failed(); // its `finally` blocks were not run
            $this->handler->terminate();
        } catch (\Throwable $error) {
            Log::exception($error);
            $this->connection->askToDrain();
        }
        try {
            $this->finish($request);
        } catch (Lost) {
        } catch (Fault $fault) {
            $this->connection->fail($fault);
        }
    }

    /** `exit()` wherever a request is completed: the worker goes, as it would at the end of a script. */
    private function giveUp(): never
    {
        Log::write('keepwarm: what ends a request calls exit() each time; the worker is replaced.');
        $this->answer->abort(Wire::APP_ERROR, 'exit() in what ends a request');
        Temporary::unlink(array_keys(Web::$uploads));
        $this->connection->refuseWaiting();
        $this->leave();
    }

    /** A fatal error behind `exit()`: PHP calls its functions for the end of a script no second time, and only what ends its buffers. */
    private function died(): void
    {
        if ($this->delivered || !$this->busy || $this->connection->isForked() || !self::isFatal(error_get_last())) {
            return;
        }
        $printed = Output::taken();
        $this->delivered = true;
        $this->makeRoom();
        Log::write('keepwarm: a fatal error ended this worker in ' . self::what() . '; it is replaced.');
        if ($printed === '' || $this->answer->begun) {
            $this->answer->abort(Wire::APP_ERROR, 'a fatal error in the application');
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

    /** Serves the whole REQUESTs at the front of a read, which nearly all reads are; gives how many bytes were used. */
    private function fast(string $data): int
    {
        $connection = $this->connection;
        $size = \strlen($data);
        $start = 0;
        while ($size - $start > 24) {
            $head = unpack('Nl/Ck/Cf/Ns/Jb/nc/Nt', $data, $start);
            $length = $head['l'];
            $flags = $head['f'];
            $end = $start + 10 + $length;
            $textEnd = $start + 24 + $head['t'];
            if ($head['k'] !== Wire::REQUEST || $end > $size || $length > Wire::MAX_PAYLOAD || $end < $textEnd || $end - $textEnd > Wire::MAX_CHUNK
                || $flags > 0x3F || ($flags & 0x11) === Wire::WEBSOCKET || $head['s'] === 0) {
                break; // the other way finds the words for it
            }
            $strings = explode("\0", substr($data, $start + 24, $head['t']));
            if (\count($strings) !== $head['c']) {
                break;
            }
            Wire::checkRequest($head['c']);
            $connection->rest = $end === $size ? null : substr($data, $end); // whoever reads on within this request finds it first
            $this->serve($flags, $head['s'], $head['b'], $strings, $end === $textEnd ? '' : substr($data, $textEnd, $end - $textEnd));
            if ($connection->rest === null || $connection->lost) {
                return $size;
            }
            if ($connection->unfit) {
                $connection->takeRest();
                return $size;
            }
            $connection->rest = null;
            $start = $end;
        }
        return $start;
    }

    /** Does what any frame says. */
    private function frame(int $kind, int $flags, int $stream, string $payload): void
    {
        if ($kind === Wire::REQUEST) {
            [$length, $strings, $body] = Wire::requestParts($payload);
            $this->serve($flags, $stream, $length, $strings, $body);
        } else {
            $this->connection->handle($kind, $flags, $stream, $payload);
        }
    }

    /** @param list<string> $strings */
    private function serve(int $flags, int $stream, int $length, array $strings, string $first): void
    {
        $connection = $this->connection;
        $connection->beginStream($stream);
        $this->busy = true;
        $this->answer->begin($stream, $strings[0] === 'HEAD', ($flags & Wire::EARLY_HINTS) !== 0);
        $ended = ($flags & Wire::END) !== 0;
        $request = new Request($strings, $flags, $length, $ended ? $first : null, $this->base);
        if (!$ended) {
            $connection->expectBody();
            $request->body = new Body($connection, $stream, $first, ($flags & Wire::EXPECT) !== 0);
        }
        Web::begin();
        Web::$answer = $this->answer;
        Web::$request = $request;
        Web::$body = $request->body;
        Output::begin();
        $failed = null;
        try {
            if ($request->method === 'POST' && isset($request->server['CONTENT_TYPE'])) {
                Forms::read($request);
            }
            if (DefaultFilter::$filter !== null) {
                DefaultFilter::apply($request);
            }
            $_SERVER = $request->server;
            $_GET = $request->get;
            $_POST = $request->post;
            $_COOKIE = $request->cookies;
            $_FILES = $request->files;
            $_REQUEST = $request->merged();
            Session::begin();
            Web::$finish = fn () => $this->reply->finishPrinted(last: false);
            try {
                $this->handler->handle($request, $this->reply);
            } catch (ContinueFirst) {
                $this->again($request);
            }
            if (!$this->answer->over) {
                $this->answer->finish();
            }
        } catch (\Throwable $error) {
            $failed = $error;
        }
        if ($connection->lost && $connection->isForked()) {
            exit(0); // a child that the application forked: the request is not its own
        }
        if ($failed !== null) {
            $this->failed($failed);
        }
        try {
            $this->handler->terminate();
        } catch (\Throwable $error) {
            Log::exception($error);
        }
        $this->finish($request);
    }

    private function finish(Request $request): void
    {
        try {
            $this->finished($request);
        } catch (Lost | Fault $error) {
            throw $error;
        } catch (\Throwable $error) {
            // A session handler that throws, or an error handler that makes an exception of our warning: what it kept from being put back is not known.
            Log::exception($error);
            $this->busy = false;
            $this->connection->endStream();
            $this->connection->askToDrain();
        }
    }

    /** The application answered 100 (the convention of Unicorn): the client gets it, and the application is called without the expectation. */
    private function again(Request $request): void
    {
        $request->body?->sendContinue();
        unset($request->server['HTTP_EXPECT']);
        Output::discard();
        if (isset($_SESSION)) {
            Session::end();
        }
        Web::$status = false;
        Web::$headers = [];
        Web::$callback = null;
        $_SERVER = $request->server;
        Session::begin();
        $this->handler->handle($request, $this->reply);
    }

    /** The answer has left; what the request leaves behind is removed. */
    private function finished(Request $request): void
    {
        if (Shutdown::isPending()) {
            Shutdown::request();
        }
        Output::end();
        if (isset($_SESSION)) {
            Session::end();
        }
        $this->watch?->look($request);
        Session::end();
        if (Web::$uploads !== []) {
            Temporary::unlink(array_keys(Web::$uploads));
            Web::$uploads = [];
        }
        Web::$answer = Web::$request = Web::$body = Web::$finish = Web::$callback = null;
        Web::$headers = [];
        if (Input::$filled > 0) {
            Input::forget();
        }
        $this->connection->endStream();
        $this->busy = false;
        $this->clearGlobals();
        unset($request);
        $this->reset->after();
        $this->watch?->grew();
    }

    private function clearGlobals(): void
    {
        $_GET = $_POST = $_COOKIE = $_FILES = $_REQUEST = [];
        $_SERVER = $this->base;
    }

    /** The application threw. */
    private function failed(\Throwable $error): void
    {
        Output::discard();
        if ($error instanceof ClientDisconnected && $this->connection->gone) {
            $this->answer->abort(Wire::CANCELLED, '');
            return;
        }
        Log::exception($error);
        $this->answer->abort(Wire::APP_ERROR, get_debug_type($error) . ' in the application');
        try {
            $this->handler->failed();
        } catch (\Throwable $second) {
            Log::exception($second);
            $this->connection->askToDrain();
        }
    }

    /** Sends what there is of an answer whose request ended the process. */
    public function deliver(): void
    {
        $fatal = $this->fatal;
        $connection = $this->connection;
        if ($this->delivered || $connection->isForked()) {
            return;
        }
        $this->delivered = true;
        $request = Web::$request;
        if ($this->busy && $request !== null) {
            $what = self::what();
            Log::write($fatal
                ? "keepwarm: a fatal error ended this worker in $what; it is replaced."
                : "keepwarm: the application called exit() in $what; what it had produced is delivered, and the worker is replaced.");
            if (!$fatal) {
                // Before the answer's end: behind it the next request may come with the beginning of a long body, which could go to no other worker then.
                $connection->settleDrain();
            }
            try {
                $this->deliverAnswer($fatal);
            } catch (\Throwable $error) {
                Log::exception($error);
                $this->answer->abort(Wire::APP_ERROR, 'what the application left could not be sent');
            }
            if (\extension_loaded('session')) {
                Session::end();
            }
            Temporary::unlink(array_keys(Web::$uploads));
        } elseif ($this->busy) {
            $this->answer->abort(Wire::APP_ERROR, 'an error before the application was called');
        }
        $connection->refuseWaiting();
        Output::end();
        Log::quietly(Temporary::end(...));
        if (!$fatal && $this->busy) {
            $this->leave();
        }
    }

    /** Asks for a replacement, and goes when Keepwarm says so: `exit()` is no failure of the worker. */
    private function leave(): never
    {
        $this->connection->endStream();
        try {
            $this->refuse();
        } catch (Lost | Fault) {
        }
        exit(0);
    }

    /** Takes no request any more, also none that is on its way, until Keepwarm says that none is. */
    private function refuse(): void
    {
        $connection = $this->connection;
        $connection->settleDrain();
        $connection->refuseWaiting();
        while (!$connection->leaving && !$connection->lost) {
            $frame = $connection->nextFrame();
            if ($frame[0] === Wire::REQUEST) {
                $connection->send(Wire::reset($frame[2], Wire::REFUSED, 'the process ends'));
            } elseif ($frame[0] !== Wire::RESET) {
                $connection->handle(...$frame);
            }
        }
    }

    private function deliverAnswer(bool $fatal): void
    {
        if ($this->answer->over) {
            return;
        }
        if ($fatal && $this->answer->begun) {
            Output::discard();
            $this->answer->abort(Wire::APP_ERROR, 'a fatal error in the application');
            return;
        }
        if ($fatal) {
            $printed = Output::held();
            if ($printed === '') {
                $this->answer->abort(Wire::APP_ERROR, 'a fatal error in the application');
                return;
            }
            $status = Web::$status === false ? 500 : Web::$status;
            $this->reply->finishPrinted($printed, $status);
            return;
        }
        $this->reply->finishPrinted();
    }
}
