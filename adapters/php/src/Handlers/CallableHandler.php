<?php

declare(strict_types=1);

namespace Keepwarm\Handlers;

use Keepwarm\Entry;
use Keepwarm\EntryError;
use Keepwarm\Frameworks;
use Keepwarm\Handler;
use Keepwarm\Psr7\Factory;
use Keepwarm\Reply;
use Keepwarm\Request;

/**
 * Any callable. The type of its parameter says what it is given: a PSR-7 `ServerRequestInterface`, a Symfony `Request`, or (without a
 * type) a `Keepwarm\Request`. Beside it there may be `array $context`, as for a closure of Symfony Runtime.
 *
 * It returns a PSR-7 or Symfony response, `[status, headers, body]`, a string, or nothing when it prints its response.
 */
final class CallableHandler implements Handler
{
    public readonly \Closure $call;
    private readonly ?Factory $factory;
    private readonly bool $symfony;
    /** Which argument is the request. */
    private int $at = 0;
    /** @var list<mixed> the arguments, without the request */
    private readonly array $arguments;
    /** The request is the only one. */
    private readonly bool $alone;

    public function __construct(callable $callable)
    {
        $this->call = $callable(...);
        Frameworks::check($this->call);
        $function = new \ReflectionFunction($this->call);
        $parameters = $function->getParameters();
        foreach ($parameters as $at => $parameter) {
            if (self::takesRequest($parameter)) {
                $this->at = $at;
                break;
            }
        }
        $name = isset($parameters[$this->at]) ? self::className($parameters[$this->at]) : '';
        Frameworks::checkClass($name);
        $this->symfony = $name !== '' && is_a($name, 'Symfony\Component\HttpFoundation\Request', true);
        $arguments = $this->others($parameters);
        $psr7 = $name !== '' && is_a('Psr\Http\Message\ServerRequestInterface', $name, true) && interface_exists('Psr\Http\Message\ServerRequestInterface');
        $this->factory = $psr7 || ($name !== '' && is_a($name, 'Psr\Http\Message\ServerRequestInterface', true)) ? Factory::detect() : null;
        $mine = $name === '' || is_a(Request::class, $name, true);
        if ((!$mine && !$this->symfony && $this->factory === null) || $arguments === null) {
            $where = "the callable in {$function->getFileName()}:{$function->getStartLine()}";
            if ($name !== '' && !class_exists($name) && !interface_exists($name)) {
                throw new EntryError("$where takes $name, but this class does not exist: install it, and load it in the entry (`require` of vendor/autoload.php)");
            }
            throw new EntryError(
                "$where takes " . ($arguments === null ? 'more than one argument' : $name)
                . '; it may take one argument: a Psr\Http\Message\ServerRequestInterface, a Symfony\Component\HttpFoundation\Request, or a Keepwarm\Request'
            );
        }
        $this->arguments = $arguments;
        $this->alone = \count($arguments) === 1;
    }

    /** Whether a parameter is for a request, by its type. */
    public static function takesRequest(\ReflectionParameter $parameter): bool
    {
        $name = self::className($parameter);
        return $name !== '' && (is_a($name, Request::class, true) || is_a($name, 'Symfony\Component\HttpFoundation\Request', true)
            || is_a($name, 'Psr\Http\Message\ServerRequestInterface', true));
    }

    private static function className(\ReflectionParameter $parameter): string
    {
        $type = $parameter->getType();
        return $type instanceof \ReflectionNamedType && !$type->isBuiltin() ? $type->getName() : '';
    }

    /**
     * The arguments beside the request, which is null here. Null: one of them cannot be given.
     *
     * @param list<\ReflectionParameter> $parameters
     * @return list<mixed>|null
     */
    private function others(array $parameters): ?array
    {
        $arguments = [null];
        foreach ($parameters as $at => $parameter) {
            if ($at === $this->at) {
                $arguments[$at] = null;
            } elseif ($parameter->isOptional()) {
                if ($at > $this->at) {
                    break; // it has its default, and so have those after it
                }
                $arguments[$at] = $parameter->getDefaultValue();
            } elseif (\in_array($parameter->getName(), ['context', 'argv'], true)) {
                $arguments[$at] = $parameter->getName() === 'context' ? Entry::context() : [];
            } else {
                return null;
            }
        }
        return $arguments;
    }

    public function handle(Request $request, Reply $reply): void
    {
        $reply->prints();
        $given = $request;
        if ($this->symfony) {
            $given = SymfonyHandler::request($request);
        } elseif ($this->factory !== null) {
            $given = $this->factory->request($request);
        }
        if ($this->alone) {
            $returned = ($this->call)($given);
        } else {
            $arguments = $this->arguments;
            $arguments[$this->at] = $given;
            $returned = ($this->call)(...$arguments);
        }
        if ($returned === null || \is_string($returned)) {
            $reply->finishPrinted((string) $returned);
        } elseif (\is_array($returned)) {
            CallableHandler::send($returned, $reply);
        } elseif (is_a($returned, 'Symfony\Component\HttpFoundation\Response')) {
            SymfonyHandler::send($returned->prepare($this->symfony ? $given : SymfonyHandler::request($request)), $reply);
        } elseif (is_a($returned, 'Psr\Http\Message\ResponseInterface')) {
            Psr15Handler::send($returned, $reply);
        } else {
            throw new \TypeError('the application returned ' . get_debug_type($returned) . ' instead of a response, [status, headers, body], a string or null');
        }
    }

    public function failed(): void
    {
    }

    public function outlivesExit(): bool
    {
        return !self::stacksRequests();
    }

    public function application(): object
    {
        return $this->call;
    }

    /** Symfony's stack of requests is emptied by `finally`: after `exit()` it still has the previous visitor's request. */
    public static function stacksRequests(): bool
    {
        return class_exists('Symfony\Component\HttpFoundation\RequestStack', false);
    }

    /**
     * `[status, ['name' => 'value' or [values]], body]`, the body a string, an iterable of strings, or a stream.
     *
     * @param array<array-key, mixed> $returned
     */
    private static function send(array $returned, Reply $reply): void
    {
        if (!isset($returned[0]) || !\is_int($returned[0]) || !\is_array($returned[1] ?? [])) {
            throw new \TypeError('the application returned an array that is not [int status, array headers, body]');
        }
        $flat = [];
        foreach ($returned[1] ?? [] as $name => $values) {
            foreach (\is_array($values) ? $values : [$values] as $value) {
                $flat[] = (string) $name;
                $flat[] = (string) $value;
            }
        }
        $body = $returned[2] ?? '';
        if (\is_string($body)) {
            $reply->whole($returned[0], $flat, $body);
        } elseif (\is_resource($body)) {
            $reply->pieces($returned[0], $flat, self::readAll($body));
        } elseif (is_iterable($body)) {
            $reply->pieces($returned[0], $flat, $body);
        } else {
            $reply->whole($returned[0], $flat, (string) $body);
        }
    }

    /**
     * @param resource $stream
     * @return iterable<string>
     */
    private static function readAll(mixed $stream): iterable
    {
        while (!feof($stream)) {
            $piece = fread($stream, 65_536);
            if ($piece === false) {
                return;
            }
            yield $piece;
        }
    }
}
