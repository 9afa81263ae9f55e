<?php

declare(strict_types=1);

namespace App\Controller;

use App\Message\SendMail;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Messenger\MessageBusInterface;

final class OrderController
{
    public function __construct(private MessageBusInterface $bus)
    {
    }

    public function __invoke(string $name): Response
    {
        $this->bus->dispatch(new SendMail($name));
        return new Response("ordered $name\n");
    }
}
