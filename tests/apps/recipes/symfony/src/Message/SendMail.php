<?php

declare(strict_types=1);

namespace App\Message;

final class SendMail
{
    public function __construct(public string $name)
    {
    }
}
