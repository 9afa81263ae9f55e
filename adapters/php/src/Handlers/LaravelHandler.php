<?php

declare(strict_types=1);

namespace Keepwarm\Handlers;

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\RegisterProviders;
use Illuminate\Foundation\Bootstrap\SetRequestForConsole;
use Illuminate\Http\Request as LaravelRequest;
use Keepwarm\Log;
use Keepwarm\Reply;
use Keepwarm\Request;
use Keepwarm\Snapshot;
use Keepwarm\TerminableHandler;
use Keepwarm\Web;

/**
 * A Laravel application. It is booted once; after each request the container, every object in it and the framework's static properties are what they
 * were when it had booted. What Laravel's Octane flushes by a list of services is flushed so, and what a service provider of the application keeps, too.
 *
 * Connections to databases and to Redis stay, without their transactions.
 */
final class LaravelHandler implements TerminableHandler
{
    private const NAMESPACES = ['Illuminate\\', 'Carbon\\', 'Laravel\\'];
    private const LEAVES = [
        'Illuminate\Database\DatabaseManager', 'Illuminate\Database\ConnectionInterface', 'Illuminate\Redis\RedisManager', 'Illuminate\Routing\Route',
        'Symfony\Component\Routing\Route',
    ];

    private readonly Kernel $kernel;
    private readonly Snapshot $booted;
    private ?LaravelRequest $request = null;
    private ?object $response = null;

    public function __construct(private readonly Application $application)
    {
        $this->kernel = $application->make(Kernel::class);
        // The command line is what PHP runs as, and not what the application is used from.
        \Closure::bind(static function () use ($application): void {
            $application->isRunningInConsole = false;
        }, null, Application::class)();
        $this->boot();
        $this->booted = new Snapshot([$application], self::NAMESPACES, self::LEAVES);
    }

    private function boot(): void
    {
        $application = $this->application;
        if (!$application->hasBeenBootstrapped()) {
            $steps = \Closure::bind(fn (): array => $this->bootstrappers(), $this->kernel, $this->kernel::class)();
            $at = array_search(RegisterProviders::class, $steps, true);
            // A provider may ask for a request.
            array_splice($steps, $at === false ? \count($steps) : $at, 0, [SetRequestForConsole::class]);
            $application->bootstrapWith($steps);
        }
        // Services that identify the visitor are recreated in each request, even if the boot has created them.
        foreach (['auth' => 'forgetGuards', 'session' => 'forgetDrivers'] as $service => $forget) {
            if ($application->resolved($service) && method_exists($application->make($service), $forget)) {
                $application->make($service)->$forget();
            }
        }
        foreach (['auth.driver', 'session.store'] as $service) {
            $application->forgetInstance($service);
        }
    }

    public function handle(Request $request, Reply $reply): void
    {
        $reply->prints();
        LaravelRequest::enableHttpMethodParameterOverride();
        $this->request = LaravelRequest::createFromBase(SymfonyHandler::request($request));
        $this->response = $this->kernel->handle($this->request);
        Web::$connection?->staysBusy();
        SymfonyHandler::send($this->response, $reply);
    }

    public function terminate(): void
    {
        [$request, $response] = [$this->request, $this->response];
        $this->request = $this->response = null;
        try {
            if ($response !== null) {
                $this->kernel->terminate($request, $response);
            }
        } finally {
            $this->reset($request);
        }
    }

    public function failed(): void
    {
        $this->response = null;
    }

    public function outlivesExit(): bool
    {
        return true;
    }

    public function application(): object
    {
        return $this->application;
    }

    private function reset(?LaravelRequest $request): void
    {
        $route = $request?->route();
        if (\is_object($route)) {
            $route->controller = null;
            $route->parameters = null;
        }
        if ($this->application->resolved('db')) {
            foreach ($this->application->make('db')->getConnections() as $connection) {
                self::clean($connection);
            }
        }
        $this->booted->restore();
    }

    /** Rolls back what a request left open, as the end of its connection would. */
    private static function clean(object $connection): void
    {
        try {
            if ($connection->transactionLevel() > 0) {
                $connection->rollBack(0);
            }
            $connection->flushQueryLog();
            $connection->disableQueryLog();
            if (method_exists($connection, 'forgetRecordModificationState')) {
                $connection->forgetRecordModificationState();
            }
        } catch (\Throwable $error) {
            Log::exception($error);
            $connection->disconnect();
        }
    }
}
