//! `keepwarm leaks` of real apps with several routes, some of which take away what others have added.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keepwarm_tests::{Server, get, keepwarm, tools};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(120);

/// Keeps an item for each request below `/cart`, and nothing for others.
const RUBY: (&str, &str) = (
    "config.ru",
    "
module Shop
  CACHE = {}
  Item = Struct.new(:data)
end
run(lambda do |env|
  if env['PATH_INFO'].start_with?('/cart')
    Shop::CACHE[Shop::CACHE.size] = Shop::Item.new('x' * 2_000)
  end
  [200, {}, ['done']]
end)
",
);

const PHP: (&str, &str) = (
    "index.php",
    "<?php
namespace Shop;
final class Item {
    public function __construct(public string $data) {}
}
final class Cart {
    public static array $all = [];
}
return function (\\Keepwarm\\Request $request): string {
    if (str_starts_with($request->path, '/cart')) {
        Cart::$all[] = new Item(str_repeat('x', 2_000));
    }
    return 'done';
};
",
);

/// An app named `shop`, with a route of its own for `/cart/*` and for `/nowhere`.
fn start(app: &str, (file, code): (&str, &str)) -> Server {
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/cart/*\"\napp = \"shop\"\n\
         [[listen.main.route]]\npath = \"/nowhere\"\napp = \"shop\"\n[[listen.main.route]]\napp = \"shop\"\n[app.shop]\n{app}\n"
    );
    let write = |command: &mut Command| {
        let folder = command.get_current_dir().expect("it has a directory");
        std::fs::write(folder.join(file), code).expect("written");
    };
    Server::start_with(&config, write).warm("/")
}

/// What `keepwarm leaks` says, as JSON and with its status, while a client requests these paths in turn.
fn searched(server: &Server, paths: &[&str], requests: u32) -> (Option<i32>, Value) {
    let over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client().patient(LONG);
            for path in paths.iter().cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                let status = client.ask(get(path)).status;
                assert!([200, 404].contains(&status), "{path}: {status}");
            }
        });
        let mut command = Command::new(keepwarm());
        command.args(["leaks", "shop", "--json", "--seconds", "110", "--requests", &requests.to_string()]);
        let output = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tools::run(command.current_dir(server.folder()), LONG)
        }));
        over.store(true, Ordering::Relaxed);
        output.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let said = String::from_utf8_lossy(&output.stdout);
    let response: Value = serde_json::from_str(&said).unwrap_or_else(|error| {
        panic!("{error}: {said}{}\n{}", String::from_utf8_lossy(&output.stderr), server.log())
    });
    assert_eq!(response["requests"], requests, "{response}");
    (output.status.code(), response)
}

/// By route: what is kept, by form and name. Each route has had enough requests.
fn kept(response: &Value) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let routes = response["routes"].as_array().expect("routes").iter();
    routes
        .map(|route| {
            assert_eq!(route["enough"], true, "{response}");
            let kept = route["kept"].as_array().expect("a list").iter();
            (
                text(&route["route"]),
                kept.map(|one| format!("{} {}", text(&one["form"]), text(&one["name"]))).collect(),
            )
        })
        .collect()
}

#[track_caller]
fn keeps(server: &Server, wanted: &[&str]) {
    let (status, response) = searched(server, &["/cart/a", "/", "/nowhere"], 45);
    assert_eq!(status, Some(3), "{response}");
    for (route, found) in kept(&response) {
        if route == "GET /cart/*" {
            for wanted in wanted {
                assert!(found.iter().any(|one| one == wanted), "{wanted}: {response:#}\n{}", server.log());
            }
        } else {
            assert_eq!(found, [""; 0], "{route}: {response:#}");
        }
    }
}

#[track_caller]
fn keeps_nothing(server: &Server) {
    let (status, response) = searched(server, &["/", "/nowhere", "/products"], 60);
    for (route, found) in kept(&response) {
        assert_eq!(found, [""; 0], "{route}: {response:#}\n{}", server.log());
    }
    assert_eq!(status, Some(0), "{response:#}");
}

#[test]
fn ruby_names_containers_classes_and_lines() {
    for keys in ["workers = 1", "workers = 1\nthreads = 3", "workers = 1\npreload = true"] {
        let server = start(&format!("entry = \"config.ru\"\n{keys}"), RUBY);
        keeps(
            &server,
            &["held Shop::CACHE", "object Shop::Item", "object String", "memory ", "made config.ru:8"],
        );
    }
}

#[test]
fn php_names_arrays_and_classes() {
    let server = start("entry = \"index.php\"\nworkers = 1", PHP);
    keeps(&server, &["held Shop\\Cart::$all", "object Shop\\Item", "memory "]);
}

#[test]
fn the_example_of_sinatra_keeps_nothing() {
    for keys in ["workers = 1", "workers = 1\nthreads = 3"] {
        let app = format!("entry = \"config.ru\"\ndirectory = \"@EXAMPLES@/sinatra\"\n{keys}");
        keeps_nothing(&start(&app, ("unused", "")));
    }
}

/// Symfony keeps the request of its last exception, which is that of `/nowhere` or none: no route keeps one.
#[test]
fn the_examples_of_symfony_and_slim_keep_nothing() {
    for folder in ["symfony", "slim"] {
        let app = format!(
            "entry = \"public/index.php\"\ndirectory = \"@EXAMPLES@/{folder}\"\nworkers = 1\n\
             env = {{ APP_ENV = \"prod\", APP_CACHE_DIR = \"@DIR@/cache\" }}"
        );
        keeps_nothing(&start(&app, ("unused", "")));
    }
}
