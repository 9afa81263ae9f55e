<?php

/*
 * The web functions, which replace those of the command line, which do nothing. See `Keepwarm\Web`.
 */

use Keepwarm\Diagnostics;
use Keepwarm\Output;
use Keepwarm\Web;

function header(string $header, bool $replace = true, int $response_code = 0): void
{
    Web::header($header, $replace, $response_code);
}

function header_remove(?string $name = null): void
{
    Web::remove($name);
}

function headers_list(): array
{
    if (isset($_SESSION)) {
        Keepwarm\Session::putCookie();
    }
    return array_map(static fn (array $pair): string => "$pair[0]: $pair[1]", Web::$headers);
}

function headers_sent(&$filename = null, &$line = null): bool
{
    $filename = '';
    $line = 0;
    return Web::areSent();
}

function header_register_callback(callable $callback): bool
{
    Web::$callback = $callback;
    return true;
}

function http_response_code(int $response_code = 0): int|bool
{
    $before = Web::$status;
    if ($response_code === 0) {
        return $before === false ? (Web::$response === null ? false : 200) : $before;
    }
    if (Web::areSent()) {
        Diagnostics::raise(E_WARNING, 'http_response_code(): Cannot set response code - headers already sent');
        return false;
    }
    Web::$status = $response_code;
    return $before === false ? (Web::$response === null ? true : 200) : $before;
}

function setcookie(string $name, string $value = '', $expires_or_options = 0, $path = '', $domain = '', $secure = false, $httponly = false): bool
{
    if (is_array($expires_or_options) && func_num_args() > 3) {
        throw new ArgumentCountError('setcookie(): Expects exactly 3 arguments when argument #3 ($expires_or_options) is an array');
    }
    $options = is_array($expires_or_options) ? $expires_or_options
        : ['expires' => (int) $expires_or_options, 'path' => $path, 'domain' => $domain, 'secure' => $secure, 'httponly' => $httponly];
    return Web::cookie('setcookie', $name, rawurlencode($value), $options);
}

function setrawcookie(string $name, string $value = '', $expires_or_options = 0, $path = '', $domain = '', $secure = false, $httponly = false): bool
{
    if (is_array($expires_or_options) && func_num_args() > 3) {
        throw new ArgumentCountError('setrawcookie(): Expects exactly 3 arguments when argument #3 ($expires_or_options) is an array');
    }
    if (strpbrk($value, ",; \t\r\n\013\014") !== false) {
        throw new ValueError('setrawcookie(): Argument #2 ($value) cannot contain ",", ";", " ", "\t", "\r", "\n", "\013", or "\014"');
    }
    $options = is_array($expires_or_options) ? $expires_or_options
        : ['expires' => (int) $expires_or_options, 'path' => $path, 'domain' => $domain, 'secure' => $secure, 'httponly' => $httponly];
    return Web::cookie('setrawcookie', $name, $value, $options);
}

function is_uploaded_file(string $filename): bool
{
    return isset(Web::$uploads[$filename]);
}

function move_uploaded_file(string $from, string $to): bool
{
    if (!isset(Web::$uploads[$from])) {
        return false;
    }
    // Another file system cannot be renamed to; PHP's own function copies then, as rename() does.
    if (!rename($from, $to)) {
        return false;
    }
    unset(Web::$uploads[$from]);
    $mask = umask(077);
    umask($mask);
    @chmod($to, 0666 & ~$mask);
    return true;
}

function flush(): void
{
    Output::flush();
}

function connection_status(): int
{
    return connection_aborted();
}

function connection_aborted(): int
{
    return Keepwarm\client_gone() ? CONNECTION_ABORTED : CONNECTION_NORMAL;
}

// Keepwarm's own buffers lie below the application's and are none of them: a loop that ends every buffer must not end these.

function ob_get_level(): int
{
    return max(0, count(ob_list_handlers()) - Output::OURS);
}

function ob_end_clean(): bool
{
    if (count(ob_list_handlers()) <= Output::OURS) {
        Diagnostics::raise(E_NOTICE, 'ob_end_clean(): Failed to delete buffer. No buffer to delete');
        return false;
    }
    return Output::isRemovable('ob_end_clean', 'discard') && Output::drop();
}

function ob_get_clean(): string|false
{
    if (count(ob_list_handlers()) <= Output::OURS) {
        return Output::forget() ? '' : false;
    }
    $contents = ob_get_contents();
    if (Output::isRemovable('ob_get_clean', 'discard', 'delete')) {
        Output::drop();
    }
    return $contents;
}

function ob_end_flush(): bool
{
    if (count(ob_list_handlers()) <= Output::OURS) {
        Diagnostics::raise(E_NOTICE, 'ob_end_flush(): Failed to delete and flush buffer. No buffer to delete or flush');
        return false;
    }
    return Output::isRemovable('ob_end_flush', 'send') && ob_get_flush() !== false;
}

// A session's id is that of the cookie of its name, and PHP looks for it only once in the life of a process.

function ini_set(string $option, string|int|float|bool|null $value): string|false
{
    $before = Keepwarm\Settings::set($option, $value);
    if ($before !== false && str_starts_with($option, 'session.')) {
        Keepwarm\Session::$touched = true;
        if ($option === 'session.name') {
            Keepwarm\Session::adopt();
        }
    }
    return $before;
}

function session_name(?string $name = null): string|false
{
    $before = ini_get('session.name');
    if ($name !== null && $name !== $before) {
        ini_set('session.name', $name);
    }
    return $before;
}

// PHP calls them at the end of the script; a request's end comes before.

function register_shutdown_function(callable $callback, mixed ...$args): void
{
    Keepwarm\Shutdown::register($callback, $args);
}

if (function_exists('session_commit')) {
    function session_write_close(): bool
    {
        return Keepwarm\Shutdown::sessionWriteClose();
    }
}

// Settings by another name.

function set_include_path(string $include_path): string|false
{
    return $include_path === '' ? false : Keepwarm\Settings::set('include_path', $include_path);
}

if (extension_loaded('iconv')) {
    function iconv_set_encoding(string $type, string $encoding): bool
    {
        $name = strtolower($type);
        return in_array($name, ['input_encoding', 'output_encoding', 'internal_encoding'], true) && Keepwarm\Settings::set("iconv.$name", $encoding) !== false;
    }
}

// What PHP does not tell of.

if (extension_loaded('libxml')) {
    function libxml_disable_entity_loader(bool $disable = true): bool
    {
        return Keepwarm\Xml::disable($disable);
    }
}

// The command line has no input to filter.

function filter_has_var(int $input_type, string $var_name): bool
{
    return array_key_exists($var_name, Web::input($input_type, __FUNCTION__));
}

function filter_input(int $type, string $var_name, int $filter = FILTER_DEFAULT, array|int $options = 0): mixed
{
    $input = Web::input($type, __FUNCTION__);
    if (array_key_exists($var_name, $input)) {
        return filter_var($input[$var_name], $filter, $options);
    }
    if (is_array($options) && isset($options['options']['default'])) {
        return $options['options']['default'];
    }
    $flags = is_array($options) ? (int) ($options['flags'] ?? 0) : $options;
    return ($flags & FILTER_NULL_ON_FAILURE) !== 0 ? false : null;
}

function filter_input_array(int $type, array|int $options = FILTER_DEFAULT, bool $add_empty = true): array|false|null
{
    $input = Web::input($type, __FUNCTION__);
    return $input === [] ? null : filter_var_array($input, $options, $add_empty);
}
