<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * Keepwarm broke the wire's rules (spec/wire.md §2). The connection cannot go on.
 *
 * `name` is one of those in spec/vectors/README.md; the message says what was seen.
 */
final class Fault extends \RuntimeException
{
    public function __construct(public readonly string $name, string $message)
    {
        parent::__construct($message);
    }
}
