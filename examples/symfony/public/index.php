<?php

use App\Kernel;

// A Composer project has only the first of these; the second makes the example run on Debian's packages.
if (is_file($runtime = dirname(__DIR__) . '/vendor/autoload_runtime.php')) {
    require_once $runtime;
} else {
    require_once dirname(__DIR__) . '/src/debian.php';
}

return function (array $context) {
    return new Kernel($context['APP_ENV'], (bool) $context['APP_DEBUG']);
};
