<?php

function deep(int $depth): int
{
    if ($depth > 0) {
        return deep($depth - 1);
    }
    for ($sum = $i = 0; $i < 300_000; $i++) {
        $sum += $i;
    }
    return $sum;
}

return static fn (Keepwarm\Request $request): string => (string) deep((int) $request->query);
