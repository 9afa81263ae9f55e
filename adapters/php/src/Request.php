<?php

declare(strict_types=1);

namespace Keepwarm;

/** A request, as it came; what a plain callable is given, and what the other forms are made of. */
final class Request
{
    private const MAX_REMEMBERED = 1_024; // names; clients choose them, so they must not fill the memory
    private const DEFAULT_PORTS = ['http' => '80', 'https' => '443'];

    private const FIELDS = 16; // of a request, for which there is room

    /** @var array<array-key, string> field name => its key in $_SERVER */
    private static array $keys = ['content-type' => 'CONTENT_TYPE', 'content-length' => 'CONTENT_LENGTH'];

    public string $method = '';
    /** `HTTP/1.1`, `HTTP/1.0`, `HTTP/2.0` */
    public string $protocol = '';
    /** `http` or `https` */
    public string $scheme = '';
    /** Below the script name, percent-decoded. */
    public string $path = '';
    /** As it was routed, percent-encoded, without the query. */
    public string $rawPath = '';
    /** Without `?`. */
    public string $query = '';
    public string $scriptName = '';
    public string $clientAddress = '';
    /** @var array<array-key, list<string>> name in lower case => its values */
    public array $fields = [];
    /** @var array<string, mixed> as $_SERVER */
    public array $server = [];
    /** @var array<array-key, mixed> as $_GET, $_POST, $_COOKIE, $_FILES */
    public array $get = [];
    /** @var array<array-key, mixed> */
    public array $post = [];
    /** @var array<array-key, mixed> */
    public array $cookies = [];
    /** @var array<array-key, mixed> */
    public array $files = [];
    /** The body when it came whole with the request, otherwise null. */
    public ?string $whole = null;
    /** The body when it did not. */
    public ?Body $body = null;
    /** The body was a form of files: it has been read, and is not there again, as with PHP itself. */
    public bool $spent = false;
    /** Its length; null when the client did not say. */
    public ?int $length = null;

    /**
     * `$base` with a key for each member that a request sets in $_SERVER: filling a key costs less than adding one.
     *
     * @param array<string, mixed> $base what is in $_SERVER for every request
     * @return array<string, mixed>
     */
    public static function template(array $base): array
    {
        foreach ([
            'REQUEST_METHOD', 'SERVER_PROTOCOL', 'REQUEST_SCHEME', 'REQUEST_URI', 'QUERY_STRING', 'SERVER_NAME', 'SERVER_PORT', 'REMOTE_ADDR', 'REMOTE_PORT',
            'REQUEST_TIME_FLOAT', 'REQUEST_TIME',
        ] as $name) {
            $base[$name] = '';
        }
        // An array that has grown keeps its size in each copy.
        for ($at = 0; $at < self::FIELDS; $at++) {
            $base["keepwarm $at"] = '';
        }
        while (--$at >= 0) {
            unset($base["keepwarm $at"]);
        }
        return $base;
    }

    /**
     * @param list<string> $strings of a REQUEST (spec/wire.md §4)
     * @param array<string, mixed> $base a `template`
     */
    public function __construct(array $strings, int $flags, int $length, ?string $whole, array $base)
    {
        [$this->method, $this->protocol, $this->scheme, $this->path, $this->rawPath, $this->query, $this->scriptName,
            $name, $port, $this->clientAddress, $clientPort] = $strings;
        $user = null;
        if (($flags & Wire::USER) !== 0) { // the last two, which are not a field
            $user = \array_pop($strings);
            $authType = \array_pop($strings);
        }
        $this->whole = $whole;
        $this->length = $length === Wire::UNKNOWN_LENGTH ? null : $length;
        $server = $base;
        $fields = [];
        $count = \count($strings);
        if (($flags & Wire::REPEATS) !== 0) {
            for ($at = 11; $at < $count; $at += 2) {
                $fields[$strings[$at]][] = $strings[$at + 1];
            }
            foreach ($fields as $field => $values) {
                // RFC 9110 §5.3; cookies: RFC 9113 §8.2.3.
                $server[self::$keys[$field] ?? self::key((string) $field)] = implode($field === 'cookie' ? '; ' : ', ', $values);
            }
        } else {
            for ($at = 11; $at < $count; $at += 2) {
                $field = $strings[$at];
                $value = $strings[$at + 1];
                $fields[$field] = [$value];
                $server[self::$keys[$field] ?? self::key($field)] = $value;
            }
        }
        $this->fields = $fields;
        $server['REQUEST_METHOD'] = $this->method;
        $server['SERVER_PROTOCOL'] = $this->protocol;
        $server['REQUEST_SCHEME'] = $this->scheme;
        $server['REQUEST_URI'] = $this->query === '' ? $this->rawPath : "{$this->rawPath}?{$this->query}";
        $server['QUERY_STRING'] = $this->query;
        $server['SERVER_NAME'] = $name !== '' ? $name : 'localhost';
        $server['SERVER_PORT'] = $port !== '' ? $port : self::DEFAULT_PORTS[$this->scheme] ?? '80';
        $server['REMOTE_ADDR'] = $this->clientAddress;
        $server['REMOTE_PORT'] = $clientPort;
        if ($this->scheme === 'https') {
            $server['HTTPS'] = 'on';
        }
        if ($this->scriptName !== '') {
            $server['SCRIPT_NAME'] = $server['PHP_SELF'] = $this->scriptName . $base['SCRIPT_NAME'];
        }
        if (str_starts_with($this->path, $base['SCRIPT_NAME'] . '/')) {
            // As a web server splits /index.php/route (RFC 3875 §4.1.5).
            $server['PATH_INFO'] = substr($this->path, \strlen($base['SCRIPT_NAME']));
            $server['PHP_SELF'] = $server['SCRIPT_NAME'] . $server['PATH_INFO'];
        }
        if (($flags & Wire::EXPECT) !== 0) {
            $server['HTTP_EXPECT'] = '100-continue';
        }
        if (isset($server['HTTP_AUTHORIZATION'])) {
            $server = self::withCredentials($server);
        }
        if ($user !== null) { // RFC 3875 §4.1.1, §4.1.11
            $server['REMOTE_USER'] = $user;
            if ($authType !== '') {
                $server['AUTH_TYPE'] = $authType;
            }
        }
        $now = microtime(true);
        $server['REQUEST_TIME_FLOAT'] = $now;
        $server['REQUEST_TIME'] = (int) $now;
        $this->server = $server;
        if ($this->query !== '') {
            $this->get = Forms::parsed($this->query);
        }
        if (isset($server['HTTP_COOKIE'])) {
            $this->cookies = self::cookiesOf($server['HTTP_COOKIE']);
        }
    }

    /**
     * As $_REQUEST: what `request_order` names, each over those before it.
     *
     * @return array<array-key, mixed>
     */
    public function merged(): array
    {
        static $order = null;
        if ($order === null) {
            $letters = array_unique(str_split(strtoupper(\ini_get_all(null, false)['request_order'] ?? (string) \ini_get('variables_order'))));
            $order = array_filter(array_map(static fn (string $letter): ?string => ['G' => 'get', 'P' => 'post', 'C' => 'cookies'][$letter] ?? null, $letters));
        }
        $all = [];
        foreach ($order as $which) {
            if ($this->$which !== []) {
                $all = $all === [] ? $this->$which : array_replace_recursive($all, $this->$which);
            }
        }
        return $all;
    }

    /** The values of a field, joined; '' when there is none. */
    public function field(string $name): string
    {
        return implode(', ', $this->fields[strtolower($name)] ?? []);
    }

    /** The whole body. Throws `ClientDisconnected`. */
    public function body(): string
    {
        return $this->body === null ? (string) $this->whole : $this->body->all();
    }

    /**
     * The body as a stream, which can be read again from its start; what has not come yet is waited for.
     *
     * @return resource
     */
    public function stream(): mixed
    {
        if ($this->body !== null) {
            return BodyStream::of($this->body);
        }
        $stream = fopen('php://memory', 'w+b');
        if ($this->whole !== null && $this->whole !== '') {
            fwrite($stream, $this->whole);
            rewind($stream);
        }
        return $stream;
    }

    /** The form that the body is: `urlencoded`, `multipart`, or null. */
    public function form(): ?string
    {
        if (!isset($this->server['CONTENT_TYPE'])) {
            return null;
        }
        $type = strtolower((string) strtok($this->server['CONTENT_TYPE'], ';, ')); // what ends it for PHP
        return ['application/x-www-form-urlencoded' => 'urlencoded', 'multipart/form-data' => 'multipart'][$type] ?? null;
    }

    /** `scheme://host/path?query`, with the client's `Host`. */
    public function uri(): string
    {
        $host = $this->server['HTTP_HOST'] ?? '';
        if ($host === '' || $host[0] === ':') { // none, or an empty one with a port
            $host = $this->server['SERVER_NAME'];
            if ($this->server['SERVER_PORT'] !== (self::DEFAULT_PORTS[$this->scheme] ?? '')) {
                $host .= ':' . $this->server['SERVER_PORT'];
            }
        }
        if (str_ends_with($host, '0')) {
            $host = preg_replace('/:0+$/D', '', $host); // no port, for which some objects would throw
        }
        return "{$this->scheme}://$host" . ($this->rawPath === '*' ? '' : $this->server['REQUEST_URI']);
    }

    private static function key(string $name): string
    {
        $key = 'HTTP_' . strtr(strtoupper($name), '-', '_');
        if (\count(self::$keys) < self::MAX_REMEMBERED) {
            self::$keys[$name] = $key;
        }
        return $key;
    }

    /**
     * Cookies as PHP reads them: the first of a name counts (of a name of an array the last), one without `=` is empty. Unlike that of a form, a
     * `+` in a value is itself.
     *
     * @return array<array-key, mixed>
     */
    private static function cookiesOf(string $text): array
    {
        $cookies = [];
        foreach (explode(';', $text) as $cookie) {
            $pair = explode('=', ltrim($cookie), 2);
            $name = $pair[0];
            if (strpbrk($name, '[. ') !== false) {
                Forms::put($cookies, $name, rawurldecode($pair[1] ?? ''), true);
            } elseif ($name !== '' && !isset($cookies[$name])) {
                $cookies[$name] = rawurldecode($pair[1] ?? '');
            }
        }
        return $cookies;
    }

    /**
     * PHP_AUTH_USER and PHP_AUTH_PW, as PHP makes them of Basic credentials.
     *
     * @param array<string, mixed> $server
     * @return array<string, mixed>
     */
    private static function withCredentials(array $server): array
    {
        $text = $server['HTTP_AUTHORIZATION'];
        if (strncasecmp($text, 'Basic ', 6) === 0) {
            $pair = explode(':', (string) base64_decode(substr($text, 6)), 2);
            if (isset($pair[1])) {
                [$server['PHP_AUTH_USER'], $server['PHP_AUTH_PW']] = $pair;
                $server['AUTH_TYPE'] = 'Basic';
            }
        } elseif (strncasecmp($text, 'Digest ', 7) === 0) {
            $server['PHP_AUTH_DIGEST'] = substr($text, 7);
            $server['AUTH_TYPE'] = 'Digest';
        }
        return $server;
    }
}
