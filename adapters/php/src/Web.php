<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The state that web functions leave in a request: `header()`, `setcookie()`, `http_response_code()`.
 *
 * The command line's PHP has these functions, and they do nothing there. Keepwarm starts PHP with them disabled, and PHP 8 lets
 * a disabled function be defined: functions.php does it, on top of this class.
 */
final class Web
{
    /** What functions.php defines, and so what has to be in `disable_functions`. */
    public const FUNCTIONS = [
        'header', 'header_remove', 'headers_list', 'headers_sent', 'header_register_callback', 'http_response_code', 'setcookie',
        'setrawcookie', 'is_uploaded_file', 'move_uploaded_file', 'flush', 'connection_status', 'connection_aborted',
        'ob_get_level', 'ob_end_clean', 'ob_end_flush', 'ob_get_clean', 'ini_set', 'session_name', 'filter_input', 'filter_has_var', 'filter_input_array',
        'register_shutdown_function', 'session_write_close', 'libxml_disable_entity_loader', 'set_include_path',
        'iconv_set_encoding',
    ];

    /** What `session_start()` says about caching, over what was said before, and the application over that. */
    private const LIMITED = ['cache-control' => true, 'expires' => true, 'pragma' => true];
    private const COOKIE_OPTIONS = ['expires', 'path', 'domain', 'secure', 'httponly', 'samesite'];
    private const YEAR_10000 = 253_402_300_800;

    /** Whether all of FUNCTIONS are ours. */
    public static bool $complete = false;
    public static ?Response $response = null;
    public static ?Connection $connection = null;
    public static ?Request $request = null;
    public static ?Body $body = null;
    public static int|false $status = false;
    /** @var list<array{string, string}> name and value, in the order in which they were given */
    public static array $headers = [];
    /** @var array<string, true> fields of LIMITED that were given or removed while a session was open */
    public static array $caching = [];
    /** @var callable|null */
    public static mixed $callback = null;
    /** @var array<string, true> paths of this request's uploads */
    public static array $uploads = [];
    /** Called with what is printed by `fastcgi_finish_request` */
    public static ?\Closure $finish = null;

    public static function install(): void
    {
        $missing = array_filter(self::FUNCTIONS, static fn (string $name): bool => \function_exists($name));
        if ($missing === []) {
            require __DIR__ . '/functions.php';
            self::$complete = true;
        } else {
            Log::write(
                'keepwarm: header(), setcookie() and other web functions have no effect in this worker, because `options` overrides '
                . 'the disable_functions that Keepwarm starts PHP with. Remove it, or add to it: ' . implode(',', self::FUNCTIONS)
            );
        }
        require __DIR__ . '/polyfill.php';
    }

    /** `header()`: as PHP's own. */
    public static function header(string $line, bool $replace, int $code): void
    {
        if (self::areSent()) {
            Diagnostics::raise(\E_WARNING, 'Cannot modify header information - headers already sent');
            return;
        }
        $line = rtrim(ltrim($line, ' '));
        $at = strcspn($line, "\r\n\0");
        if ($at < \strlen($line)) {
            Diagnostics::raise(\E_WARNING, 'Header may not contain ' . ($line[$at] === "\0" ? 'NUL bytes' : 'more than a single header, new line detected'));
            return;
        }
        if (preg_match('~^HTTP/[0-9.]+ +(\d{3})~i', $line, $match) === 1) {
            self::$status = $code !== 0 ? $code : (int) $match[1];
            return;
        }
        if (preg_match('~^Status: *(\d{3})\b~i', $line, $match) === 1) {
            self::$status = (int) $match[1]; // CGI's way to say it, which applications use for php-fpm
            return;
        }
        $colon = strpos($line, ':');
        if ($colon === false || $colon === 0) {
            return;
        }
        $name = rtrim(substr($line, 0, $colon));
        $value = ltrim(substr($line, $colon + 1));
        if (strcasecmp($name, 'Content-Type') === 0 && str_starts_with($value, 'text/') && !str_contains($value, 'charset=')) {
            $charset = (string) \ini_get('default_charset');
            $value .= $charset === '' ? '' : ";charset=$charset"; // as PHP says it
        }
        if (isset($_SESSION, self::LIMITED[strtolower($name)])) {
            self::$caching[strtolower($name)] = true;
        }
        if ($replace) {
            self::remove($name);
        }
        self::$headers[] = [$name, $value];
        if ($code !== 0) {
            self::$status = $code;
        } elseif (strcasecmp($name, 'Location') === 0 && self::$status !== 201 && (self::$status < 300 || self::$status > 399)) {
            self::$status = 302;
        } elseif (strcasecmp($name, 'WWW-Authenticate') === 0) {
            self::$status = 401;
        }
    }

    /**
     * What the request brought, whatever the application has since done to the superglobals.
     *
     * @return array<array-key, mixed>
     */
    public static function input(int $type, string $function): array
    {
        $request = DefaultFilter::raw(self::$request);
        return match ($type) {
            \INPUT_GET => $request?->get ?? [],
            \INPUT_POST => $request?->post ?? [],
            \INPUT_COOKIE => $request?->cookies ?? [],
            \INPUT_SERVER => $request?->server ?? [],
            \INPUT_ENV => getenv(),
            default => throw new \ValueError("$function(): Argument #1 (\$" . ($function === 'filter_has_var' ? 'input_type' : 'type') . ') must be an INPUT_* constant'),
        };
    }

    public static function remove(?string $name): void
    {
        if (isset($_SESSION)) {
            if ($name === null || strcasecmp($name, 'Set-Cookie') === 0) {
                Session::putCookie();
            }
            self::$caching += $name === null ? self::LIMITED : array_intersect_key(self::LIMITED, [strtolower($name) => true]);
        }
        self::$headers = $name === null ? [] : self::without($name);
    }

    /** @return list<array{string, string}> */
    private static function without(string $name): array
    {
        return array_values(array_filter(self::$headers, static fn (array $pair): bool => strcasecmp($pair[0], $name) !== 0));
    }

    public static function areSent(): bool
    {
        return self::$response !== null && self::$response->begun;
    }

    /**
     * `setcookie` and `setrawcookie`, with PHP's own words for what is wrong.
     *
     * @param array<array-key, mixed> $options
     */
    public static function cookie(string $function, string $name, string $value, array $options): bool
    {
        $separators = '",", ";", " ", "\t", "\r", "\n", "\013", or "\014"';
        if ($name === '') {
            throw new \ValueError("$function(): Argument #1 (\$name) cannot be empty");
        }
        if (strpbrk($name, "=,; \t\r\n\013\014") !== false) {
            throw new \ValueError("$function(): Argument #1 (\$name) cannot contain \"=\", $separators");
        }
        $known = [];
        foreach ($options as $key => $option) {
            if (\is_int($key)) {
                throw new \ValueError("$function(): option array cannot have numeric keys");
            }
            if (!\in_array(strtolower($key), self::COOKIE_OPTIONS, true) && (\PHP_VERSION_ID < 80500 || strcasecmp($key, 'partitioned') !== 0)) {
                throw new \ValueError("$function(): option \"$key\" is invalid");
            }
            $known[strtolower($key)] = $option;
        }
        foreach (['path', 'domain'] as $key) {
            if (strpbrk((string) ($known[$key] ?? ''), ",; \t\r\n\013\014") !== false) {
                throw new \ValueError("$function(): \"$key\" option cannot contain $separators");
            }
        }
        if ((int) ($known['expires'] ?? 0) >= self::YEAR_10000) {
            throw new \ValueError("$function(): \"expires\" option cannot have a year greater than 9999");
        }
        if (self::areSent()) {
            Diagnostics::raise(\E_WARNING, 'Cannot modify header information - headers already sent');
            return false;
        }
        $text = self::cookieText($name, $value, $known);
        if (strpbrk($text, "\r\n") !== false || str_contains($text, "\0")) {
            Diagnostics::raise(\E_WARNING, 'Header may not contain more than a single header, new line detected');
            return false;
        }
        self::$headers[] = ['Set-Cookie', $text];
        return true;
    }

    /** @param array<string, mixed> $options */
    public static function cookieText(string $name, string $value, array $options): string
    {
        if ($value === '') {
            // As PHP does: an empty value removes the cookie.
            return "$name=deleted; expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0" . self::attributes($options);
        }
        $text = "$name=$value";
        $expires = (int) ($options['expires'] ?? 0);
        if ($expires > 0) {
            $text .= '; expires=' . gmdate('D, d M Y H:i:s \G\M\T', $expires) . '; Max-Age=' . max(0, $expires - time());
        }
        return $text . self::attributes($options);
    }

    /** @param array<string, mixed> $options */
    private static function attributes(array $options): string
    {
        $text = '';
        foreach (['path' => 'path', 'domain' => 'domain'] as $key => $name) {
            if (($options[$key] ?? '') !== '') {
                $text .= "; $name={$options[$key]}";
            }
        }
        $text .= ($options['secure'] ?? false) ? '; secure' : '';
        $text .= ($options['httponly'] ?? false) ? '; HttpOnly' : '';
        $text .= ($options['samesite'] ?? '') !== '' ? "; SameSite={$options['samesite']}" : '';
        return $text . (($options['partitioned'] ?? false) ? '; Partitioned' : '');
    }

    /**
     * Takes what `header()` left: names and values in turn.
     *
     * @return list<string>
     */
    public static function takeHeaders(): array
    {
        if (self::$callback !== null) {
            $callback = self::$callback;
            self::$callback = null;
            $callback();
        }
        if (isset($_SESSION)) {
            foreach (array_chunk(Session::limiter(), 2) as [$name]) {
                if (!isset(self::$caching[strtolower($name)])) {
                    self::$headers = self::without($name); // said before the session was opened
                }
            }
        }
        $headers = self::$headers;
        self::$headers = [];
        return $headers === [] ? [] : array_merge(...$headers);
    }

    /** A request begins. */
    public static function begin(Response $response, Request $request): void
    {
        self::$response = $response;
        self::$request = $request;
        self::$body = $request->body;
        self::$status = false;
        if (self::$headers !== [] || self::$uploads !== [] || self::$caching !== [] || self::$callback !== null) {
            self::$headers = self::$uploads = self::$caching = [];
            self::$callback = null;
        }
    }
}
