<?php

/*
 * Functions that other servers of PHP have, and for which frameworks look.
 */

use Keepwarm\Web;

if (!function_exists('getallheaders')) {
    function getallheaders(): array
    {
        $headers = [];
        foreach (Web::$request?->fields ?? [] as $name => $values) {
            $headers[ucwords((string) $name, '-')] = implode($name === 'cookie' ? '; ' : ', ', $values);
        }
        return $headers;
    }
}

if (!function_exists('apache_request_headers')) {
    function apache_request_headers(): array
    {
        return getallheaders();
    }
}

if (!function_exists('fastcgi_finish_request')) {
    /** Completes the response with what was printed; the script continues without the client. */
    function fastcgi_finish_request(): bool
    {
        $finish = Web::$finish;
        Web::$finish = null;
        if ($finish === null) {
            return false;
        }
        Web::$connection?->staysBusy();
        try {
            $finish();
        } finally {
            Web::$connection?->signals->release(true);
        }
        return true;
    }
}

if (Web::$complete && !function_exists('headers_send')) {
    /** Sends the headers given so far as an informational response: what Symfony calls for 103 Early Hints. */
    function headers_send(int $status = 200): int
    {
        if ($status < 100 || $status > 199 || $status === 100 || $status === 101 || Web::$response === null) {
            return 0;
        }
        Web::$response->inform($status, Web::$headers === [] ? [] : array_merge(...Web::$headers));
        return $status;
    }
}
