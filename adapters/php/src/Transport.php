<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The bytes of the wire, on a blocking stream. To be used while signal handlers are held.
 *
 * With the sockets extension reading and writing are one system call each; a PHP stream waits with one more. An error handler of the application may make an
 * exception even of what is silenced by `@`.
 */
final class Transport
{
    // Bytes of a read: nearly every REQUEST in one call. PHP takes memory of the smaller size faster.
    private const SMALL = 3_000;
    private const LARGE = 65_536;
    private const FEW = 16; // reads in a row for which the smaller would have done
    private const EINTR = 4; // of Linux, as the sockets extension reports it
    private const EAGAIN = 11;
    private const LOOK_EVERY = 8; // reads

    private readonly ?\Socket $direct;
    /** Reads that first wait, because the last that did not had to; then one looks again. */
    private int $waits = 0;
    private int $size = self::SMALL;
    private int $few = 0;

    /** @param resource $socket */
    public function __construct(private readonly mixed $socket)
    {
        // A timeout of php.ini (`default_socket_timeout`) is not meant for this.
        stream_set_timeout($socket, -1);
        $direct = \function_exists('socket_import_stream') ? @socket_import_stream($socket) : false;
        $this->direct = $direct instanceof \Socket ? $direct : null;
    }

    public function close(): void
    {
        fclose($this->socket);
    }

    /** Writes all of it; whether that was possible. */
    public function write(string $data): bool
    {
        $size = \strlen($data);
        while (true) {
            try {
                $sent = $this->direct !== null ? @\socket_send($this->direct, $data, $size, 0) : @fwrite($this->socket, $data);
            } catch (\Throwable) {
                $sent = false;
            }
            if ($sent === $size) {
                return true;
            }
            if ($sent === false && !($this->direct !== null && socket_last_error($this->direct) === self::EINTR)) {
                return false;
            }
            // A signal came in between.
            $data = substr($data, (int) $sent);
            $size -= (int) $sent;
        }
    }

    /** What comes next, '' at the wire's end; null when a signal came first. */
    public function read(): ?string
    {
        if ($this->direct === null) {
            return $this->readStream(null);
        }
        if ($this->waits > 0) {
            $this->waits--;
            if (!$this->waitForBytes()) {
                return null;
            }
        }
        while (($data = $this->receive()) === null && socket_last_error($this->direct) === self::EAGAIN) {
            $this->waits = self::LOOK_EVERY;
            if (!$this->waitForBytes()) {
                return null;
            }
        }
        return $data;
    }

    /** What has come: '' at the wire's end, null when nothing has. */
    public function readWithoutWaiting(): ?string
    {
        return $this->direct === null ? $this->readStream(0) : $this->receive();
    }

    private function receive(): ?string
    {
        try {
            $size = @\socket_recv($this->direct, $data, $this->size, \MSG_DONTWAIT);
            if ($size !== false) {
                if ($size >= self::SMALL) {
                    $this->size = self::LARGE;
                    $this->few = 0;
                } elseif ($this->size === self::LARGE && ++$this->few > self::FEW) {
                    $this->size = self::SMALL;
                }
                return (string) $data;
            }
        } catch (\Throwable) {
        }
        return \in_array(socket_last_error($this->direct), [self::EINTR, self::EAGAIN], true) ? null : '';
    }

    /** As `receive`, without the sockets extension, after `$seconds` at most; null: without end. */
    private function readStream(?int $seconds): ?string
    {
        $read = [$this->socket];
        $none = null;
        $data = '';
        try {
            // A waiting read keeps waiting after a signal.
            if (@stream_select($read, $none, $none, $seconds) === 1) {
                $data = (string) @fread($this->socket, self::LARGE);
            }
        } catch (\Throwable) {
        }
        return $data !== '' || !\is_resource($this->socket) || feof($this->socket) ? $data : null;
    }

    /**
     * Waits until something can be read; false when a signal came first. A `recv` that waits is woken by Linux a second time, for nothing: when the other end has
     * read the last response and there is room to write again (`unix_write_space`). A `select` for reading is not.
     */
    private function waitForBytes(): bool
    {
        $read = [$this->direct];
        $none = null;
        try {
            return @\socket_select($read, $none, $none, null) !== false;
        } catch (\Throwable) {
            return false; // of the warning that a signal came
        }
    }
}
