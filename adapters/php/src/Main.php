<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * A worker from its start to its end: `prepare`, then the entry is loaded (bin/worker.php), then `serve` what it returned.
 *
 * An entry that runs itself (Symfony's `autoload_runtime.php`) calls `run` through our Runtime class instead, and ends the process.
 */
final class Main
{
    public const VERSION = '0.1.0';

    private static string $entry = '';
    private static ?Connection $connection = null;
    /** @var array<string, string> */
    private static array $welcome = [];
    private static ?Worker $worker = null;
    private static bool $loading = false;

    /** @param list<string> $arguments */
    public static function prepare(array $arguments): void
    {
        self::settings();
        Output::clear();
        Session::install();
        Streams::install();
        Web::install();
        Output::open();
        $socket = Process::socket();
        if (\count($arguments) !== 2) {
            Log::write('usage: php bin/worker.php ENTRY');
            exit(1);
        }
        Input::install();
        self::loadClasses();
        $entry = realpath($arguments[1]);
        if ($entry === false || !is_file($entry)) {
            Log::write("keepwarm: file \"$arguments[1]\" not found in " . getcwd());
            exit(1);
        }
        self::$entry = $entry;
        self::$connection = new Connection($socket, (int) getmypid());
        Process::prepareSignals(self::$connection);
        try {
            self::$welcome = self::$connection->readWelcome();
        } catch (Lost) {
            exit(0);
        } catch (Fault $fault) {
            self::$connection->fail($fault);
            exit(1);
        }
        Shutdown::install();
        self::environment();
        self::$loading = true;
    }

    /** The file to load; '' in a process that Keepwarm did not start, where only the composer package loads this class. */
    public static function entry(): string
    {
        return self::$entry;
    }

    /** Before the entry: a composer package of another version may be in front of our autoloader after it. */
    private static function loadClasses(): void
    {
        $folders = [__DIR__, __DIR__ . '/Handlers', __DIR__ . '/Psr7'];
        foreach ($folders as $folder) {
            foreach (glob("$folder/[A-Z]*.php") ?: [] as $file) {
                if (basename($file) !== 'SymfonyRuntime.php') { // Symfony has it loaded where it is there
                    class_exists(__NAMESPACE__ . strtr(substr($file, \strlen(__DIR__), -4), '/', '\\'));
                }
            }
        }
    }

    /** The application finds only its own loaders in `spl_autoload_functions()`. */
    private static function withoutAutoloader(): void
    {
        foreach (spl_autoload_functions() as $loader) {
            if ($loader instanceof \Closure && (new \ReflectionFunction($loader))->getFileName() === __DIR__ . '/autoload.php') {
                spl_autoload_unregister($loader);
            }
        }
    }

    /** What the entry returned; gives the exit status. */
    public static function serve(mixed $application): int
    {
        return self::run(Entry::handler($application, self::$entry));
    }

    /** Says hello and takes requests until the end; gives the exit status. */
    public static function run(Handler $handler): int
    {
        $connection = self::$connection ?? throw new \LogicException('not in a worker of Keepwarm');
        self::$loading = false;
        self::$worker = new Worker($connection, $handler, self::base());
        Log::quietly(Temporary::sweep(...));
        self::withoutAutoloader();
        self::$worker->settle();
        $connection->sayHello([
            'adapter', 'php/' . self::VERSION, 'kind', 'php', 'language', 'PHP ' . \PHP_VERSION, 'blocking', '1', 'cgi_names', '1', 'user', '1', 'leaks', '1',
            ...(Process::handlesSignals() ? ['profile', '1', 'late_signals', '1'] : []),
        ]);
        $status = self::$worker->serveForever();
        self::$worker = null;
        Log::quietly(Temporary::end(...));
        return $status;
    }

    /** The entry, or what it returned, cannot be served; gives the exit status. */
    public static function failed(\Throwable $error): int
    {
        self::$loading = false;
        if ($error instanceof EntryError) {
            Log::write('keepwarm: ' . $error->getMessage());
        } else {
            Log::exception($error);
        }
        return 1;
    }

    /** The shutdown function: the script ends, by itself or not. */
    public static function ended(): void
    {
        if (self::$connection?->isForked()) {
            Shutdown::script();
            return;
        }
        if (self::$loading) {
            $error = error_get_last();
            if (!End::isFatal($error)) {
                Log::write('keepwarm: ' . self::$entry . ' exited before it returned an application.' . self::hint());
            }
            Output::end();
            exit(1);
        }
        if (Shutdown::isCalled() && self::$worker?->end->outlives()) {
            self::goOn(self::$worker);
            return;
        }
        self::$worker?->end->ended();
        Shutdown::script();
        self::$worker?->end->deliver();
    }

    /** After an `exit()`, until the worker exits. */
    private static function goOn(Worker $worker): void
    {
        $status = $worker->end->serveOn();
        if (self::$connection?->isForked()) {
            Shutdown::script();
            return;
        }
        self::$worker = null;
        Log::quietly(Temporary::end(...));
        if (!End::isFatal(error_get_last())) {
            Shutdown::script();
        }
        if ($status !== null) {
            exit($status);
        }
    }

    private static function hint(): string
    {
        $runtime = $_SERVER['APP_RUNTIME'] ?? '';
        return $runtime === '' || $runtime === SymfonyRuntime::class
            ? ' A script that responds by itself, without returning one, is served with kind = "fastcgi".'
            : " APP_RUNTIME is $runtime; a worker requires " . SymfonyRuntime::class . ', which Keepwarm sets by default.';
    }

    /** Errors go to the log; otherwise what is set for the web holds, as far as that differs from the command line. */
    private static function settings(): void
    {
        $web = WebIni::settings();
        DefaultFilter::install();
        Output::$size = self::bufferSize($web['output_buffering'] ?? (string) \ini_get('output_buffering'));
        unset($web['output_buffering']);
        foreach (['log_errors' => '1', 'html_errors' => '0', 'implicit_flush' => '0', 'max_execution_time' => '0'] + $web as $name => $value) {
            if (\ini_get($name) !== $value) { // with open_basedir, an empty error_log is none of its files
                ini_alter($name, $value);
            }
        }
        if (!\ini_get('date.timezone')) {
            date_default_timezone_set(date_default_timezone_get());
        }
    }

    /** That of `output_buffering`: 0 is as large as it gets, null none. */
    private static function bufferSize(string $setting): ?int
    {
        $size = Forms::bytes($setting);
        return $size <= 0 ? null : ($size === 1 ? 0 : $size);
    }

    /** What the entry finds in its environment. */
    private static function environment(): void
    {
        $_SERVER['argv'] = [];
        $_SERVER['argc'] = 0;
        $GLOBALS['argv'] = [];
        $GLOBALS['argc'] = 0;
        foreach (array_keys($_SERVER) as $name) {
            if (str_starts_with((string) $name, 'HTTP_')) {
                unset($_SERVER[$name]);
            }
        }
        $_SERVER['SCRIPT_FILENAME'] = $_SERVER['PATH_TRANSLATED'] = self::$entry;
        $_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = '/' . basename(self::$entry);
        $_SERVER['APP_RUNTIME'] ??= $_ENV['APP_RUNTIME'] ?? SymfonyRuntime::class;
        $_SERVER['APP_RUNTIME_MODE'] ??= 'web=1&worker=1';
        $_SERVER['VAR_DUMPER_FORMAT'] ??= $_ENV['VAR_DUMPER_FORMAT'] ?? 'html'; // for the command line, dump() writes past the page
    }

    /**
     * The members of $_SERVER that are the same for every request.
     *
     * @return array<string, mixed>
     */
    private static function base(): array
    {
        $base = $_SERVER;
        foreach (array_keys($base) as $name) {
            if (str_starts_with((string) $name, 'HTTP_') || $name === 'HTTPS') {
                unset($base[$name]);
            }
        }
        unset($base['argv'], $base['argc'], $base['PATH_TRANSLATED']);
        return [
            'GATEWAY_INTERFACE' => 'CGI/1.1',
            'SERVER_SOFTWARE' => self::$welcome['software'] ?? 'keepwarm/' . self::VERSION,
            'DOCUMENT_ROOT' => \dirname(self::$entry),
        ] + $base;
    }
}
