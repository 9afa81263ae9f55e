<?php

declare(strict_types=1);

namespace Keepwarm;

/** A `Body` as a PHP stream, for the objects that frameworks make of a request. */
final class BodyStream
{
    private const PROTOCOL = 'keepwarm-body';

    private static ?Body $next = null;

    /** @var resource|null set by PHP */
    public mixed $context = null;
    private Body $body;
    private int $position = 0;
    private bool $over = false;

    /** @return resource */
    public static function of(Body $body): mixed
    {
        if (!\in_array(self::PROTOCOL, stream_get_wrappers(), true)) {
            stream_wrapper_register(self::PROTOCOL, self::class);
        }
        self::$next = $body;
        return fopen(self::PROTOCOL . '://input', 'rb');
    }

    public function stream_open(string $path, string $mode, int $options, ?string &$opened): bool
    {
        if (self::$next === null) {
            return false;
        }
        $this->body = self::$next;
        self::$next = null;
        return true;
    }

    public function stream_read(int $count): string
    {
        $bytes = $this->body->at($this->position, $count);
        $this->position += \strlen($bytes);
        $this->over = $bytes === '' || $this->body->isOver($this->position);
        return $bytes;
    }

    public function stream_eof(): bool
    {
        return $this->over;
    }

    public function stream_tell(): int
    {
        return $this->position;
    }

    public function stream_seek(int $offset, int $whence): bool
    {
        if ($whence === \SEEK_CUR) {
            $offset += $this->position;
        } elseif ($whence === \SEEK_END) {
            $this->body->all();
            $offset += (int) $this->body->size();
        }
        if ($offset < 0) {
            return false;
        }
        $this->position = $offset;
        $this->over = false;
        return true;
    }

    /** @return array<string, int> */
    public function stream_stat(): array
    {
        $size = $this->body->size();
        return $size === null ? ['mode' => 0100444] : ['mode' => 0100444, 'size' => $size];
    }

    public function stream_set_option(int $option, int $first, ?int $second): bool
    {
        return false;
    }
}
