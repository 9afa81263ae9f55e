<?php

return [
    'driver' => 'file', 'lifetime' => 120, 'expire_on_close' => false, 'encrypt' => false, 'files' => getenv('TEST_STORAGE') . '/framework/sessions', 'connection' => null,
    'table' => 'sessions', 'store' => null, 'lottery' => [0, 100], 'cookie' => 'shop', 'path' => '/', 'domain' => null, 'secure' => false, 'http_only' => true, 'same_site' => 'lax',
];
