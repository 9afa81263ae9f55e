<?php

// The test script named by PHPT_FILE, as a warm application: included by each request, as php-cgi would run it.

return function () {
    (static function () {
        extract($GLOBALS, EXTR_REFS | EXTR_SKIP);
        include getenv('PHPT_FILE');
    })();
};
