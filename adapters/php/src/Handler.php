<?php

declare(strict_types=1);

namespace Keepwarm;

/** An application of one kind. */
interface Handler
{
    /** Handles a request: gives a status, headers and a body to the reply. An exception is the application's error. */
    public function handle(Request $request, Reply $reply): void;

    /** `handle` threw, or `exit()` was called in it: the next request is not to be served by what this one may have left half done. */
    public function failed(): void;

    /** Whether that holds after `exit()`, too, which takes no `finally` on its way. */
    public function outlivesExit(): bool;

    /** What the entry returned: from here on the objects of the application can be found. */
    public function application(): object;
}
