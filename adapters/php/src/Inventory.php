<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * Counts the objects that can be reached from some, by class, and the elements of arrays and lists, by a name that leads there.
 *
 * It looks at what is nearest first, so that a name is a short one. It calls no method of the application, and loads nothing.
 */
final class Inventory
{
    private const OBJECTS = 200_000; // that are looked at
    private const ELEMENTS = 2_000_000; // of arrays
    private const HOPS = 4; // from object to object, after which a name begins anew with the class
    private const DEPTH = 16; // arrays within one another: one may contain itself
    private const KEYS = 200; // elements of an array whose keys are part of names

    private const PLAIN = 'plain'; // by their properties
    private const CLOSED = 'closed'; // not at all
    private const READERS = [
        \Closure::class => 'closure', \Generator::class => 'generator', \ArrayObject::class => 'arrayObject', \ArrayIterator::class => 'arrayObject',
        \SplDoublyLinkedList::class => 'linkedList', \SplObjectStorage::class => 'objectStorage', \SplFixedArray::class => 'fixedArray',
        \SplHeap::class => 'heap', \SplPriorityQueue::class => 'heap', \WeakMap::class => 'weakMap', \Throwable::class => self::PLAIN,
        \stdClass::class => self::PLAIN,
    ];

    /** @var array<array-key, int> by class */
    public array $objects = [];
    /** @var array<array-key, int> by name */
    public array $held = [];
    public bool $complete = true;

    /** @var array<int, true> by their ids: those seen */
    private array $seen = [];
    /** @var list<array{mixed, string, int, int}> what has not been looked at: the value, its name, objects and arrays on the way to it */
    private array $queue = [];
    private int $elements = 0;
    /** @var array<string, string> class => how to look into its objects */
    private array $readers = [];
    /** Whether this PHP has objects that are made when they are used. */
    private static ?bool $hasLazy = null;

    /** Something that has this name. */
    public function add(string $name, mixed $value, int $hops = 0, int $depth = 0): void
    {
        if (\is_array($value)) {
            if ($value !== []) {
                $this->queue[] = [$value, $name, $hops, $depth];
            }
        } elseif (\is_object($value) && !isset($this->seen[$id = spl_object_id($value)]) && !$value instanceof \UnitEnum) {
            $this->seen[$id] = true;
            $this->queue[] = [$value, $name, $hops, 0];
        }
    }

    public function search(): void
    {
        for ($at = 0; $at < \count($this->queue); $at++) {
            [$value, $name, $hops, $depth] = $this->queue[$at];
            $this->queue[$at] = null;
            try {
                \is_object($value) ? $this->object($value, $name, $hops) : $this->elements($value, $name, $hops, $depth);
            } catch (\Throwable) {
                // an object that PHP refuses to show, such as one whose constructor was not called, is left out
            }
            if ($at > self::OBJECTS || $this->elements > self::ELEMENTS) {
                $this->complete = false;
                break;
            }
        }
        $this->queue = $this->seen = $this->readers = [];
    }

    /** @param array<array-key, mixed> $array */
    private function elements(array $array, string $name, int $hops, int $depth): void
    {
        $count = \count($array);
        $this->held[$name] = ($this->held[$name] ?? 0) + $count;
        $this->elements += $count;
        if ($depth === self::DEPTH) {
            return;
        }
        foreach ($array as $key => $value) {
            if (\is_array($value) || \is_object($value)) {
                $this->add($name . (\is_string($key) && $count <= self::KEYS ? "[\"$key\"]" : '[]'), $value, $hops, $depth + 1);
            }
        }
    }

    private function object(object $object, string $name, int $hops): void
    {
        $class = $object::class;
        $named = self::named($class);
        $this->objects[$named] = ($this->objects[$named] ?? 0) + 1;
        $reader = $this->readers[$class] ??= self::reader($class);
        if ($reader === self::CLOSED || (self::$hasLazy ??= method_exists(\ReflectionClass::class, 'isUninitializedLazyObject')) && (new \ReflectionClass($object))->isUninitializedLazyObject($object)) {
            return;
        }
        if ($reader !== self::PLAIN) {
            $this->$reader($object, $name, $hops);
            return;
        }
        $this->properties((array) $object, $hops < self::HOPS ? $name : $named, $hops);
    }

    /** @param array<array-key, mixed> $properties as a cast to an array gives them: without a call of any code */
    private function properties(array $properties, string $start, int $hops): void
    {
        foreach ($properties as $property => $value) {
            if (\is_array($value) || \is_object($value)) {
                $end = strrpos((string) $property, "\0");
                $this->add($start . '->' . ($end === false ? $property : substr((string) $property, $end + 1)), $value, $hops + 1);
            }
        }
    }

    /** How to look into objects of a class: the name of a method of this one. */
    private static function reader(string $class): string
    {
        if (str_starts_with($class, __NAMESPACE__ . '\\')) {
            return self::CLOSED;
        }
        foreach (self::READERS as $known => $reader) {
            if (is_a($class, $known, true)) {
                return $reader;
            }
        }
        for ($base = new \ReflectionClass($class); $base !== false && !$base->isInternal(); $base = $base->getParentClass()) {
        }
        // What an extension keeps for itself it does not show, or shows what it makes for the occasion.
        return $base === false || ($base->name !== $class && !\in_array($base->getExtensionName(), ['SimpleXML', 'dom', 'date'], true)) ? self::PLAIN : self::CLOSED;
    }

    private function closure(\Closure $closure, string $name, int $hops): void
    {
        $function = new \ReflectionFunction($closure);
        $where = $function->getName();
        if (str_contains($where, '{closure')) {
            $where = '{closure ' . basename((string) $function->getFileName()) . ":{$function->getStartLine()}}";
        } elseif ($function->getClosureScopeClass() !== null) {
            $where = self::named($function->getClosureScopeClass()->name) . "::$where";
        }
        foreach ($function->getStaticVariables() as $variable => $value) {
            $this->add("$where()::\$$variable", $value, $hops + 1);
        }
        $this->add($name, $function->getClosureThis(), $hops + 1);
    }

    private function generator(\Generator $generator, string $name, int $hops): void
    {
        try {
            $this->add($name, (new \ReflectionGenerator($generator))->getThis(), $hops + 1);
        } catch (\ReflectionException) {
            // it is over
        }
    }

    /** `ArrayObject` and `ArrayIterator`: flags, what they wrap, properties. */
    private function arrayObject(object $object, string $name, int $hops): void
    {
        [, $wrapped, $properties] = self::serialized($object, $object instanceof \ArrayObject ? \ArrayObject::class : \ArrayIterator::class);
        $this->add($name, $wrapped, $hops, 1);
        $this->properties($properties, $name, $hops);
    }

    /** Flags, elements, properties. */
    private function linkedList(\SplDoublyLinkedList $list, string $name, int $hops): void
    {
        [, $elements, $properties] = self::serialized($list, \SplDoublyLinkedList::class);
        $this->add($name, $elements, $hops, 1);
        $this->properties($properties, $name, $hops);
    }

    /** Objects and what belongs to them in turn; properties. */
    private function objectStorage(\SplObjectStorage $storage, string $name, int $hops): void
    {
        [$elements, $properties] = self::serialized($storage, \SplObjectStorage::class);
        $this->listed($elements, \count($elements) >> 1, $name, $hops);
        $this->properties($properties, $name, $hops);
    }

    private function fixedArray(\SplFixedArray $array, string $name, int $hops): void
    {
        $this->add($name, (new \ReflectionMethod(\SplFixedArray::class, 'toArray'))->invoke($array), $hops, 1);
    }

    /** A heap or a priority queue, whose elements have their priority beside them. */
    private function heap(object $heap, string $name, int $hops): void
    {
        $base = $heap instanceof \SplHeap ? \SplHeap::class : \SplPriorityQueue::class;
        $properties = (new \ReflectionMethod($base, '__debugInfo'))->invoke($heap);
        $elements = $properties["\0$base\0heap"] ?? [];
        unset($properties["\0$base\0heap"]);
        $this->listed($base === \SplHeap::class ? $elements : array_merge(...array_map(array_values(...), $elements)), \count($elements), $name, $hops);
        $this->properties($properties, $name, $hops);
    }

    private function weakMap(\WeakMap $map, string $name, int $hops): void
    {
        $values = [];
        foreach ($map as $value) {
            $values[] = $value;
        }
        $this->listed($values, \count($values), $name, $hops);
    }

    /** @param array<array-key, mixed> $values what a container of `$count` elements leads to */
    private function listed(array $values, int $count, string $name, int $hops): void
    {
        if ($count > 0) {
            $this->held[$name] = ($this->held[$name] ?? 0) + $count;
        }
        $this->elements += $count;
        foreach ($values as $value) {
            $this->add($name . '[]', $value, $hops, 1);
        }
    }

    /**
     * What PHP's own method gives, whatever a class makes of it.
     *
     * @return array<int, mixed>
     */
    private static function serialized(object $object, string $class): array
    {
        return (new \ReflectionMethod($class, '__serialize'))->invoke($object);
    }

    /** The name of a class, that of one without a name by where it is. */
    public static function named(string $class): string
    {
        $end = strpos($class, "\0");
        if ($end === false) {
            return $class;
        }
        return substr($class, 0, $end) . ' (' . preg_replace('~^.*/|\$[0-9a-f]+$~s', '', substr($class, $end + 1)) . ')';
    }
}
