<?php

// A Symfony FrameworkBundle application in one file, as `public/index.php` of a project returns it. Debian's packages.

namespace App;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\BinaryFileResponse;
use Symfony\Component\HttpFoundation\Cookie;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\RedirectResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\StreamedResponse;
use Symfony\Component\HttpKernel\Event\TerminateEvent;
use Symfony\Component\HttpKernel\Exception\AccessDeniedHttpException;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Symfony\Contracts\Service\ResetInterface;

require_once 'Symfony/Component/Runtime/autoload.php';
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';

final class Counter implements ResetInterface
{
    public int $count = 0;

    public function reset(): void
    {
        $this->count = 0;
    }
}

final class Site extends Kernel
{
    use MicroKernelTrait;

    public static int $made = 0;

    public function __construct(string $environment, bool $debug)
    {
        parent::__construct($environment, $debug);
        self::$made++;
    }

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
        return getenv('TEST_CACHE') . '/' . $this->environment;
    }

    public function getLogDir(): string
    {
        return getenv('TEST_CACHE');
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => 'secret', 'http_method_override' => false, 'session' => ['storage_factory_id' => 'session.storage.factory.native', 'handler_id' => null] + (getenv('TEST_SESSIONS') ? ['save_path' => getenv('TEST_SESSIONS'), 'name' => 'SITE', 'cookie_samesite' => 'strict', 'gc_maxlifetime' => 99] : []),
        ]);
        $container->services()->set(Counter::class)->public()->tag('kernel.reset', ['method' => 'reset']);
        $container->services()->set('site', self::class)->synthetic()->public();
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        foreach (['hello', 'about', 'json', 'stream', 'file', 'cookies', 'session', 'invalidate', 'count', 'fails', 'upload', 'put', 'exit', 'echo', 'login', 'logout', 'me'] as $name) {
            $routes->add($name, "/$name")->controller(['kernel', $name]);
        }
        $routes->add('home', '/')->controller(['kernel', 'hello']);
    }

    public function hello(): Response
    {
        return new Response('hello');
    }

    public function about(Request $request): Response
    {
        return new JsonResponse([
            'method' => $request->getMethod(), 'uri' => $request->getUri(), 'base' => $request->getBaseUrl(), 'path' => $request->getPathInfo(),
            'ip' => $request->getClientIp(), 'secure' => $request->isSecure(), 'query' => $request->query->all(), 'form' => $request->request->all(),
            'cookies' => $request->cookies->all(), 'content' => $request->getContent(), 'header' => $request->headers->get('x-one'),
            'context' => [$_SERVER['APP_RUNTIME_MODE'], isset($_SERVER['argv']), $this->environment], 'made' => self::$made,
            'main' => $this->getContainer()->get('request_stack')->getMainRequest()?->getUri(),
        ]);
    }

    public function json(Request $request): Response
    {
        return new JsonResponse($request->toArray());
    }

    public function stream(): Response
    {
        if (isset($_GET['clean'])) {
            ob_get_clean(); // meant for a buffer of php.ini's output_buffering: here it takes ours
        }
        return new StreamedResponse(function (): void {
            foreach (['one ', 'two ', 'three'] as $piece) {
                echo $piece;
                flush();
            }
        });
    }

    public function file(): Response
    {
        return new BinaryFileResponse(getenv('TEST_FILE'), 200, ['Content-Type' => 'text/plain']);
    }

    public function cookies(): Response
    {
        $response = new Response('cookies');
        $response->headers->setCookie(Cookie::create('a', '1'));
        $response->headers->setCookie(Cookie::create('b', '2'));
        return $response;
    }

    public function session(Request $request): Response
    {
        $session = $request->getSession();
        $session->set('n', $session->get('n', 0) + 1);
        return new Response($session->getId() . ' ' . $session->get('n'));
    }

    public function login(Request $request): Response
    {
        if ($request->request->get('name') !== $request->request->get('password')) {
            throw new AccessDeniedHttpException('not you');
        }
        $request->getSession()->migrate(true);
        $request->getSession()->set('user', $request->request->get('name'));
        return new RedirectResponse('/me');
    }

    public function logout(Request $request): Response
    {
        $request->getSession()->invalidate();
        return new RedirectResponse('/me');
    }

    public function me(Request $request): Response
    {
        return new Response($request->getSession()->get('user', 'nobody'));
    }

    public function invalidate(Request $request): Response
    {
        $request->getSession()->start();
        $request->getSession()->migrate(true);
        return new Response($request->getSession()->getId());
    }

    public function count(): Response
    {
        return new Response((string) ++$this->getContainer()->get(Counter::class)->count);
    }

    public function fails(Request $request): Response
    {
        if ($request->query->has('out')) {
            // Beyond what the kernel catches.
            throw new class ('out of the kernel') extends \Error {
            };
        }
        throw new \RuntimeException('a failure');
    }

    public function upload(Request $request): Response
    {
        $out = [];
        $files = $request->files->all();
        array_walk_recursive($files, function ($file) use (&$out): void {
            $out[] = [$file->getClientOriginalName(), $file->isValid(), md5_file($file->getPathname())];
        });
        return new JsonResponse([$request->request->all(), $out]);
    }

    public function put(Request $request): Response
    {
        return new JsonResponse($request->request->all());
    }

    public function exit(): never
    {
        echo 'produced';
        exit;
    }

    public function echo(): Response
    {
        echo 'printed ';
        return new Response('returned');
    }

    public function terminate(Request $request, Response $response): void
    {
        parent::terminate($request, $response);
        if (getenv('TEST_FIFO_IN') && $request->query->has('terminate')) {
            file_get_contents(getenv('TEST_FIFO_IN'));
            error_log('terminated');
        }
        if ($request->query->has('reads')) {
            error_log('read ' . \strlen($request->getContent()));
        }
    }

    public function handle(Request $request, int $type = self::MAIN_REQUEST, bool $catch = true): Response
    {
        if ($request->query->has('throw')) {
            throw new \LogicException('the kernel itself');
        }
        return parent::handle($request, $type, $catch);
    }
}

return function (array $context) {
    return new Site($context['APP_ENV'], (bool) $context['APP_DEBUG']);
};
