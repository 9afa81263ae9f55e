<?php

header('Content-Type: text/plain');
echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-';
