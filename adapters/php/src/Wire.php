<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The worker wire, version 1: bytes to frames and back (spec/wire.md). Pure: no stream, no clock.
 */
final class Wire
{
    public const VERSION = 1;

    // Frame types (§2).
    public const HELLO = 0x01;
    public const WELCOME = 0x02;
    public const REQUEST = 0x10;
    public const DATA = 0x11;
    public const TRAILERS = 0x12;
    public const RESPONSE = 0x13;
    public const INFORM = 0x14;
    public const WANT = 0x15;
    public const CREDIT = 0x16;
    public const RESET = 0x17;
    public const HALF_CLOSE = 0x18;
    public const TEXT = 0x20;
    public const BINARY = 0x21;
    public const CLOSE = 0x22;
    public const PING = 0x30;
    public const PONG = 0x31;
    public const DRAIN = 0x32;
    public const BUSY = 0x33;
    public const SAMPLES = 0x34;
    public const LEAKS = 0x35;
    public const GROWTH = 0x36;
    public const HIJACK = 0x19;

    // Flags. END is the same bit on every type that has it.
    public const END = 0x01;
    public const EXPECT = 0x02;
    public const REPEATS = 0x04;
    public const EARLY_HINTS = 0x08;
    public const WEBSOCKET = 0x10;
    public const USER = 0x40;
    public const CLOSE_AFTER = 0x02; // RESPONSE

    // Reset codes (§5).
    public const CANCELLED = 1;
    public const TIMEOUT = 2;
    public const APP_ERROR = 3;
    public const TOO_SHORT = 4;
    public const INCOMPLETE = 5;
    public const REFUSED = 6;

    public const MAX_PAYLOAD = 131_072;
    public const MAX_CHUNK = 65_536; // of a body, in one frame
    public const MAX_REASON = 1_024; // bytes of a RESET's reason
    public const MAX_CLOSE_REASON = 123; // bytes of a CLOSE's reason: RFC 6455 §5.5, 125 less the code
    public const MAX_CREDIT = 2_147_483_647;
    public const UNKNOWN_LENGTH = -1; // of a chunked body: 2^64-1, as PHP's integers show it
    public const FIXED_STRINGS = 11; // at the head of a REQUEST's string block
    public const HEAD = 10; // bytes of a frame's head

    /**
     * What Keepwarm may send: type => [the flags it may carry, whether it belongs to a stream (null: either), the least
     * and the most bytes of its payload].
     */
    private const FROM_KEEPWARM = [
        self::WELCOME => [0, false, 18, self::MAX_PAYLOAD],
        self::REQUEST => [0x7F, true, 14, self::MAX_PAYLOAD],
        self::DATA => [self::END, true, 0, self::MAX_CHUNK],
        self::TRAILERS => [0, true, 6, self::MAX_PAYLOAD],
        self::CREDIT => [0, null, 4, 4],
        self::RESET => [0, true, 2, 2 + self::MAX_REASON],
        self::HALF_CLOSE => [0, true, 0, 0],
        self::TEXT => [self::END, true, 0, self::MAX_CHUNK],
        self::BINARY => [self::END, true, 0, self::MAX_CHUNK],
        self::CLOSE => [0, true, 2, 2 + self::MAX_CLOSE_REASON],
        self::PING => [0, false, 8, 8],
        self::DRAIN => [0, false, 0, 0],
        self::LEAKS => [self::END, false, 0, 0],
    ];
    private const ONLY_FROM_WORKER = [self::HELLO, self::RESPONSE, self::INFORM, self::WANT, self::PONG, self::BUSY, self::HIJACK, self::SAMPLES, self::GROWTH];

    /** Throws `Fault` unless the four parts of the head of a frame from Keepwarm go together (§2). */
    public static function checkHead(int $length, int $kind, int $flags, int $stream): void
    {
        if ($length > self::MAX_PAYLOAD) {
            throw new Fault('too_long', "a frame of $length bytes, over the limit of " . self::MAX_PAYLOAD);
        }
        $rule = self::FROM_KEEPWARM[$kind] ?? null;
        if ($rule === null) {
            $name = \in_array($kind, self::ONLY_FROM_WORKER, true) ? 'direction' : 'unknown_type';
            throw new Fault($name, sprintf('a frame of type 0x%02x, which Keepwarm never sends', $kind));
        }
        [$allowed, $onStream, $least, $most] = $rule;
        if (($flags & ~$allowed) !== 0 || ($kind === self::REQUEST && ($flags & 0x11) === self::WEBSOCKET)) {
            throw new Fault('flags', sprintf('flags 0x%02x on a frame of type 0x%02x', $flags, $kind));
        }
        if ($onStream !== null && $onStream !== ($stream !== 0)) {
            throw new Fault('stream_id', sprintf('a frame of type 0x%02x on stream %d', $kind, $stream));
        }
        if ($length < $least || $length > $most) {
            $name = $length < $least ? 'too_short' : 'too_long';
            throw new Fault($name, sprintf('a frame of type 0x%02x with a payload of %d bytes', $kind, $length));
        }
    }

    /**
     * Takes the first frame off `$buffer`: `[type, flags, stream, payload]`, or null while it is incomplete.
     *
     * @return array{int, int, int, string}|null
     */
    public static function takeFrame(string &$buffer): ?array
    {
        if (\strlen($buffer) < self::HEAD) {
            return null;
        }
        ['l' => $length, 'k' => $kind, 'f' => $flags, 's' => $stream] = unpack('Nl/Ck/Cf/Ns', $buffer);
        self::checkHead($length, $kind, $flags, $stream);
        $end = self::HEAD + $length;
        if (\strlen($buffer) < $end) {
            return null;
        }
        $payload = substr($buffer, self::HEAD, $length);
        $buffer = substr($buffer, $end);
        return [$kind, $flags, $stream, $payload];
    }

    // -- payloads Keepwarm sends; each gets the payload of a frame whose head `checkHead` has passed ----------------------

    /**
     * A REQUEST's payload: `[content length, strings, body]`.
     *
     * @return array{int, list<string>, string}
     */
    public static function requestParts(string $payload, int $flags): array
    {
        [$strings, $bodyStart] = self::strings($payload, 8);
        self::checkRequest(\count($strings), $flags);
        $body = substr($payload, $bodyStart);
        if (\strlen($body) > self::MAX_CHUNK) {
            throw new Fault('too_long', 'a REQUEST with ' . \strlen($body) . ' bytes of body');
        }
        return [unpack('J', $payload)[1], $strings, $body];
    }

    /** Throws `Fault` unless `$count` strings are the fixed ones and whole pairs, the user's with USER (§4). */
    public static function checkRequest(int $count, int $flags): void
    {
        if ($count < self::FIXED_STRINGS + (($flags & self::USER) !== 0 ? 2 : 0) || ($count - self::FIXED_STRINGS) % 2 !== 0) {
            throw new Fault('fields', "a REQUEST of $count strings");
        }
    }

    /**
     * `[version_min, version_max, stream_credit, connection_credit, pairs]` (§3).
     *
     * @return array{int, int, int, int, list<array{string, string}>}
     */
    public static function decodeWelcome(string $payload): array
    {
        ['a' => $least, 'b' => $most, 'c' => $streamCredit, 'd' => $connectionCredit] = unpack('na/nb/Nc/Nd', $payload);
        if ($least < 1 || $least > $most) {
            throw new Fault('version', "a WELCOME with versions $least to $most");
        }
        foreach ([$streamCredit, $connectionCredit] as $amount) {
            if ($amount < 65_536 || $amount > self::MAX_CREDIT) {
                throw new Fault('credit', "a first credit of $amount");
            }
        }
        return [$least, $most, $streamCredit, $connectionCredit, self::pairs($payload, 12)];
    }

    /** @return list<array{string, string}> */
    public static function decodeTrailers(string $payload): array
    {
        return self::pairs($payload, 0);
    }

    /** The number of bytes that may be sent beyond what could be before (§6). */
    public static function decodeCredit(string $payload): int
    {
        $amount = unpack('N', $payload)[1];
        if ($amount < 1 || $amount > self::MAX_CREDIT) {
            throw new Fault('credit', "a CREDIT of $amount");
        }
        return $amount;
    }

    /**
     * `[code, reason]` of a RESET (§5) or a CLOSE (§7).
     *
     * @return array{int, string}
     */
    public static function decodeReason(string $payload): array
    {
        $reason = substr($payload, 2);
        if (preg_match('//u', $reason) !== 1) {
            throw new Fault('utf8', 'a reason that is not UTF-8');
        }
        return [unpack('n', $payload)[1], $reason];
    }

    // -- frames a worker sends --------------------------------------------------------------------------------------------

    /** Any frame, whole. */
    public static function frame(int $kind, int $flags, int $stream, string $payload = ''): string
    {
        return pack('NCCN', \strlen($payload), $kind, $flags, $stream) . $payload;
    }

    /** @param list<string> $about names and values in turn: what the worker says about itself (§3) */
    public static function hello(int $streams, int $streamCredit, int $connectionCredit, array $about): string
    {
        $text = implode("\0", $about);
        $numbers = pack('nNNNnN', self::VERSION, $streams, $streamCredit, $connectionCredit, \count($about), \strlen($text));
        return self::frame(self::HELLO, 0, 0, $numbers . $text);
    }

    /** `$text`: `$count` strings, already joined by NUL (see `Fields`). */
    public static function response(int $stream, int $flags, int $status, int $count, string $text, string $body = ''): string
    {
        $size = \strlen($text);
        return pack('NCCNnnN', 8 + $size + \strlen($body), self::RESPONSE, $flags, $stream, $status, $count, $size) . $text . $body;
    }

    /** An informational response; `$text` as in `response`. */
    public static function inform(int $stream, int $status, int $count, string $text): string
    {
        $size = \strlen($text);
        return pack('NCCNnnN', 8 + $size, self::INFORM, 0, $stream, $status, $count, $size) . $text;
    }

    /** The fields after a body, which end it; `$text` as in `response`. */
    public static function trailers(int $stream, int $count, string $text): string
    {
        $size = \strlen($text);
        return pack('NCCNnN', 6 + $size, self::TRAILERS, 0, $stream, $count, $size) . $text;
    }

    /** Lets Keepwarm send `$amount` bytes more on `$stream`, or on the connection when it is 0. */
    public static function credit(int $stream, int $amount): string
    {
        return self::frame(self::CREDIT, 0, $stream, pack('N', $amount));
    }

    /**
     * Where this worker was (§10).
     *
     * @param array<string, int> $stacks microseconds of each stack
     */
    public static function samples(int $request, int $dropped, array $stacks): string
    {
        $strings = [];
        foreach ($stacks as $stack => $time) {
            $strings[] = $stack;
            $strings[] = $time;
        }
        $text = implode("\0", $strings);
        return self::frame(self::SAMPLES, 0, 0, pack('NNnN', $request, $dropped, \count($strings), \strlen($text)) . $text);
    }

    /**
     * How what this worker holds has changed (§11).
     *
     * @param array<string, int> $changes by name
     */
    public static function growth(int $request, int $microseconds, array $changes): string
    {
        $strings = [];
        foreach ($changes as $name => $change) {
            $strings[] = $name;
            $strings[] = $change;
        }
        $text = implode("\0", $strings);
        return self::frame(self::GROWTH, 0, 0, pack('NNnN', $request, $microseconds, \count($strings), \strlen($text)) . $text);
    }

    /** Ends the response here, incomplete. A long reason is cut at a character's border. */
    public static function reset(int $stream, int $code, string $reason = ''): string
    {
        return self::frame(self::RESET, 0, $stream, pack('n', $code) . self::utf8Prefix($reason, self::MAX_REASON));
    }

    /** Closes a WebSocket. A long reason is cut at a character boundary. */
    public static function close(int $stream, int $code, string $reason = ''): string
    {
        return self::frame(self::CLOSE, 0, $stream, pack('n', $code) . self::utf8Prefix($reason, self::MAX_CLOSE_REASON));
    }

    /** The longest beginning of `$text` that takes at most `$limit` bytes, in whole characters; bytes that are no UTF-8 become `?`. */
    public static function utf8Prefix(string $text, int $limit): string
    {
        if (preg_match('//u', $text) !== 1) {
            $text = preg_replace('/[\x80-\xff]/', '?', $text);
        }
        if (\strlen($text) <= $limit) {
            return $text;
        }
        while ($limit > 0 && (\ord($text[$limit]) & 0xC0) === 0x80) {
            $limit--;
        }
        return substr($text, 0, $limit);
    }

    // -- parts ------------------------------------------------------------------------------------------------------------

    /**
     * The strings of the block that begins at `$start`, and where it ends.
     *
     * @return array{list<string>, int}
     */
    private static function strings(string $data, int $start): array
    {
        ['n' => $count, 'l' => $length] = unpack('nn/Nl', $data, $start);
        $start += 6;
        if ($length > \strlen($data) - $start) {
            throw new Fault('too_short', 'a string block longer than its frame');
        }
        $strings = $count !== 0 || $length !== 0 ? explode("\0", substr($data, $start, $length)) : [];
        if (\count($strings) !== $count) {
            throw new Fault('strings', 'a string block of ' . \count($strings) . " strings instead of $count");
        }
        return [$strings, $start + $length];
    }

    /**
     * A block of names and values in turn that is the rest of the payload.
     *
     * @return list<array{string, string}>
     */
    private static function pairs(string $payload, int $start): array
    {
        [$strings, $end] = self::strings($payload, $start);
        if ($end !== \strlen($payload)) {
            throw new Fault('too_long', (\strlen($payload) - $end) . ' bytes after a string block');
        }
        if (\count($strings) % 2 !== 0) {
            throw new Fault('fields', 'an odd number of strings (' . \count($strings) . ') in pairs of names and values');
        }
        return array_chunk($strings, 2);
    }
}
