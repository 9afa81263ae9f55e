<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The client has gone: the rest of the body will not come, or nobody waits for the response.
 *
 * Thrown by reads of a request's body, and by `flush()` unless `ignore_user_abort(true)` says otherwise. It is not an error of the application: when it comes back out of the application,
 * nothing is logged.
 */
final class ClientDisconnected extends \RuntimeException
{
}
