<?php

// An application with signal handlers of its own: one that throws, as time limits do, and one that ends the process.

pcntl_signal(SIGUSR1, static function (): never {
    throw new RuntimeException('interrupted');
});
pcntl_signal(SIGUSR2, static function (): never {
    exit(7);
});

return static function (Keepwarm\Request $request): string {
    if ($request->path === '/own') {
        try {
            posix_kill(getmypid(), SIGUSR1);
            sleep(10);
        } catch (RuntimeException $error) {
            return 'rescued ' . $error->getMessage();
        }
    }
    if ($request->path === '/body') {
        try {
            return (string) \strlen(file_get_contents('php://input'));
        } catch (RuntimeException $error) {
            return 'rescued ' . $error->getMessage() . ' and then ' . \strlen(file_get_contents('php://input'));
        }
    }
    return $request->path === '/large' ? str_repeat('x', 2_000_000) : 'after';
};
