<?php

// Replaces Composer's autoloader for Debian's php-symfony-framework-bundle and php-symfony-runtime.

require_once 'Symfony/Component/Runtime/autoload.php';
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';

spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . '/' . strtr(substr($class, 4), '\\', '/') . '.php';
    if (str_starts_with($class, 'App\\') && is_file($file)) {
        require $file;
    }
});
