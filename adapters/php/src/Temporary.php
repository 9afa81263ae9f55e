<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * Temporary files that do not stay, however the worker ends.
 *
 * Those without a name are gone when they are closed. Uploads need a name (`move_uploaded_file`), so they are in a directory of this
 * process, which holds a lock in it: a worker that starts later removes every directory whose lock nobody holds.
 */
final class Temporary
{
    private const PREFIX = 'keepwarm-uploads-';
    private const NAME = '/^keepwarm-uploads-\d+-[0-9a-f]{12}$/D';

    private static ?string $folder = null;
    /** @var resource|null */
    private static mixed $lock = null;

    /** @return resource */
    public static function unnamed(): mixed
    {
        $name = tempnam(self::place(), 'kw');
        $file = $name === false ? false : fopen($name, 'w+b');
        if ($file === false) {
            throw new \RuntimeException('cannot create a temporary file in ' . self::place());
        }
        unlink($name);
        return $file;
    }

    /** A new, empty file for an upload; null when there is no room for it. */
    public static function upload(): ?string
    {
        self::$folder ??= self::makeFolder();
        if (self::$folder === null) {
            return null;
        }
        $name = @tempnam(self::$folder, 'php');
        return $name === false || !str_starts_with($name, self::$folder) ? null : $name;
    }

    /**
     * Removes files of this process.
     *
     * @param list<string> $paths some may be gone
     */
    public static function unlink(array $paths): void
    {
        Log::quietly(static function () use ($paths): void {
            foreach ($paths as $path) {
                @unlink($path);
            }
        });
    }

    /** Removes the directories of workers that have exited. */
    public static function sweep(): void
    {
        foreach (glob(self::place() . '/' . self::PREFIX . '*', \GLOB_ONLYDIR | \GLOB_NOSORT) ?: [] as $folder) {
            if ($folder === self::$folder || preg_match(self::NAME, basename($folder)) !== 1 || @fileowner($folder) !== self::user()) {
                continue;
            }
            $lock = @fopen("$folder/.lock", 'rb'); // one without a lock is not ours
            if ($lock !== false && flock($lock, \LOCK_EX | \LOCK_NB)) {
                self::remove($folder);
            }
        }
    }

    /** Removes this process's own directory. */
    public static function end(): void
    {
        if (self::$folder !== null && getmypid() === self::$pid) {
            self::remove(self::$folder);
            self::$folder = null;
        }
    }

    private static int $pid = 0;

    private static function makeFolder(): ?string
    {
        self::$pid = (int) getmypid();
        $folder = self::place() . '/' . self::PREFIX . self::$pid . '-' . bin2hex(random_bytes(6));
        // The lock is taken before the directory gets its name, so that `sweep` never finds it unlocked.
        $draft = self::place() . '/.' . basename($folder);
        if (!@mkdir($draft, 0700)) {
            return null;
        }
        self::$lock = fopen("$draft/.lock", 'cb');
        if (self::$lock === false || !flock(self::$lock, \LOCK_EX | \LOCK_NB) || !rename($draft, $folder)) {
            return null;
        }
        return $folder;
    }

    private static function remove(string $folder): void
    {
        foreach (array_diff(scandir($folder) ?: [], ['.', '..', '.lock']) as $name) {
            @unlink("$folder/$name");
        }
        @unlink("$folder/.lock");
        @rmdir($folder);
    }

    private static function place(): string
    {
        $place = (string) \ini_get('upload_tmp_dir');
        return rtrim($place !== '' && is_dir($place) ? $place : sys_get_temp_dir(), '/');
    }

    private static function user(): int
    {
        return \function_exists('posix_geteuid') ? posix_geteuid() : (int) fileowner('/proc/self');
    }
}
