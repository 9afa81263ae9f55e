<?php

declare(strict_types=1);

namespace Keepwarm;

/** Fills `post` and `files` of a request whose body is a form, within the limits of php.ini. */
final class Forms
{
    /** The number of variables that PHP accepts without a warning. */
    private static ?int $silent = null;

    public static function read(Request $request): void
    {
        Log::quietly(static fn () => self::readForm($request));
    }

    /**
     * What a query, or a form that is urlencoded, says.
     *
     * @return array<array-key, mixed>
     */
    public static function parsed(string $text): array
    {
        self::$silent ??= \ini_get('arg_separator.input') === '&' ? (int) \ini_get('max_input_vars') : 0;
        $text = str_contains($text, "\0") ? strtr($text, ["\0" => '%00']) : $text; // where it would end
        if (substr_count($text, '&') < self::$silent) {
            parse_str($text, $variables);
            return $variables;
        }
        return Log::quietly(static function () use ($text): array {
            parse_str($text, $variables);
            return $variables;
        });
    }

    private static function readForm(Request $request): void
    {
        $form = $request->form();
        if ($form === null || ($request->length === 0 && $request->whole === '') || \ini_get('enable_post_data_reading') === '0') {
            return;
        }
        $limit = self::bytes((string) \ini_get('post_max_size'));
        if ($limit > 0 && (int) $request->length > $limit) {
            self::tooLarge((int) $request->length, $limit);
            return;
        }
        if ($form === 'multipart') {
            (new Multipart($request, $limit))->read();
            return;
        }
        $text = $request->whole;
        if ($text === null) {
            // The client did not announce a length: read up to the limit.
            for ($text = ''; ($part = $request->body->read(Wire::MAX_CHUNK)) !== '';) {
                $text .= $part;
                if ($limit > 0 && \strlen($text) > $limit) {
                    self::tooLarge(\strlen($text), $limit);
                    return;
                }
            }
        }
        $request->post = self::parsed($text);
    }

    public static function tooLarge(int $size, int $limit): void
    {
        Log::write("PHP Warning:  POST data of $size bytes exceeds the limit of $limit bytes (post_max_size); the form is empty");
    }

    /** A size of php.ini, such as `8M`. */
    public static function bytes(string $text): int
    {
        $number = (int) $text;
        return match (strtolower(substr(trim($text), -1))) {
            'g' => $number << 30,
            'm' => $number << 20,
            'k' => $number << 10,
            default => $number,
        };
    }

    /**
     * `['a[b][]', value]` pairs as PHP nests them. Values of any type.
     *
     * @param list<array{string, mixed}> $pairs
     * @return array<array-key, mixed>
     */
    public static function nested(array $pairs): array
    {
        $result = [];
        foreach ($pairs as [$name, $value]) {
            self::put($result, $name, $value);
        }
        return $result;
    }

    /**
     * PHP's own rules for names (`php_register_variable_ex`); its function for them also counts against `max_input_vars`, which the
     * attributes of a file do not, and reads no cookies. `$first`: for a name that is not an array's, the first value counts, not the last.
     *
     * @param array<array-key, mixed> $result
     */
    public static function put(array &$result, string $name, mixed $value, bool $first = false): void
    {
        $name = ltrim($name, ' ');
        $open = strpos($name, '[');
        if ($name === '' || $open === 0) {
            return;
        }
        $array = $open !== false && strpos($name, ']', $open) !== false;
        $base = strtr($array ? substr($name, 0, $open) : $name, '. [', '___');
        if (preg_match('/^__(?:Host|Secure)-/', $base) === 1 && strncmp($base, $name, 7) !== 0) {
            return; // no other name may become one that browsers protect
        }
        if (!$array) {
            if (!$first || !isset($result[$base])) {
                $result[$base] = $value;
            }
            return;
        }
        $keys = [];
        for ($depth = (int) \ini_get('max_input_nesting_level'); ($name[$open] ?? '') === '[' && ($close = strpos($name, ']', $open)) !== false; $depth--) {
            if ($depth <= 0) {
                return;
            }
            $keys[] = substr($name, $open + 1, $close - $open - 1);
            $open = $close + 1;
        }
        $at = &$result[$base];
        foreach ($keys as $key) {
            if (!\is_array($at)) {
                $at = [];
            }
            if ($key === '' || (\strlen($key) === 1 && trim($key, " \t\n\v\f\r") === '')) {
                $at[] = null;
                $key = array_key_last($at);
            }
            $at = &$at[$key];
        }
        $at = $value;
    }
}
