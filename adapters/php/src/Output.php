<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * What the application prints.
 *
 * An output buffer lies below all others for the whole life of the worker. Outside of a request what reaches it is log; within
 * one it is held, until `pass` says that it is the response's body: from then on it leaves in pieces. PHP discards what is in its
 * buffers when it runs out of memory; so nothing stays in this one, and what is held is held here. It cannot be removed: the functions
 * that end buffers are ours, but for `ob_get_flush()`, with which they are made.
 */
final class Output
{
    public const OURS = 1; // buffers
    private const REMOVABLE = 2; // where PHP's functions could end ours: the upper one is what goes then
    private const LOG = 0;
    private const HOLD = 1;
    private const PASS = 2;
    private const PIECE = 32_768; // bytes of output that are sent without waiting for a flush()
    private const NAME = self::class . '::take'; // as PHP lists our buffers
    private const REWRITER = 'URL-Rewriter'; // the buffer of output_add_rewrite_var() and session.use_trans_sid, which PHP begins once in the life of a process

    private static int $ours = self::OURS;
    /** Size of the buffer that a request begins with, if `output_buffering` is on: 0 is unlimited, null means none. */
    public static ?int $size = null;

    private static int $mode = self::LOG;
    private static string $held = '';
    private static ?Response $response = null;
    /** Begins the response of an application that prints it. */
    private static ?\Closure $starter = null;
    /** Called when PHP ends all buffers after a fatal error, where there is no other way to learn of it. */
    public static ?\Closure $atEnd = null;
    private static bool $dropping = false;
    /** `close` prints next, and its output has not reached our buffer yet. */
    private static bool $probing = false;
    /** An output buffer of the application cannot be removed. */
    private static bool $stuck = false;
    /** How much is collected before it leaves: nothing where flush() is not ours. */
    private static int $piece = 1;

    /** Ends the buffers that PHP begins by itself, where `output_buffering` or `zlib.output_compression` is on. */
    public static function clear(): void
    {
        for ($level = self::level(); $level > 0 && @ob_get_flush() !== false; $level--) {
        }
    }

    /** Installs the buffers at the start of the worker, and again when the application, or PHP, has removed them. */
    public static function open(): void
    {
        self::$piece = Web::$complete ? self::PIECE : 1;
        self::$ours = Web::$complete ? self::OURS : self::REMOVABLE;
        for ($level = self::level(); $level < self::$ours; $level++) {
            ob_start([self::class, 'take'], 1, Web::$complete ? \PHP_OUTPUT_HANDLER_CLEANABLE | \PHP_OUTPUT_HANDLER_FLUSHABLE : \PHP_OUTPUT_HANDLER_STDFLAGS);
        }
    }

    /** `exit()` left something of this class. */
    public static function interrupted(): void
    {
        self::$dropping = false;
    }

    /** Ends the innermost buffer, which is the application's, and discards its contents. Returns whether it could be ended. */
    public static function drop(): bool
    {
        $buffers = ob_get_status(true);
        $level = \count($buffers);
        if (($buffers[$level - 1]['flags'] & \PHP_OUTPUT_HANDLER_CLEANABLE) !== 0) {
            ob_clean();
        }
        // What its callback still gives would go into the buffer below.
        self::$dropping = $level === self::$ours + 1;
        $ended = ob_get_flush() !== false && self::level() < $level;
        self::$dropping = false;
        $kept = $buffers[$level - 2]['buffer_used'] ?? 0;
        if ($ended && $level > self::$ours + 1 && ob_get_length() > $kept) {
            $below = substr((string) ob_get_contents(), 0, $kept);
            ob_clean();
            echo $below;
        }
        return $ended;
    }

    /** Whether the innermost buffer, which is the application's, may be ended; if not, PHP's notices say so. */
    public static function isRemovable(string $function, string ...$failed): bool
    {
        $top = ob_get_status();
        if ($top['name'] === self::REWRITER) {
            self::rewrites();
        }
        if (($top['flags'] & \PHP_OUTPUT_HANDLER_REMOVABLE) !== 0) {
            return true;
        }
        foreach ($failed as $what) {
            Diagnostics::raise(\E_NOTICE, "$function(): Failed to $what buffer of {$top['name']} (" . $top['level'] - self::$ours . ')');
        }
        return false;
    }

    /** `ob_get_clean()` of an application that has no buffer, as it may have where php.ini has `output_buffering`: gives whether anything was held. */
    public static function forget(): bool
    {
        $held = self::$mode === self::HOLD && (self::$held !== '' || ob_get_length() > 0);
        if ($held) {
            ob_clean();
        }
        return $held;
    }

    /** The buffers' callback. `$phase` says what it is called for: something was printed, `ob_clean()`, `ob_flush()`, the buffer's end. */
    public static function take(string $output, int $phase): string
    {
        if (self::$probing) {
            self::$probing = false;
            return '';
        }
        if (self::$dropping) {
            return '';
        }
        if (($phase & \PHP_OUTPUT_HANDLER_CLEAN) !== 0 && (($phase & \PHP_OUTPUT_HANDLER_FINAL) === 0 || !End::isFatal(error_get_last()))) {
            self::$held = ''; // of the application's own will: it is not memory that ran out
            return '';
        }
        self::$held .= $output;
        if (\strlen(self::$held) >= self::$piece || ($phase & (\PHP_OUTPUT_HANDLER_FLUSH | \PHP_OUTPUT_HANDLER_FINAL)) !== 0) {
            if (self::$atEnd !== null && ($phase & \PHP_OUTPUT_HANDLER_FINAL) !== 0 && End::isFatal(error_get_last())) {
                (self::$atEnd)();
                return '';
            }
            self::move();
        }
        return '';
    }

    /** What was printed goes where it belongs. */
    private static function move(): void
    {
        if (self::$held === '') {
            return;
        }
        if (self::$mode === self::HOLD && self::$starter !== null) {
            $start = self::$starter;
            self::$starter = null;
            $start();
        }
        if (self::$mode === self::HOLD) {
            return;
        }
        $output = self::$held;
        self::$held = '';
        if (self::$mode === self::PASS) {
            self::$response?->write($output);
        } else {
            Log::lines($output);
        }
    }

    /** A request begins. */
    public static function begin(): void
    {
        if (\ob_get_length() !== 0 || self::$held !== '') {
            Output::settle();
        }
        self::$mode = self::HOLD;
        self::$held = '';
        self::$starter = null;
        if (self::$size !== null) {
            \ob_start(null, self::$size);
        }
    }

    /** Output is the response itself: `$start` gives its head when the first of it has to leave, and calls `pass`. */
    public static function startWith(\Closure $start): void
    {
        self::$starter = $start;
    }

    /** All that was printed since `begin`, in every buffer. */
    public static function held(): string
    {
        self::$starter = null;
        $level = \count(\ob_list_handlers());
        if ($level === self::$ours + 1 && self::$size !== null && @\ob_get_flush() !== false) {
            $level--;
        }
        if ($level !== self::$ours || \ob_get_length() !== 0) {
            Output::settle();
        }
        $held = self::$held;
        self::$held = '';
        return $held;
    }

    /** What our buffer has of it, where PHP's functions for buffers are no more to be called. */
    public static function taken(): string
    {
        return self::$held;
    }

    /** From now on output is the body of `$response`, whose head is known. */
    public static function pass(Response $response): void
    {
        self::$response = $response;
        self::$mode = self::PASS;
    }

    /** Whether output goes into a response by itself. */
    public static function isPassing(): bool
    {
        return self::$mode === self::PASS;
    }

    /** Sends what has been printed as far as our buffers; what is in buffers of the application stays there. */
    public static function flush(): void
    {
        $level = self::level();
        if ($level <= self::$ours) {
            @ob_flush();
        } elseif ($level === self::$ours + 1 && self::$size > 0 && ob_get_status()['chunk_size'] === self::$size) {
            ob_flush(); // the one of php.ini: nobody began it, and nobody flushes it
            self::move();
        }
        if (self::$mode === self::PASS && Web::$connection?->gone && !ignore_user_abort()) {
            // As PHP ends a script that prints for nobody. (Not from the buffer's callback: PHP switches off one that throws.)
            throw new ClientDisconnected('the client disconnected before its response was complete');
        }
    }

    /** Everything printed goes where it belongs; from now on it is log. */
    public static function end(): void
    {
        if (self::$held !== '' || \count(\ob_list_handlers()) !== self::$ours || \ob_get_length() !== 0) {
            self::settle();
        }
        self::$held = '';
        if (!self::close()) {
            self::disabled();
        }
        self::$mode = self::LOG;
        self::$response = self::$starter = null;
    }

    /**
     * Like `end`, after a complete response, where the application has left nothing that was printed, and no buffer. False: it has, or our buffer is switched
     * off, and `end` is needed.
     *
     * PHP asked for its buffers, and for what is wrong with ours, would take three times as long as a byte that comes to ours or does not. One that does not
     * is in the application's buffer, which nobody waits for any more, or a line of the log.
     */
    public static function close(): bool
    {
        self::$probing = true;
        echo "\n";
        if (self::$probing || self::$held !== '') {
            self::$probing = false;
            return false;
        }
        self::$mode = self::LOG;
        self::$response = self::$starter = null;
        return true;
    }

    /** Forgets what was printed and has not left. */
    public static function discard(): void
    {
        $mode = self::$mode;
        self::$mode = self::HOLD;
        self::$starter = null;
        self::settle();
        self::$held = '';
        self::$mode = $mode;
    }

    private static function settle(): void
    {
        self::flatten();
        self::open();
    }

    /** Ends the application's buffers, innermost first, as the end of a script does, and empties ours. */
    private static function flatten(): void
    {
        $buffers = ob_list_handlers();
        if (\in_array(self::REWRITER, $buffers, true)) {
            self::rewrites();
        }
        for ($level = \count($buffers); $level > self::$ours || $level > 0 && $buffers[$level - 1] !== self::NAME; $level--) {
            if (@ob_get_flush() === false || self::level() === $level) {
                self::stuck();
                return;
            }
        }
        if ($level > 0) {
            ob_flush();
        }
    }

    /** A buffer that the application made unremovable lies above ours: what is in it counts, and this process has to go with it. */
    private static function stuck(): void
    {
        if (self::$stuck) {
            return;
        }
        self::$stuck = true;
        Log::write('keepwarm: the application left an output buffer that cannot be removed; the worker is replaced');
        Web::$connection?->becomeUnfit();
        self::$held .= ob_get_contents();
        self::move();
    }

    private static function rewrites(): void
    {
        Reset::giveUp('rewriting of URLs');
    }

    /** PHP switches off a buffer that something has to leave while an exception, or exit(), is on its way: one from the callback of a buffer above. */
    private static function disabled(): void
    {
        if (!self::$stuck) {
            self::$stuck = true;
            Log::write('keepwarm: the callback of an output buffer threw or called exit(): further output is lost; the worker is replaced');
            Web::$connection?->becomeUnfit();
        }
    }

    private static function level(): int
    {
        return \count(ob_list_handlers());
    }
}
