<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * In development: says in the log what a request left for the next one to find, and which routes make the process grow.
 *
 * The first requests fill caches, which is what a warm worker is for; so a thing is named when it changes again after that. Each is
 * named once, with its kind and never with its value, which may be a visitor's or a password. This looks at everything and
 * costs milliseconds a request: it is on only with `KEEPWARM_WATCH=1`.
 */
final class Watch
{
    private const WARM = 2; // requests of a route before its leaks count
    private const GROWTH = 8; // measurements in a row, each above the one before
    private const LEAST_GROWTH = 4_096; // bytes over those
    private const LOOKED_AT = 1_000; // values within a value
    private const DEEP = 6; // arrays within one another
    private const SUPERGLOBALS = ['_GET', '_POST', '_COOKIE', '_FILES', '_SERVER', '_REQUEST', '_ENV', '_SESSION'];

    private const SCALAR = "\0value ";

    /** @var array<string, string> what => its value, as `seen` gives it */
    private array $before = [];
    /** @var array<string, int> route => requests */
    private array $seen = [];
    /** @var array<string, array{first: int, last: int, rises: int}> */
    private array $memory = [];
    private string $route = '';
    /** @var array<string, string> what the last request changed => how */
    private array $changed = [];
    /** @var array<string, string> the contents after it */
    private array $now = [];

    /** @param \Closure|null $application whose own static variables have no other name */
    public function __construct(private readonly ?\Closure $application = null)
    {
    }

    public function settle(): void
    {
        $this->before = $this->everything();
    }

    /** The response has been sent, and nothing has been restored yet. */
    public function look(Request $request): void
    {
        $this->route = $request->method . ' ' . preg_replace('~(?<=/)(\d+|[0-9a-f-]{16,})(?=/|$)~i', '{}', $request->rawPath);
        $count = ($this->seen[$this->route] ?? 0) + 1;
        if ($count > 1 || \count($this->seen) < 1_000) {
            $this->seen[$this->route] = $count;
        }
        $now = $this->everything();
        $this->changed = [];
        foreach ($now as $what => $value) {
            $was = $this->before[$what] ?? null;
            if ($was === $value) {
                continue;
            }
            $shown = self::shown($value);
            $alike = $was !== null && self::shown($was) === $shown;
            $scalar = $was !== null && str_contains($value, self::SCALAR) && str_contains($was, self::SCALAR);
            $caches = ($alike && !$scalar) || str_contains($what, '::$') || str_starts_with($what, 'static ');
            if (!$caches || $count > self::WARM) {
                $this->changed[$what] = match (true) {
                    $was === null => "is new: $shown",
                    $scalar => 'has a different value than before',
                    $alike => "is $shown with different contents than before",
                    default => 'was ' . self::shown($was) . " and is $shown",
                };
            }
        }
        $this->now = $now;
    }

    /** Everything has been reset: what the process still holds is the application's. */
    public function grew(): void
    {
        gc_collect_cycles();
        $left = $this->everything();
        foreach ($this->changed as $what => $change) {
            $rest = ($left[$what] ?? null) === $this->now[$what] ? 'the next request sees it' : 'Keepwarm restores it';
            Log::once("watch $what", "keepwarm: leak: after {$this->route}, $what $change; $rest");
        }
        $this->before = $left;
        $now = memory_get_usage();
        $known = $this->memory[$this->route] ?? ['first' => $now, 'last' => $now, 'rises' => 0];
        $known = $now > $known['last']
            ? ['first' => $known['first'], 'last' => $now, 'rises' => $known['rises'] + 1]
            : ['first' => $now, 'last' => $now, 'rises' => 0];
        if ($known['rises'] >= self::GROWTH && $now - $known['first'] >= self::LEAST_GROWTH && ($this->seen[$this->route] ?? 0) > self::GROWTH + self::WARM) {
            $each = intdiv($now - $known['first'], $known['rises']);
            Log::once("memory {$this->route}", "keepwarm: memory: the process grows by about $each bytes with each {$this->route}, and is at $now");
        }
        $this->memory[$this->route] = $known;
    }

    /** @return array<string, string> */
    private function everything(): array
    {
        $found = [
            'the time zone' => date_default_timezone_get(),
            'the locale' => (string) setlocale(\LC_ALL, '0'),
            'the working directory' => (string) getcwd(),
            'the umask' => decoct(umask()),
            'the error handler' => self::brief(self::handler()),
            'the session id' => self::seen(self::sessionId()),
        ];
        foreach (ini_get_all(null, false) ?: [] as $name => $value) {
            $found["the setting $name"] = self::seen((string) $value);
        }
        foreach (getenv() as $name => $value) {
            $found["the environment variable $name"] = self::seen($value);
        }
        foreach ($_ENV as $name => $value) {
            $found["\$_ENV['$name']"] = self::seen($value);
        }
        foreach ($GLOBALS as $name => $value) {
            if (!\in_array($name, self::SUPERGLOBALS, true) && !str_starts_with((string) $name, 'keepwarm')) {
                $found["the global \$$name"] = \is_object($value) ? self::brief($value) . "\0" : self::seen($value); // the application itself may be one
                if ($value instanceof \Closure) {
                    $found += self::statics(new \ReflectionFunction($value), "the closure \$$name");
                }
            }
        }
        if ($this->application !== null) {
            $function = new \ReflectionFunction($this->application);
            $found += self::statics($function, 'the application, ' . basename((string) $function->getFileName()) . ":{$function->getStartLine()}");
        }
        return $found + self::classes() + self::functions();
    }

    /** @return array<string, string> */
    private static function classes(): array
    {
        $found = [];
        foreach (get_declared_classes() as $name) {
            if (str_starts_with($name, __NAMESPACE__ . '\\')) {
                continue;
            }
            $class = new \ReflectionClass($name);
            if ($class->isInternal()) {
                continue;
            }
            foreach ($class->getProperties(\ReflectionProperty::IS_STATIC) as $property) {
                $property->setAccessible(true);
                if ($property->getDeclaringClass()->getName() === $name && $property->isInitialized()) {
                    $found["$name::\${$property->getName()}"] = self::seen($property->getValue());
                }
            }
            foreach ($class->getMethods() as $method) {
                if ($method->getDeclaringClass()->getName() === $name) {
                    $found += self::statics($method, "$name::{$method->getName()}()");
                }
            }
        }
        return $found;
    }

    /** @return array<string, string> */
    private static function functions(): array
    {
        $found = [];
        foreach (get_defined_functions()['user'] as $name) {
            $found += self::statics(new \ReflectionFunction($name), "$name()");
        }
        return $found;
    }

    /** @return array<string, string> */
    private static function statics(\ReflectionFunctionAbstract $function, string $where): array
    {
        $found = [];
        foreach ($function->getStaticVariables() as $name => $value) {
            $found["static \$$name in $where"] = self::seen($value);
        }
        return $found;
    }

    /** One that is neither the visitor's nor that of a session that was opened: the next `session_start()` would take it. */
    private static function sessionId(): string
    {
        $id = \extension_loaded('session') && !isset($_SESSION) ? (string) session_id() : '';
        return ($_COOKIE[(string) \ini_get('session.name')] ?? null) === $id ? '' : $id;
    }

    private static function handler(): mixed
    {
        $handler = set_error_handler(null);
        restore_error_handler();
        return $handler;
    }

    /** What a value is, and after a NUL what distinguishes it from a similar one. */
    private static function seen(mixed $value): string
    {
        if (\is_scalar($value) || $value === null) {
            return self::brief($value) . self::SCALAR . hash('xxh64', get_debug_type($value) . (string) $value);
        }
        $left = self::LOOKED_AT;
        $contents = hash_init('crc32b');
        self::contents($value, $contents, $left, self::DEEP, false);
        return self::brief($value) . "\0" . hash_final($contents);
    }

    private static function shown(string $seen): string
    {
        $end = strpos($seen, "\0");
        return $end === false ? $seen : substr($seen, 0, $end);
    }

    /**
     * The contents of an array, and of an object that is not within another: nested objects lead everywhere, and change as a warm application works.
     */
    private static function contents(mixed $value, \HashContext $contents, int &$left, int $deep, bool $within): void
    {
        if (--$left < 0) {
            return;
        }
        hash_update($contents, get_debug_type($value) . "\0");
        if (\is_scalar($value)) {
            hash_update($contents, (string) $value);
        } elseif (\is_array($value) ? $deep > 0 : \is_object($value) && !$within && !$value instanceof \Closure && !$value instanceof \UnitEnum) {
            $within = $within || \is_object($value);
            foreach (\is_array($value) ? $value : (array) $value as $name => $inner) {
                if ($left <= 0) {
                    return;
                }
                hash_update($contents, "\0$name\0");
                self::contents($inner, $contents, $left, $deep - 1, $within);
            }
        }
    }

    /** What a value is: never a part of it. */
    private static function brief(mixed $value): string
    {
        return match (true) {
            \is_array($value) => 'an array of ' . \count($value),
            $value instanceof \Countable => $value::class . ' of ' . \count($value),
            \is_object($value) => $value::class . ' #' . spl_object_id($value),
            \is_string($value) => 'a string',
            \is_int($value) => 'an int',
            \is_float($value) => 'a float',
            \is_bool($value) => 'a bool',
            default => get_debug_type($value),
        };
    }
}
