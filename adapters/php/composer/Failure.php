<?php

declare(strict_types=1);

namespace Keepwarm\Composer;

/** No binary can be run; the message says why, and what to do. */
final class Failure extends \Exception
{
}
