<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * What the site's administrator has set for the web, where the command line has a php.ini of its own: on Debian that has no limit of memory.
 *
 * Options of the interpreter (`-d memory_limit=…`) count over it.
 */
final class WebIni
{
    private const NAMES = ['memory_limit', 'display_errors', 'error_log', 'output_buffering'];
    private const SERVERS = ['fpm', 'cgi', 'apache2'];
    private const MEMORY = '128M'; // PHP's own default

    /**
     * The settings that hold for the web, without those that the interpreter was given as options.
     *
     * @return array<string, string>
     */
    public static function settings(): array
    {
        $file = php_ini_loaded_file();
        $found = [];
        if ($file !== false && basename(\dirname($file)) !== 'cli') {
            // One php.ini for all, of which the command line passes over two.
            $found = array_intersect_key(self::read($file, \PHP_CONFIG_FILE_SCAN_DIR), ['display_errors' => true, 'output_buffering' => true]);
        } elseif ($file !== false) {
            $web = self::besides($file);
            $found = $web === null ? [] : array_intersect_key(self::read($web, \dirname($web) . '/conf.d'), array_flip(self::NAMES));
            $found += ['memory_limit' => self::MEMORY, 'error_log' => ''];
        }
        return array_diff_key($found + ['display_errors' => '0'], self::given());
    }

    /** The php.ini of the web beside the command line's, or null. */
    private static function besides(string $file): ?string
    {
        foreach (self::SERVERS as $server) {
            $other = \dirname($file, 2) . "/$server/" . basename($file);
            if (@is_readable($other)) { // open_basedir may not allow it
                return $other;
            }
        }
        return null;
    }

    /** @return array<string, string> */
    private static function read(string $file, string $folder): array
    {
        $found = [];
        foreach ([$file, ...(glob("$folder/*.ini") ?: [])] as $one) {
            foreach (@parse_ini_file($one) ?: [] as $name => $value) {
                if (\is_string($value)) {
                    $found[$name] = $value;
                }
            }
        }
        return $found;
    }

    /**
     * The settings that the interpreter was given as options, by their names.
     *
     * @return array<string, true>
     */
    private static function given(): array
    {
        $given = [];
        $arguments = explode("\0", (string) @file_get_contents('/proc/self/cmdline'));
        foreach ($arguments as $at => $argument) {
            if ($argument === '-d' || $argument === '--define') {
                $argument = '-d' . ($arguments[$at + 1] ?? '');
            }
            if (preg_match('/^-d\s*([\w.]+)/', $argument, $match) === 1) {
                $given[$match[1]] = true;
            }
        }
        return $given;
    }
}
