<?php

// The cases of cases.php in an application of each kind that Keepwarm knows, which TEST_KIND names; Laravel has its own file.

namespace Visitors;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

$cases = require __DIR__ . '/cases.php';
$visit = static fn (string $what, string $name): string => json_encode($cases[$name][$what === 'see' ? 1 : 0]());
$fromPath = static fn (string $path): string => $path === '/' ? 'hello' : $visit(...\array_slice(explode('/', rawurldecode($path)), 1, 2));

if (getenv('TEST_KIND') === 'symfony') {
    require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';

    final class Site extends Kernel
    {
        use MicroKernelTrait;

        public \Closure $visit;

        public function registerBundles(): iterable { yield new FrameworkBundle(); }
        public function getProjectDir(): string { return __DIR__; }
        public function getCacheDir(): string { return getenv('TEST_CACHE') . '/visitors'; }
        public function getLogDir(): string { return getenv('TEST_CACHE'); }
        public function hello(): Response { return new Response('hello'); }
        public function visit(string $what, string $name): Response { return new Response(($this->visit)($what, $name)); }

        protected function configureContainer(ContainerConfigurator $container): void
        {
            $container->extension('framework', ['secret' => 'secret', 'http_method_override' => false]);
        }

        protected function configureRoutes(RoutingConfigurator $routes): void
        {
            $routes->add('home', '/')->controller(['kernel', 'hello']);
            $routes->add('visit', '/{what}/{name}')->controller(['kernel', 'visit']);
        }
    }

    $kernel = new Site('prod', false);
    $kernel->visit = $visit;
    return $kernel;
}

if (getenv('TEST_KIND') === 'slim') {
    require_once 'Slim/autoload.php';
    $app = new \Slim\App(['settings' => ['displayErrorDetails' => false]]);
    $app->get('/', fn ($request, $response) => $response->write('hello'));
    $app->map(['GET', 'POST'], '/{what}/{name}', fn ($request, $response, array $arguments) => $response->write($visit($arguments['what'], $arguments['name'])));
    return $app;
}

require_once 'Nyholm/Psr7/autoload.php';
eval('namespace Psr\Http\Server; interface RequestHandlerInterface { public function handle(\Psr\Http\Message\ServerRequestInterface $request): \Psr\Http\Message\ResponseInterface; }');

return new class ($fromPath) implements \Psr\Http\Server\RequestHandlerInterface {
    public function __construct(private \Closure $fromPath)
    {
    }

    public function handle(\Psr\Http\Message\ServerRequestInterface $request): \Psr\Http\Message\ResponseInterface
    {
        return new \Nyholm\Psr7\Response(200, [], ($this->fromPath)($request->getUri()->getPath()));
    }
};
