<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * A response's fields: from names and values in turn to the text of a string block (spec/wire.md §2.1, §5).
 *
 * Names come back again and again, so each is checked and classified once and remembered. Values are checked by looking
 * through the joined text once.
 */
final class Fields
{
    private const PLAIN = 0;
    private const LENGTH = 1;
    private const HOP_BY_HOP = 2;
    private const CONNECTION = 3;
    private const TYPE = 4;
    private const MAX_REMEMBERED = 1_024; // names; an application that invents them without end must not fill the memory

    // RFC 9110 §7.6.1, and RFC 9112 §6.1: these speak about a connection, which is Keepwarm's. `Trailer` travels.
    private const SPECIAL = [
        'content-length' => self::LENGTH,
        'content-type' => self::TYPE,
        'connection' => self::CONNECTION,
        'keep-alive' => self::HOP_BY_HOP,
        'proxy-connection' => self::HOP_BY_HOP,
        'te' => self::HOP_BY_HOP,
        'transfer-encoding' => self::HOP_BY_HOP,
        'upgrade' => self::HOP_BY_HOP,
    ];

    /** @var array<array-key, int> */
    private static array $kinds = [];

    /** Bytes of fields that always fit a RESPONSE beside its first body bytes and a Content-Length that the adapter adds. */
    private const MAX_TEXT = Wire::MAX_PAYLOAD - Wire::MAX_CHUNK - 64;

    /**
     * `[count, text, content length or null, whether to close the connection, whether there is a type]`. Throws `\ValueError` for what cannot travel.
     *
     * @param list<string> $flat names and values in turn
     * @return array{int, string, ?int, bool, bool}
     */
    public static function block(array $flat): array
    {
        if ($flat === []) {
            return [0, '', null, false, false];
        }
        $length = null;
        $special = $close = $typed = false;
        $count = \count($flat);
        $kinds = self::$kinds;
        for ($at = 0; $at < $count; $at += 2) {
            $kind = $kinds[$flat[$at]] ?? self::kindOf($flat[$at]);
            if ($kind === self::PLAIN) {
                continue;
            }
            if ($kind === self::TYPE) {
                $typed = true;
                continue;
            }
            if ($kind !== self::LENGTH) {
                $special = true;
                continue;
            }
            $value = self::contentLength($flat[$at + 1]);
            if ($length !== null && $length !== $value) {
                throw new \ValueError("conflicting values of Content-Length: $length and $value");
            }
            $length = $value;
        }
        if ($special) {
            [$flat, $close] = self::withoutHopByHop($flat);
            $count = \count($flat);
        }
        $text = \implode("\0", $flat);
        if (\str_contains($text, "\n") || \str_contains($text, "\r") || ($count > 0 && \substr_count($text, "\0") !== $count - 1)) {
            throw new \ValueError('CR, LF or NUL in the value of the header ' . self::badField($flat));
        }
        if (\strlen($text) > self::MAX_TEXT) {
            self::checkLength($text);
        }
        return [$count, $text, $length, $close, $typed];
    }

    /** Throws `\ValueError` for a text of fields that is too long. */
    public static function checkLength(string $text): void
    {
        if (\strlen($text) > self::MAX_TEXT) {
            throw new \ValueError('the headers take ' . \strlen($text) . ' bytes; the limit is ' . self::MAX_TEXT);
        }
    }

    private static function kindOf(string $name): int
    {
        if (preg_match('/^[!#$%&\'*+\-.^_`|~0-9a-z]+$/iD', $name) !== 1) { // a token, RFC 9110 §5.6.2
            throw new \ValueError('invalid header name: ' . var_export($name, true));
        }
        $kind = self::SPECIAL[strtolower($name)] ?? self::PLAIN;
        if (\count(self::$kinds) < self::MAX_REMEMBERED) {
            self::$kinds[$name] = $kind;
        }
        return $kind;
    }

    /** The number that a `Content-Length` says (RFC 9110 §8.6: digits and nothing else). */
    private static function contentLength(string $value): int
    {
        if (preg_match('/^\d{1,18}$/D', $value) !== 1) {
            throw new \ValueError('invalid Content-Length: ' . var_export($value, true));
        }
        return (int) $value;
    }

    /**
     * The fields that concern more than the connection, and whether the application wants it closed.
     *
     * @param list<string> $flat
     * @return array{list<string>, bool}
     */
    private static function withoutHopByHop(array $flat): array
    {
        $kept = $named = [];
        $close = false;
        foreach (array_chunk($flat, 2) as [$name, $value]) {
            $kind = self::kindOf($name);
            if ($kind < self::HOP_BY_HOP || $kind === self::TYPE) {
                $kept[] = [$name, $value];
                continue;
            }
            $options = $kind === self::CONNECTION ? preg_split('/[\s,]+/', strtolower($value), -1, \PREG_SPLIT_NO_EMPTY) : [];
            $named += array_flip($options);
            $close = $close || \in_array('close', $options, true);
            if ($options !== ['close']) {
                Log::once('hop-by-hop ' . strtolower($name), "keepwarm: the application sends the connection-specific header $name; it is not forwarded");
            }
        }
        unset($named['close'], $named['content-length']);
        // RFC 9110 §7.6.1: what Connection names is the connection's too.
        $kept = array_filter($kept, static fn (array $pair): bool => !isset($named[strtolower($pair[0])]));
        return [array_merge(...array_values($kept)), $close];
    }

    /** @param list<string> $flat */
    private static function badField(array $flat): string
    {
        foreach (array_chunk($flat, 2) as [$name, $value]) {
            if (strpbrk($value, "\r\n\0") !== false || str_contains($value, "\0")) {
                return $name;
            }
        }
        return '?';
    }
}
