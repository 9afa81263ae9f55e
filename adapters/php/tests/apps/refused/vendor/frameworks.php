<?php

// Classes with the names, and no more, of frameworks that no package of Debian's has; each is what Keepwarm would otherwise serve it as.

namespace Psr\Http\Server {
    interface RequestHandlerInterface
    {
        public function handle(\Psr\Http\Message\ServerRequestInterface $request): \Psr\Http\Message\ResponseInterface;
    }
}

namespace Cake\Core {
    interface HttpApplicationInterface extends \Psr\Http\Server\RequestHandlerInterface {}
}

namespace Shop {
    use Psr\Http\Message\{ResponseInterface, ServerRequestInterface};
    use Symfony\Component\HttpFoundation\{Request, Response};
    use Symfony\Component\HttpKernel\HttpKernelInterface;

    abstract class Kernel implements HttpKernelInterface
    {
        public function handle(Request $request, int $type = self::MAIN_REQUEST, bool $catch = true): Response { return new Response('served'); }
    }

    final class CakeApplication implements \Cake\Core\HttpApplicationInterface
    {
        public function handle(ServerRequestInterface $request): ResponseInterface { throw new \LogicException('without its middleware'); }
    }
}

namespace Silex {
    class Application extends \Shop\Kernel {}
}

namespace Drupal\Core {
    interface DrupalKernelInterface extends \Symfony\Component\HttpKernel\HttpKernelInterface {}
    class DrupalKernel extends \Shop\Kernel implements DrupalKernelInterface {}
}

namespace Laravel\Lumen {
    class Application { public function __invoke() { return 'served'; } }
}
