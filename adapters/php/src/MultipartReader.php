<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The heads and contents of a multipart body, one after another, in pieces: `head`, then `content` or not, then the next `head`.
 *
 * It takes for a delimiter and for a field what PHP itself does (main/rfc1867.c), so that an application finds the same form on any
 * server: lines may end in LF, a delimiter is a whole line, and what follows the closing one is looked through like a preamble.
 */
final class MultipartReader
{
    private const SPACE = " \t\n\v\f\r";
    private const FIELDS = ['content-disposition', 'content-type'];
    private const MAX_LINE = 16_384; // bytes of a line in a head

    private readonly string $delimiter;
    private string $buffer = "\n"; // so that the first line looks like every other
    /** What has been used of the buffer. The byte before it is kept, which may be the LF before a delimiter. */
    private int $at = 1;

    /** @param \Closure(): string $read gives the next bytes; '' at the end */
    public function __construct(string $boundary, private readonly \Closure $read)
    {
        $this->delimiter = "--$boundary";
    }

    /**
     * The headers of the next part, the first of each name in FIELDS; null after the last part.
     *
     * @return array<string, string>|null name in lower case => value
     */
    public function head(): ?array
    {
        if (!$this->skipToPart()) {
            return null;
        }
        $fields = [];
        $name = '';
        while (($line = $this->line()) !== null && $line !== '') {
            $colon = str_contains(self::SPACE, $line[0]) ? false : strpos($line, ':');
            if ($colon !== false) {
                $name = strtolower(substr($line, 0, $colon));
                $name = \in_array($name, self::FIELDS, true) && !isset($fields[$name]) ? $name : '';
                $line = ltrim(substr($line, $colon + 1), self::SPACE);
            }
            if ($name !== '') {
                $fields[$name] = ($fields[$name] ?? '') . $line; // a line without a colon continues the previous one
            }
        }
        return $fields;
    }

    /**
     * Gives the content of the part whose head was read to `$take`, in pieces; false when the body ends within it.
     *
     * @param \Closure(string): void $take
     */
    public function content(\Closure $take): bool
    {
        $end = "\n{$this->delimiter}";
        while (($found = strpos($this->buffer, $end, $this->at)) === false) {
            // What may be the beginning of the end stays, and the CR before it.
            $safe = max($this->at, \strlen($this->buffer) - \strlen($end));
            if ($safe > $this->at) {
                $take(substr($this->buffer, $this->at, $safe - $this->at));
                $this->at = $safe;
            }
            if (!$this->more()) {
                $this->takeRest($take, $end);
                return false;
            }
        }
        $piece = self::withoutReturn(substr($this->buffer, $this->at, $found - $this->at));
        if ($piece !== '') {
            $take($piece);
        }
        $this->at = $found + 1;
        return true;
    }

    /** The end of a body that lacks the delimiter: as much of one as there is does not count. */
    private function takeRest(\Closure $take, string $end): void
    {
        $rest = substr($this->buffer, $this->at);
        $this->at = \strlen($this->buffer);
        $last = strrpos($rest, "\n");
        if ($last !== false && str_starts_with($end, substr($rest, $last))) {
            $rest = self::withoutReturn(substr($rest, 0, $last));
        }
        if ($rest !== '') {
            $take($rest);
        }
    }

    private static function withoutReturn(string $text): string
    {
        return str_ends_with($text, "\r") ? substr($text, 0, -1) : $text;
    }

    /** Moves past the next line that is the delimiter; false when there is none. */
    private function skipToPart(): bool
    {
        $next = "\n{$this->delimiter}";
        while (true) {
            $found = strpos($this->buffer, $next, $this->at - 1);
            if ($found !== false) {
                $this->at = $found + 1;
                $line = $this->line();
                if ($line === null || $line === $this->delimiter) {
                    return $line !== null;
                }
                continue; // the closing one, or another that begins like ours
            }
            $this->at = max($this->at, \strlen($this->buffer) - \strlen($next) + 2);
            if (!$this->more()) {
                return false;
            }
        }
    }

    /** The next line without its end, as far as a NUL in it; null when it has no end. One that is too long comes in parts. */
    private function line(): ?string
    {
        while (($end = strpos($this->buffer, "\n", $this->at)) === false || $end - $this->at > self::MAX_LINE) {
            if (\strlen($this->buffer) - $this->at >= self::MAX_LINE) {
                $line = substr($this->buffer, $this->at, self::MAX_LINE);
                $this->at += self::MAX_LINE;
                return explode("\0", $line, 2)[0];
            }
            if (!$this->more()) {
                return null;
            }
        }
        $line = self::withoutReturn(substr($this->buffer, $this->at, $end - $this->at));
        $this->at = $end + 1;
        return explode("\0", $line, 2)[0];
    }

    private function more(): bool
    {
        $piece = ($this->read)();
        if ($piece === '') {
            return false;
        }
        $this->buffer = substr($this->buffer, $this->at - 1) . $piece;
        $this->at = 1;
        return true;
    }
}
