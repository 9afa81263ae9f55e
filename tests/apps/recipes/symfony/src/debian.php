<?php

// Replaces Composer's autoloader for Debian's packages.

require_once 'Symfony/Component/Runtime/autoload.php';
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
require_once 'Symfony/Component/Console/autoload.php';
require_once 'Symfony/Component/Messenger/autoload.php';
require_once 'Symfony/Component/Messenger/Bridge/Redis/autoload.php';
require_once 'Symfony/Component/Yaml/autoload.php';

spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . '/' . strtr(substr($class, 4), '\\', '/') . '.php';
    if (str_starts_with($class, 'App\\') && is_file($file)) {
        require $file;
    }
});
