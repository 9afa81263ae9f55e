<?php

// The same under php-cgi: what differs then is Keepwarm's doing, and not that the script is included by a function.

(static function () {
    extract($GLOBALS, EXTR_REFS | EXTR_SKIP);
    include getenv('PHPT_FILE');
})();
