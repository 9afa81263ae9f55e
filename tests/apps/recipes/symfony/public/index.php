<?php

// A Composer project has its autoloader in place of the second.
require_once dirname(__DIR__) . '/src/debian.php';

return static fn (array $context) => new App\Kernel($context['APP_ENV'], (bool) $context['APP_DEBUG']);
