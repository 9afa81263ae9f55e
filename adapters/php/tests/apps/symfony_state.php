<?php

// What a visitor can change in Symfony's own services; `/see` shows it.

namespace App;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\{Request, Response, JsonResponse};
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
require_once 'Symfony/Component/Runtime/autoload.php';
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
final class Site extends Kernel {
    use MicroKernelTrait;
    public function registerBundles(): iterable { yield new FrameworkBundle(); }
    public function getProjectDir(): string { return __DIR__; }
    public function getCacheDir(): string { return getenv('TEST_CACHE') . '/' . $this->environment; }
    public function getLogDir(): string { return getenv('TEST_CACHE'); }
    protected function configureContainer(ContainerConfigurator $c): void {
        $c->extension('framework', ['secret' => 's', 'http_method_override' => false, 'default_locale' => 'en', 'session' => ['storage_factory_id' => 'session.storage.factory.native', 'handler_id' => null], 'trusted_proxies' => getenv('TEST_PROXIES') ?: '', 'trusted_headers' => ['x-forwarded-for', 'x-forwarded-proto']]);
        $c->services()->alias('pub.router', 'router')->public();
        $c->services()->alias('pub.dispatcher', 'event_dispatcher')->public();
        $c->services()->alias('pub.cache', 'cache.app')->public();
    }
    protected function configureRoutes(RoutingConfigurator $r): void {
        $r->add('touch', '/touch')->controller(['kernel', 'touch']); $r->add('see', '/see')->controller(['kernel', 'see']); $r->add('fail', '/fail')->controller(['kernel', 'fail']);
    }
    public function touch(Request $q): Response {
        $c = $this->getContainer();
        $q->setLocale('de'); $q->getSession()->set('user', 'alice'); \Locale::setDefault('tr');
        $c->get('pub.router')->getContext()->setParameter('visitor', 'alice'); $c->get('pub.router')->getContext()->setHost('alice.example')->setBaseUrl('/alice')->setScheme('https');
        $c->get('pub.dispatcher')->addListener('kernel.response', fn ($e) => $e->getResponse()->headers->set('X-Alice', '1'));
        $q->attributes->set('_locale', 'de');
        Request::setTrustedProxies(['127.0.0.1', 'REMOTE_ADDR'], Request::HEADER_X_FORWARDED_FOR | Request::HEADER_X_FORWARDED_HOST); Request::setTrustedHosts([]); Request::enableHttpMethodParameterOverride();
        Request::setFactory(fn (...$a) => new class(...$a) extends Request { public $alice = 1; });
        $q->setFormat('alice', 'text/alice');
        $c->get('request_stack')->push(Request::create('/pushed'));
        return new Response('touched');
    }
    public function see(Request $q): Response {
        $c = $this->getContainer(); $x = $c->get('pub.router')->getContext();
        return new JsonResponse([$q->getLocale(), \Locale::getDefault(), $x->getParameters(), $x->getHost(), $x->getBaseUrl(), $x->getScheme(), $c->get('request_stack')->getMainRequest()->getUri(), $c->get('request_stack')->getParentRequest()?->getUri(),
          Request::getTrustedProxies(), Request::getHttpMethodParameterOverride(), get_parent_class($q), $q->getFormat('text/alice'), $q->getClientIp(), count($c->get('pub.dispatcher')->getListeners('kernel.response'))]);
    }
    public function fail(): Response { throw new \Exception('x'); }
}
return fn (array $context) => new Site('prod', false);
