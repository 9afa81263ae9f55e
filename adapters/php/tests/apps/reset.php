<?php

// `/touch/NAME` changes something in the process, `/see/NAME` shows it.

use Keepwarm\Request;

$cases = require __DIR__ . '/cases.php';

return function (Request $request) use ($cases) {
    if ($request->path === '/') {
        return 'hello';
    }
    [, $what, $name] = explode('/', $request->path);
    $result = $cases[$name][$what === 'see' ? 1 : 0]($request);
    return str_starts_with($name, 'shutdown') ? $result : json_encode($result);
};
