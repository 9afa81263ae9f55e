<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The response on its way to the wire. One object for all requests of a worker.
 *
 * `begin`, then `head`, then `whole`, or `write` as often as there is something and `finish`; `abort` instead when it fails.
 */
final class Response
{
    /** `head` was called. */
    public bool $headed = false;
    /** The head has left. */
    public bool $begun = false;
    /** The stream has ended. */
    public bool $over = true;
    /** No body goes out: HEAD, 204, 304. */
    public bool $bodiless = false;

    private int $stream = 0;
    private bool $headOnly = false;
    private bool $early = false;
    private int $status = 200;
    private int $count = 0;
    private string $text = '';
    // The default type as it was the last time, and its field.
    private string $type = '';
    private string $charset = '';
    private string $typeText = '';
    private ?int $length = null;
    private int $flags = 0;
    private int $sent = 0;

    public function __construct(private readonly Connection $connection)
    {
    }

    /** A new request. `$headOnly`: its method is HEAD. `$early`: a 103 would reach the client. */
    public function begin(int $stream, bool $headOnly, bool $early): void
    {
        $this->stream = $stream;
        $this->headOnly = $this->bodiless = $headOnly;
        $this->early = $early;
        $this->headed = $this->begun = $this->over = false;
        $this->sent = 0;
    }

    /** Holds nothing of the last response. */
    public function forget(): void
    {
        $this->text = '';
    }

    /**
     * The status and the headers. Throws if they are invalid. A response without a type gets that of php.ini, as in any PHP.
     *
     * @param list<string> $flat names and values in turn
     */
    public function head(int $status, array $flat): void
    {
        if ($status === 100 && isset(Web::$request->server['HTTP_EXPECT']) && !$this->begun) {
            throw new ContinueFirst();
        }
        if ($status < 200 || $status > 999) {
            throw new \ValueError("$status is not the status of a final response");
        }
        [$this->count, $this->text, $this->length, $close, $typed] = Fields::block($flat);
        if (!$typed && $status !== 304) { // a 304 speaks of what the client has, whose type that is (RFC 9110 §15.4.5)
            $this->addType();
        }
        $this->status = $status;
        $this->flags = $close ? Wire::CLOSE_AFTER : 0;
        $this->headed = true;
        $this->bodiless = $this->headOnly || $status === 204 || $status === 304;
    }

    /** That of php.ini. */
    private function addType(): void
    {
        $type = (string) \ini_get('default_mimetype');
        $charset = (string) \ini_get('default_charset');
        if ($type === '') {
            return;
        }
        if ($type !== $this->type || $charset !== $this->charset) {
            $value = str_starts_with($type, 'text/') && $charset !== '' ? "$type; charset=$charset" : $type;
            $this->typeText = Fields::block(['Content-Type', $value])[1];
            [$this->type, $this->charset] = [$type, $charset];
        }
        $this->text .= $this->count === 0 ? $this->typeText : "\0{$this->typeText}";
        $this->count += 2;
        Fields::checkLength($this->text);
    }

    /** A complete body; the response ends with it. As after `finish`, signal handlers are held: the application is done. */
    public function whole(string $body): void
    {
        $this->connection->signals->hold();
        if (!$this->begun && !$this->bodiless && ($this->length === null || $this->length === \strlen($body))) {
            if ($this->length === null && \strlen($body) > Wire::MAX_CHUNK) {
                // It takes several frames, so that nobody else can know its length when the fields leave.
                $this->text .= ($this->count === 0 ? '' : "\0") . "content-length\0" . \strlen($body);
                $this->count += 2;
            }
            $this->first($body, Wire::END);
            return;
        }
        if ($body !== '') {
            $this->write($body);
        }
        $this->finish();
    }

    /** Sends a piece of the body at once. False when no further one is wanted. */
    public function write(string $block): bool
    {
        $held = $this->connection->signals->hold();
        try {
            if ($this->begun) {
                return $this->next($block);
            }
            if ($this->bodiless) {
                $this->first('', Wire::END);
                return false;
            }
            $size = \strlen($block);
            if ($this->length === null || $size < $this->length) {
                $this->first($block, 0);
            } else {
                $tooLong = $size > $this->length;
                $this->first($tooLong ? substr($block, 0, $this->length) : $block, Wire::END);
                if ($tooLong) {
                    $this->tooLong();
                }
            }
            return !$this->connection->gone;
        } finally {
            $this->connection->signals->release($held);
        }
    }

    /** The head without a body yet: for a response whose first piece may take a while. */
    public function flush(): void
    {
        $held = $this->connection->signals->hold();
        try {
            if (!$this->begun && !$this->over) {
                $this->first('', $this->bodiless ? Wire::END : 0);
            }
        } finally {
            $this->connection->signals->release($held);
        }
    }

    /** The application has no more of it. */
    public function finish(): void
    {
        $this->connection->signals->hold();
        if ($this->over) {
            return;
        }
        if ($this->connection->gone) {
            $this->abort(Wire::CANCELLED, '');
        } elseif (!$this->begun) {
            if ($this->length !== null && $this->length > 0 && !$this->bodiless) {
                $this->tooShort();
            } else {
                $this->first('', Wire::END);
            }
        } elseif ($this->length !== null && $this->sent < $this->length) {
            $this->tooShort();
        } else {
            $this->end();
            $this->connection->send(Wire::frame(Wire::DATA, Wire::END, $this->stream));
        }
    }

    /** Ends the stream without a complete response: 500 if its head has not left, a cut connection otherwise. */
    public function abort(int $code, string $reason): void
    {
        $held = $this->connection->signals->hold();
        try {
            if (!$this->over) {
                $this->end();
                $this->connection->send(Wire::reset($this->stream, $code, $reason));
            }
        } finally {
            $this->connection->signals->release($held);
        }
    }

    /**
     * Sends an informational response, if this client would understand it and the response itself has not begun.
     *
     * @param list<string> $flat names and values in turn
     */
    public function inform(int $status, array $flat): void
    {
        [$count, $text] = Fields::block($flat);
        if ($this->early && !$this->begun && !$this->over) {
            $this->connection->send(Wire::inform($this->stream, $status, $count, $text));
        }
    }

    /** The head, and the beginning of the body or all of it. */
    private function first(string $body, int $end): void
    {
        $this->begun = true;
        $size = \strlen($body);
        if ($size <= Wire::MAX_CHUNK) {
            if ($end !== 0) {
                $this->end();
            }
            $this->sent = $size;
            $length = \strlen($this->text);
            // As `Wire::response`, of four numbers: each costs.
            $this->connection->send(
                \pack('NJnN', 8 + $length + $size, Wire::RESPONSE << 56 | ($end | $this->flags) << 48 | $this->stream << 16 | $this->status, $this->count, $length)
                . $this->text . $body
            );
            return;
        }
        $this->sent = $size;
        $start = substr($body, 0, Wire::MAX_CHUNK);
        $this->connection->send(Wire::response($this->stream, $this->flags, $this->status, $this->count, $this->text, $start));
        $this->data(substr($body, Wire::MAX_CHUNK), $end !== 0);
    }

    private function next(string $block): bool
    {
        if ($this->over) {
            if ($this->length !== null && !$this->bodiless && !$this->connection->gone && $block !== '') {
                $this->tooLong();
            }
            return false;
        }
        $this->connection->poll();
        $end = false;
        if ($this->length !== null) {
            $left = $this->length - $this->sent;
            $end = \strlen($block) >= $left;
            if (\strlen($block) > $left) {
                $block = substr($block, 0, $left);
                $this->tooLong();
            }
        }
        $this->sent += \strlen($block);
        $this->data($block, $end);
        return !$this->over || $end;
    }

    private function data(string $block, bool $end): void
    {
        if ($this->connection->gone || !$this->connection->sendData($block, $end)) {
            $this->abort(Wire::CANCELLED, '');
        } elseif ($end) {
            $this->end();
        }
    }

    private function end(): void
    {
        $this->over = true;
        if ($this->connection->stream === $this->stream) {
            $this->connection->responded = true;
        }
    }

    private function tooShort(): void
    {
        $reason = "the body ended after {$this->sent} of the {$this->length} bytes that Content-Length promised";
        Log::write("keepwarm: the application's response is too short: $reason");
        $this->abort(Wire::TOO_SHORT, $reason);
    }

    private function tooLong(): void
    {
        Log::once('too long', "keepwarm: the application's response is longer than its Content-Length of {$this->length}; the rest is cut off");
    }
}
