<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * Refuses, before the first request, an application that is not known to be safe when it is kept.
 *
 * Several frameworks' applications implement an interface that Keepwarm serves (`HttpKernelInterface`, PSR-15) and yet keep what belongs to a visitor, or
 * are incomplete without the framework's own entry. They are recognized by their own classes.
 */
final class Frameworks
{
    private const REFUSED = [
        'Laravel\Lumen\Application' => 'Lumen',
        'Illuminate\Contracts\Foundation\Application' => 'Laravel',
        'Illuminate\Contracts\Http\Kernel' => 'Laravel',
        'Illuminate\Http\Request' => 'Laravel',
        'Drupal\Core\DrupalKernelInterface' => 'Drupal',
        'Silex\Application' => 'Silex',
        'Cake\Core\HttpApplicationInterface' => 'CakePHP',
        'CodeIgniter\CodeIgniter' => 'CodeIgniter',
        'Laminas\Mvc\ApplicationInterface' => 'Laminas MVC',
        'Nette\Application\Application' => 'Nette',
        'Phalcon\Mvc\Application' => 'Phalcon',
        'TYPO3\CMS\Core\Core\ApplicationInterface' => 'TYPO3',
        'yii\base\Application' => 'Yii',
    ];
    private const HTTP_KERNEL = 'Symfony\Component\HttpKernel\HttpKernelInterface';
    private const KERNEL = 'Symfony\Component\HttpKernel\KernelInterface';
    private const CLASSIC = 'Serve it with kind = "fastcgi" and its own front controller as the entry.';

    /** Throws `EntryError` when an application is not known to be safe. */
    public static function check(mixed $application): void
    {
        if (!\is_object($application) || self::laravel($application) !== null) {
            return;
        }
        self::checkClass($application::class);
        if ($application instanceof \Closure) {
            // It may do no more than call one.
            $function = new \ReflectionFunction($application);
            foreach ([...array_values($function->getStaticVariables()), $function->getClosureThis()] as $held) {
                if (\is_object($held)) {
                    self::checkClass($held::class);
                }
            }
        } elseif (is_a($application, self::HTTP_KERNEL) && !is_a($application, self::KERNEL)) {
            self::checkKernel($application);
        }
    }

    /** The Laravel application in what an entry returned, or null. */
    public static function laravel(mixed $application): ?object
    {
        if (is_a($application, 'Illuminate\Contracts\Http\Kernel') && is_a($application->getApplication(), 'Illuminate\Foundation\Application')) {
            $kernel = $application;
            $application = $kernel->getApplication();
            $application->instance('Illuminate\Contracts\Http\Kernel', $kernel);
        }
        return is_a($application, 'Illuminate\Foundation\Application') ? $application : null;
    }

    /** Throws `EntryError` for a class of a framework that is refused. */
    public static function checkClass(string $class): void
    {
        foreach (self::REFUSED as $refused => $name) {
            if (is_a($class, $refused, true)) {
                throw new EntryError("$class is $name's. " . ($name === 'Laravel'
                    ? 'Return the Laravel application itself, or its HTTP kernel: called from a closure, it would show one visitor the data of another.'
                    : "A $name application is not safe to keep warm: it would show one visitor the data of another. " . self::CLASSIC));
            }
        }
    }

    /** Symfony's own kernels are safe, and so is one of the application's own, as a callable is. One of another package need not be. */
    private static function checkKernel(object $kernel): void
    {
        for ($class = new \ReflectionClass($kernel); $class !== false; $class = $class->getParentClass()) {
            if (!$class->isInternal() && !str_starts_with($class->getName(), 'Symfony\\') && self::isPackaged((string) $class->getFileName())) {
                throw new EntryError(
                    "{$class->getName()} is an HttpKernelInterface that Keepwarm does not know, and may show one visitor the data of another when kept warm. "
                    . self::CLASSIC . ' If it keeps no state of a request, return a closure that calls its handle().'
                );
            }
        }
    }

    /** Whether a file is part of an installed package and not of the application. */
    public static function isPackaged(string $file): bool
    {
        if (str_contains($file, '/vendor/')) {
            return true;
        }
        foreach (explode(\PATH_SEPARATOR, (string) get_include_path()) as $folder) {
            if ($folder !== '' && $folder[0] === '/' && str_starts_with($file, rtrim($folder, '/') . '/')) {
                return true;
            }
        }
        return false;
    }
}
