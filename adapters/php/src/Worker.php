<?php

declare(strict_types=1);

namespace Keepwarm;

use Keepwarm\Handlers\CallableHandler;

/** The loop of a worker: a read, the application, a write. */
final class Worker
{
    private readonly Response $response;
    private readonly Reply $reply;
    private readonly Reset $reset;
    private readonly ?Watch $watch;
    private readonly ?TerminableHandler $terminable;
    /** What `fastcgi_finish_request()` does. */
    private readonly \Closure $finishPrinted;
    /** @var array<string, mixed> what a request's $_SERVER begins as */
    private readonly array $template;
    public readonly End $end;
    /** A request is in work. */
    public bool $busy = false;

    /** @param array<string, mixed> $base what is in $_SERVER for every request */
    public function __construct(
        private readonly Connection $connection,
        private readonly Handler $handler,
        private readonly array $base,
    ) {
        $this->response = new Response($connection);
        $this->reply = new Reply($this->response);
        $this->finishPrinted = fn () => $this->reply->finishPrinted(last: false);
        $this->terminable = $handler instanceof TerminableHandler ? $handler : null;
        $this->template = Request::template($base);
        $this->reset = new Reset();
        $this->watch = \in_array(getenv('KEEPWARM_WATCH'), ['', '0', false], true) ? null : new Watch($handler instanceof CallableHandler ? $handler->call : null);
        $this->end = new End($this, $connection, $handler, $this->response, $this->reply);
        Web::$connection = $connection;
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

    /** Serves requests until Keepwarm sends DRAIN or closes the connection; gives the exit status. */
    public function serveForever(): int
    {
        $connection = $this->connection;
        $connection->signals->hold();
        try {
            while (!$connection->lost && !$connection->leaving) {
                if ($connection->growth !== null) {
                    $data = $frame = null; // of the request that is over
                    $this->measure();
                }
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
            $this->measure(); // Keepwarm said DRAIN during a request
        } catch (Lost) {
        } catch (Fault $fault) {
            $connection->fail($fault);
        }
        return $connection->faulty ? 1 : 0;
    }

    /** What has changed with the request that is over, if Keepwarm wants to know (§11). Nothing of the request is left here. */
    private function measure(): void
    {
        $this->response->forget();
        $this->connection->measure($this->handler->application());
    }

    /** Serves the whole REQUESTs at the front of a read, which nearly all reads are; gives how many bytes were used. */
    private function fast(string $data): int
    {
        $connection = $this->connection;
        $size = \strlen($data);
        $start = 0;
        while ($size - $start > 24) {
            $head = \unpack('Nl/nk/Ns/Jb/nc/Nt', $data, $start);
            $length = $head['l'];
            $flags = $head['k'] & 0xFF;
            $end = $start + 10 + $length;
            $textEnd = $start + 24 + $head['t'];
            if ($head['k'] >> 8 !== Wire::REQUEST || $end > $size || $length > Wire::MAX_PAYLOAD || $end < $textEnd || $end - $textEnd > Wire::MAX_CHUNK
                || $flags > 0x7F || ($flags & 0x11) === Wire::WEBSOCKET || $head['s'] === 0) {
                break; // the other way finds the words for it
            }
            $strings = \explode("\0", \substr($data, $start + 24, $head['t']));
            $count = \count($strings);
            if ($count !== $head['c'] || $count < Wire::FIXED_STRINGS + (($flags & Wire::USER) >> 5) || ($count - Wire::FIXED_STRINGS) % 2 !== 0) {
                break;
            }
            $connection->rest = $end === $size ? null : substr($data, $end); // later reads within this request get it first
            $this->serve($flags, $head['s'], $head['b'], $strings, $end === $textEnd ? '' : substr($data, $textEnd, $end - $textEnd));
            if ($connection->rest === null || $connection->lost) {
                return $size;
            }
            if ($connection->unfit) {
                $connection->takeRest();
                return $size;
            }
            if ($connection->growth !== null) {
                $connection->takeRest(); // a request that is measured is so before the next
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
            [$length, $strings, $body] = Wire::requestParts($payload, $flags);
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
        $this->response->begin($stream, $strings[0] === 'HEAD', ($flags & Wire::EARLY_HINTS) !== 0);
        $ended = ($flags & Wire::END) !== 0;
        $request = new Request($strings, $flags, $length, $ended ? $first : null, $this->template);
        if (!$ended) {
            $connection->expectBody();
            $request->body = new Body($connection, $stream, $first, ($flags & Wire::EXPECT) !== 0);
        }
        Web::begin($this->response, $request);
        Output::begin();
        $failed = null;
        try {
            $connection->signals->admit();
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
            $_REQUEST = $request->post === [] && $request->cookies === [] && $request->get === [] ? [] : $request->merged();
            if (Session::$used) {
                Session::begin();
            }
            Web::$finish = $this->finishPrinted;
            try {
                $this->handler->handle($request, $this->reply);
            } catch (ContinueFirst) {
                $this->again($request);
            }
            if (!$this->response->over) {
                $this->response->finish();
            }
            $connection->signals->hold();
        } catch (\Throwable $error) {
            $connection->signals->hold();
            $failed = $error;
        }
        if ($connection->lost && $connection->isForked()) {
            exit(0); // a child that the application forked: the request is not its own
        }
        if ($failed !== null) {
            $this->failed($failed);
        }
        if ($this->terminable !== null) {
            try {
                $connection->signals->admit();
                $this->terminable->terminate();
                $connection->signals->hold();
            } catch (\Throwable $error) {
                $connection->signals->hold();
                Log::exception($error);
            }
        }
        // Objects that the application attached to them are destroyed now: their destructors may change what is reset next.
        try {
            $failed = $error = $request = null;
        } catch (\Throwable $late) {
            Log::exception($late);
            $late = null;
        }
        $this->finish();
    }

    /** A request is over; no more of its response will be sent. */
    public function finish(): void
    {
        try {
            $this->finished();
        } catch (Lost | Fault $error) {
            throw $error;
        } catch (\Throwable $error) {
            $this->connection->signals->hold();
            // A session handler that throws, or an error handler that makes an exception of our warning: it is unknown what was not reset.
            Log::exception($error);
            $this->busy = false;
            $this->connection->endStream();
            $this->connection->askToDrain();
        }
    }

    /** The application returned 100 (the convention of Unicorn): the client gets it, and the application is called without the expectation. */
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
        if (Session::$used) {
            Session::begin();
        }
        $this->handler->handle($request, $this->reply);
    }

    /** The response has been sent; removes the state that the request leaves. */
    private function finished(): void
    {
        if (Shutdown::$request === [] && !isset($_SESSION) && $this->watch === null && Output::close()) {
            Session::end();
        } else {
            $this->connection->signals->admit();
            if (Shutdown::$request !== []) {
                Shutdown::request();
            }
            Output::end();
            if (isset($_SESSION)) {
                Session::end();
            }
            $this->watch?->look(Web::$request);
            Session::end();
            $this->connection->signals->hold();
        }
        if (Web::$uploads !== []) {
            Temporary::unlink(array_keys(Web::$uploads));
            Web::$uploads = [];
        }
        Web::$response = Web::$request = Web::$body = Web::$finish = null;
        if (Web::$headers !== [] || Web::$callback !== null) {
            Web::$headers = [];
            Web::$callback = null;
        }
        if (Input::$filled > 0) {
            Input::forget();
        }
        $this->connection->endStream();
        $this->busy = false;
        $this->clearGlobals();
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
            $this->response->abort(Wire::CANCELLED, '');
            return;
        }
        Log::exception($error);
        $this->response->abort(Wire::APP_ERROR, get_debug_type($error) . ' in the application');
        try {
            $this->handler->failed();
        } catch (\Throwable $second) {
            Log::exception($second);
            $this->connection->askToDrain();
        }
    }

    /** Takes no request any more, also none that is on its way, until Keepwarm says that none is. */
    public function refuse(): void
    {
        $connection = $this->connection;
        $connection->settleDrain();
        $connection->refuseWaiting();
        while (!$connection->leaving && !$connection->lost) {
            $frame = $connection->nextFrame();
            if ($frame[0] === Wire::REQUEST) {
                $connection->send(Wire::reset($frame[2], Wire::REFUSED, 'the process exits'));
            } elseif ($frame[0] !== Wire::RESET) {
                $connection->handle(...$frame);
            }
        }
    }
}
