<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * `php://input`: PHP's own stream of that name, with the request's body in it.
 *
 * PHP keeps what has been read of a body in a temporary stream, which it makes when `php://input` is opened for the first time and which
 * nothing fills on the command line. This is a filter on the way into it. PHP flushes it whenever `php://input` is opened, and before each read
 * from it; then the filter puts the next piece of the body there. So a request that does not read `php://input` pays nothing for it, a body is
 * asked for when it is wanted, and no other stream of `php://` is touched.
 */
final class Input extends \php_user_filter
{
    private const NAME = 'keepwarm.input';
    private const PIECE = 65_536; // bytes
    private const IN_MEMORY = 16_384; // bytes, SAPI_POST_BLOCK_SIZE: above it PHP moves the stream to a file

    /** Bytes of this request's body that are there. */
    public static int $filled = 0;

    /** @var resource|null the temporary stream */
    private static mixed $store = null;
    private static bool $busy = false;
    private static bool $unnamed = false;
    /** The body while there is no request. */
    private static string $probe = '';

    /** Once, before anything of the application runs. */
    public static function install(): void
    {
        self::$store = self::find();
        if (self::$store !== null && stream_filter_register(self::NAME, self::class) && stream_filter_append(self::$store, self::NAME, \STREAM_FILTER_WRITE) !== false) {
            self::$probe = 'probe';
            $works = file_get_contents('php://input') === 'probe' && file_get_contents('php://input') === 'probe';
            self::$probe = '';
            self::forget();
            if ($works && file_get_contents('php://input') === '') {
                return;
            }
        }
        Log::write(
            'keepwarm: php://input is empty in this worker: PHP ' . \PHP_VERSION . ' does not expose it'
            . (\function_exists('get_resources') ? '' : ', because disable_functions includes get_resources') . '. Read the body from Keepwarm\request()->body(), or from the request object.'
        );
    }

    /** The request is over. */
    public static function forget(): void
    {
        self::$filled = 0;
        if (self::$store !== null) {
            ftruncate(self::$store, 0);
            rewind(self::$store);
        }
    }

    /** `exit()` left something of this class. */
    public static function interrupted(): void
    {
        self::$busy = false;
    }

    /** Called by PHP, which takes the position where it writes from the stream. Throws `ClientDisconnected`. */
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        if (self::$busy || $closing) {
            return \PSFS_FEED_ME;
        }
        self::$busy = true;
        try {
            if (self::$filled > self::IN_MEMORY && !self::$unnamed) {
                self::unname();
            }
            $piece = self::next();
            if ($piece === '') {
                return \PSFS_FEED_ME;
            }
            fseek(self::$store, 0, \SEEK_END);
            stream_bucket_append($out, stream_bucket_new(self::$store, $piece));
            self::$filled += \strlen($piece);
            return \PSFS_PASS_ON;
        } finally {
            self::$busy = false;
        }
    }

    /** The next part of the body; '' at the end. */
    private static function next(): string
    {
        $request = Web::$request;
        if ($request === null) {
            return self::$filled === 0 ? self::$probe : '';
        }
        if ($request->spent) {
            return '';
        }
        if ($request->body !== null) {
            return $request->body->at(self::$filled, self::PIECE);
        }
        return self::$filled === 0 ? (string) $request->whole : '';
    }

    /** The stream that PHP makes for the body: the one that is there once `php://input` has been opened, and was not before. */
    private static function find(): mixed
    {
        if (!\function_exists('get_resources')) {
            return null;
        }
        $before = get_resources('stream');
        $input = fopen('php://input', 'rb');
        foreach (array_diff_key(get_resources('stream'), $before) as $stream) {
            if ($stream !== $input && stream_get_meta_data($stream)['stream_type'] === 'TEMP') {
                return $stream;
            }
        }
        return null;
    }

    /** The stream is in a file now, which it keeps: without a name it goes with the worker, however that ends. */
    private static function unname(): void
    {
        self::$unnamed = true;
        $number = fstat(self::$store)['ino'] ?? 0;
        foreach (get_resources('stream') as $stream) {
            $about = stream_get_meta_data($stream);
            if ($about['stream_type'] === 'STDIO' && str_starts_with(basename($about['uri'] ?? ''), 'php') && (fstat($stream)['ino'] ?? 0) === $number) {
                @unlink($about['uri']);
                return;
            }
        }
    }
}
