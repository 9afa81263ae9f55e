<?php

declare(strict_types=1);

namespace Keepwarm\Psr7;

/** From the shape of $_FILES to the tree of PSR-7 §1.6. */
final class Uploads
{
    /**
     * @param array<array-key, mixed> $files as $_FILES
     * @param callable(array{tmp_name: string, name: string, type: string, size: int, error: int}): object $make
     * @return array<array-key, mixed>
     */
    public static function tree(array $files, callable $make): array
    {
        $tree = [];
        foreach ($files as $name => $about) {
            $tree[$name] = self::branch($about, $make);
        }
        return $tree;
    }

    /** @param array<string, mixed> $about */
    private static function branch(array $about, callable $make): mixed
    {
        if (!\is_array($about['error'])) {
            return $make($about);
        }
        $branch = [];
        foreach (array_keys($about['error']) as $key) {
            $below = [];
            foreach (['tmp_name', 'name', 'type', 'size', 'error'] as $what) {
                $below[$what] = $about[$what][$key];
            }
            $branch[$key] = self::branch($below, $make);
        }
        return $branch;
    }
}
