<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * The properties of every object that can be reached from some, and the static properties of classes, as they were when this was made.
 *
 * `restore` puts back those that are others now. What an object was given since then, at any depth, is gone with it.
 */
final class Snapshot
{
    /** @var list<array{object, array<string, mixed>}> */
    private array $objects = [];
    /** @var list<array{\ReflectionProperty, mixed}> */
    private array $statics = [];
    /** @var array<int, true> by their ids: those seen */
    private array $seen = [];
    private int $classes;

    /**
     * @param list<object> $roots
     * @param list<string> $namespaces of the classes whose static properties count
     * @param list<string> $leaves classes and interfaces of objects that are left as they are
     */
    public function __construct(array $roots, private readonly array $namespaces, private readonly array $leaves)
    {
        $classes = get_declared_classes();
        $this->classes = \count($classes);
        $values = $roots;
        foreach ($classes as $class) {
            foreach ($this->staticsOf($class) as $property) {
                $value = $property->isInitialized() ? $property->getValue() : null;
                $this->statics[] = [$property, $value];
                $values[] = $value;
            }
        }
        $this->walk($values);
        $this->seen = [];
    }

    public function restore(): void
    {
        foreach ($this->objects as [$object, $before]) {
            if ((array) $object !== $before) {
                self::put($object, $before, (array) $object);
            }
        }
        $classes = get_declared_classes();
        for ($count = \count($classes); $this->classes < $count; $this->classes++) {
            // Loaded by a request: what it began with is what its source says.
            foreach ($this->staticsOf($classes[$this->classes]) as $property) {
                $this->statics[] = [$property, $property->getDefaultValue()];
            }
        }
        foreach ($this->statics as [$property, $before]) {
            if ($property->isInitialized() && $property->getValue() !== $before) {
                $property->setValue(null, $before);
            }
        }
    }

    /** @return list<\ReflectionProperty> */
    private function staticsOf(string $class): array
    {
        foreach ($this->namespaces as $namespace) {
            if (str_starts_with($class, $namespace)) {
                $properties = (new \ReflectionClass($class))->getProperties(\ReflectionProperty::IS_STATIC);
                return array_values(array_filter($properties, static fn (\ReflectionProperty $property): bool => $property->class === $class));
            }
        }
        return [];
    }

    /** @param array<array-key, mixed> $values */
    private function walk(array $values): void
    {
        while ($values !== []) {
            $value = array_pop($values);
            if (\is_array($value)) {
                array_push($values, ...array_values(array_filter($value, static fn (mixed $inner): bool => \is_object($inner) || \is_array($inner))));
            } elseif (!\is_object($value) || isset($this->seen[spl_object_id($value)])) {
                continue;
            } elseif ($value instanceof \Closure) {
                $this->seen[spl_object_id($value)] = true;
                $function = new \ReflectionFunction($value);
                array_push($values, $function->getStaticVariables(), $function->getClosureThis());
            } elseif (!$this->isLeaf($value)) {
                $this->seen[spl_object_id($value)] = true;
                $properties = (array) $value;
                $this->objects[] = [$value, $properties];
                $values[] = $properties;
            }
        }
    }

    private function isLeaf(object $object): bool
    {
        foreach ($this->leaves as $leaf) {
            if ($object instanceof $leaf) {
                return true;
            }
        }
        return $object instanceof \UnitEnum || (new \ReflectionClass($object))->isInternal();
    }

    /**
     * @param array<string, mixed> $before as a cast to an array names them: a private property with its class, a protected one with an asterisk
     * @param array<string, mixed> $now
     */
    private static function put(object $object, array $before, array $now): void
    {
        foreach ($before + $now as $key => $_) {
            if (\array_key_exists($key, $before) && \array_key_exists($key, $now) && $before[$key] === $now[$key]) {
                continue;
            }
            $parts = explode("\0", (string) $key);
            $scope = \count($parts) === 3 && $parts[1] !== '*' ? $parts[1] : $object::class;
            $name = end($parts);
            if ((new \ReflectionClass($scope))->isInternal()) {
                continue;
            }
            $put = \array_key_exists($key, $before)
                ? function () use ($name, $before, $key): void {
                    $this->$name = $before[$key];
                }
                : function () use ($name): void {
                    unset($this->$name);
                };
            \Closure::bind($put, $object, $scope)();
        }
    }
}
