<?php

declare(strict_types=1);

namespace App\MessageHandler;

use App\Message\SendMail;
use Symfony\Component\Messenger\Handler\MessageHandlerInterface;

final class SendMailHandler implements MessageHandlerInterface
{
    public function __invoke(SendMail $message): void
    {
        touch(\dirname(__DIR__, 2) . '/done-' . $message->name);
    }
}
