<?php

declare(strict_types=1);

namespace App;

use App\Controller\OrderController;
use App\MessageHandler\SendMailHandler;
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

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => 'not a secret', 'http_method_override' => false]);
        $container->import('../config/packages/*.yaml');
        $container->services()->defaults()->autowire()->autoconfigure()
            ->set(OrderController::class)->public()
            ->set(SendMailHandler::class);
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('order', '/order/{name}')->controller(OrderController::class);
    }
}
