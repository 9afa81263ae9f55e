<?php

declare(strict_types=1);

namespace Keepwarm\Handlers;

use Keepwarm\Log;
use Symfony\Component\DependencyInjection\Container;
use Symfony\Component\Translation\MessageCatalogue;
use Symfony\Component\Translation\MessageCatalogueInterface;
use Symfony\Component\Translation\Translator;
use Twig\Environment;

/**
 * What services of Twig and the translator are set to, which no `kernel.reset` of Symfony restores: globals, formats and the time zone of templates, escapers,
 * paths; fallback locales, resources and messages of translations. What they have loaded stays.
 *
 * The services are created when the kernel has booted: settings made by the request that creates a service could not be told from its initial state.
 */
final class SymfonyServices
{
    /** Not settings, but what has been loaded or made of them. */
    private const CACHES = [
        'resolvedGlobals' => true, 'loadedTemplates' => true, 'runtimes' => true, 'cache' => true, 'errorCache' => true, 'catalogues' => true, 'parentLocales' => true,
        'hasIntlFormatter' => true,
    ];

    /** @var list<array{\Closure, \Closure, list<mixed>, ?\Closure}> reads the settings of an object, restores them, the settings, what they were made into */
    private array $objects = [];
    private ?\Closure $resolved = null;
    private ?\Closure $catalogues = null;
    private ?Translator $translator = null;
    /** Reads the messages of a catalogue. */
    private ?\Closure $own = null;
    /** @var array<string, array<mixed>> locale => its messages, as they were loaded */
    private array $messages = [];

    public function __construct(Container $container)
    {
        $twig = self::made($container, 'twig');
        if ($twig instanceof Environment) {
            $this->twig($twig);
        }
        $translator = self::made($container, 'translator');
        if ($translator !== null && !$translator instanceof Translator) {
            // One around it, such as the profiler's.
            $translator = \Closure::bind(fn (): ?object => $this->privates['translator.default'] ?? null, $container, Container::class)();
        }
        if ($translator instanceof Translator) {
            $this->translator($translator);
        }
    }

    private static function made(Container $container, string $name): ?object
    {
        if (!$container->has($name)) {
            return null;
        }
        try {
            return Log::quietly(static fn () => @$container->get($name)); // Symfony 5 says that it will be private
        } catch (\Throwable $error) {
            Log::exception($error); // the requests that need it will say so
            return null;
        }
    }

    private function twig(Environment $twig): void
    {
        // Globals are resolved when the first template is rendered, and are set there from then on.
        $this->resolved = \Closure::bind(function (): void {
            $this->resolvedGlobals = null;
        }, $twig, Environment::class);
        $this->add($twig, Environment::class);
        foreach ($twig->getExtensions() as $extension) {
            if (str_starts_with($extension::class, 'Twig\Extension\\')) {
                $this->add($extension, $extension::class);
            }
        }
        $loaders = [$twig->getLoader()];
        while ($loaders !== []) {
            $loader = array_pop($loaders);
            if ($loader instanceof \Twig\Loader\ChainLoader) {
                array_push($loaders, ...$loader->getLoaders());
            }
            if ($loader instanceof \Twig\Loader\FilesystemLoader) {
                $this->add($loader, \Twig\Loader\FilesystemLoader::class, \Closure::bind(function (): void {
                    $this->cache = $this->errorCache = [];
                }, $loader, \Twig\Loader\FilesystemLoader::class));
            }
        }
    }

    private function translator(Translator $translator): void
    {
        $this->translator = $translator;
        $forget = \Closure::bind(function (): void {
            $this->catalogues = [];
        }, $translator, Translator::class);
        for ($class = $translator::class; $class !== false; $class = get_parent_class($class)) {
            $this->add($translator, $class, $forget);
        }
        $this->catalogues = \Closure::bind(fn &(): array => $this->catalogues, $translator, Translator::class);
    }

    /** Remembers the properties of an object that `$class` declares, except those that are objects. `$changed`: called when they are restored. */
    private function add(object $object, string $class, ?\Closure $changed = null): void
    {
        $names = [];
        foreach ((new \ReflectionClass($class))->getProperties() as $property) {
            if (!$property->isStatic() && $property->class === $class && !isset(self::CACHES[$property->getName()])) {
                $property->setAccessible(true);
                if ($property->isInitialized($object) && !\is_object($property->getValue($object)) && !(\PHP_VERSION_ID >= 80100 && $property->isReadOnly())) {
                    $names[] = $property->getName();
                }
            }
        }
        if ($names === []) {
            return;
        }
        $read = \Closure::bind(function () use ($names): array {
            $values = [];
            foreach ($names as $name) {
                $values[] = $this->$name;
            }
            return $values;
        }, $object, $class);
        $put = \Closure::bind(function (array $values) use ($names): void {
            foreach ($names as $at => $name) {
                $this->$name = $values[$at];
            }
        }, $object, $class);
        $this->objects[] = [$read, $put, $read(), $changed];
    }

    /** A request is over. */
    public function reset(): void
    {
        if ($this->resolved !== null) {
            ($this->resolved)();
        }
        foreach ($this->objects as [$read, $put, $values, $changed]) {
            if ($read() !== $values) {
                $put($values);
                if ($changed !== null) {
                    $changed();
                }
            }
        }
        if ($this->catalogues === null) {
            return;
        }
        $catalogues = &($this->catalogues)();
        foreach ($catalogues as $locale => $catalogue) {
            if (($this->messages[$locale] ?? null) !== $this->messagesOf($catalogue)) {
                // Reloaded: the request that loaded it for the first time may have changed it.
                unset($catalogues[$locale]);
                $this->messages[$locale] = $this->messagesOf($this->translator->getCatalogue((string) $locale));
            }
        }
    }

    /**
     * The messages of a catalogue and of those that it falls back to. Arrays that nobody has changed are the same ones, so that to compare them costs nothing.
     *
     * @return list<array<mixed>>
     */
    private function messagesOf(?MessageCatalogueInterface $catalogue): array
    {
        $this->own ??= \Closure::bind(static fn (MessageCatalogue $catalogue): array => $catalogue->messages, null, MessageCatalogue::class);
        for ($all = []; $catalogue instanceof MessageCatalogue; $catalogue = $catalogue->getFallbackCatalogue()) {
            $all[] = ($this->own)($catalogue);
        }
        return $all;
    }
}
