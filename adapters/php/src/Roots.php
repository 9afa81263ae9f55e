<?php

declare(strict_types=1);

namespace Keepwarm;

/** From where an application reaches what outlives its requests: static properties and variables, globals, constants, and the application itself. */
final class Roots
{
    private const SUPERGLOBALS = ['_GET' => 1, '_POST' => 1, '_COOKIE' => 1, '_FILES' => 1, '_SERVER' => 1, '_REQUEST' => 1, '_ENV' => 1, '_SESSION' => 1];

    private int $classes = 0;
    private int $functions = 0;
    /** @var array<string, \ReflectionProperty> static properties */
    private array $properties = [];
    /** @var array<string, \ReflectionFunctionAbstract> those that have static variables */
    private array $variables = [];
    /** @var array<string, \ReflectionFunctionAbstract> those whose variables begin with a constant of a class that is not loaded */
    private array $later = [];

    public function into(Inventory $inventory, object $application): void
    {
        // To look at a value must not load a class: what is thrown here, before any loader of the application is asked, ends the attempt.
        $refuse = static fn (string $class): never => throw new \LogicException("$class is not loaded");
        spl_autoload_register($refuse, true, true);
        try {
            $this->statics($inventory);
        } finally {
            spl_autoload_unregister($refuse);
        }
        foreach ($GLOBALS as $name => $value) {
            if (!isset(self::SUPERGLOBALS[$name]) && !str_starts_with((string) $name, 'keepwarm')) {
                $inventory->add("\$$name", $value);
            }
        }
        foreach (get_defined_constants(true)['user'] ?? [] as $name => $value) {
            $inventory->add($name, $value);
        }
        foreach (spl_autoload_functions() as $loader) {
            $object = \is_array($loader) ? $loader[0] : $loader;
            $inventory->add(\is_object($object) ? Inventory::named($object::class) : '', $object);
        }
        $bound = $application instanceof \Closure ? (new \ReflectionFunction($application))->getClosureThis() : null;
        foreach ([$bound, $application] as $object) {
            if ($object !== null) {
                $inventory->add(Inventory::named($object::class), $object);
            }
        }
    }

    private function statics(Inventory $inventory): void
    {
        $this->learn();
        foreach ($this->properties as $name => $property) {
            try {
                if ($property->isInitialized()) {
                    $inventory->add($name, $property->getValue());
                }
            } catch (\Throwable) {
                // its class begins with a constant that is not loaded: nobody has used it
            }
        }
        foreach ($this->variables as $name => $function) {
            foreach ($function->getStaticVariables() as $variable => $value) {
                $inventory->add("$name::\$$variable", $value);
            }
        }
    }

    /** Classes and functions that have been loaded since the last time. */
    private function learn(): void
    {
        [$later, $this->later] = [$this->later, []];
        foreach ($later as $name => $function) {
            $this->learnFunction($name, $function);
        }
        $classes = get_declared_classes();
        for ($count = \count($classes); $this->classes < $count; $this->classes++) {
            $name = $classes[$this->classes];
            if (!str_starts_with($name, __NAMESPACE__ . '\\')) {
                $this->learnClass(new \ReflectionClass($name));
            }
        }
        $functions = get_defined_functions()['user'];
        for ($count = \count($functions); $this->functions < $count; $this->functions++) {
            $function = new \ReflectionFunction($functions[$this->functions]);
            if (!str_starts_with((string) $function->getFileName(), __DIR__ . '/')) {
                $this->learnFunction($function->getName() . '()', $function);
            }
        }
    }

    private function learnClass(\ReflectionClass $class): void
    {
        if ($class->isInternal()) {
            return;
        }
        $name = Inventory::named($class->name);
        foreach ($class->getProperties(\ReflectionProperty::IS_STATIC) as $property) {
            if ($property->class === $class->name) {
                $this->properties["$name::\${$property->name}"] = $property;
            }
        }
        foreach ($class->getMethods() as $method) {
            if ($method->class === $class->name && !$method->isAbstract()) {
                $this->learnFunction("$name::{$method->name}()", $method);
            }
        }
    }

    private function learnFunction(string $name, \ReflectionFunctionAbstract $function): void
    {
        try {
            if ($function->getStaticVariables() !== []) {
                $this->variables[$name] = $function;
            }
        } catch (\Throwable) {
            $this->later[$name] = $function;
        }
    }
}
