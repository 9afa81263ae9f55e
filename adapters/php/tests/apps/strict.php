<?php

// An application whose error handler makes an exception of every warning, as those of frameworks do.

set_error_handler(static function (int $level, string $text): never {
    throw new ErrorException($text, 0, $level);
});

return static function (Keepwarm\Request $request): string {
    if ($request->path === '/folder') {
        rmdir($_GET['folder']);
    } elseif ($request->path === '/session') {
        session_set_save_handler(
            static fn (): bool => true, static fn (): bool => true, static fn (): string => '', static fn () => throw new RuntimeException('cannot be written'),
            static fn (): bool => true, static fn (): int => 0,
        );
        session_start();
    } elseif ($request->path === '/warns') {
        echo $undefined;
    }
    return json_encode([count($_GET), count($_POST), count($_COOKIE), array_column($_FILES, 'error', 'name')]);
};
