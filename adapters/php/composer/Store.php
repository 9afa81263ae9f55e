<?php

declare(strict_types=1);

namespace Keepwarm\Composer;

/**
 * Where binaries are kept: in the package, so that an image that is built as root has it for every user; else in the user's cache.
 *
 * A file gets its name when it is complete and has been checked. One process at a time fetches into a directory; what a killed one
 * left is removed by the next.
 */
final class Store
{
    /** @param list<string> $directories in the order in which they are tried */
    public function __construct(private readonly array $directories)
    {
    }

    /** @return list<string> */
    public static function directories(string $package): array
    {
        $home = (string) getenv('HOME');
        $cache = (string) getenv('XDG_CACHE_HOME');
        if (!str_starts_with($cache, '/')) { // as the XDG Base Directory specification requires
            $cache = str_starts_with($home, '/') ? "$home/.cache" : '';
        }
        return ["$package/.binaries", ...($cache === '' ? [] : ["$cache/keepwarm"])];
    }

    /** The path of the binary; fetches it if there is none. Throws `Failure`. */
    public function provide(Binary $binary): string
    {
        foreach ($this->directories as $directory) {
            $file = "$directory/$binary->name";
            if (self::isPrivate($directory) && $binary->isAt($file)) {
                return self::executable($file);
            }
        }
        foreach ($this->directories as $directory) {
            if (self::isUsable($directory)) {
                return self::fetch($binary, $directory);
            }
        }
        throw new Failure("cannot store $binary->name: " . implode(' and ', $this->directories) . ' cannot be written by this user; '
            . "run vendor/bin/keepwarm --version once as a user who can, set XDG_CACHE_HOME to a directory of this user, or fetch $binary->url "
            . "by other means (SHA-256 $binary->sha256) and set KEEPWARM_BIN to it");
    }

    private static function fetch(Binary $binary, string $directory): string
    {
        $lock = self::locked($directory);
        $file = "$directory/$binary->name";
        if ($binary->isAt($file)) { // another process was faster
            return self::executable($file);
        }
        foreach (glob("$directory/*.part") ?: [] as $left) {
            @unlink($left);
        }
        $part = "$file." . getmypid() . '.part';
        $size = number_format($binary->size / 1_048_576, 1);
        say("fetching $binary->url ($size MiB), once");
        try {
            Download::to($binary->url, $part, $binary->size);
            self::check($binary, $part);
            if (!chmod($part, 0755) || !rename($part, $file)) {
                throw new Failure("cannot write $file");
            }
        } catch (Failure $failure) {
            throw new Failure("cannot fetch $binary->url: {$failure->getMessage()}. Nothing was stored. Without a network, copy that file from elsewhere "
                . "to $file (SHA-256 $binary->sha256), or set KEEPWARM_BIN to a keepwarm binary");
        } finally {
            @unlink($part);
        }
        fclose($lock);
        say("stored $file");
        return $file;
    }

    private static function check(Binary $binary, string $part): void
    {
        clearstatcache();
        $size = filesize($part);
        if ($size < $binary->size) {
            throw new Failure("the download ended after $size of $binary->size bytes; try again");
        }
        if (!$binary->isAt($part)) {
            $found = $size > $binary->size ? "it has more than $binary->size bytes" : 'its SHA-256 is ' . hash_file('sha256', $part);
            throw new Failure("it is not the file that this package pins: $found, expected SHA-256 $binary->sha256. A proxy may have replaced it");
        }
    }

    /**
     * Held until the process exits, however it does.
     *
     * @return resource
     */
    private static function locked(string $directory): mixed
    {
        $lock = @fopen("$directory/.lock", 'c');
        if ($lock === false) {
            throw new Failure("cannot write $directory/.lock");
        }
        if (!flock($lock, \LOCK_EX | \LOCK_NB, $busy) && $busy) {
            say("waiting for another process that fetches into $directory");
            flock($lock, \LOCK_EX);
        }
        return $lock;
    }

    /** One that was copied by hand may lack the mode. */
    private static function executable(string $file): string
    {
        if (!is_executable($file) && !@chmod($file, 0755)) {
            throw new Failure("$file is not executable, and this user cannot change that; run chmod 755 $file as its owner");
        }
        return $file;
    }

    /** Exists, or can be created, and can be written. */
    private static function isUsable(string $directory): bool
    {
        if (!is_dir($directory) && !@mkdir($directory, 0755, true) && !is_dir($directory)) {
            return false;
        }
        return is_writable($directory) && self::isPrivate($directory);
    }

    /** Nobody but its owner can replace a file between the check and its start, and the owner is this user, root, or the owner of this code. */
    private static function isPrivate(string $directory): bool
    {
        clearstatcache();
        if (!is_dir($directory) || (fileperms($directory) & 0022) !== 0) {
            return false;
        }
        return \in_array(fileowner($directory), [fileowner('/proc/self'), 0, fileowner(__FILE__)], true);
    }
}
