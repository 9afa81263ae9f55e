<?php

// A Symfony kernel whose services keep something, for the tests of what a worker keeps.

declare(strict_types=1);

namespace App;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Kernel as Base;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Symfony\Contracts\Service\ResetInterface;

require_once 'Symfony/Component/Runtime/autoload.php';
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';

/** What Symfony calls between two requests. */
final class Basket implements ResetInterface
{
    public array $items = [];

    public function reset(): void
    {
        $this->items = [];
    }
}

final class Prices
{
    public array $known = [];
}

final class Shop
{
    public function __construct(private Basket $basket, private Prices $prices)
    {
    }

    public function page(): Response
    {
        return new Response('a page');
    }

    public function price(): Response
    {
        $this->prices->known[] = new \ArrayObject([1, 2, 3]);
        return new Response('a price');
    }

    public function basket(): Response
    {
        $this->basket->items[] = new \ArrayObject([1, 2, 3]);
        return new Response('a basket');
    }
}

final class Kernel extends Base
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
    }

    public function getProjectDir(): string
    {
        return __DIR__;
    }

    public function getCacheDir(): string
    {
        return getenv('TEST_CACHE') . '/growth';
    }

    public function getLogDir(): string
    {
        return (string) getenv('TEST_CACHE');
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => 'secret', 'http_method_override' => false]);
        $services = $container->services()->defaults()->autowire()->autoconfigure();
        $services->set('shop.prices', Prices::class)->public();
        $services->alias(Prices::class, 'shop.prices');
        $services->set(Basket::class)->public();
        $services->set(Shop::class)->public();
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        foreach (['page', 'price', 'basket'] as $name) {
            $routes->add($name, "/$name")->controller([Shop::class, $name]);
        }
    }
}

return fn (array $context) => new Kernel('prod', false);
