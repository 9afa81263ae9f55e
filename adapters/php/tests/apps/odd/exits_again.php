<?php

namespace Psr\Http\Server;

interface RequestHandlerInterface {}

require_once 'Nyholm/Psr7/autoload.php';

return function (array $context) {
    static $made = 0;
    if ($made++ > 0) {
        exit;
    }
    return new class implements RequestHandlerInterface {
        public function handle(object $request): object { exit('page'); }
    };
};
