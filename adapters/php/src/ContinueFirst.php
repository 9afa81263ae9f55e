<?php

declare(strict_types=1);

namespace Keepwarm;

/** The application returned 100 to a client that waits for it: it wants to be called again, with the body on its way. */
final class ContinueFirst extends \Exception
{
}
