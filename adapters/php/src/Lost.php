<?php

declare(strict_types=1);

namespace Keepwarm;

/** The wire has reached its end: Keepwarm is gone, or gave this worker up (spec/wire.md §1). */
final class Lost extends \RuntimeException
{
}
