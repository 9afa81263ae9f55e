<?php

// Each path keeps something, or nothing, for the tests of what a worker keeps.

declare(strict_types=1);

namespace Shop;

final class Item
{
    public ?object $other = null;

    public function __construct(public readonly string $name)
    {
    }
}

final class Cart
{
    public static array $all = [];
    private static array $byName = ['carts' => [], 'prices' => [1]];
    public static ?object $uninitialized;

    public static function named(int $number): void
    {
        self::$byName['carts']["cart $number"] = new Item("cart $number");
    }

    public static function visit(int $number): void
    {
        static $visits = [];
        $visits[] = "visit $number";
    }
}

/** A service with a cache. None of its own code may be called by a measurement. */
final class Cache
{
    private array $entries = [];

    public function keep(int $number): void
    {
        $this->entries["entry $number"] = new Item("entry $number");
    }

    public function __get(string $name): mixed
    {
        throw new \LogicException("__get($name) was called");
    }

    public function __debugInfo(): array
    {
        throw new \LogicException('__debugInfo was called');
    }

    public function __serialize(): array
    {
        throw new \LogicException('__serialize was called');
    }
}

/** As a lazy object is before it is used. */
final class Ghost
{
    public array $value = [];

    public function __construct()
    {
        unset($this->value);
    }

    public function __get(string $name): mixed
    {
        throw new \LogicException("__get($name) was called");
    }

    public function __isset(string $name): bool
    {
        throw new \LogicException("__isset($name) was called");
    }
}

final class Container
{
    private array $services;

    public function __construct()
    {
        $this->services = ['cart.cache' => new Cache()];
    }

    public function get(string $name): object
    {
        return $this->services[$name];
    }
}

/** Collections whose own methods may not be called either. */
final class Objects extends \SplObjectStorage
{
    public function count(int $mode = \COUNT_NORMAL): int
    {
        throw new \LogicException('count was called');
    }

    public function current(): object
    {
        throw new \LogicException('current was called');
    }
}

final class Listing extends \ArrayObject
{
    public function getIterator(): \Iterator
    {
        throw new \LogicException('getIterator was called');
    }

    public function getArrayCopy(): array
    {
        throw new \LogicException('getArrayCopy was called');
    }
}

enum Suit
{
    case Hearts;
    case Spades;
}

final class Collections
{
    public static \SplQueue $queue;
    public static \SplObjectStorage $storage;
    public static \ArrayObject $list;
    public static \SplPriorityQueue $heap;
    public static \WeakMap $map;
    public static ?object $last = null;
    public static array $suits = [];
    public static array $functions = [];
    public static array $text = [''];
    public static array $loop = [];
    public static array $ghosts = [];
}

final class Names
{
    public static array $all = [];

    /** More than a frame has room for, the odd one the largest. */
    public static function fill(): void
    {
        for ($count = 0; $count < 150; $count++) {
            self::$all["name $count" . ($count === 7 ? str_repeat('long', 200) : '')] = [1, 2];
        }
        self::$all["a\nb\xFFc"] = range(1, 10);
    }
}

function seen(int $number): void
{
    static $seen = ['a' => []];
    $seen['a'][] = $number;
}

Collections::$queue = new \SplQueue();
Collections::$storage = new Objects();
Collections::$list = new Listing();
Collections::$heap = new \SplPriorityQueue();
Collections::$map = new \WeakMap();
Collections::$loop['itself'] = &Collections::$loop;

/** Nobody has used it: the class of its first value is not loaded. */
function later(int $number): void
{
    static $later = [Late::FIRST];
    $later[] = $number;
}

spl_autoload_register(static function (string $class): void {
    if ($class === Late::class) {
        error_log('the class Late is loaded');
        eval('namespace Shop; final class Late { public const FIRST = 0; }');
    }
});

final class Application
{
    private Container $container;
    private array $numbers = [];

    public function __construct()
    {
        $this->container = new Container();
    }

    public function __invoke(\Keepwarm\Request $request): string|array
    {
        static $number = 0;
        $number++;
        $path = $request->path;
        match ($path) {
            '/global' => $GLOBALS['kept'][] = new Item("global $number"),
            '/static' => Cart::$all[] = new Item("static $number"),
            '/nested' => Cart::named($number),
            '/variable' => Cart::visit($number),
            '/function' => seen($number),
            '/service' => $this->container->get('cart.cache')->keep($number),
            '/instance' => $this->numbers[] = $number,
            '/list' => self::link(new Item("list $number")),
            '/closure' => Collections::$functions[] = static fn (): int => $number,
            '/queue' => Collections::$queue->enqueue(new Item("queue $number")),
            '/storage' => Collections::$storage->attach(new Item("storage $number"), $number),
            '/array_object' => Collections::$list[] = new Item("list $number"),
            '/heap' => Collections::$heap->insert(new Item("heap $number"), $number),
            '/weak' => Collections::$map[Cart::$all[] = new Item("weak $number")] = new Item('value'),
            '/enum' => Collections::$suits[] = Suit::Hearts,
            '/later' => later($number),
            '/huge' => Collections::$text[] = array_fill(0, 2_100_000, null),
            '/ghost' => Collections::$ghosts[] = new Ghost(),
            '/limit' => [Collections::$text[] = array_fill(0, 200_000, null)],
            '/text' => Collections::$text[0] .= str_repeat('x', 10_000),
            '/anonymous' => Cart::$all[] = new class () {
            },
            '/request' => Cart::$all[] = $request,
            '/cycle' => self::cycle(),
            '/garbage' => array_map(static fn (int $name): Item => new Item("garbage $name"), range(1, 1_000)),
            '/names' => Names::fill(),
            '/memory' => print memory_get_usage(),
            '/setting' => print ini_get('memory_limit'),
            '/shrink' => Cart::$all = [],
            '/throw' => throw new \RuntimeException((string) array_push(Cart::$all, new Item('throw'))),
            '/exit' => exit(array_push(Cart::$all, new Item('exit')) ? 'bye' : ''),
            '/shutdown' => register_shutdown_function(static fn () => Cart::$all[] = new Item('shutdown')),
            '/print' => print str_repeat('printed', 1_000),
            '/read' => [file_get_contents('php://input'), Cart::$all[] = new Item('read')],
            '/destroy' => new class () {
                public function __destruct()
                {
                    Cart::$all[] = new Item('destroyed');
                }
            },
            '/late' => (static function (): void {
                $one = new class () {
                    public ?object $self = null;

                    public function __destruct()
                    {
                        throw new \RuntimeException('as it should');
                    }
                };
                $one->self = $one;
            })(),
            default => null,
        };
        if ($path === '/memory' || $path === '/setting') {
            return '';
        }
        return $path === '/big' ? [200, ['x-long' => str_repeat('v', 3_000)], str_repeat('big', 10_000)] : "done $number";
    }

    private static function link(Item $item): void
    {
        $item->other = Collections::$last;
        Collections::$last = $item;
    }

    private static function cycle(): void
    {
        $one = new Item('one');
        $one->other = new Item('other');
        $one->other->other = $one;
    }
}

return new Application();
