<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * A request's body that did not come whole: reads DATA as the application asks for it.
 *
 * The first read is what sends `100 Continue` (spec/wire.md §4). What was read is kept, in memory first and then in a file
 * without a name, so that it can be read again from the start as `php://input` can.
 */
final class Body
{
    private const IN_MEMORY = 1_048_576; // bytes that are kept in memory; the rest goes to a file

    private string $part;
    private int $free; // bytes that came with the REQUEST, which are not under credit (§6)
    private int $received = 0;
    private string $memory = '';
    /** @var resource|null */
    private mixed $file = null;
    private bool $complete = false;

    public function __construct(
        private readonly Connection $connection,
        private readonly int $stream,
        string $first,
        private bool $expects,
    ) {
        $this->part = $first;
        $this->free = \strlen($first);
    }

    /** Asks for the body, once. */
    public function sendContinue(): void
    {
        if ($this->expects && !$this->connection->responded) {
            $this->expects = false;
            $this->connection->send(Wire::frame(Wire::WANT, 0, $this->stream));
        }
    }

    /** The next bytes of the body, at most `$size`; '' at its end. Throws `ClientDisconnected`. */
    public function read(int $size, bool $keep = true): string
    {
        if ($this->part === '') {
            if ($this->complete || !$this->nextPart()) {
                $this->complete = true;
                return '';
            }
        }
        $bytes = substr($this->part, 0, $size);
        $taken = \strlen($bytes);
        $this->part = (string) substr($this->part, $taken);
        if ($this->free > 0) {
            $this->free -= $taken;
        } else {
            $this->connection->consumed($taken);
        }
        $this->received += $taken;
        if ($keep) {
            $this->keep($bytes);
        }
        return $bytes;
    }

    /** Bytes of what has been received, from `$offset`; receives as far as is needed. '' at the end. */
    public function at(int $offset, int $size): string
    {
        while ($this->received <= $offset) {
            if ($this->read(max($size, 8_192)) === '') {
                return '';
            }
        }
        if ($this->file === null) {
            return substr($this->memory, $offset, $size);
        }
        fseek($this->file, $offset);
        return (string) fread($this->file, $size);
    }

    /** Everything from the start. Throws `ClientDisconnected`. */
    public function all(): string
    {
        while ($this->read(Wire::MAX_CHUNK) !== '') {
        }
        if ($this->file === null) {
            return $this->memory;
        }
        rewind($this->file);
        return (string) stream_get_contents($this->file);
    }

    /** Whether `at` would give nothing from this offset, as far as that is known without waiting. */
    public function isOver(int $offset): bool
    {
        return $this->complete && $offset >= $this->received;
    }

    /** How many bytes it has, when all have come. */
    public function size(): ?int
    {
        return $this->complete ? $this->received : null;
    }

    private function nextPart(): bool
    {
        $connection = $this->connection;
        if ($connection->stream !== $this->stream) {
            throw new \LogicException("the request's body was read after its response was complete");
        }
        while (true) {
            while ($connection->body !== []) {
                $this->part = array_shift($connection->body);
                if ($this->part !== '') {
                    return true;
                }
            }
            if ($connection->bodyLost) {
                throw new ClientDisconnected('the client disconnected before its body was complete');
            }
            if ($connection->bodyEnded) {
                return false;
            }
            if ($connection->responded) {
                throw new \LogicException("the rest of the request's body is not available: the response is complete");
            }
            $this->sendContinue();
            $connection->wait();
        }
    }

    private function keep(string $bytes): void
    {
        if ($this->file === null) {
            if (\strlen($this->memory) + \strlen($bytes) <= self::IN_MEMORY) {
                $this->memory .= $bytes;
                return;
            }
            $this->file = Temporary::unnamed();
            fwrite($this->file, $this->memory);
            $this->memory = '';
        }
        fseek($this->file, 0, \SEEK_END);
        if (fwrite($this->file, $bytes) !== \strlen($bytes)) {
            throw new \RuntimeException("the request's body cannot be stored: the temporary directory is full or not writable");
        }
    }
}
