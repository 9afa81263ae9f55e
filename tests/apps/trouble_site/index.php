<?php

// What is flushed leaves at once, whatever `output_buffering` says.
while (ob_get_level() > 0) {
    ob_end_clean();
}

require __DIR__ . '/deeds.php';

serve(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), static fn (): string => file_get_contents('php://input'));
