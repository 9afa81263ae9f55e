<?php

// Functions that compute and that wait, for the tests of profiles.

declare(strict_types=1);

const TIME = 0.3; // seconds

function cpu(): float
{
    $usage = getrusage();
    return $usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'] + ($usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']) / 1e6;
}

function compute(float $seconds = TIME): void
{
    $end = cpu() + $seconds;
    while (cpu() < $end) {
        array_sum(range(1, 1_000));
    }
}

/** In a system call that begins again after a signal. A poll would begin its time again, and Keepwarm sends only one signal during it (spec/wire.md §10). */
function wait(float $seconds = TIME): void
{
    exec("sleep $seconds");
}

function deep(int $depth): void
{
    $depth === 0 ? compute() : deep($depth - 1);
}

class Worker
{
    public function work(): void
    {
        compute();
    }
}

return static function (Keepwarm\Request $request): string {
    switch ($request->path) {
        case '/both':
            compute();
            wait();
            break;
        case '/compute':
            (new Worker())->work();
            break;
        case '/wait':
            wait();
            break;
        case '/deep':
            deep(400);
            break;
        case '/read':
            file_get_contents('php://input');
            break;
        case '/after':
            echo 'done';
            fastcgi_finish_request();
            compute();
            break;
    }
    return 'done';
};
