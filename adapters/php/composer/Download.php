<?php

declare(strict_types=1);

namespace Keepwarm\Composer;

/** An HTTP or HTTPS download by PHP's own streams, so that no extension but openssl is needed. */
final class Download
{
    private const TIMEOUT = 30.0; // seconds without a byte

    /** Writes at most one byte more than `$size`, so that no server can fill the disk. Throws `Failure`. */
    public static function to(string $url, string $file, int $size): void
    {
        $scheme = strtolower((string) parse_url($url, \PHP_URL_SCHEME));
        if ($scheme === 'https' && !\extension_loaded('openssl')) {
            throw new Failure('this PHP has no openssl extension');
        }
        $faults = [];
        set_error_handler(static function (int $level, string $text) use (&$faults): bool {
            $faults[] = trim(preg_replace(['~^\w+\([^)]*\): |Failed to open stream: ~i', '~\s+~'], ['', ' '], $text));
            return true;
        });
        try {
            $source = fopen($url, 'rb', false, stream_context_create(self::options($url, $scheme)));
            if ($source === false) {
                throw new Failure(implode(': ', array_unique(array_filter($faults))));
            }
            self::checkStatus($source);
            self::copy($source, $file, $size);
        } finally {
            restore_error_handler();
        }
    }

    /** @param resource $source */
    private static function copy(mixed $source, string $file, int $size): void
    {
        $target = fopen($file, 'xb');
        if ($target === false) {
            throw new Failure("cannot write $file");
        }
        for ($left = $size + 1; $left > 0 && !feof($source); $left -= \strlen($bytes)) {
            $bytes = (string) fread($source, min($left, 65_536));
            if ($bytes === '' && stream_get_meta_data($source)['timed_out']) {
                throw new Failure('the server sent nothing for ' . self::TIMEOUT . ' s');
            }
            if (fwrite($target, $bytes) !== \strlen($bytes)) {
                throw new Failure("cannot write $file: the disk may be full");
            }
        }
        if (!fsync($target) || !fclose($target)) {
            throw new Failure("cannot write $file: the disk may be full");
        }
    }

    /**
     * After redirects, the last response counts.
     *
     * @param resource $source
     */
    private static function checkStatus(mixed $source): void
    {
        $lines = preg_grep('~^HTTP/~i', stream_get_meta_data($source)['wrapper_data'] ?? []) ?: [];
        $status = preg_match('~^HTTP/\S+ (\d+)~i', (string) end($lines), $match) === 1 ? $match[1] : 'none';
        if ($status !== '200') {
            throw new Failure("the server responded with status $status");
        }
    }

    /** @return array<string, array<string, mixed>> */
    private static function options(string $url, string $scheme): array
    {
        $http = ['timeout' => self::TIMEOUT, 'ignore_errors' => true, 'user_agent' => 'keepwarm-composer'];
        $proxy = self::proxy($scheme, strtolower((string) parse_url($url, \PHP_URL_HOST)));
        if ($proxy === null) {
            return ['http' => $http];
        }
        $parts = parse_url(str_contains($proxy, '://') ? $proxy : "http://$proxy");
        $transport = ['http' => ['tcp', 80], 'https' => ['ssl', 443]][strtolower($parts['scheme'] ?? '')] ?? null;
        if ($transport === null || !isset($parts['host'])) {
            throw new Failure('the proxy variable is not the URL of an http or https proxy');
        }
        $http['proxy'] = "$transport[0]://{$parts['host']}:" . ($parts['port'] ?? $transport[1]);
        $http['request_fulluri'] = $scheme === 'http'; // of https, the proxy sees only a CONNECT
        if (isset($parts['user'])) {
            $http['header'] = 'Proxy-Authorization: Basic ' . base64_encode(rawurldecode($parts['user']) . ':' . rawurldecode($parts['pass'] ?? ''));
        }
        return ['http' => $http];
    }

    /** What the environment says, with the names that curl and composer read. */
    private static function proxy(string $scheme, string $host): ?string
    {
        foreach (self::list(self::variable('no_proxy')) as $except) {
            $except = ltrim(strtolower($except), '.');
            if ($except === '*' || $host === $except || str_ends_with($host, ".$except")) {
                return null;
            }
        }
        $proxy = self::variable("{$scheme}_proxy");
        return $proxy !== '' ? $proxy : (self::variable('all_proxy') ?: null);
    }

    private static function variable(string $name): string
    {
        return (string) (getenv($name) ?: getenv(strtoupper($name)));
    }

    /** @return list<string> */
    private static function list(string $text): array
    {
        return preg_split('~[\s,]+~', $text, -1, \PREG_SPLIT_NO_EMPTY) ?: [];
    }
}
