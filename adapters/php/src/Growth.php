<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * What a worker holds, and how that changes from one request to the next, while Keepwarm measures it (spec/wire.md §11).
 *
 * There is none of these before LEAKS and after its end. PHP does not tell which line made a value, so there is no `made`.
 */
final class Growth
{
    private const MOST = 99; // changes of each form, two of which and `memory` are within the 200 that a frame may have
    private const NAME = 400; // bytes of a name: the limit of a frame is 128 KiB
    private const COLLECTIONS = 3; // what a destructor frees may be garbage again

    private readonly Roots $roots;
    /** @var array{array<array-key, int>, array<array-key, int>} objects by class, elements by name */
    private array $last = [[], []];
    private bool $complete = true;
    /** The bytes of all that is alive, without this. */
    private ?int $memory = null;
    /** The bytes of this. */
    private int $own = 0;
    private int $before = 0;
    /** The application's memory_limit, while another is set. */
    private ?string $limit = null;

    public function __construct()
    {
        $before = memory_get_usage();
        $this->roots = new Roots();
        $this->own = memory_get_usage() - $before;
    }

    /** The frame for what has changed since the last one. `$request`: the stream that is over; 0 in the first, which says nothing. */
    public function measure(int $request, object $application): string
    {
        $begun = hrtime(true);
        if ($this->memory === null) {
            $this->count($application); // what only the first count makes is not the application's
            $this->settle();
        }
        $changes = $this->count($application);
        return Wire::growth($request, min(intdiv(hrtime(true) - $begun, 1_000), 0xFFFF_FFFF), $request === 0 ? [] : $changes);
    }

    /** The frame has been sent: what is here now, and was not before it was made, is what this remembers. */
    public function settle(): void
    {
        $this->own += memory_get_usage() - $this->before;
    }

    /** Restores the application's limit. PHP refuses while more than that is allocated, and what was needed here may not be free at once. */
    public function finish(): void
    {
        if ($this->limit !== null) {
            gc_mem_caches();
            $this->limit = @ini_alter('memory_limit', $this->limit) === false ? $this->limit : null;
        }
    }

    /** @return array<string, int> what has changed */
    private function count(object $application): array
    {
        $this->collect();
        $this->before = memory_get_usage();
        $memory = $this->before - $this->own;
        $changes = $this->memory === null || $memory === $this->memory ? [] : ['memory' => $memory - $this->memory];
        $this->memory = $memory;
        $this->limit ??= (string) \ini_get('memory_limit');
        $collects = gc_enabled();
        try {
            ini_alter('memory_limit', '-1'); // what this needs is not the application's to pay for
            gc_disable(); // it would look for cycles in what is only looked at
            $changes += $this->search($application);
        } finally {
            if ($collects) {
                gc_enable();
            }
            $this->finish();
        }
        return $changes;
    }

    private function collect(): void
    {
        try {
            for ($times = 0; $times < self::COLLECTIONS && gc_collect_cycles() > 0; $times++) {
            }
        } catch (\Throwable $error) {
            Log::exception($error); // of a destructor
        }
    }

    /** @return array<string, int> */
    private function search(object $application): array
    {
        $inventory = new Inventory();
        $this->roots->into($inventory, $application);
        $inventory->search();
        // Of a search that was cut, only what both have found can be compared.
        $common = !$inventory->complete || !$this->complete;
        $changes = self::changed('object;', $this->last[0], $inventory->objects, $common) + self::changed('held;', $this->last[1], $inventory->held, $common);
        $this->last = [$inventory->objects, $inventory->held];
        $this->complete = $inventory->complete;
        return $changes;
    }

    /**
     * The largest changes.
     *
     * @param array<array-key, int> $before
     * @param array<array-key, int> $now
     * @return array<string, int>
     */
    private static function changed(string $form, array $before, array $now, bool $common): array
    {
        $changes = [];
        foreach ($common ? array_intersect_key($now, $before) : $now + $before as $name => $_) {
            $change = ($now[$name] ?? 0) - ($before[$name] ?? 0);
            if ($change !== 0) {
                $name = self::name((string) $name);
                $changes[$form . $name] = ($changes[$form . $name] ?? 0) + $change;
            }
        }
        uasort($changes, static fn (int $one, int $other): int => abs($other) <=> abs($one));
        return array_filter(\array_slice($changes, 0, self::MOST, true));
    }

    /** A name as the wire has it: UTF-8, not too long, without what ends a string there. */
    private static function name(string $name): string
    {
        return Wire::utf8Prefix(strtr($name, "\0\n", '  '), self::NAME);
    }
}
