<?php

declare(strict_types=1);

namespace Keepwarm\Handlers;

use Keepwarm\Handler;
use Keepwarm\Psr7\Factory;
use Keepwarm\Reply;
use Keepwarm\Request;

/** A PSR-15 request handler; a Slim 4 app is one. */
final class Psr15Handler implements Handler
{
    private const PIECE = 65_536;

    private readonly Factory $factory;

    /** @param \Closure|null $again makes a new application */
    public function __construct(private object $application, private readonly ?\Closure $again = null)
    {
        $this->factory = Factory::detect();
    }

    public function handle(Request $request, Reply $reply): void
    {
        self::send($this->application->handle($this->factory->request($request)), $reply);
    }

    public function failed(): void
    {
        if ($this->again !== null) {
            $this->application = ($this->again)();
        }
    }

    public function outlivesExit(): bool
    {
        return !CallableHandler::stacksRequests();
    }

    public function application(): object
    {
        return $this->application;
    }

    /** Sends a PSR-7 response; its stream is read in pieces and never becomes one string. */
    public static function send(object $response, Reply $reply): void
    {
        $flat = [];
        foreach ($response->getHeaders() as $name => $values) {
            foreach ($values as $value) {
                $flat[] = (string) $name;
                $flat[] = $value;
            }
        }
        $status = $response->getStatusCode();
        $body = $response->getBody();
        if ($body->isSeekable()) {
            $body->rewind();
        }
        $size = $body->getSize();
        // A pipe and a file of /proc say 0, and have more.
        if ($size !== null && $size > 0 && $size <= self::PIECE && $body->isReadable()) {
            $text = '';
            while (\strlen($text) < $size && !$body->eof()) {
                $text .= $body->read($size - \strlen($text));
            }
            $reply->whole($status, $flat, $text);
            return;
        }
        $reply->pieces($status, $flat, $reply->response->bodiless || !$body->isReadable() ? [] : self::readAll($body));
        $body->close();
    }

    /** @return iterable<string> */
    private static function readAll(object $body): iterable
    {
        while (!$body->eof()) {
            yield $body->read(self::PIECE);
        }
    }
}
