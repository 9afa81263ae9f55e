<?php

// What a request can change in its process: name => what changes it, and what shows it.

require __DIR__ . '/vendor/lazy/framework.php';

/** `contexts://` remembers with which context it was opened. */
final class Contexts
{
    public static mixed $seen = null;
    public mixed $context;

    public function url_stat(string $path, int $flags): array { return ['size' => 0]; }

    public function stream_open(string $path, string $mode): bool
    {
        self::$seen = is_resource($this->context) ? stream_context_get_options($this->context) : null;
        return false;
    }

    public static function ofLibxml(): mixed
    {
        self::$seen = null;
        @(new DOMDocument())->load('contexts://document');
        return self::$seen;
    }
}

/** Thrown with something of the visitor's, which changes the process when it goes. */
final class Late extends Exception
{
    public ?object $held = null;

    public static function object(): object
    {
        return new class {
            public function __destruct() { ini_set('precision', '3'); putenv('VISITOR=1'); umask(0); header('X-Visitor: 1'); }
        };
    }

    public static function throw(): never
    {
        $exception = new self('of a visitor');
        $exception->held = self::object();
        throw $exception;
    }
}

final class Wrapper
{
    public mixed $context;

    public function stream_open(string $path, string $mode): bool { return true; }
    public function stream_read(int $count): string { return ''; }
    public function stream_eof(): bool { return true; }
    public function stream_stat(): array { return []; }
}

function database(bool $persistent): PDO
{
    $database = new PDO('sqlite:' . getenv('TMPDIR') . '/visitors.sqlite', null, null, [PDO::ATTR_PERSISTENT => $persistent]);
    $database->exec('CREATE TABLE IF NOT EXISTS visitors (name TEXT)');
    return $database;
}

ini_set('default_socket_timeout', '5');
stream_wrapper_register('booted', Wrapper::class);
stream_wrapper_register('contexts', Contexts::class);
if (getenv('TEST_LIBXML') !== false) {
    libxml_set_streams_context(stream_context_create(['http' => ['header' => 'X-Site: 1']]));
}
register_shutdown_function(function () { error_log('the script ends'); });

$setting = fn (string $name, string $value) => [fn () => ini_set($name, $value), fn () => ini_get($name)];
$cases = [
    'precision' => $setting('precision', '3'),
    'display_errors' => $setting('display_errors', '1'),
    'user_agent' => $setting('user_agent', 'visitor'),
    'session.gc_probability' => $setting('session.gc_probability', '99'),
    'mbstring.language' => $setting('mbstring.strict_detection', '1'),
    'set_include_path' => [fn () => set_include_path('/visitor'), fn () => get_include_path()],
    'ini_restore' => [fn () => ini_restore('default_socket_timeout'), fn () => ini_get('default_socket_timeout')],
    'gc_disable' => [fn () => gc_disable(), fn () => gc_enabled()],
    'assert_options' => [fn () => assert_options(ASSERT_ACTIVE, 0), fn () => ini_get('assert.active')],
    'new wrapper' => [fn () => stream_wrapper_register('visitor', Wrapper::class), fn () => in_array('visitor', stream_get_wrappers(), true)],
    'wrapper removed' => [fn () => stream_wrapper_unregister('ftp'), fn () => in_array('ftp', stream_get_wrappers(), true)],
    'wrapper replaced' => [fn () => [stream_wrapper_unregister('http'), stream_wrapper_register('http', Wrapper::class)], fn () => @file_get_contents('http://127.0.0.1:1/')],
    'file wrapper replaced' => [
        fn () => [stream_wrapper_unregister('file'), stream_wrapper_register('file', Wrapper::class)],
        fn () => strlen(file_get_contents(__FILE__)) > 100,
    ],
    'putenv new' => [fn () => putenv('VISITOR=1'), fn () => getenv('VISITOR')],
    'putenv changed' => [fn () => putenv('TEST_ENV=visitor'), fn () => [getenv('TEST_ENV'), trim((string) shell_exec('echo $TEST_ENV'))]],
    'putenv removed' => [fn () => putenv('TEST_ENV'), fn () => getenv('TEST_ENV')],
    'entity loader' => [
        fn () => libxml_set_external_entity_loader(fn () => fopen('data:,visitor', 'r')),
        function () { $document = new DOMDocument(); @$document->loadXML('<!DOCTYPE a [<!ENTITY e SYSTEM "file:///nothing-here">]><a>&e;</a>', LIBXML_NOENT); return $document->textContent; },
    ],
    'mb_regex_set_options' => [fn () => mb_regex_set_options('x'), fn () => mb_regex_set_options()],
    'strtok' => [fn () => strtok('a visitor', ' '), fn () => strtok(' ')],
    'json_last_error' => [fn () => json_decode('{'), fn () => json_last_error()],
    'spl_autoload_extensions' => [fn () => spl_autoload_extensions('.visitor'), fn () => spl_autoload_extensions()],
    'preg_last_error' => [fn () => @preg_match('/^./u', "\xff"), fn () => [preg_last_error(), preg_last_error_msg()]],
    'date errors' => [fn () => date_parse('visitor') && date_create('visitor'), fn () => date_get_last_errors()],
    'intl error' => [fn () => extension_loaded('intl') && transliterator_create('visitor'), fn () => extension_loaded('intl') ? intl_get_error_code() : 0],
    'intl locale' => [fn () => extension_loaded('intl') && Locale::setDefault('tr'), fn () => extension_loaded('intl') ? [Locale::getDefault(), MessageFormatter::formatMessage(Locale::getDefault(), '{0, number}', [1.5])] : 0],
    'iconv encoding' => [fn () => @iconv_set_encoding('internal_encoding', 'ISO-8859-1'), fn () => [ini_get('iconv.internal_encoding'), iconv_get_encoding('internal_encoding')]],
    'mysqli_report' => [fn () => mysqli_report(MYSQLI_REPORT_OFF), fn () => (new mysqli_driver())->report_mode],
    'mysqli_driver' => [function () { $driver = new mysqli_driver(); $driver->report_mode = MYSQLI_REPORT_OFF; }, fn () => (new mysqli_driver())->report_mode],
    'libxml context' => [fn () => libxml_set_streams_context(stream_context_create(['http' => ['header' => 'X-Visitor: 1']])), fn () => Contexts::ofLibxml()],
    'libxml_disable_entity_loader' => [fn () => @libxml_disable_entity_loader(true), fn () => @simplexml_load_file(__DIR__ . '/page.xml') !== false],
    'mb_ereg_search' => [fn () => [mb_ereg_search_init('a visitor', 'vis'), mb_ereg_search()], fn () => [mb_ereg_search_getpos(), mb_ereg_search_getregs()]],
    'assert callback' => [fn () => @assert_options(ASSERT_CALLBACK, fn () => 'visitor'), fn () => @assert_options(ASSERT_CALLBACK)],
    'session_start options' => [
        fn () => session_start(['gc_probability' => 0, 'sid_length' => 64, 'serialize_handler' => 'php_serialize', 'referer_check' => 'visitor']) && session_destroy(),
        fn () => array_map(ini_get(...), ['session.gc_probability', 'session.sid_length', 'session.serialize_handler', 'session.referer_check']),
    ],
    'memory peak' => [fn () => strlen(str_repeat('m', 20_000_000)), fn () => memory_get_peak_usage() > 20_000_000],
    'stat cache' => [fn () => is_file(getenv('TEST_FILE')), fn () => is_file(getenv('TEST_FILE'))],
    'seed' => [fn () => mt_srand(7), fn () => [mt_rand(), rand(), mt_rand()]],
    'seed of PHP 5' => [fn () => mt_srand(7, MT_RAND_PHP), fn () => [mt_rand(1, 1000), mt_rand(1, 1000), mt_rand(1, 1000)]],
    'default context' => [fn () => (bool) stream_context_set_default(['http' => ['header' => 'X-Visitor: 1']]), fn () => stream_context_get_options(stream_context_get_default())],
    'rewrite var' => [fn () => output_add_rewrite_var('visitor', '1'), fn () => ob_list_handlers()],
    'trans sid' => [fn () => [ini_set('session.use_cookies', '0'), ini_set('session.use_only_cookies', '0'), ini_set('session.use_trans_sid', '1'), session_start()], fn () => ob_list_handlers()],
    'open_basedir' => [fn () => ini_set('open_basedir', dirname(__DIR__, 4) . ':/usr:/tmp'), fn () => ini_get('open_basedir')],
    'session cookie' => [fn () => session_set_cookie_params(99, '/visitor'), fn () => session_get_cookie_params()],
    'session path' => [fn () => session_save_path('/visitor'), fn () => session_save_path()],
    'session cache' => [fn () => [session_cache_limiter('public'), session_cache_expire(5)], fn () => [session_cache_limiter(), session_cache_expire()]],
    'umask' => [fn () => umask(0), fn () => umask()],
    'working directory' => [fn () => chdir('/'), fn () => getcwd()],
    'time zone' => [fn () => date_default_timezone_set('Asia/Tokyo'), fn () => date_default_timezone_get()],
    'locale' => [fn () => setlocale(LC_ALL, 'C.UTF-8'), fn () => setlocale(LC_ALL, '0')],
    'lock' => [
        function () { $file = fopen(getenv('TEST_FILE'), 'c'); return flock($file, LOCK_EX); },
        function () { $file = fopen(getenv('TEST_FILE'), 'c'); return flock($file, LOCK_EX | LOCK_NB); },
    ],
    'semaphore' => [
        function () { $semaphore = sem_get(fileinode(getenv('TEST_FILE'))); return sem_acquire($semaphore); },
        function () { $semaphore = sem_get(fileinode(getenv('TEST_FILE'))); $free = sem_acquire($semaphore, true); $free && sem_remove($semaphore); return $free; },
    ],
    'transaction' => [
        function () { $database = database(false); $database->beginTransaction(); return $database->exec("INSERT INTO visitors VALUES ('one')"); },
        fn () => [database(false)->query('SELECT count(*) FROM visitors')->fetchColumn(), database(false)->exec('DELETE FROM visitors')],
    ],
    'transaction of a persistent connection' => [
        function () { $database = database(true); $database->beginTransaction(); return $database->exec("INSERT INTO visitors VALUES ('one')"); },
        fn () => [database(true)->inTransaction(), database(true)->query('SELECT count(*) FROM visitors')->fetchColumn(), database(false)->exec('DELETE FROM visitors')],
    ],
    'upload' => [
        fn () => array_map(fn (array $file) => [is_file($file['tmp_name']), is_uploaded_file($file['tmp_name'])], $_FILES),
        fn () => [$_FILES, $_POST, glob(getenv('TMPDIR') . '/keepwarm-uploads-*/php*')],
    ],
    'open file' => [fn () => fwrite(tmpfile(), 'visitor'), fn () => glob(getenv('TMPDIR') . '/php*')],
    'autoloaders' => [fn () => null, fn () => count(spl_autoload_functions())],
    'buffers removed' => [function () { echo 'junk'; while (ob_get_clean() !== false) {} @ob_get_flush(); @ob_get_flush(); echo 'left'; }, fn () => session_start() && session_id() !== ''],
    'late in exception' => [fn () => Late::throw(), fn () => [ini_get('precision'), getenv('VISITOR'), umask(), headers_list()]],
    'late in request' => [function (?Keepwarm\Request $request = null) { $request->server['held'] = Late::object(); return 1; }, fn () => [ini_get('precision'), getenv('VISITOR'), umask(), headers_list()]],
    'late and throws' => [
        function () {
            $exception = new Late('of a visitor');
            $exception->held = new class { public function __destruct() { ini_set('precision', '3'); throw new Exception('behind'); } };
            throw $exception;
        },
        fn () => [ini_get('precision'), getenv('VISITOR'), umask(), headers_list()],
    ],
    'late in fiber' => [
        // By a name that is not seen in this file: what uses fibers is not run in one of ours, and cases of exit() stand here too.
        function () { $held = Late::object(); $fiber = 'Fiber'; (new $fiber(function () use ($held, $fiber) { try { $fiber::suspend(); } finally { ini_set('precision', '3'); } }))->start(); return 1; },
        fn () => [ini_get('precision'), getenv('VISITOR'), umask(), headers_list()],
    ],
    'late buffer' => [
        function (?Keepwarm\Request $request = null) {
            $request->server['held'] = new class { public function __destruct() { echo 'late '; ob_start(fn (string $text) => strtoupper($text)); echo 'in a buffer'; } };
            return 1;
        },
        fn () => ob_get_level(),
    ],
    'late in generator' => [
        function () { $numbers = (function () { try { yield 1; yield 2; } finally { ini_set('precision', '3'); } })(); return $numbers->current(); },
        fn () => [ini_get('precision'), getenv('VISITOR'), umask(), headers_list()],
    ],
    'handler' => [fn () => set_error_handler(fn () => true), fn () => 1 + (int) $GLOBALS['none']],
    'lazy handler' => [fn () => Lazy\Framework::boot(), fn () => $GLOBALS['none']],
    'handler again' => [fn () => Lazy\Framework::bootAgain(), fn () => (string) $GLOBALS['none']],
    'shutdown' => [function (?Keepwarm\Request $r = null) { register_shutdown_function(function (string $who) { echo " behind $who"; }, $r->query); return 'page'; }, fn () => 'page'],
    'shutdown array' => [function (?Keepwarm\Request $r = null) { register_shutdown_function(function () { echo ' behind'; }); return [200, ['Content-Length' => '4'], 'page']; }, fn () => 'page'],
    'shutdown pieces' => [function (?Keepwarm\Request $r = null) { register_shutdown_function(function () { echo ' behind'; }); return [200, [], ['pa', 'ge']]; }, fn () => 'page'],
    'shutdown nested' => [function () { register_shutdown_function(function () { echo ' one'; register_shutdown_function(fn () => print(' two')); }); return 'page'; }, fn () => 'page'],
    'shutdown throws' => [function () { register_shutdown_function(fn () => throw new Exception('behind')); register_shutdown_function(fn () => print('never')); return 'page'; }, fn () => 'page'],
    'shutdown and exit' => [function () { register_shutdown_function(fn () => print(' behind')); echo 'page'; exit; }, fn () => 'page'],
];

return $cases;
