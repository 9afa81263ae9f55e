<?php

declare(strict_types=1);

namespace Keepwarm\Composer;

/** The binary for this machine, as binaries.json pins it. */
final class Binary
{
    private const MACHINES = ['amd64' => 'x86_64', 'arm64' => 'aarch64'];

    private function __construct(
        public readonly string $name,
        public readonly string $url,
        public readonly string $sha256,
        /** In bytes. */
        public readonly int $size,
    ) {
    }

    /** Throws `Failure` for a machine without a binary, and for a package that was not built. */
    public static function ofPackage(string $package, string $system, string $machine): self
    {
        $file = "$package/binaries.json";
        if (!is_file($file)) {
            throw new Failure("$file not found: this is a source checkout, which names no binary; set KEEPWARM_BIN to a keepwarm binary");
        }
        $content = json_decode((string) file_get_contents($file), true);
        $known = \is_array($content) ? $content['binaries'] ?? [] : [];
        $machine = self::MACHINES[$machine] ?? $machine;
        if ($system !== 'Linux' || !isset($known[$machine])) {
            throw new Failure("no binary for $system on $machine; this package has one for Linux on " . implode(' and ', array_keys($known))
                . '. Build one from source and set KEEPWARM_BIN to it');
        }
        ['url' => $url, 'sha256' => $sha256, 'size' => $size] = $known[$machine];
        return new self("keepwarm-{$content['version']}-$machine", $url, $sha256, $size);
    }

    /** Whether a file is this binary, byte for byte. */
    public function isAt(string $file): bool
    {
        return is_file($file) && filesize($file) === $this->size && hash_equals($this->sha256, (string) @hash_file('sha256', $file));
    }
}
