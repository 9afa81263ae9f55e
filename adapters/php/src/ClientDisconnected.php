<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The client has gone: the rest of the body will not come.
 *
 * Thrown by reads of a request's body. It is not an error of the application: when it comes back out of the application,
 * nothing is logged.
 */
final class ClientDisconnected extends \RuntimeException
{
}
