<?php

function pay(): never
{
    throw new LogicException('no such card');
}

if ($_SERVER['REQUEST_URI'] === '/') {
    exit('ready');
}
try {
    pay();
} catch (LogicException $error) {
    throw new RuntimeException('in vain', 0, $error);
}
