<?php

declare(strict_types=1);

namespace Keepwarm;

/** The entry gives no application that can be served. The message is one or more whole sentences for the user. */
final class EntryError extends \RuntimeException
{
}
