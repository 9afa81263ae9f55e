<?php

declare(strict_types=1);

/*
 * `php fetch.php`: prints the path of the binary that binaries.json names for this machine. Fetches it if no copy has the right
 * SHA-256; what does not match is never stored, and never run.
 */

namespace Keepwarm\Composer;

require __DIR__ . '/Failure.php';
require __DIR__ . '/Binary.php';
require __DIR__ . '/Store.php';
require __DIR__ . '/Download.php';

function say(string $text): void
{
    fwrite(\STDERR, "keepwarm: $text\n");
}

try {
    $binary = Binary::ofPackage(\dirname(__DIR__), \PHP_OS_FAMILY, php_uname('m'));
    echo (new Store(Store::directories(\dirname(__DIR__))))->provide($binary), "\n";
} catch (Failure $failure) {
    say($failure->getMessage());
    exit(1);
}
