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
    private const MAX_HEAD = 16_384; // bytes of a part's head

    private string $buffer = '';
    private string $boundary = '';
    private int $total = 0;
    private int $offset = 0;
    /** The body broke off. */
    private bool $broken = false;
    /** @var list<array{string, mixed}> */
    private array $values = [];
    /** @var list<array{string, array{name: string, full_path: string, type: string, tmp_name: string, error: int, size: int}}> */
    private array $files = [];

    public function __construct(private readonly Request $request, private readonly int $limit)
    {
    }

    /** Fills the request. A client that goes away within it throws `ClientDisconnected`. */
    public function read(): void
    {
        $type = $this->request->server['CONTENT_TYPE'];
        if (preg_match('/;\s*boundary\s*=\s*(?:"((?:[^"\\\\]|\\\\.)+)"|([^\s;,]+))/i', $type, $match) !== 1) {
            Log::write('PHP Warning:  Missing boundary in multipart/form-data POST data');
            return;
        }
        $this->boundary = "\r\n--" . ($match[2] ?? stripslashes($match[1]));
        $this->buffer = "\r\n"; // so that the first boundary looks like every other
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
        $maxParts = (int) \ini_get('max_multipart_body_parts');
        $maxValues = (int) \ini_get('max_input_vars');
        $maxFiles = \ini_get('file_uploads') ? (int) \ini_get('max_file_uploads') : 0;
        if ($maxParts < 0 || \ini_get('max_multipart_body_parts') === false) {
            $maxParts = $maxValues + $maxFiles;
        }
        $formLimit = 0;
        $this->untilBoundary(null);
        for ($parts = 0; ($head = $this->head()) !== null; $parts++) {
            if ($parts >= $maxParts) {
                Log::write("PHP Warning:  Multipart body parts limit exceeded $maxParts; the rest is ignored. To raise it, set max_multipart_body_parts");
                return;
            }
            [$name, $file, $type] = $head;
            if ($name === null) {
                $this->untilBoundary(null);
            } elseif ($file === null) {
                $value = '';
                $this->untilBoundary(static function (string $piece) use (&$value): void {
                    $value .= $piece;
                });
                if (\count($this->values) < $maxValues) {
                    $this->values[] = [$name, $value];
                } else {
                    Log::once('max_input_vars', "PHP Warning:  Input variables exceeded $maxValues; the rest is ignored. To raise the limit, set max_input_vars");
                }
                if ($name === 'MAX_FILE_SIZE') {
                    $formLimit = (int) $value;
                }
            } elseif (\count($this->files) < $maxFiles || $file === '') {
                $this->files[] = [$name, $this->file($file, $type, $formLimit)];
            } else {
                $this->untilBoundary(null);
                Log::write('PHP Warning:  Maximum number of allowable file uploads has been exceeded; the rest is ignored');
            }
        }
    }

    /** @return array{name: string, full_path: string, type: string, tmp_name: string, error: int, size: int} */
    private function file(string $name, string $type, int $formLimit): array
    {
        $about = [
            'name' => self::last($name), 'full_path' => $name, 'type' => '', 'tmp_name' => '',
            'error' => \UPLOAD_ERR_NO_FILE, 'size' => 0,
        ];
        if ($name === '') {
            $this->untilBoundary(null);
            return $about;
        }
        $path = Temporary::upload();
        $file = $path === null ? false : fopen($path, 'wb');
        $about['error'] = $path === null ? \UPLOAD_ERR_NO_TMP_DIR : ($file === false ? \UPLOAD_ERR_CANT_WRITE : \UPLOAD_ERR_OK);
        if ($path !== null) {
            Web::$uploads[$path] = true; // from here on it is removed with the request
        }
        $limit = Forms::bytes((string) \ini_get('upload_max_filesize'));
        $error = &$about['error'];
        $size = &$about['size'];
        $this->untilBoundary(static function (string $piece) use (&$error, &$size, $file, $limit, $formLimit): void {
            if ($error !== \UPLOAD_ERR_OK) {
                return;
            }
            $size += \strlen($piece);
            if ($limit > 0 && $size > $limit) {
                $error = \UPLOAD_ERR_INI_SIZE;
            } elseif ($formLimit > 0 && $size > $formLimit) {
                $error = \UPLOAD_ERR_FORM_SIZE;
            } elseif (fwrite($file, $piece) !== \strlen($piece)) {
                $error = \UPLOAD_ERR_CANT_WRITE;
            }
        });
        if ($file !== false) {
            fclose($file);
        }
        if ($error === \UPLOAD_ERR_OK && $this->broken) {
            $error = \UPLOAD_ERR_PARTIAL;
        }
        if ($error === \UPLOAD_ERR_OK) {
            $about['type'] = $type;
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

    /**
     * The head of the next part: `[name, file name, type]`; null behind the last part.
     *
     * @return array{?string, ?string, string}|null
     */
    private function head(): ?array
    {
        while (($end = strpos($this->buffer, "\r\n\r\n")) === false) {
            if (str_starts_with($this->buffer, '--') || \strlen($this->buffer) > self::MAX_HEAD || !$this->more()) {
                return null;
            }
        }
        if (str_starts_with($this->buffer, '--')) {
            return null;
        }
        $lines = explode("\r\n", substr($this->buffer, 0, $end));
        // The empty line behind a head is the one before an empty part's boundary, too.
        $this->buffer = substr($this->buffer, $end + 2);
        $name = $file = null;
        $type = '';
        foreach ($lines as $line) {
            [$field, $value] = explode(':', $line, 2) + [1 => ''];
            $field = strtolower(trim($field));
            if ($field === 'content-disposition') {
                $name = self::parameter($value, 'name');
                $file = self::parameter($value, 'filename');
            } elseif ($field === 'content-type') {
                $type = rtrim(explode(';', ltrim($value), 2)[0]); // without its parameters, as PHP has it
            }
        }
        return [$name, $file, $type];
    }

    /** What a browser names a file by: without the folders before it. */
    private static function last(string $path): string
    {
        return substr($path, (int) strrpos('/' . strtr($path, '\\', '/'), '/'));
    }

    private static function parameter(string $value, string $name): ?string
    {
        if (preg_match('/;\s*' . $name . '\s*=\s*(?|(")((?:[^"\\\\]|\\\\.)*)"|(\')((?:[^\'\\\\]|\\\\.)*)\'|()([^\s;]*))/i', $value, $match) !== 1) {
            return null;
        }
        // Browsers escape a quote as %22 and leave backslashes alone (RFC 7578 §2, WHATWG); others write \".
        [, $quote, $text] = $match;
        if ($quote !== '') {
            $text = strtr($text, ["\\$quote" => $quote, '\\\\' => '\\']);
        }
        return explode("\0", $text, 2)[0]; // a name that goes on behind a NUL means one thing here and another to the file system
    }

    /** Gives the bytes up to the next boundary to `$take`, in pieces, and goes behind it. */
    private function untilBoundary(?\Closure $take): void
    {
        // A part's content begins behind the CRLF that its head left standing.
        $skip = $take === null || str_starts_with($this->buffer, $this->boundary) ? 0 : 2;
        $keep = \strlen($this->boundary) - 1;
        while (true) {
            $at = strpos($this->buffer, $this->boundary);
            $safe = $at === false ? max(0, \strlen($this->buffer) - $keep) : $at;
            if ($safe > $skip || $at !== false) {
                if ($take !== null && $safe > $skip) {
                    $take(substr($this->buffer, $skip, $safe - $skip));
                }
                $skip = 0;
            }
            if ($at !== false) {
                $this->buffer = substr($this->buffer, $at + $keep + 1);
                return;
            }
            if ($skip === 0) {
                $this->buffer = substr($this->buffer, $safe);
            }
            if (!$this->more()) {
                $this->broken = true;
                $this->buffer = '';
                return;
            }
        }
    }

    private function more(): bool
    {
        if ($this->request->body !== null) {
            // Not kept: a form is not read a second time, as with PHP itself.
            $piece = $this->request->body->read(self::READ, false);
        } else {
            $piece = substr((string) $this->request->whole, $this->offset, self::READ);
            $this->offset += \strlen($piece);
        }
        $this->buffer .= $piece;
        $this->total += \strlen($piece);
        return $piece !== '' && ($this->limit <= 0 || $this->total <= $this->limit);
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
