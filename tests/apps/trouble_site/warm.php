<?php

require_once __DIR__ . '/deeds.php';

return static function (Keepwarm\Request $request): void {
    serve($request->path, $request->body(...));
};
