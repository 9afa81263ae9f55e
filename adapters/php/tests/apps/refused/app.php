<?php

// Returns what TEST_APP names.

use Symfony\Component\HttpFoundation\{Request, Response};

require_once 'Symfony/Component/HttpKernel/autoload.php';
require_once 'Psr/Http/Message/autoload.php';
require_once 'Illuminate/autoload.php';
require __DIR__ . '/vendor/frameworks.php';

final class OwnKernel implements Symfony\Component\HttpKernel\HttpKernelInterface
{
    public function handle(Request $request, int $type = self::MAIN_REQUEST, bool $catch = true): Response { return new Response('served'); }
}

final class Derived extends Shop\Kernel {}

$laravel = new Illuminate\Foundation\Application(__DIR__);
return match (getenv('TEST_APP')) {
    'laravel request' => fn (Illuminate\Http\Request $request) => 'served',
    'laravel closure' => fn (Request $request) => $laravel->handle($request),
    'laravel method' => [$laravel, 'handle'],
    'lumen' => new Laravel\Lumen\Application(),
    'silex' => new Silex\Application(),
    'drupal' => new Drupal\Core\DrupalKernel(),
    'cake' => new Shop\CakeApplication(),
    'package' => new Derived(),
    'wrapped' => (fn (Derived $kernel) => fn (Request $request) => $kernel->handle($request))(new Derived()),
    'own' => new OwnKernel(),
};
