<?php

declare(strict_types=1);

namespace Keepwarm\Composer;

require __DIR__ . '/Failure.php';
require __DIR__ . '/Binary.php';
require __DIR__ . '/Store.php';
require __DIR__ . '/Download.php';

/**
 * Starts a program and waits for it, for a PHP that cannot become one. PHP cannot handle signals then either: when it dies, the pipe
 * closes, and the program gets SIGTERM.
 */
const WAIT = <<<'SH'
    "$@" <&0 3<&- 4>&- &
    program=$!
    { read -r _ <&3; kill -TERM "$program"; } 2>/dev/null 4>&- &
    watch=$!
    exec 3<&-
    wait "$program"
    status=$?
    kill "$watch" 2>/dev/null
    exit "$status"
    SH;

function say(string $text): void
{
    fwrite(\STDERR, "keepwarm: $text\n");
}

/** The binary to run: KEEPWARM_BIN, else the one that the package pins. */
function program(): string
{
    $named = (string) getenv('KEEPWARM_BIN');
    if ($named === '') {
        return (new Store(Store::directories(\dirname(__DIR__))))->provide(Binary::ofPackage(\dirname(__DIR__), \PHP_OS_FAMILY, php_uname('m')));
    }
    if (!is_file($named) || !is_executable($named)) {
        throw new Failure("KEEPWARM_BIN=$named is not an executable file; expected the path of a keepwarm binary");
    }
    if (\in_array(realpath($named), [__DIR__ . '/keepwarm', realpath($_SERVER['SCRIPT_FILENAME'])], true)) {
        throw new Failure("KEEPWARM_BIN=$named is this script; expected the path of a keepwarm binary");
    }
    return $named;
}

/** @param list<string> $arguments */
function become(string $program, array $arguments): never
{
    if (\function_exists('pcntl_exec')) {
        @pcntl_exec($program, $arguments); // returns only if it fails
        throw new Failure("cannot run $program: " . pcntl_strerror(pcntl_get_last_error()));
    }
    $streams = [\STDIN, \STDOUT, \STDERR, ['pipe', 'r'], ['pipe', 'w']];
    $process = proc_open(['/bin/sh', '-c', WAIT, 'keepwarm', $program, ...$arguments], $streams, $pipes);
    if ($process === false) {
        throw new Failure("cannot run $program: /bin/sh did not start");
    }
    fread($pipes[4], 1); // until the shell exits: proc_close would close the other pipe first
    exit(proc_close($process));
}

try {
    become(program(), \array_slice($_SERVER['argv'], 1));
} catch (Failure $failure) {
    say($failure->getMessage());
    exit(1);
}
