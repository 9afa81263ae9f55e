<?php

// The service of auth_wsgi.py for PHP that is kept warm.

require __DIR__ . '/decide.php';

return fn (Keepwarm\Request $request): array => decide($request->server);
