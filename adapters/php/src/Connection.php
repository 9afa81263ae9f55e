<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * One worker's end of the wire, for one request at a time, on a blocking stream.
 *
 * The order of calls: `readWelcome`, `sayHello`, then for each request `beginStream`, any of the `send…` and `wait`, and
 * `endStream`. Nothing here throws because Keepwarm has gone: `lost` says so, and what is sent then is dropped.
 */
final class Connection
{
    public const RECEIVE_CREDIT = 262_144; // bytes of a body that may wait in this process; spec/wire.md §3 asks for 65,536
    private const AHEAD = 3; // REQUESTs that may wait here after the current one (spec/wire.md §3)
    private const STEP = self::RECEIVE_CREDIT >> 2; // credit goes back in steps

    /** The request in progress; 0 between requests. */
    public int $stream = 0;
    /** Nobody waits for the response any more. */
    public bool $gone = false;
    /** The wire itself has ended. */
    public bool $lost = false;
    public bool $faulty = false;
    /** Keepwarm said DRAIN. */
    public bool $leaving = false;
    /** Blocked, or about to block, in the read for a next request. */
    public bool $idle = false;
    public bool $drainAsked = false;
    /** A request left state that cannot be reset: this worker must serve no other. */
    public bool $unfit = false;
    /** The beginning of a frame whose end has not come. */
    public string $buffer = '';
    /** @var list<array{int, int, int, string}> frames of REQUESTs that came while another was in work */
    public array $waiting = [];
    /** The bytes after the current REQUEST in the read that delivered it. */
    public ?string $rest = null;
    /** @var list<string> payloads of DATA that the application has not read */
    public array $body = [];
    public bool $bodyEnded = true;

    /** The response has ended: no more of the body comes, and its credit is nobody's (§4). */
    public bool $responded = false;
    public bool $bodyLost = false;
    public readonly Signals $signals;
    /** What has been noted since the first signal of a profile. */
    public ?Profile $profile = null;
    /** What measures requests, between LEAKS and its end (§11). */
    public ?Growth $growth = null;

    private int $lastStream = 0;
    /** The last request at the last GROWTH; null while the response to LEAKS is due. */
    private ?int $measured = null;
    private int $ahead = 0;
    private bool $drainSaid = false;
    private bool $busy = false;
    // What this worker may send.
    private int $firstCredit = 0;
    private int $streamCredit = 0;
    private int $connectionCredit = 0;
    // What Keepwarm may send; left + owed + what is in memory is always RECEIVE_CREDIT.
    private int $streamLeft = self::RECEIVE_CREDIT;
    private int $streamOwed = 0;
    private int $left = self::RECEIVE_CREDIT;
    private int $owed = 0;

    private readonly Transport $transport;

    /** @param resource $socket */
    public function __construct(mixed $socket, private readonly int $pid)
    {
        $this->transport = new Transport($socket);
        $this->signals = new Signals();
    }

    // -- handshake ----------------------------------------------------------------------------------------------------

    /**
     * Waits for WELCOME; gives its names. Throws `Fault` or `Lost`.
     *
     * @return array<string, string>
     */
    public function readWelcome(): array
    {
        [$kind, , , $payload] = $this->nextFrame();
        if ($kind !== Wire::WELCOME) {
            throw new Fault('before_welcome', sprintf('a frame of type 0x%02x before WELCOME', $kind));
        }
        [$least, $most, $this->firstCredit, $this->connectionCredit, $pairs] = Wire::decodeWelcome($payload);
        if ($least > Wire::VERSION || $most < Wire::VERSION) {
            throw new Fault('version', "Keepwarm supports versions $least to $most of the wire protocol, this adapter version " . Wire::VERSION);
        }
        return array_column($pairs, 1, 0);
    }

    /** @param list<string> $about names and values in turn */
    public function sayHello(array $about): void
    {
        $this->ahead = self::AHEAD;
        $this->signals->hold(); // from here on there is no code of the application beneath
        array_push($about, 'ahead', (string) self::AHEAD);
        $this->send(Wire::hello(1, self::RECEIVE_CREDIT, self::RECEIVE_CREDIT, $about));
    }

    // -- requests -----------------------------------------------------------------------------------------------------

    /** A REQUEST has come. Throws `Fault` when its id was used before (§4). */
    public function beginStream(int $stream): void
    {
        if ($stream <= $this->lastStream) {
            throw new Fault('stream_order', "stream $stream after stream {$this->lastStream}");
        }
        $this->stream = $this->lastStream = $stream;
        $this->streamCredit = $this->firstCredit;
        $this->gone = $this->responded = false;
    }

    /** The body of this request did not come whole. */
    public function expectBody(): void
    {
        $this->body = [];
        $this->bodyEnded = $this->bodyLost = false;
        $this->streamLeft = self::RECEIVE_CREDIT;
        $this->streamOwed = 0;
    }

    /** The response that ends next is not the last that is done for its request: until `endStream`, another worker is better for the next (§8). */
    public function staysBusy(): void
    {
        if (!$this->busy && $this->stream !== 0) {
            $this->busy = true;
            $this->send(Wire::frame(Wire::BUSY, 0, 0));
        }
    }

    /** The request is over. What comes for it from now on is read and forgotten. */
    public function endStream(): void
    {
        $this->stream = 0;
        if ($this->busy) {
            $this->busy = false;
            $this->send(Wire::frame(Wire::BUSY, Wire::END, 0));
        }
        $this->bodyEnded = true;
        $this->body = [];
        if ($this->left < self::RECEIVE_CREDIT) {
            // Whatever Keepwarm sent has been read or is dropped here.
            $this->payConnection(self::RECEIVE_CREDIT - $this->left - $this->owed);
        }
        if ($this->profile !== null && $this->profile->pending !== []) {
            $this->send($this->profile->take());
        }
    }

    // -- sending ------------------------------------------------------------------------------------------------------

    /** Sends whole frames. A forked child, to which the wire does not belong, sends nothing. */
    public function send(string $data): void
    {
        if ($this->lost) {
            return;
        }
        if (\getmypid() !== $this->pid) {
            $this->endOfWire();
            return;
        }
        $held = $this->signals->hold();
        if (!$this->transport->write($data)) {
            $this->endOfWire();
        }
        if ($held) {
            $this->signals->release(true);
        }
    }

    /** Whether this process is a child that the application forked. */
    public function isForked(): bool
    {
        return getmypid() !== $this->pid;
    }

    /** Sends `$body` as DATA, under credit; END on the last frame if `$end`. False: nobody waits. */
    public function sendData(string $body, bool $end): bool
    {
        $start = 0;
        $size = \strlen($body);
        while ($start < $size) {
            $this->signals->handle($this->stream !== 0); // nothing is half done here
            $room = min($this->streamCredit, $this->connectionCredit);
            if ($room === 0) {
                $this->wait();
                if ($this->gone) {
                    return false;
                }
                continue;
            }
            $length = min($size - $start, $room, Wire::MAX_CHUNK);
            $part = $length === $size ? $body : substr($body, $start, $length);
            $start += $length;
            $this->streamCredit -= $length;
            $this->connectionCredit -= $length;
            $flags = $end && $start === $size ? Wire::END : 0;
            $this->send(pack('NCCN', $length, Wire::DATA, $flags, $this->stream) . $part);
        }
        return !$this->gone;
    }

    /** Asks Keepwarm for no more requests, once (§8). Safe in a signal handler: never inside another frame. */
    public function askToDrain(): void
    {
        $this->drainAsked = true;
        if ($this->idle) {
            $this->settleDrain();
        }
    }

    /** As `askToDrain`, for a process that is not to serve what is on its way either. */
    public function becomeUnfit(): void
    {
        $this->unfit = true;
        $this->askToDrain();
    }

    /** Sends what `askToDrain` could not, because a request was in progress. */
    public function settleDrain(): void
    {
        if (!$this->drainSaid && !$this->leaving) {
            $this->drainSaid = true;
            $this->send(Wire::frame(Wire::DRAIN, 0, 0));
        }
    }

    // -- receiving ----------------------------------------------------------------------------------------------------

    /** Waits for bytes; '' at the wire's end. For use while signal handlers are held. */
    public function read(): string
    {
        do {
            $this->signals->handle($this->stream !== 0);
            $data = $this->transport->read();
        } while ($data === null);
        return $data;
    }

    /**
     * Waits for a frame, whole. Throws `Lost` at the wire's end.
     *
     * @return array{int, int, int, string}
     */
    public function nextFrame(): array
    {
        $this->takeRest();
        while (($frame = Wire::takeFrame($this->buffer)) === null) {
            $data = $this->read();
            if ($data === '') {
                throw new Lost();
            }
            $this->buffer .= $data;
        }
        return $frame;
    }

    /** Waits for a frame and does what it says; for use within a request. At the wire's end `gone` is set. */
    public function wait(): void
    {
        if ($this->lost || getmypid() !== $this->pid) {
            $this->endOfWire();
            return;
        }
        $held = $this->signals->hold();
        try {
            $this->handle(...$this->nextFrame());
        } catch (Lost) {
            $this->endOfWire();
        } catch (Fault $fault) {
            $this->fail($fault);
        } finally {
            $this->signals->release($held);
        }
    }

    /** Does what has come, without waiting. */
    public function poll(): void
    {
        if ($this->lost || getmypid() !== $this->pid) {
            $this->endOfWire();
            return;
        }
        $held = $this->signals->hold();
        $this->takeRest();
        $data = $this->transport->readWithoutWaiting();
        if ($data === '') {
            $this->endOfWire();
            $this->signals->release($held);
            return;
        }
        $this->buffer .= (string) $data;
        try {
            while (($frame = Wire::takeFrame($this->buffer)) !== null) {
                $this->handle(...$frame);
            }
        } catch (Fault $fault) {
            $this->fail($fault);
        } finally {
            $this->signals->release($held);
        }
    }

    /** Does what a frame says; every type but REQUEST, which belongs between requests. */
    public function handle(int $kind, int $flags, int $stream, string $payload): void
    {
        switch ($kind) {
            case Wire::DATA:
                $this->data($flags, $stream, $payload);
                break;
            case Wire::CREDIT:
                $this->credit($stream, Wire::decodeCredit($payload));
                break;
            case Wire::PING:
                $this->send($this->profile?->end() . Wire::frame(Wire::PONG, 0, 0, $payload));
                break;
            case Wire::RESET:
                Wire::decodeReason($payload);
                if ($this->withdraw($stream)) {
                    $this->send(Wire::reset($stream, Wire::CANCELLED));
                } elseif ($this->isCurrent($stream)) {
                    $this->gone = $this->bodyLost = $this->bodyEnded = true;
                }
                break;
            case Wire::TRAILERS:
                Wire::decodeTrailers($payload); // PHP has no API for them
                if ($this->isCurrent($stream)) {
                    $this->bodyGoesOn();
                    $this->bodyEnded = true;
                }
                break;
            case Wire::DRAIN:
                $this->leaving = true;
                break;
            case Wire::HALF_CLOSE:
                $this->isCurrent($stream); // a fault, if it was never opened; PHP has no word for it
                break;
            case Wire::TEXT:
            case Wire::BINARY:
            case Wire::CLOSE:
                if ($this->isCurrent($stream)) {
                    throw new Fault('not_websocket', 'a message on a stream that is not a WebSocket');
                }
                break;
            case Wire::LEAKS:
                $flags === 0 ? $this->beginGrowth() : $this->endGrowth();
                break;
            case Wire::WELCOME:
                throw new Fault('second_welcome', 'a second WELCOME');
            default:
                if ($kind !== Wire::REQUEST || \count($this->waiting) >= $this->ahead) {
                    throw new Fault('stream_limit', 'a REQUEST during a request');
                }
                if ($this->growth !== null) {
                    throw new Fault('stream_limit', "a REQUEST before the GROWTH of stream {$this->lastStream}");
                }
                $this->waiting[] = [$kind, $flags, $stream, $payload];
        }
    }

    /** Sends what has changed with the request that is over, if one is, or that the first count is done. */
    public function measure(object $application): void
    {
        if ($this->growth === null || $this->measured === $this->lastStream) {
            return;
        }
        $request = $this->measured === null ? 0 : $this->lastStream;
        $this->measured = $this->lastStream;
        $this->send($this->growth->measure($request, $application));
        $this->growth->settle();
    }

    /** Gives back the requests that wait here: this process takes no more (§5, REFUSED). */
    public function refuseWaiting(): void
    {
        $this->takeRest();
        try {
            while (($frame = Wire::takeFrame($this->buffer)) !== null) {
                if ($frame[0] === Wire::REQUEST) {
                    $this->waiting[] = $frame;
                }
            }
        } catch (Fault) {
            return; // it ends the connection for Keepwarm anyway
        }
        foreach ($this->waiting as $frame) {
            $this->send(Wire::reset($frame[2], Wire::REFUSED, 'the process exits'));
        }
        $this->waiting = [];
    }

    /** Ends the connection (§2). Keepwarm replaces this worker. */
    public function fail(Fault $fault): void
    {
        Log::write('keepwarm: fault on the wire: ' . $fault->getMessage());
        $this->faulty = true;
        $this->endOfWire();
        $this->transport->close();
    }

    /** `$size` bytes of DATA have left this process: gives their credit back, in steps. */
    public function consumed(int $size): void
    {
        $frames = '';
        $this->streamOwed += $size;
        if ($this->streamOwed >= self::STEP) {
            if (!$this->bodyEnded && !$this->responded) {
                $frames = Wire::credit($this->stream, $this->streamOwed);
            }
            $this->streamLeft += $this->streamOwed;
            $this->streamOwed = 0;
        }
        $this->payConnection($size, $frames);
    }

    /** The bytes after the current REQUEST are read next. */
    public function takeRest(): void
    {
        if ($this->rest !== null) {
            $this->buffer .= $this->rest;
            $this->rest = null;
        }
    }

    /** LEAKS: from now on each request is measured (§11). */
    private function beginGrowth(): void
    {
        if ($this->growth !== null) {
            throw new Fault('leaks', 'LEAKS while the worker measures');
        }
        if (($this->stream !== 0 && !$this->responded) || $this->waiting !== []) {
            throw new Fault('leaks', 'LEAKS during a request');
        }
        $this->growth = new Growth();
        $this->measured = null;
    }

    /** LEAKS with END. The response to the LEAKS before it is still due. */
    private function endGrowth(): void
    {
        if ($this->growth === null) {
            throw new Fault('leaks', 'LEAKS with END, and no LEAKS before it');
        }
        if ($this->measured === null) {
            $this->send(Wire::growth(0, 0, []));
        }
        $this->growth->finish();
        $this->growth = null;
    }

    /** Forgets a REQUEST that waits; whether there was one. */
    private function withdraw(int $stream): bool
    {
        foreach ($this->waiting as $position => $frame) {
            if ($frame[2] === $stream) {
                array_splice($this->waiting, $position, 1);
                return true;
            }
        }
        return false;
    }

    private function data(int $flags, int $stream, string $payload): void
    {
        $size = \strlen($payload);
        $this->left -= $size;
        if ($this->left < 0) {
            throw new Fault('credit_spent', 'more bytes than the credit allows');
        }
        if ($this->isCurrent($stream)) {
            $this->bodyGoesOn();
            $this->streamLeft -= $size;
            if ($this->streamLeft < 0) {
                throw new Fault('credit_spent', 'more bytes than the credit allows');
            }
            $this->body[] = $payload;
            $this->bodyEnded = ($flags & Wire::END) !== 0;
        } else {
            $this->payConnection($size);
        }
    }

    /** Whether a frame is for the request in work. One for a stream that is over is ignored (§5). */
    private function isCurrent(int $stream): bool
    {
        if ($stream > $this->lastStream) {
            throw new Fault('unknown_stream', "a frame for stream $stream, which was never opened");
        }
        return $stream === $this->stream;
    }

    private function bodyGoesOn(): void
    {
        if ($this->bodyEnded) {
            throw new Fault('body_over', 'body data after the end of the body');
        }
    }

    private function credit(int $stream, int $amount): void
    {
        if ($stream === 0) {
            $this->connectionCredit = self::added($this->connectionCredit, $amount);
        } elseif ($this->isCurrent($stream)) {
            $this->streamCredit = self::added($this->streamCredit, $amount);
        }
    }

    private static function added(int $credit, int $amount): int
    {
        if ($credit + $amount > Wire::MAX_CREDIT) {
            throw new Fault('credit_overflow', 'a credit above 2^31-1');
        }
        return $credit + $amount;
    }

    /** `$frames`: sent before. */
    private function payConnection(int $size, string $frames = ''): void
    {
        $this->owed += $size;
        if ($this->owed >= self::STEP) {
            $frames .= Wire::credit(0, $this->owed);
            $this->left += $this->owed;
            $this->owed = 0;
        }
        if ($frames !== '') {
            $this->send($frames);
        }
    }

    private function endOfWire(): void
    {
        $this->lost = $this->gone = $this->bodyLost = $this->bodyEnded = true;
    }
}
