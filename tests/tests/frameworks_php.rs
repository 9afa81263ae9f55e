//! PHP, kept warm: the Symfony and the Slim application of `examples/` on Debian's packages, and a plain callable.

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use keepwarm_tests::content::{noise, post, sha256};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::{BOUND, Client, Failure, Server, get, tools};

/// A PHP start compiles its framework, on a machine that runs the other tests too.
const PATIENCE: Duration = Duration::from_secs(30);

fn config(folder: &str, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n[app.app]\nentry = \"public/index.php\"\n\
         directory = \"@EXAMPLES@/{folder}\"\noptions = [\"-d\", \"session.save_path=@DIR@\", \"-d\", \"upload_max_filesize=8M\"]\n\
         env = {{ APP_ENV = \"prod\", APP_CACHE_DIR = \"@DIR@/cache\" }}\n{more}"
    )
}

fn symfony() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&config("symfony", "workers = 2\n")).warm("/"))
}

fn slim() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&config("slim", "workers = 2\n")).warm("/"))
}

fn both() -> [(&'static str, &'static Server); 2] {
    [("symfony", symfony()), ("slim", slim())]
}

fn patient(server: &Server) -> Client {
    server.client().patient(PATIENCE)
}

#[test]
fn pages_json_and_redirects() {
    for (name, server) in both() {
        let mut client = patient(server);
        let page = client.expect_kept("/");
        assert!(page.field("content-type").is_some_and(|kind| kind.starts_with("text/html")), "{name}");
        assert!(page.text().contains("<h1>"), "{name}");
        assert_eq!(client.expect_kept("/products").json()[1]["name"], "teapot", "{name}");
        assert_eq!(client.ask(get("/nowhere")).status, 404, "{name}");
        assert_eq!(client.ask(get("/moved")).status, 303, "{name}");
        assert_eq!(client.ask(get("/big?bytes=3000000")).body.len(), 3_000_000, "{name}");
        client.expect_kept("/");
    }
}

#[test]
fn forms_of_both_kinds() {
    for (name, server) in both() {
        let mut client = patient(server);
        let kind = "application/x-www-form-urlencoded";
        let seen = client.ask(post("/order", kind, b"item[]=kettle&item[]=cup&note=%C3%A9+a%26b")).json();
        assert_eq!(seen, serde_json::json!({"item": ["kettle", "cup"], "note": "\u{e9} a&b"}), "{name}");
        let body =
            "--B\r\nContent-Disposition: form-data; name=\"item[one][two]\"\r\n\r\nteapot\r\n--B--\r\n";
        let seen = client.ask(post("/order", "multipart/form-data; boundary=B", body.as_bytes())).json();
        assert_eq!(seen, serde_json::json!({"item": {"one": {"two": "teapot"}}}), "{name}");
    }
}

#[test]
fn uploads_arrive_byte_for_byte() {
    let bytes = noise(3 << 20);
    let digest = sha256("upload", &bytes);
    for (name, server) in both() {
        let mut client = patient(server);
        let seen = client.ask(post("/upload", "application/octet-stream", &bytes)).json();
        assert_eq!(seen, serde_json::json!({"size": bytes.len(), "sha256": digest}), "{name}");
        let head = "--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--B\r\nContent-Disposition: form-data; name=\"photos[a][]\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n";
        let body = [head.as_bytes(), &bytes, b"\r\n--B--\r\n"].concat();
        let seen = client.ask(post("/upload", "multipart/form-data; boundary=B", &body)).json();
        let file = serde_json::json!({"size": bytes.len(), "sha256": digest, "filename": "a.bin"});
        assert_eq!(seen["files"], serde_json::json!({"photos": {"a": [file]}}), "{name}");
        assert_eq!(seen["fields"], serde_json::json!({"note": "hello"}), "{name}");
        client.expect_kept("/");
    }
}

#[test]
fn a_body_that_is_expected_gets_its_100_only_when_it_is_read() {
    let bytes = noise(100_000);
    let digest = sha256("expected", &bytes);
    for (name, server) in both() {
        let mut client = patient(server);
        client.send(format!(
            "POST /upload HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            bytes.len()
        ));
        assert_eq!(client.response("POST").status, 100, "{name}");
        client.send(&bytes);
        assert_eq!(client.response("POST").json()["sha256"], digest.as_str(), "{name}");
        client.expect_kept("/");
        client.send(
            "POST /early HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n",
        );
        let response = client.response("POST");
        assert_eq!(response.status, 413, "{name}");
        assert!(response.says_close(), "{name}");
        client.expect_eof();
    }
}

#[test]
fn streams_and_files() {
    let mut client = patient(symfony());
    let response = client.ask(get("/stream?parts=500"));
    let wanted: String = (0..500).map(|number| format!("line {number}\n")).collect();
    assert!(response.text() == wanted);
    // The first line is there long before the last is made.
    client.send(get("/stream?parts=2&pause=1"));
    assert_eq!(client.head("GET").0, 200);
    client.read_through(b"line 0\n");
    client.read_through(b"0\r\n\r\n");
    let part = client.ask("GET /file HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4\r\n\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "<?php"));
    client.expect_kept("/");
}

#[test]
fn cookies_and_sessions() {
    for (name, server) in both() {
        let mut client = patient(server);
        let response = client.ask("GET /cookies HTTP/1.1\r\nHost: a\r\nCookie: one=1; two=2\r\n\r\n");
        let set = response.all("set-cookie");
        for (cookie, start) in set.iter().zip(["basket=42", "theme=dark", "seen=yes"]) {
            assert!(cookie.starts_with(start), "{name}: in order: {set:?}");
        }
        assert_eq!(response.json(), serde_json::json!({"one": "1", "two": "2"}), "{name}");

        // Two visitors, over both workers.
        let visit = |cookie: &str| {
            patient(server).ask(format!("GET /basket HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"))
        };
        let cookies: Vec<String> = (0..2)
            .map(|_| {
                let first = visit("other=1");
                let set = first.all("set-cookie");
                assert_eq!(set.len(), 1, "{name}: {set:?}");
                assert_eq!(first.json()["visits"], 1, "{name}");
                set[0].split(';').next().expect("a cookie").to_owned()
            })
            .collect();
        assert_ne!(cookies[0], cookies[1], "{name}");
        for count in 2..8 {
            for cookie in &cookies {
                let again = visit(cookie);
                assert_eq!(again.json()["visits"], count, "{name}");
                assert!(cookie.ends_with(again.json()["id"].as_str().expect("an id")), "{name}");
            }
        }
    }
}

#[test]
fn errors_on_demand() {
    for (name, server) in both() {
        let mut client = patient(server);
        let response = client.ask(get("/error"));
        assert_eq!(response.status, 500, "{name}");
        assert_eq!(client.ask(get("/")).status, 200, "{name}");
    }
    let mut client = patient(symfony());
    client.send(get("/error-late"));
    match client.try_response("GET") {
        Err(Failure::Cut(_) | Failure::Reset(_)) => {}
        other => panic!("a response that is not whole must not look whole: {other:?}\n{client}"),
    }
}

#[test]
fn exit_ends_its_request_and_a_fatal_error_its_worker() {
    for folder in ["symfony", "slim"] {
        let server = Server::start(&config(folder, "workers = 2\n")).warm("/");
        let mark = server.mark();
        for _ in 0..5 {
            let response = patient(&server).ask(get("/exit"));
            assert_eq!(
                (response.status, response.text().as_ref()),
                (200, "printed before exit()"),
                "{folder}"
            );
            assert_eq!(patient(&server).ask(get("/pong")).text(), "pong", "{folder} after exit()");
        }
        assert!(!server.log().contains("worker stopped"), "{folder}: {}", server.log());
        assert_eq!(patient(&server).ask(get("/fatal")).status, 500, "{folder}");
        server.wait_for_log_after(mark, "a fatal error ended this worker in GET /fatal", PATIENCE);
        server.wait_for_log_after(mark, "worker ready", PATIENCE);
        for _ in 0..20 {
            assert_eq!(patient(&server).ask(get("/pong")).text(), "pong", "{folder} after a fatal error");
        }
    }
}

#[test]
fn the_environment_of_a_request() {
    for (name, server) in both() {
        let seen = patient(server)
            .ask("GET /whoami?a=1 HTTP/1.1\r\nHost: shop.example:8443\r\nX-Thing: one\r\n\r\n")
            .json();
        assert_eq!(seen["uri"], "http://shop.example:8443/whoami?a=1", "{name}");
        assert_eq!((&seen["path"], &seen["client"]), (&"/whoami".into(), &"127.0.0.1".into()), "{name}");
        assert_eq!((&seen["query"]["a"], &seen["thing"]), (&"1".into(), &"one".into()), "{name}");
    }
}

#[test]
fn the_framework_boots_once() {
    for (name, server) in both() {
        let mut processes: Vec<String> =
            (0..40).map(|_| patient(server).ask(get("/whoami")).json()["process"].to_string()).collect();
        processes.sort();
        processes.dedup();
        assert!(processes.len() <= 2, "{name}: {processes:?}");
    }
}

#[test]
fn ab_without_k_never_stalls() {
    for (name, server) in both() {
        let printed = tools::run_ok(
            Command::new("ab").args(["-n", "200", "-c", "4", &server.url("/")]),
            Duration::from_secs(60),
        );
        assert!(printed.contains("Complete requests:      200"), "{name}: {printed}");
        assert!(printed.contains("Failed requests:        0"), "{name}: {printed}");
    }
}

#[test]
fn lost_clients_free_their_worker() {
    let server = symfony();
    for _ in 0..4 {
        let mut client = patient(server);
        client.send(get("/stream?parts=100000&pause=0.02"));
        client.read_through(b"line 0");
        client.reset();
    }
    assert_eq!(patient(server).ask(get("/pong")).status, 200);
}

#[test]
fn an_entry_is_run_without_a_configuration() {
    let folder = std::env::temp_dir().join(format!("keepwarm-target-php-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let app = "<?php\nreturn function (Keepwarm\\Request $request) {\n    $GLOBALS['kept'] = $request->path;\n    header('X-Kind: warm');\n    echo 'hello ', $request->path;\n};\n";
    std::fs::write(folder.join("app.php"), app).expect("a file");
    let server =
        Server::run(&["app.php", "--bind", "127.0.0.1:0", "--workers", "1", "--watch"], &folder).warm("/");
    let response = patient(&server).ask(get("/world"));
    assert_eq!((response.text().as_str(), response.field("x-kind")), ("hello /world", Some("warm")));
    // In development a worker reports what a request leaves behind.
    server.wait_for_log("leak: after GET /, the global $kept is new", PATIENCE);
    // A change of the source recycles the worker.
    std::fs::write(folder.join("app.php"), app.replace("hello", "changed")).expect("a file");
    wait_until("the changed source", PATIENCE, || {
        patient(&server).ask(get("/")).text().starts_with("changed")
    });
    drop(server);
    std::fs::remove_dir_all(folder).expect("a folder");
}

/// Work of an application after its response keeps its worker busy, and no request waits for it while another worker is free.
#[test]
fn no_request_waits_for_work_after_a_response() {
    const APP: &str = "<?php return function () {
        echo 'response';
        if ($_GET === []) { return; }
        fastcgi_finish_request();
        touch(__DIR__ . '/begun');
        while (!is_file(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
        error_log('done behind the response');
    };";
    let config = "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
                  [app.app]\nentry = \"app.php\"\nworkers = 2\n";
    let server = Server::start_with(config, |command| {
        let folder = command.get_current_dir().expect("its folder");
        std::fs::write(folder.join("app.php"), APP).expect("the application");
    });
    for _ in 0..3 {
        assert_eq!(patient(&server).ask(get("/?after=1")).text(), "response");
        wait_until("it works on", PATIENCE, || server.folder().join("begun").exists());
        for _ in 0..5 {
            assert_eq!(patient(&server).ask(get("/")).text(), "response");
        }
        let mark = server.mark();
        std::fs::write(server.folder().join("go"), "").expect("a file");
        server.wait_for_log_after(mark, "done behind the response", PATIENCE);
        for name in ["go", "begun"] {
            std::fs::remove_file(server.folder().join(name)).expect("a file");
        }
    }
}

#[test]
fn an_entry_that_returns_something_else_is_named() {
    let folder = std::env::temp_dir().join(format!("keepwarm-odd-php-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (returned, named) in
        [("new ArrayObject()", "an object of ArrayObject"), ("42", "int 42"), ("'an app'", "string 'an app'")]
    {
        std::fs::write(folder.join("app.php"), format!("<?php\nreturn {returned};\n")).expect("a file");
        let mut command = Command::new(keepwarm_tests::keepwarm());
        command.args(["run", "app.php", "--bind", "127.0.0.1:0"]).current_dir(&folder);
        let output = tools::run(&mut command, PATIENCE);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("app.php returned {named}; expected a closure")), "{said}");
    }
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn an_interpreter_that_is_missing_is_named() {
    let server = Server::spawn(&config("slim", "interpreter = \"no-such-php\"\n"), |_| {});
    server.wait_for_log("no-such-php", BOUND.max(PATIENCE));
}

/// An old PHP cannot be installed beside a new one: a program claims to be one, and does not know our options.
#[test]
fn an_interpreter_that_is_too_old_or_something_else_is_named() {
    for (program, verdict) in [
        ("echo 'PHP 7.4.33 (cli) (built: Oct  1 2022)'; exit 1", "is PHP 7.4.33; 8.1 or later is required"),
        ("echo 'Python 3.11.7'; exit 1", "is not PHP: with -v it prints \"Python 3.11.7\""),
    ] {
        let server =
            Server::spawn(&config("slim", "interpreter = \"@DIR@/php\"\nstart_retries = 0\n"), |command| {
                let file = command.get_current_dir().expect("a folder").join("php");
                std::fs::write(&file, format!("#!/bin/sh\n{program}\n")).expect("a file");
                tools::run_ok(Command::new("chmod").arg("+x").arg(file), PATIENCE);
            });
        assert!(!server.wait_for_exit(BOUND.max(PATIENCE)).success());
        assert!(server.log().contains(&format!("php {verdict}")), "{}", server.log());
    }
}

#[test]
fn public_files_beside_a_kept_front_controller_are_served_without_a_route() {
    for (folder, status, body) in [("public", 200, "shown"), ("code", 404, "by the application")] {
        let lay = |command: &mut std::process::Command| {
            let site = command.get_current_dir().expect("its folder").join(folder);
            let script =
                "<?php return fn () => [404, ['Content-Type' => 'text/plain'], 'by the application'];";
            for (name, text) in [
                ("index.php", script),
                ("css/site.css", "shown"),
                ("other.php", "<?php secret"),
                ("settings.inc", "secret"),
                (".env", "secret"),
                ("composer.json", "secret"),
            ] {
                let file = site.join(name);
                std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder");
                std::fs::write(file, text).expect("the file");
            }
        };
        let config = format!(
            "[listen.main]\nbind = \"127.0.0.1:0\"\n[app.site]\ndirectory = \"@DIR@\"\nentry = \"{folder}/index.php\"\nworkers = 1\n"
        );
        let server = Server::start_with(&config, lay).warm("/");
        let page = patient(&server).ask(get("/css/site.css"));
        assert_eq!((page.status, page.text().as_ref()), (status, body), "{folder}");
        for path in ["/", "/index.php/route", "/other.php", "/settings.inc", "/.env", "/composer.json"] {
            let page = patient(&server).ask(get(path));
            assert!([403, 404].contains(&page.status), "{folder}{path}: {}", page.status);
            assert!(!page.text().contains("secret"), "{folder}{path}: {}", page.text());
        }
    }
}
