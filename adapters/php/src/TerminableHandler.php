<?php

declare(strict_types=1);

namespace Keepwarm;

/** One whose application has something to do after the response. */
interface TerminableHandler extends Handler
{
    /** The response has left. */
    public function terminate(): void;
}
