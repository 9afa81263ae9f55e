<?php

declare(strict_types=1);

namespace Keepwarm;

/** What holds for the whole worker process: its descriptor, its signals. */
final class Process
{
    private const F_SETFD = 2;
    private const FD_CLOEXEC = 1;

    /** The wire's stream, from `KEEPWARM_FD`, made private to this process as far as PHP can (spec/wire.md §1). */
    public static function socket(): mixed
    {
        $number = (string) getenv('KEEPWARM_FD');
        if (preg_match('/^\d+$/D', $number) !== 1) {
            Log::write('keepwarm: this is a worker process: start it with `keepwarm run`, which sets KEEPWARM_FD');
            exit(1);
        }
        putenv('KEEPWARM_FD');
        unset($_SERVER['KEEPWARM_FD'], $_ENV['KEEPWARM_FD']);
        $before = self::descriptors();
        $socket = @fopen("php://fd/$number", 'r+b');
        if ($socket === false) {
            Log::write("keepwarm: the file descriptor $number of KEEPWARM_FD is not open");
            exit(1);
        }
        // No buffers: what is read is taken at once, a write is one call.
        stream_set_read_buffer($socket, 0);
        stream_set_write_buffer($socket, 0);
        self::keepFromChildren((int) $number, array_diff(self::descriptors(), $before));
        return $socket;
    }

    /** Whether PHP has what it takes (pcntl). */
    public static function handlesSignals(): bool
    {
        return \function_exists('pcntl_signal') && \function_exists('pcntl_async_signals');
    }

    /** Ctrl-C reaches the whole group and is Keepwarm's to coordinate; a stuck worker shows its stack on SIGQUIT. */
    public static function prepareSignals(Connection $connection): void
    {
        if (!self::handlesSignals()) {
            return;
        }
        pcntl_async_signals(true);
        // A handler that does nothing: ignored, it would be ignored in the programs that the application starts.
        pcntl_signal(\SIGINT, static function (): void {
        }, false);
        Profile::watch($connection);
        pcntl_signal(\SIGTERM, static function () use ($connection): void {
            $connection->askToDrain();
        }, false);
        pcntl_signal(\SIGQUIT, static function (): void {
            $route = Web::$request === null ? 'between requests' : 'in ' . Web::$request->method . ' ' . Web::$request->rawPath;
            Log::write("keepwarm: the stack of this worker, $route:\n" . (new \Exception())->getTraceAsString());
        }, false);
    }

    /**
     * PHP itself can neither close a descriptor by its number nor mark one close-on-exec; its FFI can.
     *
     * Without it a program that the application starts inherits the wire: it does no harm there unless it writes to a descriptor
     * that it did not open, and Keepwarm ends it with the worker's process group.
     *
     * @param list<int> $ours descriptors of the stream
     */
    private static function keepFromChildren(int $given, array $ours): void
    {
        if (!\extension_loaded('ffi')) {
            return;
        }
        try {
            $libc = \FFI::cdef('int fcntl(int fd, int command, ...); int close(int fd);');
            foreach ($ours as $descriptor) {
                $libc->fcntl($descriptor, self::F_SETFD, self::FD_CLOEXEC);
            }
            if ($ours !== [] && !\in_array($given, $ours, true)) {
                $libc->close($given);
            }
        } catch (\Throwable) {
            // FFI is there but switched off.
        }
    }

    /** @return list<int> */
    private static function descriptors(): array
    {
        $names = @scandir('/proc/self/fd') ?: [];
        return array_map('intval', array_filter($names, static fn (string $name): bool => str_starts_with((string) @readlink("/proc/self/fd/$name"), 'socket:')));
    }
}
