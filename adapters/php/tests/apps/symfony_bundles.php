<?php

// Symfony with Twig, its security, the profiler and the translator: `/touch/NAME` changes what one of their services holds, `/see/NAME` shows it.

namespace App;

use Psr\Container\ContainerInterface;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Bundle\SecurityBundle\SecurityBundle;
use Symfony\Bundle\TwigBundle\TwigBundle;
use Symfony\Bundle\WebProfilerBundle\WebProfilerBundle;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\{Request, Response, JsonResponse};
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Symfony\Component\Security\Core\Authentication\Token\UsernamePasswordToken;
use Symfony\Component\Security\Core\User\InMemoryUser;
use Twig\Extension\CoreExtension;
use Twig\Extension\EscaperExtension;

require_once 'Symfony/Component/Runtime/autoload.php';
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
require_once 'Symfony/Bundle/SecurityBundle/autoload.php';
require_once 'Symfony/Bundle/TwigBundle/autoload.php';
require_once 'Symfony/Bundle/WebProfilerBundle/autoload.php';

final class Site extends Kernel
{
    use MicroKernelTrait;

    private const SERVICES = ['twig' => 'twig', 'tokens' => 'security.token_storage', 'translator' => 'translator', 'profiler' => 'profiler'];

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
        yield new SecurityBundle();
        yield new TwigBundle();
        yield new WebProfilerBundle();
    }

    public function getProjectDir(): string { return __DIR__; }
    public function getCacheDir(): string { return getenv('TEST_CACHE') . '/bundles'; }
    public function getLogDir(): string { return getenv('TEST_CACHE'); }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => 'secret', 'http_method_override' => false, 'default_locale' => 'en', 'profiler' => ['dsn' => 'file:' . getenv('TEST_CACHE') . '/profiles'],
            'session' => ['storage_factory_id' => 'session.storage.factory.native', 'handler_id' => null], 'translator' => ['fallbacks' => ['en']],
        ]);
        $container->extension('security', [
            'enable_authenticator_manager' => true, 'password_hashers' => [InMemoryUser::class => 'plaintext'],
            'providers' => ['all' => ['memory' => ['users' => ['alice' => ['password' => 'secret', 'roles' => ['ROLE_USER']]]]]],
            'firewalls' => ['main' => ['lazy' => true, 'http_basic' => true]],
        ]);
        $container->extension('twig', ['default_path' => __DIR__ . '/bundles', 'globals' => ['visitor' => 'nobody']]);
        $container->extension('web_profiler', ['toolbar' => false, 'intercept_redirects' => false]);
        foreach (self::SERVICES as $name => $service) {
            $container->services()->alias("test.$name", $service)->public();
        }
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('home', '/')->controller(['kernel', 'home']);
        $routes->add('visit', '/{what}/{name}')->controller(['kernel', 'visit']);
    }

    public function home(): Response
    {
        return new Response($this->getContainer()->get('test.twig')->render('page.html.twig'));
    }

    public function visit(string $what, string $name): Response
    {
        return new JsonResponse(self::cases($this->getContainer())[$name][$what === 'see' ? 1 : 0]());
    }

    private static function cases(ContainerInterface $container): array
    {
        [$twig, $tokens, $translator, $profiler] = [$container->get('test.twig'), $container->get('test.tokens'), $container->get('test.translator'), $container->get('test.profiler')];
        $core = $twig->getExtension(CoreExtension::class);
        $page = fn (): string => $twig->render('page.html.twig');
        return [
            'global' => [fn () => $twig->addGlobal('visitor', 'alice'), $page],
            'global of the rendered' => [fn () => [$page(), $twig->addGlobal('visitor', 'alice')][0], $page],
            'time zone of dates' => [fn () => $core->setTimezone('Asia/Tokyo'), $page],
            'format of dates' => [fn () => $core->setDateFormat('Y', '%d years'), $page],
            'format of numbers' => [fn () => $core->setNumberFormat(3, ',', '.'), $page],
            'escaper' => [fn () => $twig->getExtension(EscaperExtension::class)->setEscaper('shout', fn ($twig, $text) => strtoupper($text)), fn () => array_keys($twig->getExtension(EscaperExtension::class)->getEscapers())],
            'safe classes' => [fn () => $twig->getExtension(EscaperExtension::class)->addSafeClass('ArrayObject', ['html']), fn () => $twig->getExtension(EscaperExtension::class)->safeClasses],
            'strict variables' => [fn () => $twig->enableStrictVariables(), fn () => $twig->isStrictVariables()],
            'charset' => [fn () => $twig->setCharset('ISO-8859-1'), fn () => $twig->getCharset()],
            'paths' => [fn () => $twig->getLoader()->addPath(__DIR__, 'visitor'), fn () => $twig->getLoader()->getNamespaces()],
            'token' => [fn () => $tokens->setToken(new UsernamePasswordToken(new InMemoryUser('alice', null), 'main', [])), fn () => $tokens->getToken()?->getUserIdentifier()],
            'user' => [fn () => $tokens->getToken()?->getUserIdentifier(), fn () => $tokens->getToken()?->getUserIdentifier()],
            'locale' => [fn () => $translator->setLocale('de'), fn () => [$translator->getLocale(), $page()]],
            'fallback locales' => [fn () => $translator->setFallbackLocales(['de']), fn () => $translator->getFallbackLocales()],
            'catalogue' => [fn () => $translator->getCatalogue('en')->set('hello', 'hello alice'), $page],
            'collected' => [fn () => $profiler->get('request')->collect(Request::create('/of-alice'), new Response()), fn () => (function () { return $this->data; })->call($profiler->get('request'))],
        ];
    }
}

return fn (array $context) => new Site('prod', false);
