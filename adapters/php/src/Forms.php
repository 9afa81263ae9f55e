<?php

declare(strict_types=1);

namespace Keepwarm;

/** Fills `post` and `files` of a request whose body is a form, within the limits of php.ini. */
final class Forms
{
    public static function read(Request $request): void
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
            // Of a client that did not say how much it sends, no more is read than may be.
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

    /**
     * A form that is urlencoded.
     *
     * @return array<array-key, mixed>
     */
    public static function parsed(string $text): array
    {
        parse_str(strtr($text, ["\0" => '%00']), $form); // which would end at a NUL
        return $form;
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
            self::put($result, ltrim($name, ' '), $value);
        }
        return $result;
    }

    /**
     * PHP's own rules for names (`php_register_variable_ex`); its function for them also counts against `max_input_vars`, which the
     * attributes of a file do not.
     *
     * @param array<array-key, mixed> $result
     */
    private static function put(array &$result, string $name, mixed $value): void
    {
        if ($name === '' || $name[0] === '[') {
            return;
        }
        $open = strpos($name, '[', 1);
        $close = $open === false ? false : strpos($name, ']', $open);
        if ($close === false) {
            $result[strtr($name, '. [', '___')] = $value;
            return;
        }
        $at = &$result;
        $key = strtr(substr($name, 0, $open), '. [', '___');
        for ($depth = 0; $depth < (int) \ini_get('max_input_nesting_level'); $depth++) {
            if ($key === '') {
                $at[] = [];
                $key = array_key_last($at);
            }
            if ($open === false || $close === false) {
                $at[$key] = $value;
                return;
            }
            if (!isset($at[$key]) || !\is_array($at[$key])) {
                $at[$key] = [];
            }
            $at = &$at[$key];
            $key = substr($name, $open + 1, $close - $open - 1);
            $open = ($name[$close + 1] ?? '') === '[' ? $close + 1 : false;
            $close = $open === false ? false : strpos($name, ']', $open);
        }
    }
}
