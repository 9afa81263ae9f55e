<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * `multipart/form-data` (RFC 7578), as a stream: memory holds a piece of a file at a time, and files go to temporary ones.
 *
 * Limits are those of php.ini: `post_max_size`, `upload_max_filesize`, `max_file_uploads`, `max_input_vars`,
 * `max_multipart_body_parts`.
 */
final class Multipart
{
    private const READ = 65_536;
    private const SPACE = " \t\n\v\f\r";

    private int $total = 0;
    private int $offset = 0;
    private readonly MultipartReader $reader;
    /** @var list<array{string, mixed}> */
    private array $values = [];
    /** @var list<array{string, array{name: string, full_path: string, type: string, tmp_name: string, error: int, size: int}}> */
    private array $files = [];
    /** Files that may still come. */
    private int $room = 0;
    /** What the form says of their size. */
    private int $formLimit = 0;
    /** A name was malformed: no file after it is accepted. */
    private bool $garbled = false;
    private int $nameless = 0;

    public function __construct(private readonly Request $request, private readonly int $limit)
    {
    }

    /** Fills the request. Throws `ClientDisconnected` if the client disconnects. */
    public function read(): void
    {
        $type = $this->request->server['CONTENT_TYPE'];
        // As PHP looks for it: anywhere, unquoted up to a comma or semicolon.
        if (preg_match('/boundary[^=]*=(?:"([^"]*)"|(?!")([^,;]*))/', $type, $match) !== 1 && preg_match('/boundary[^=]*=(?:"([^"]*)"|(?!")([^,;]*))/i', $type, $match) !== 1) {
            Log::write('PHP Warning:  Missing boundary in multipart/form-data POST data');
            return;
        }
        $this->request->spent = true;
        $this->reader = new MultipartReader($match[2] ?? $match[1], $this->next(...));
        try {
            $this->parts();
        } catch (ClientDisconnected $gone) {
            $this->drop();
            throw $gone;
        }
        if ($this->limit > 0 && $this->total > $this->limit) {
            $this->drop();
            Forms::tooLarge($this->total, $this->limit);
            return;
        }
        $this->request->post = Forms::nested($this->values);
        $this->request->files = $this->filesAsPhp();
    }

    private function parts(): void
    {
        $maxValues = (int) \ini_get('max_input_vars');
        $this->room = (int) \ini_get('max_file_uploads');
        $maxParts = \ini_get('max_multipart_body_parts');
        $maxParts = $maxParts === false || (int) $maxParts < 0 ? $maxValues + $this->room : (int) $maxParts;
        for ($parts = 0; ($fields = $this->reader->head()) !== null;) {
            if (!isset($fields['content-disposition'])) {
                continue;
            }
            if (++$parts > $maxParts) {
                Log::write("PHP Warning:  Multipart body parts limit exceeded $maxParts; the rest is ignored. To raise it, set max_multipart_body_parts");
                return;
            }
            [$name, $file] = self::disposition($fields['content-disposition']);
            if ($name === null && $file === null) {
                Log::write('PHP Warning:  File Upload Mime headers garbled: a part of a form has no name; the rest is ignored');
                return;
            }
            if ($file === null) {
                $this->value($name, $maxValues);
            } else {
                $this->fileOf($name, $file, $fields['content-type'] ?? '');
            }
        }
    }

    private function value(string $name, int $maxValues): void
    {
        $value = '';
        $this->reader->content(static function (string $piece) use (&$value): void {
            $value .= $piece;
        });
        if (\count($this->values) < $maxValues) {
            $this->values[] = [$name, $value];
        } else {
            Log::once('max_input_vars', "PHP Warning:  Input variables exceeded $maxValues; the rest is ignored. To raise the limit, set max_input_vars");
        }
        if (strcasecmp($name, 'MAX_FILE_SIZE') === 0) {
            $this->formLimit = (int) $value;
        }
    }

    private function fileOf(?string $name, string $file, string $type): void
    {
        if (!\ini_get('file_uploads')) {
            return;
        }
        if ($this->room <= 0) {
            if ($this->room-- === 0) {
                Log::write('PHP Warning:  Maximum number of allowable file uploads has been exceeded; the rest is ignored');
            }
            return;
        }
        $name ??= (string) $this->nameless++;
        // PHP does not repair a name that could be malicious, and rejects the files after it, too.
        $this->garbled = $this->garbled || !self::isBalanced($name);
        if (!$this->garbled) {
            $base = strcspn($name, '[');
            $name = strtr(ltrim(substr($name, 0, $base), ' '), '. ', '__') . preg_replace('/\[[ \r\n\t]+/', '[', substr($name, $base));
            $this->files[] = [$name, $this->file($file, $type)];
        }
    }

    /** Whether every bracket is closed, and nothing but another follows it. */
    private static function isBalanced(string $name): bool
    {
        $open = 0;
        $length = \strlen($name);
        for ($at = 0; ($at += strcspn($name, '[]', $at)) < $length; $at++) {
            $open += $name[$at] === '[' ? 1 : -1;
            if ($open < 0 || ($name[$at] === ']' && $at + 1 < $length && $name[$at + 1] !== '[')) {
                return false;
            }
        }
        return $open === 0;
    }

    /** @return array{name: string, full_path: string, type: string, tmp_name: string, error: int, size: int} */
    private function file(string $name, string $type): array
    {
        $about = [
            'name' => self::last($name), 'full_path' => $name, 'type' => '', 'tmp_name' => '',
            'error' => \UPLOAD_ERR_NO_FILE, 'size' => 0,
        ];
        if ($name === '') {
            return $about;
        }
        $this->room--;
        $path = Temporary::upload();
        $file = $path === null ? false : fopen($path, 'wb');
        $about['error'] = $path === null ? \UPLOAD_ERR_NO_TMP_DIR : ($file === false ? \UPLOAD_ERR_CANT_WRITE : \UPLOAD_ERR_OK);
        if ($path !== null) {
            Web::$uploads[$path] = true; // from here on it is removed with the request
        }
        $limit = Forms::bytes((string) \ini_get('upload_max_filesize'));
        $error = &$about['error'];
        $size = &$about['size'];
        $formLimit = $this->formLimit;
        $whole = $this->reader->content(static function (string $piece) use (&$error, &$size, $file, $limit, $formLimit): void {
            if ($error !== \UPLOAD_ERR_OK) {
                return;
            }
            $size += \strlen($piece);
            if ($limit > 0 && $size > $limit) {
                $error = \UPLOAD_ERR_INI_SIZE;
            } elseif ($formLimit !== 0 && $size > $formLimit) {
                $error = \UPLOAD_ERR_FORM_SIZE;
            } elseif (fwrite($file, $piece) !== \strlen($piece)) {
                $error = \UPLOAD_ERR_CANT_WRITE;
            }
        });
        if ($file !== false) {
            fclose($file);
        }
        if ($error === \UPLOAD_ERR_OK && !$whole) {
            $error = \UPLOAD_ERR_PARTIAL;
        }
        if ($error === \UPLOAD_ERR_OK) {
            $about['type'] = explode(';', $type, 2)[0]; // without its parameters, as PHP has it
            $about['tmp_name'] = (string) $path;
        } else {
            $size = 0;
            if ($path !== null) {
                @unlink($path);
                unset(Web::$uploads[$path]);
            }
        }
        unset($error, $size);
        return $about;
    }

    /** The file name that a browser sends, without its directories. */
    private static function last(string $path): string
    {
        return substr($path, (int) strrpos('/' . strtr($path, '\\', '/'), '/'));
    }

    /**
     * `[name, file name]` of a `Content-Disposition`; null for what it does not say. The last of each counts.
     *
     * @return array{?string, ?string}
     */
    private static function disposition(string $text): array
    {
        $found = ['name' => null, 'filename' => null];
        $length = \strlen($text);
        for ($at = 0; $at < $length; $at += strspn($text, self::SPACE, $at)) {
            $parameter = self::word($text, ';', $at);
            $equals = 0;
            $key = strtolower(self::word($parameter, '=', $equals));
            if (\array_key_exists($key, $found) && str_contains($parameter, '=')) {
                $found[$key] = self::unquoted(ltrim(substr($parameter, $equals), self::SPACE));
            }
        }
        return array_values($found);
    }

    /** The text from `$at` to `$stop`, which is ignored within quotes; `$at` moves to the position after it. */
    private static function word(string $text, string $stop, int &$at): string
    {
        $start = $at;
        $length = \strlen($text);
        while (($at += strcspn($text, "\"'$stop", $at)) < $length && $text[$at] !== $stop) {
            $quote = $text[$at++];
            while (($at += strcspn($text, "\\$quote", $at)) < $length && $text[$at] !== $quote) {
                $at += ($text[$at + 1] ?? '') === $quote ? 2 : 1;
            }
            $at = min($at + 1, $length);
        }
        $word = substr($text, $start, $at - $start);
        $at += strspn($text, $stop, $at);
        return $word;
    }

    /** Browsers escape a quote as %22 and leave backslashes alone (RFC 7578 §2, WHATWG); others write \". */
    private static function unquoted(string $text): string
    {
        $quote = $text[0] ?? '';
        if ($quote !== '"' && $quote !== "'") {
            return strtr(substr($text, 0, strcspn($text, self::SPACE)), ['\\\\' => '\\']);
        }
        $at = 1;
        $length = \strlen($text);
        while (($at += strcspn($text, "\\$quote", $at)) < $length && $text[$at] !== $quote) {
            $at += \in_array($text[$at + 1] ?? '', ['\\', $quote], true) ? 2 : 1;
        }
        return strtr(substr($text, 1, $at - 1), ['\\\\' => '\\', "\\$quote" => $quote]);
    }

    private function next(): string
    {
        if ($this->limit > 0 && $this->total > $this->limit) {
            return '';
        }
        if ($this->request->body !== null) {
            // Not kept: a form is not read a second time, as with PHP itself.
            $piece = $this->request->body->read(self::READ, false);
        } else {
            $piece = substr((string) $this->request->whole, $this->offset, self::READ);
            $this->offset += \strlen($piece);
        }
        $this->total += \strlen($piece);
        return $this->limit > 0 && $this->total > $this->limit ? '' : $piece;
    }

    private function drop(): void
    {
        foreach (array_keys(Web::$uploads) as $path) {
            @unlink($path);
        }
        Web::$uploads = [];
    }

    /**
     * The shape of $_FILES, where what is nested is nested below each attribute.
     *
     * @return array<array-key, mixed>
     */
    private function filesAsPhp(): array
    {
        $pairs = [];
        foreach ($this->files as [$name, $about]) {
            $bracket = strpos($name, '[');
            foreach ($about as $key => $value) {
                $nested = $bracket === false || $bracket === 0 ? "{$name}[$key]" : substr($name, 0, $bracket) . "[$key]" . substr($name, $bracket);
                $pairs[] = [$nested, $value];
            }
        }
        return Forms::nested($pairs);
    }
}
