<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * In development: says in the log what a request left for the next one to find, and which routes make the process grow.
 *
 * The first requests fill caches, which is what a warm worker is for; so a thing is named when it changes again after that. Each is
 * named once. This looks at everything and costs milliseconds a request: it is on only with `KEEPWARM_WATCH=1`.
 */
final class Watch
{
    private const WARM = 2; // requests of a route before its leaks count
    private const GROWTH = 8; // measurements in a row, each above the one before
    private const GLANCE = 200; // elements of an array that are looked at
    private const LEAST_GROWTH = 4_096; // bytes over those

    /** @var array<string, string> what => its value, shortened, and behind a NUL what tells it from another that looks the same */
    private array $before = [];
    /** @var array<string, int> route => requests */
    private array $seen = [];
    /** @var array<string, array{first: int, last: int, rises: int}> */
    private array $memory = [];
    private string $route = '';
    /** @var array<string, string> what the last request changed => how */
    private array $changed = [];
    /** @var array<string, string> what there was behind it */
    private array $now = [];

    /** @param \Closure|null $application whose own static variables have no other name */
    public function __construct(private readonly ?\Closure $application = null)
    {
    }

    public function settle(): void
    {
        $this->before = $this->everything();
    }

    /** The request has been answered, and nothing has been put back yet. */
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
            $caches = str_contains($what, '::$') || str_starts_with($what, 'static ');
            if ($was !== $value && (!$caches || $count > self::WARM)) {
                $this->changed[$what] = self::change($was, $value);
            }
        }
        $this->now = $now;
    }

    private static function change(?string $was, string $is): string
    {
        $is = explode("\0", $is, 2)[0];
        if ($was === null) {
            return "is new: $is";
        }
        $was = explode("\0", $was, 2)[0];
        return $was === $is ? "is another one: $is" : "was $was and is $is";
    }

    /** Everything has been put back: what the process still holds is the application's. */
    public function grew(): void
    {
        gc_collect_cycles();
        $left = $this->everything();
        foreach ($this->changed as $what => $change) {
            $rest = ($left[$what] ?? null) === $this->now[$what] ? 'the next request finds it' : 'Keepwarm puts it back';
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
            'the session id' => self::brief(self::sessionId()),
        ];
        foreach (ini_get_all(null, false) ?: [] as $name => $value) {
            $found["the setting $name"] = (string) $value;
        }
        foreach (getenv() as $name => $value) {
            $found["the environment variable $name"] = self::brief($value);
        }
        foreach ($_ENV as $name => $value) {
            $found["\$_ENV['$name']"] = self::brief($value);
        }
        foreach ($GLOBALS as $name => $value) {
            if (!str_starts_with((string) $name, '_') && !str_starts_with((string) $name, 'keepwarm')) {
                $found["the global \$$name"] = self::brief($value);
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
                    $found["$name::\${$property->getName()}"] = self::brief($property->getValue());
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
            $found["static \$$name in $where"] = self::brief($value);
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

    /** A value in a few words: what it is and how large, never all of it. */
    private static function brief(mixed $value): string
    {
        return match (true) {
            \is_array($value) => 'an array of ' . \count($value) . "\0" . self::fingerprint($value),
            $value instanceof \Countable => $value::class . ' of ' . \count($value) . "\0" . spl_object_id($value),
            \is_object($value) => $value::class . ' #' . spl_object_id($value),
            \is_string($value) => \strlen($value) <= 40 ? "\"$value\"" : '"' . substr($value, 0, 40) . '"… of ' . \strlen($value) . " bytes\0" . crc32($value),
            \is_scalar($value) || $value === null => var_export($value, true),
            default => get_debug_type($value),
        };
    }

    /**
     * Tells an array from another of its size, by what can be seen of it at a glance.
     *
     * @param array<array-key, mixed> $array
     */
    private static function fingerprint(array $array, int $depth = 0): string
    {
        $seen = '';
        foreach (\array_slice($array, 0, self::GLANCE, true) as $key => $value) {
            $seen .= "$key=" . match (true) {
                \is_array($value) => \count($value) . ($depth < 2 ? self::fingerprint($value, $depth + 1) : ''),
                \is_object($value) => '#' . spl_object_id($value),
                \is_string($value) => \strlen($value) . ':' . substr($value, 0, 1_000),
                default => \is_scalar($value) ? var_export($value, true) : get_debug_type($value),
            } . "\n";
        }
        return (string) crc32($seen);
    }
}
