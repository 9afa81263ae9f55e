<?php

function pay(): never
{
    throw new LogicException('no such card');
}

function buy(): never
{
    try {
        pay();
    } catch (LogicException $error) {
        throw new RuntimeException('in vain', 0, $error);
    }
}

return function (Keepwarm\Request $request): string {
    if ($_SERVER['REQUEST_URI'] === '/') {
        return 'ready';
    }
    if ($_SERVER['REQUEST_URI'] !== '/logged') {
        buy();
    }
    try {
        pay();
    } catch (LogicException $error) {
        error_log((string) $error);
    }
    return 'logged';
};
