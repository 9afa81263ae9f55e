<?php
/*
 * `php bin/worker.php ENTRY`: a worker of Keepwarm. It is started by `keepwarm run`, which gives it its wire in KEEPWARM_FD.
 *
 * Up to the check of the version this file is read by any PHP, so that an old one can say that it is old.
 */

if (PHP_VERSION_ID < 80100) {
    fwrite(STDERR, 'keepwarm: this is PHP ' . PHP_VERSION . '; 8.1 or later is needed. Set another one with the key `interpreter`.' . "\n");
    exit(1);
}

require __DIR__ . '/../src/autoload.php';

Keepwarm\Main::prepare($argv);
try {
    // Here and not in a function: the variables of an entry are global, as they are when a web server runs it.
    $status = Keepwarm\Main::serve(require Keepwarm\Main::entry());
} catch (Throwable $keepwarmError) {
    $status = Keepwarm\Main::failed($keepwarmError);
}
exit($status);
