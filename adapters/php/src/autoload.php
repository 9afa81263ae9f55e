<?php

declare(strict_types=1);

/*
 * Loads the classes of this package by PSR-4, with or without composer.
 */

spl_autoload_register(static function (string $class): void {
    if (strncmp($class, 'Keepwarm\\', 9) === 0) {
        $file = __DIR__ . '/' . strtr(substr($class, 9), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
require_once __DIR__ . '/api.php';
