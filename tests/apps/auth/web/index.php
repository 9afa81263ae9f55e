<?php

// The service of auth_wsgi.py for classic PHP.

require __DIR__ . '/../decide.php';

[$status, $fields, $body] = decide($_SERVER);
http_response_code($status);
foreach ($fields as $name => $values) {
    foreach ((array) $values as $value) {
        header("$name: $value", false);
    }
}
echo $body;
