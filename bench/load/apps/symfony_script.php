<?php

// The Symfony example as php-fpm and `php -S` run it: what composer's autoload_runtime.php does, with Debian's packages.

$example = dirname(__DIR__, 3) . '/examples/symfony';
// `php -S` has the environment in getenv() only.
foreach (['APP_ENV', 'APP_CACHE_DIR'] as $name) {
    $_SERVER[$name] ??= getenv($name);
}
$_SERVER['SCRIPT_FILENAME'] = "$example/public/index.php";
$app = require "$example/public/index.php";
$runtime = new Symfony\Component\Runtime\SymfonyRuntime(['project_dir' => $example, 'disable_dotenv' => true]);
[$app, $arguments] = $runtime->getResolver($app)->resolve();
exit($runtime->getRunner($app(...$arguments))->run());
