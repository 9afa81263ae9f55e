<?php

// A Laravel application, as composer's skeleton has it, in one file beside its configuration. Debian's package.

namespace App;

use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\{Auth, Cache, Cookie, DB, Event, Route, Schema, View};
use Illuminate\Support\ServiceProvider;

require_once 'Illuminate/autoload.php';
require_once 'Illuminate/Foundation/helpers.php';

final class HttpKernel extends \Illuminate\Foundation\Http\Kernel
{
    protected $middlewareGroups = ['web' => [
        \Illuminate\Cookie\Middleware\EncryptCookies::class, \Illuminate\Cookie\Middleware\AddQueuedCookiesToResponse::class, \Illuminate\Session\Middleware\StartSession::class,
        \Illuminate\View\Middleware\ShareErrorsFromSession::class, Csrf::class, \Illuminate\Routing\Middleware\SubstituteBindings::class,
    ]];
}

final class Csrf extends \Illuminate\Foundation\Http\Middleware\VerifyCsrfToken
{
}

/** Resolved while the application is booted, and given something of a visitor in a request; so is what it holds. */
final class Basket
{
    public array $things = [];
    public \stdClass $notes;

    public function __construct(public Shelf $shelf)
    {
    }
}

final class Shelf
{
    public ?string $owner = null;
}

/** Held by nothing but a closure. */
final class Hidden
{
    public ?string $owner = null;
}

/** Resolved by a request. */
final class Visitor
{
    public string $name = 'nobody';
}

final class Item extends \Illuminate\Database\Eloquent\Model
{
    protected $guarded = [];
    public $timestamps = false;

    protected static function booted(): void
    {
        static::creating(function (self $item): void { $item->name = "made $item->name"; });
    }
}

final class Account extends \Illuminate\Routing\Controller
{
    private ?string $seen = null;

    public function __construct(private Request $request)
    {
    }

    public function show(): array
    {
        $this->seen ??= (string) $this->request->query('name');
        return [$this->seen, optional(Auth::user())->name];
    }
}

final class ShopProvider extends ServiceProvider
{
    /** @var array<string, array{\Closure, \Closure}> of cases.php */
    public static array $cases = [];

    public function register(): void
    {
        $this->app->singleton(Basket::class);
        $this->app->singleton(Visitor::class);
        $hidden = new Hidden();
        $this->app->bind('hidden', static fn () => $hidden);
    }

    public function boot(): void
    {
        $this->app->make(Basket::class)->things = ['bag'];
        $this->app->make('auth')->guard();
        Schema::create('users', function ($table): void { $table->increments('id'); $table->string('name'); $table->string('password'); $table->string('remember_token')->nullable(); });
        Schema::create('items', function ($table): void { $table->increments('id'); $table->string('name'); });
        foreach (['alice', 'bob'] as $name) {
            DB::table('users')->insert(['name' => $name, 'password' => \Illuminate\Support\Facades\Hash::make($name)]);
        }
        Route::middleware('web')->group(fn () => $this->routes());
    }

    private function routes(): void
    {
        Route::get('/', fn () => 'hello');
        Route::get('/me', fn () => ['name' => optional(Auth::user())->name]);
        Route::get('/token', fn () => csrf_token());
        Route::post('/login', function (Request $request) {
            if (!Auth::attempt($request->only('name', 'password'))) {
                abort(403);
            }
            $request->session()->regenerate();
            return Auth::user()->name;
        });
        Route::get('/account', [Account::class, 'show']);
        Route::get('/item/{name}', fn (string $name) => $name . ' ' . request()->route('name') . ' ' . url()->current() . ' ' . Item::create(['name' => $name])->name);
        Route::get('/touch', function () {
            config(['app.name' => 'of a visitor']);
            app()->setLocale('de');
            app()->instance('secret', 'of a visitor');
            app(Basket::class)->things[] = 'secret';
            app(Basket::class)->shelf->owner = 'visitor';
            app(Basket::class)->notes = new \stdClass();
            app('hidden')->owner = 'visitor';
            app(Visitor::class)->name = 'visitor';
            app()->bind('bound', fn () => 'of a visitor');
            View::share('shared', 'visitor');
            Cache::put('key', 'of a visitor', 60);
            Event::listen('asked', fn () => 'of a visitor');
            Cookie::queue('queued', 'visitor');
            DB::enableQueryLog();
            DB::beginTransaction();
            DB::table('users')->insert(['name' => 'mallory', 'password' => '']);
            \Illuminate\Support\Carbon::setTestNow('2001-01-01');
            \Illuminate\Http\Resources\Json\JsonResource::withoutWrapping();
            Item::unguard();
            url()->forceScheme('https');
            app()->terminating(fn () => error_log('terminating of the visitor'));
            return 'touched';
        });
        Route::get('/extend', function () {
            \Illuminate\Support\Str::macro('visitor', fn () => 'of a visitor');
            \Illuminate\Support\Carbon::macro('visitor', fn () => 'of a visitor');
            \Illuminate\Support\Facades\Validator::extend('visitor', fn () => true);
            \Illuminate\Support\Facades\Gate::define('visitor', fn () => true);
            \Illuminate\Support\Facades\Blade::directive('visitor', fn () => 'of a visitor');
            app('translator')->addLines(['site.visitor' => 'of a visitor'], 'en');
            url()->defaults(['name' => 'visitor']);
            Route::get('/of-a-visitor', fn () => 'of a visitor');
            Auth::viaRequest('visitor', fn () => null);
            Auth::shouldUse('visitor');
            Item::addGlobalScope('visitor', fn ($query) => $query->where('id', 0));
            Item::creating(fn () => false);
            Item::preventLazyLoading();
            \Illuminate\Pagination\Paginator::defaultView('visitor');
            View::composer('page', fn ($view) => $view->with('shared', 'of a visitor'));
            app()->resolving('url', fn () => error_log('resolved for the visitor'));
            DB::listen(fn () => error_log('listened for the visitor'));
            app()->extend('cookie', fn ($jar) => $jar);
            session()->put('visitor', 1);
            \Illuminate\Support\Facades\Request::macro('visitor', fn () => 1);
            \Illuminate\Support\Facades\Crypt::swap(new \stdClass());
            app(\Illuminate\Contracts\Http\Kernel::class)->pushMiddleware('Visitor');
            \Illuminate\Database\Eloquent\Relations\Relation::morphMap(['visitor' => Item::class]);
            DB::setDefaultConnection('visitor');
            \Illuminate\Support\Facades\Date::use(\Carbon\CarbonImmutable::class);
            return 'extended';
        });
        Route::get('/extended', fn () => [
            \Illuminate\Support\Str::hasMacro('visitor'), \Illuminate\Support\Carbon::hasMacro('visitor'), \Illuminate\Support\Facades\Gate::has('visitor'),
            array_key_exists('visitor', app('blade.compiler')->getCustomDirectives()), trans('site.visitor'), url()->getDefaultParameters(), Route::getRoutes()->count(),
            Auth::getDefaultDriver(), Item::hasGlobalScope('visitor'), Item::preventsLazyLoading(), \Illuminate\Pagination\Paginator::$defaultView,
            trim(view('page', ['who' => 'x'])->render()), Item::create(['name' => 'x'])->exists, session('visitor'), Request::hasMacro('visitor'), get_class(\Illuminate\Support\Facades\Crypt::getFacadeRoot()),
            app(\Illuminate\Contracts\Http\Kernel::class)->hasMiddleware('Visitor'), \Illuminate\Database\Eloquent\Relations\Relation::morphMap(), DB::getDefaultConnection(), get_class(now()),
        ]);
        Route::get('/see', fn (Request $request) => [
            config('app.name'), app()->getLocale(), app()->bound('secret'), app(Basket::class)->things, app(Basket::class)->shelf->owner, isset(app(Basket::class)->notes),
            app(Visitor::class)->name, app()->bound('bound'), trim(view('page', ['who' => 'x'])->render()), Cache::get('key'), Event::dispatch('asked'), Cookie::getQueuedCookies(),
            DB::logging(), count(DB::getQueryLog()), DB::transactionLevel(), DB::table('users')->count(), now()->year > 2001, (new \ReflectionProperty(\Illuminate\Http\Resources\Json\JsonResource::class, 'wrap'))->getValue(),
            Item::isUnguarded(), url('/x'), app()->runningInConsole(), app('hidden')->owner,
        ]);
        Route::match(['get', 'post'], '/{what}/{name}', fn (string $what, string $name) => response(json_encode(self::$cases[$name][$what === 'see' ? 1 : 0]())))->where('what', 'touch|see')->withoutMiddleware(\Illuminate\Foundation\Http\Middleware\VerifyCsrfToken::class);
        Route::get('/form', fn () => view('form'));
        Route::get('/visits', function (Request $request) { $request->session()->increment('visits'); return ['visits' => $request->session()->get('visits'), 'flash' => session('status')]; });
        Route::post('/order', function (Request $request) {
            $order = $request->validate(['name' => 'required|max:10', 'amount' => 'integer']);
            return redirect('/visits')->with('status', "ordered $order[name]")->cookie('last', $order['name'], 5);
        });
        Route::post('/upload', function (Request $request) {
            $file = $request->file('file');
            return [$file->isValid(), $file->getClientOriginalName(), $file->getSize(), md5_file($file->path()), $file->move(storage_path(), 'moved.bin')->getSize(), $request->input('note')];
        });
        Route::post('/logout', function (Request $request) { Auth::logout(); $request->session()->invalidate(); return redirect('/me'); });
        Route::get('/asset', fn () => response()->file(__DIR__ . '/views/page.blade.php', ['Content-Type' => 'text/plain']));
        Route::get('/download', fn () => response()->download(__DIR__ . '/views/page.blade.php', 'a b.txt'));
        Route::get('/denied', fn () => abort(403, 'not for you'));
        Route::get('/fails', fn () => throw new \RuntimeException('a failure'));
        Route::get('/notice', fn () => (string) $GLOBALS['none']);
        Route::get('/stream', fn () => response()->stream(function (): void { echo 'one '; flush(); echo 'two'; }));
        Route::get('/exit', function () { echo 'produced'; exit; });
    }
}

if (getenv('TEST_CASES')) {
    ShopProvider::$cases = require __DIR__ . '/../cases.php';
}
$app = new Application(__DIR__);
$app->useStoragePath(getenv('TEST_STORAGE'));
$app->singleton(\Illuminate\Contracts\Http\Kernel::class, HttpKernel::class);
$app->singleton(\Illuminate\Contracts\Debug\ExceptionHandler::class, \Illuminate\Foundation\Exceptions\Handler::class);
return match (getenv('TEST_RETURN')) {
    'kernel' => $app->make(\Illuminate\Contracts\Http\Kernel::class),
    'factory' => fn (array $context) => $app,
    default => $app,
};
