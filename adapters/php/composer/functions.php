<?php

declare(strict_types=1);

// In a worker, the adapter that Keepwarm started has declared them, and a second declaration would be fatal.
if (!\function_exists('Keepwarm\request')) {
    require __DIR__ . '/../src/api.php';
}
