<?php

declare(strict_types=1);

namespace Keepwarm;

/*
 * What an application may call. Everything here does nothing, and says so by its result, where the application does not run in a
 * worker of Keepwarm.
 */

/**
 * Asks for the request's body now: with `Expect: 100-continue` this is what sends `100 Continue`.
 *
 * Reading the body asks for it anyway; this is for an application that wants to be sure of it before.
 */
function send_continue(): void
{
    Web::$body?->sendContinue();
}

/**
 * Sends `103 Early Hints`, if this client would understand it and the response has not begun.
 *
 * @param list<string> $links values of `Link`, for example `</app.css>; rel=preload; as=style`
 */
function early_hints(array $links): void
{
    $flat = [];
    foreach ($links as $link) {
        array_push($flat, 'link', $link);
    }
    Web::$response?->inform(103, $flat);
}

/** Whether nobody waits for this response any more. */
function client_gone(): bool
{
    $connection = Web::$connection;
    if ($connection === null || Web::$response === null) {
        return false;
    }
    if (!$connection->gone && !Web::$response->over) {
        $connection->poll();
    }
    return $connection->gone;
}

/** The request in work, or null outside of one. */
function request(): ?Request
{
    return Web::$request;
}
