<?php

declare(strict_types=1);

namespace App;

use App\Controller\NewsController;
use App\Controller\ShopController;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

final class Kernel extends BaseKernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
    }

    public function getProjectDir(): string
    {
        return \dirname(__DIR__);
    }

    public function getCacheDir(): string
    {
        return ($_SERVER['APP_CACHE_DIR'] ?? $this->getProjectDir() . '/var/cache') . '/' . $this->environment;
    }

    public function getLogDir(): string
    {
        return $_SERVER['APP_CACHE_DIR'] ?? $this->getProjectDir() . '/var/log';
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => 'not a secret: this is an example',
            'http_method_override' => false,
            'session' => ['storage_factory_id' => 'session.storage.factory.native', 'handler_id' => null],
        ]);
        $container->services()->set(ShopController::class)->public();
        $container->services()->set(NewsController::class)->public();
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        foreach ([
            'home' => '/', 'products' => '/products', 'order' => '/order', 'upload' => '/upload', 'stream' => '/stream', 'cookies' => '/cookies',
            'basket' => '/basket', 'error' => '/error', 'errorLate' => '/error-late', 'leave' => '/exit', 'fatal' => '/fatal', 'big' => '/big',
            'file' => '/file', 'early' => '/early', 'whoami' => '/whoami', 'pong' => '/pong', 'moved' => '/moved',
            'gallery' => '/gallery', 'picture' => '/pictures/{number}.svg',
        ] as $name => $path) {
            $routes->add($name, $path)->controller([ShopController::class, $name]);
        }
        $routes->add('news', '/news')->controller([NewsController::class, 'read'])->methods(['GET']);
        $routes->add('publish', '/news')->controller([NewsController::class, 'publish'])->methods(['POST']);
    }
}
