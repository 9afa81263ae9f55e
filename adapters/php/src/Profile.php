<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * Where the time of requests goes: stacks, noted at each SIGURG while Keepwarm profiles this worker (spec/wire.md §10).
 *
 * There is none of these before the first signal, and no timer ever. Keepwarm sets the rate, and a sample weighs the time since the last one, so that a signal
 * which came late, or was one with the next, costs nothing. PHP handles signals between two steps of the application, where nothing is half sent.
 */
final class Profile
{
    private const DEPTH = 200; // calls of a stack; of a deeper one, the innermost
    private const STACKS = 1_000; // distinct ones that may wait here; the samples of more are counted and dropped
    private const NAME = 200; // bytes of a call
    private const SEND_EVERY = 250_000_000; // nanoseconds: of a request that continues
    private const FRAME_SIZE = 100_000; // bytes of stacks in one frame, whose limit is 128 KiB
    private const WAITING = '(waiting)';

    /** The adapter's classes in which a request is in a phase of its own. The innermost of them counts. */
    private const PHASES = [
        Body::class => 'request body', BodyStream::class => 'request body', Forms::class => 'request body', MultipartReader::class => 'request body',
        Response::class => 'response', Reply::class => 'response', Output::class => 'response',
    ];

    /** @var array<int, array<string, int>> nanoseconds of each stack, by request */
    public array $pending = [];
    private int $kept = 0;
    private int $dropped = 0;
    private int $sent = 0;
    /** When the last signal came; 0: none has. */
    private int $last = 0;
    private int $cpu = 0;
    private int $waits = 0;
    private readonly string $directory;

    public function __construct()
    {
        $this->directory = getcwd() . '/';
    }

    /** From now on, at each signal. System calls that it interrupts begin again where the system allows it. */
    public static function watch(Connection $connection): void
    {
        pcntl_signal(\SIGURG, static function () use ($connection): void {
            $profile = $connection->profile ??= new self();
            try {
                $profile->note($connection);
            } catch (\Throwable) {
                $profile->dropped++; // it would be thrown in the application's code
            }
        }, true);
    }

    /** All that has been noted, as frames. */
    public function take(): string
    {
        $pending = $this->pending;
        $dropped = $this->dropped;
        $this->pending = [];
        $this->kept = $this->dropped = 0;
        $this->sent = hrtime(true);
        $frames = '';
        foreach ($pending as $request => $stacks) {
            $part = [];
            $size = 0;
            foreach ($stacks as $stack => $time) {
                $stack = (string) $stack;
                if ($part !== [] && $size + \strlen($stack) > self::FRAME_SIZE) {
                    $frames .= Wire::samples($request, $dropped, $part);
                    $dropped = $size = 0;
                    $part = [];
                }
                $part[$stack] = intdiv($time, 1_000);
                $size += \strlen($stack) + 24;
            }
            $frames .= Wire::samples($request, $dropped, $part);
            $dropped = 0;
        }
        return $frames;
    }

    /** The profile may be over: the time until the next signal is not a sample's. Gives what has not been sent. */
    public function end(): string
    {
        $this->last = 0;
        return $this->pending === [] ? '' : $this->take();
    }

    private function note(Connection $connection): void
    {
        $now = hrtime(true);
        $weight = $this->last === 0 ? 0 : $now - $this->last;
        $this->last = $now;
        $computing = $this->computes($weight);
        if ($weight === 0 || $connection->stream === 0) {
            return;
        }
        $this->add($connection->stream, $this->stack(debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS), !$computing, $connection->responded), $weight);
        if ($now - $this->sent >= self::SEND_EVERY) {
            $connection->send($this->take());
        }
    }

    private function add(int $request, string $stack, int $weight): void
    {
        if (isset($this->pending[$request][$stack])) {
            $this->pending[$request][$stack] += $weight;
        } elseif ($this->kept < self::STACKS) {
            $this->kept++;
            $this->pending[$request][$stack] = $weight;
        } else {
            $this->dropped++;
        }
    }

    /** Whether this process used a processor for half of the time since the last signal, or has not waited for anything but one. */
    private function computes(int $weight): bool
    {
        $usage = getrusage();
        $cpu = ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) * 1_000_000 + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
        $used = ($cpu - $this->cpu) * 1_000;
        $waited = $usage['ru_nvcsw'] !== $this->waits;
        $this->cpu = $cpu;
        $this->waits = $usage['ru_nvcsw'];
        return !$waited || 2 * $used >= $weight;
    }

    /**
     * A stack as the wire has it.
     *
     * @param list<array<string, mixed>> $frames of `debug_backtrace`, the innermost first
     */
    private function stack(array $frames, bool $waiting, bool $responded): string
    {
        $names = [];
        $phase = null;
        $outer = null;
        $file = ''; // what the function of a frame was doing stands in the frame before
        foreach ($frames as $frame) {
            $class = $frame['class'] ?? '';
            $function = $frame['function'];
            if (str_starts_with($class, 'Keepwarm\\') || str_starts_with($function, 'Keepwarm\\')) {
                $phase ??= self::PHASES[$class] ?? null;
                $outer = \count($names);
                if ($class === Worker::class && $function === 'serve') {
                    break;
                }
            } else {
                $names[] = $this->name(($class !== '' ? $class . $frame['type'] : '') . $function, $file);
            }
            $file = $frame['file'] ?? '';
        }
        if ($outer !== null) {
            $names = \array_slice($names, 0, $outer); // what calls the adapter is not the application's
        }
        if (\count($names) > self::DEPTH) {
            $names = \array_slice($names, 0, self::DEPTH);
            $names[] = '...';
        }
        $names[] = $responded ? 'after response' : $phase ?? 'app';
        $names = array_reverse($names);
        if ($waiting) {
            $names[] = self::WAITING;
        }
        return implode(';', $names);
    }

    /** Without what has a meaning between calls. */
    private function name(string $function, string $file): string
    {
        $name = $file === '' ? $function : "$function (" . $this->short($file) . ')';
        return substr(strtr($name, ";\0\n", ',  '), 0, self::NAME);
    }

    /** A path as a person would say it: below the directory of the application, or of the packages. */
    private function short(string $file): string
    {
        $start = strrpos($file, '/vendor/');
        if ($start !== false) {
            return substr($file, $start + 8);
        }
        return str_starts_with($file, $this->directory) ? substr($file, \strlen($this->directory)) : $file;
    }
}
