<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * PHP's common random numbers (`mt_rand()`, `rand()`, `shuffle()`, …), which PHP seeds for each request: otherwise a visitor could predict what
 * the next one is given, or a seed set for one would apply to all.
 *
 * Seeding costs microseconds, and whether the numbers were used cannot be asked. But what comes next is known until somebody has used or seeded them.
 */
final class Generator
{
    private const AHEAD = 512; // numbers that are known

    /** @var list<int> */
    private static array $next = [];
    private static int $at = 0;

    public static function seed(): void
    {
        $seed = random_int(0, 0x7FFF_FFFF);
        mt_srand($seed);
        self::$next = [];
        for ($count = 0; $count < self::AHEAD; $count++) {
            self::$next[] = \mt_rand();
        }
        mt_srand($seed);
        self::$at = 0;
    }

    public static function reset(): void
    {
        if (\mt_rand() !== self::$next[self::$at] || ++self::$at === self::AHEAD) {
            self::seed();
        }
    }
}
