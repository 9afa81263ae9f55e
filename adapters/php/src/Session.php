<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * PHP's own sessions, a request at a time: the id comes from the request's cookie, and its cookie goes with the response.
 *
 * PHP does both once in the life of a process, and sends no cookie on the command line.
 */
final class Session
{
    private const LONG_AGO = 'Thu, 19 Nov 1981 08:52:00 GMT'; // what PHP says

    /** A session has been used in this process, so that PHP will not look at the cookies again. */
    public static bool $used = false;
    /** @var array<string, string> those that a request may change, as the application's boot left them: name => value */
    private static array $settings = [];
    /** @var list<string|false> as `place` gives them when the application is loaded */
    private static array $place = [];
    /** `session.auto_start` */
    private static bool $automatic = false;
    /** PHP has sessions. */
    private static bool $loaded = false;
    /** That of the cookie whose id was taken. */
    private static string $name = '';
    /** The id of the session whose cookie is among the headers, or was. */
    private static string $put = '';
    /** This request may have changed settings. */
    public static bool $touched = false;

    /** Takes back the session that `session.auto_start` has PHP begin with the process, before there is a request. */
    public static function install(): void
    {
        if (\extension_loaded('session') && session_status() === \PHP_SESSION_ACTIVE) {
            self::$automatic = self::$used = true;
            session_destroy();
            session_id('');
            unset($GLOBALS['_SESSION']);
        }
    }

    /**
     * What functions change without a session: session_set_cookie_params(), session_save_path(), …
     *
     * @return list<string|false>
     */
    private static function place(): array
    {
        return [
            \ini_get('session.cookie_lifetime'), \ini_get('session.cookie_path'), \ini_get('session.cookie_domain'), \ini_get('session.cookie_secure'),
            \ini_get('session.cookie_httponly'), \ini_get('session.cookie_samesite'), \ini_get('session.save_path'), \ini_get('session.cache_limiter'),
            \ini_get('session.cache_expire'), \ini_get('session.save_handler'),
        ];
    }

    /** As a comparison with `place` would say, for less: each request asks. */
    private static function isInPlace(): bool
    {
        $was = self::$place;
        return \ini_get('session.cookie_lifetime') === $was[0] && \ini_get('session.cookie_path') === $was[1] && \ini_get('session.cookie_domain') === $was[2]
            && \ini_get('session.cookie_secure') === $was[3] && \ini_get('session.cookie_httponly') === $was[4] && \ini_get('session.cookie_samesite') === $was[5]
            && \ini_get('session.save_path') === $was[6] && \ini_get('session.cache_limiter') === $was[7] && \ini_get('session.cache_expire') === $was[8]
            && \ini_get('session.save_handler') === $was[9];
    }

    public static function settle(): void
    {
        self::$loaded = \extension_loaded('session');
        self::$settings = [];
        foreach (self::$loaded ? ini_get_all('session') : [] as $name => $setting) {
            if (($setting['access'] & \INI_USER) !== 0) {
                self::$settings[$name] = (string) $setting['local_value'];
            }
        }
        // PHP itself, which looks for the first session's id, knows no referer here.
        self::$used = self::$used || self::$loaded && (string) \ini_get('session.referer_check') !== '';
        self::$touched = false;
        self::$place = self::place();
        self::$name = self::$settings['session.name'] ?? '';
    }

    /** Restores the settings. */
    public static function reset(): void
    {
        if (!self::$touched && (!self::$loaded || Session::isInPlace())) {
            return;
        }
        self::$touched = false;
        self::$name = self::$settings['session.name'] ?? '';
        foreach (self::$settings as $name => $value) {
            if (\ini_get($name) !== $value && $value !== 'user') {
                @ini_alter($name, $value);
            }
        }
    }

    /** A request begins, in a process that has used a session. */
    public static function begin(): void
    {
        self::adopt();
        if (self::$automatic) {
            session_start();
        }
    }

    /** Takes the id from the cookie of the session's name; where php.ini allows it, from the query or the form. */
    public static function adopt(): void
    {
        self::$name = (string) \ini_get('session.name');
        if (self::$used && session_status() !== \PHP_SESSION_ACTIVE) {
            $id = self::brought();
            session_id(\is_string($id) && preg_match('/^[a-zA-Z0-9,-]{1,256}$/D', $id) === 1 ? $id : '');
        }
    }

    /** What the request names as its session's id. */
    private static function brought(): mixed
    {
        $name = (string) \ini_get('session.name');
        $id = \ini_get('session.use_cookies') ? $_COOKIE[$name] ?? '' : '';
        if (!\ini_get('session.use_only_cookies')) {
            $id = self::isReferredHere() ? ($id === '' ? $_GET[$name] ?? $_POST[$name] ?? '' : $id) : '';
        }
        return $id;
    }

    /** `session.referer_check` */
    private static function isReferredHere(): bool
    {
        $part = (string) \ini_get('session.referer_check');
        $referer = $_SERVER['HTTP_REFERER'] ?? '';
        return $part === '' || $referer === '' || str_contains($referer, $part);
    }

    /**
     * The fields that PHP would have added to the response, in turn; none when the application has given its own.
     *
     * @param list<string> $flat the response's fields
     * @return list<string>
     */
    public static function fields(array $flat): array
    {
        $id = session_id();
        if (!isset($_SESSION)) {
            return []; // none, or the id of a cookie whose session was not opened
        }
        $limited = [];
        foreach (array_chunk(self::limiter(), 2) as [$field, $value]) {
            if (!self::has($flat, $field) && !isset(Web::$caching[strtolower($field)])) {
                array_push($limited, $field, $value);
            }
        }
        if ($id === '' || $id === false) {
            return $limited; // it was destroyed: what it was opened for is a visitor's own all the same
        }
        $cookie = $id === self::$put || self::has($flat, 'set-cookie', \ini_get('session.name') . '=') ? null : self::cookie($id);
        return $cookie === null ? $limited : [...$limited, 'Set-Cookie', $cookie];
    }

    /** The session's cookie; null where the client has it, or gets none. */
    private static function cookie(string $id): ?string
    {
        if (!\ini_get('session.use_cookies') || self::brought() === $id) {
            return null;
        }
        $options = session_get_cookie_params();
        $options['expires'] = $options['lifetime'] > 0 ? time() + $options['lifetime'] : 0;
        return Web::cookieText((string) \ini_get('session.name'), rawurlencode($id), $options);
    }

    /**
     * Before the application looks at its headers, or removes some: `session_start()` would have put the session's cookie among them. Symfony removes it
     * again if the session is empty.
     */
    public static function putCookie(): void
    {
        $id = (string) session_id();
        if ($id === '' || $id === self::$put || Web::areSent()) {
            return;
        }
        $start = \ini_get('session.name') . '=';
        $cookie = self::cookie($id);
        if (self::$put !== '') {
            // The session continues under a new id.
            Web::$headers = array_values(array_filter(Web::$headers, static fn (array $pair): bool => strcasecmp($pair[0], 'set-cookie') !== 0 || !str_starts_with($pair[1], $start . self::$put)));
        }
        self::$put = $id;
        if ($cookie !== null) {
            Web::$headers[] = ['Set-Cookie', $cookie];
        }
    }

    /**
     * A session that continues under a new id has no cookie that removes it, though the handler of the old id has asked for one: PHP
     * itself replaces that by the new one.
     *
     * @param list<string> $flat
     * @return list<string>
     */
    public static function withoutRemoval(array $flat): array
    {
        if (session_id() === '') {
            return $flat;
        }
        $removal = \ini_get('session.name') . '=deleted;';
        $kept = array_filter(array_chunk($flat, 2), static fn (array $pair): bool => strcasecmp($pair[0], 'set-cookie') !== 0 || !str_starts_with($pair[1], $removal));
        return array_merge(...array_values($kept));
    }

    /** The request is over: what it opened is closed and emptied. */
    public static function end(): void
    {
        if (!self::$loaded) {
            return;
        }
        if (session_status() === \PHP_SESSION_ACTIVE) {
            session_commit();
        }
        if (session_id() !== '' || isset($_SESSION)) {
            self::$used = self::$touched = true;
            $name = (string) \ini_get('session.name');
            if ($name !== self::$name) {
                Log::once("session $name", "keepwarm: session_start() got the name $name in its options, which is too late: the session is that of the cookie " . self::$name . '; set the name with session_name() or ini_set()');
            }
            session_id('');
            unset($GLOBALS['_SESSION']);
            self::$put = '';
        }
    }

    /**
     * What PHP says about the caching of a response with a session, in turn.
     *
     * @return list<string>
     */
    public static function limiter(): array
    {
        $age = (int) session_cache_expire() * 60;
        $date = static fn (int $time): string => gmdate('D, d M Y H:i:s \G\M\T', $time);
        return match (session_cache_limiter()) {
            'nocache' => ['Expires', self::LONG_AGO, 'Cache-Control', 'no-store, no-cache, must-revalidate', 'Pragma', 'no-cache'],
            'private' => ['Expires', self::LONG_AGO, 'Cache-Control', "private, max-age=$age"],
            'private_no_expire' => ['Cache-Control', "private, max-age=$age"],
            'public' => ['Expires', $date(time() + $age), 'Cache-Control', "public, max-age=$age"],
            default => [],
        };
    }

    /** @param list<string> $flat */
    private static function has(array $flat, string $name, string $start = ''): bool
    {
        for ($at = 0; $at < \count($flat); $at += 2) {
            if (strcasecmp($flat[$at], $name) === 0 && ($start === '' || str_starts_with($flat[$at + 1], $start))) {
                return true;
            }
        }
        return false;
    }
}
