<?php

// Kept warm: the callable is called for each request.
return fn (): array => [200, ['Content-Type' => 'text/plain'], 'Hello, world!'];
