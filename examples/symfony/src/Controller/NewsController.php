<?php

declare(strict_types=1);

namespace App\Controller;

use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\StreamedResponse;

/**
 * Server-sent events on request: what is sent with `POST /news` arrives at the open `GET /news`.
 *
 * The two are requests of different processes, which share a named pipe: one reader at a time.
 */
final class NewsController
{
    /** The stream: `welcome`, then each piece of news, up to the piece `end`. */
    public function read(): Response
    {
        // Open for writing too: a pipe without a writer would be at its end.
        $pipe = fopen(self::pipe(), 'r+');
        return new StreamedResponse(static function () use ($pipe): void {
            for ($piece = 'welcome'; $piece !== 'end'; $piece = rtrim((string) fgets($pipe), "\n")) {
                echo "data: $piece\n\n";
                flush();
            }
        }, 200, ['Content-Type' => 'text/event-stream', 'Cache-Control' => 'no-cache']);
    }

    public function publish(Request $request): Response
    {
        file_put_contents(self::pipe(), $request->getContent() . "\n", FILE_APPEND);
        return new Response('', 204);
    }

    private static function pipe(): string
    {
        $path = ($_SERVER['APP_CACHE_DIR'] ?? sys_get_temp_dir()) . '/news';
        if (!file_exists($path)) {
            posix_mkfifo($path, 0600);
        }
        return $path;
    }
}
