//! Classic PHP over FastCGI: php-cgi and php-fpm from Debian, a script that runs from the top for every request.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use keepwarm_tests::classic::{config, php_fpm, start, start_config};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::run_ok;
use keepwarm_tests::{Client, Response, Server, get};
use rustix::process::Signal;

/// A bound for what a busy machine may need.
const LONG: Duration = Duration::from_secs(30);

/// The same test of both servers for PHP.
macro_rules! of_both {
    ($($name:ident => $test:ident($workers:expr);)*) => {
        mod php_cgi { use super::*; $(#[test] fn $name() { super::$test(&start("php-cgi", $workers)); })* }
        mod of_php_fpm { use super::*; $(#[test] fn $name() { super::$test(&start(&php_fpm(), $workers)); })* }
    };
}

of_both! {
    a_script_sees_what_the_web_has_agreed_on => parameters(1);
    a_path_leads_to_its_script_and_never_out_of_the_site => scripts(1);
    forms_and_uploads_arrive => forms(1);
    what_a_script_says_arrives => responds(1);
    a_script_that_ends_badly_is_told_from_one_that_died => ends(2);
    a_client_that_leaves_calls_no_script_off => lost_client(1);
    a_client_that_leaves_holds_up_no_other_process => lost_client_beside_others(2);
    a_script_that_keeps_printing_hears_that_its_client_has_left => left_stream(1);
    a_process_that_ignores_its_client_gets_no_other_request_meanwhile => ignored_client(1);
    what_a_script_logs_first_is_no_head_in_pieces => logs_first(1);
    a_reload_under_load_loses_and_repeats_nothing => reload(2);
    ab_without_keep_alive_never_waits => ab(2);
    a_slow_reader_holds_no_process => slow_reader(1);
    a_folder_has_settings_of_its_own => settings(1);
    names_of_headers_are_those_of_the_script => names(1);
}

/// As nginx and Apache have them.
fn names(server: &Server) {
    let script = "<?php header('X-Custom-THING: a'); header('x-lower: b'); header('Content-type: text/plain'); setcookie('a', 'b'); header('ETag: \"x\"'); http_response_code((int) $_GET['status']); header('Content-length: 0');";
    fs::write(server.folder().join("site/names.php"), script).expect("a script");
    for (status, length) in [("200", Some("Content-Length")), ("304", None)] {
        let response = ask(server, "GET", &format!("/names.php?status={status}"), "", "");
        let ours = ["Keep-Alive", "Date", "X-Powered-By"];
        let names = response.fields.iter().map(|(name, _)| name.as_str()).filter(|name| !ours.contains(name));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        let mut expected = vec!["Content-Type", "ETag", "Set-Cookie", "X-Custom-THING", "x-lower"];
        expected.extend(length);
        expected.sort_unstable();
        if status == "304" {
            // PHP sends none with it.
            expected.retain(|name| *name != "Content-Type" || names.contains(name));
        }
        assert_eq!(names, expected, "{status}");
    }
}

/// `.user.ini`, as PHP has it.
fn settings(server: &Server) {
    let site = server.folder().join("site/settings");
    fs::create_dir_all(site.join("below")).expect("folders");
    fs::write(site.join(".user.ini"), "memory_limit = 77M\n").expect("the settings");
    fs::write(site.join("below/.user.ini"), "precision = 5\n").expect("the settings");
    for folder in [site.clone(), site.join("below")] {
        fs::write(folder.join("index.php"), "<?php echo ini_get('memory_limit'), ' ', ini_get('precision');")
            .expect("a script");
    }
    assert_eq!(ask(server, "GET", "/settings/", "", "").text(), "77M 14");
    assert_eq!(ask(server, "GET", "/settings/below/", "", "").text(), "77M 5");
    assert!(!ask(server, "GET", "/settings/.user.ini", "", "").text().contains("memory_limit"));
}

/// PHP's sections of paths, in a file beside the system's: what `php_admin_value` of a pool does, for php-cgi too.
#[test]
fn settings_that_scripts_cannot_change() {
    let script = "<?php echo ini_get('memory_limit'), ini_set('memory_limit', '99M') === false ? ' fixed ' : ' ', ini_get('memory_limit'), ' ', ini_set('precision', '5');";
    for interpreter in ["php-cgi", &php_fpm()] {
        let env = "env = { PHP_INI_SCAN_DIR = \":@DIR@/php.d\" }";
        let config = config(interpreter, 1).replace("env = { GENERATION = \"1\" }", env);
        let server = Server::start_with(&config, |command| {
            let folder = command.get_current_dir().expect("a folder");
            fs::create_dir_all(folder.join("php.d")).expect("a folder");
            fs::create_dir_all(folder.join("site/below")).expect("a folder");
            fs::create_dir(folder.join("vault")).expect("a folder");
            let settings = format!("precision = 9\n[PATH={}/site]\nmemory_limit = 77M\n", folder.display());
            fs::write(folder.join("php.d/site.ini"), settings).expect("written");
            for name in ["site/index.php", "site/below/index.php"] {
                fs::write(folder.join(name), script).expect("a script");
            }
        });
        for path in ["/", "/below/"] {
            assert_eq!(server.ask(get(path)).text(), "77M fixed 77M 9", "{interpreter} {path}");
        }
    }
}

fn ask(server: &Server, method: &str, path: &str, fields: &str, body: &str) -> Response {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    server
        .client()
        .patient(LONG)
        .ask(format!("{method} {path} HTTP/1.1\r\nHost: shop.example:8080\r\n{fields}{length}\r\n{body}"))
}

fn parameters(server: &Server) {
    let fields = "Proxy: http://evil.example\r\nX_Under: 1\r\nX.Dot: 1\r\nX-Fine: 1\r\nX-Fine: 2\r\nCookie: a=1\r\nCookie: b=2\r\n\
                  X-Forwarded-For: 203.0.113.7\r\nContent-Type: text/x\r\nTE: trailers\r\n";
    let response = ask(server, "POST", "/info/x%20y?do=server&a=%20b", fields, "body");
    let seen = response.json();
    let site = server.folder().join("site").display().to_string();
    for (name, expected) in [
        ("SCRIPT_FILENAME", format!("{site}/index.php")),
        ("SCRIPT_NAME", "/index.php".to_owned()),
        ("DOCUMENT_ROOT", site.clone()),
        ("DOCUMENT_URI", "/index.php".to_owned()),
        ("REQUEST_URI", "/info/x%20y?do=server&a=%20b".to_owned()),
        ("QUERY_STRING", "do=server&a=%20b".to_owned()),
        ("REQUEST_METHOD", "POST".to_owned()),
        ("REQUEST_SCHEME", "http".to_owned()),
        ("REDIRECT_STATUS", "200".to_owned()),
        ("SERVER_PROTOCOL", "HTTP/1.1".to_owned()),
        ("SERVER_NAME", "shop.example".to_owned()),
        ("SERVER_PORT", "8080".to_owned()),
        ("SERVER_ADDR", "127.0.0.1".to_owned()),
        ("REMOTE_ADDR", "127.0.0.1".to_owned()),
        ("CONTENT_TYPE", "text/x".to_owned()),
        ("CONTENT_LENGTH", "4".to_owned()),
        ("GATEWAY_INTERFACE", "CGI/1.1".to_owned()),
        ("PHP_SELF", "/index.php".to_owned()),
        ("HTTP_HOST", "shop.example:8080".to_owned()),
        ("HTTP_X_FINE", "1, 2".to_owned()),
        ("HTTP_COOKIE", "a=1; b=2".to_owned()),
        ("HTTP_X_FORWARDED_FOR", "127.0.0.1".to_owned()),
        ("cwd", site.clone()),
    ] {
        assert_eq!(seen[name], expected.as_str(), "{name}");
    }
    for name in [
        "HTTP_PROXY",
        "HTTP_X_UNDER",
        "HTTP_X_DOT",
        "HTTPS",
        "HTTP_CONTENT_TYPE",
        "HTTP_CONTENT_LENGTH",
        "HTTP_TE",
        "PATH_INFO",
    ] {
        assert!(seen.get(name).is_none(), "{name}: {}", seen[name]);
    }
    let seen = ask(server, "GET", "/index.php/a%20b/c?do=server", "", "").json();
    assert_eq!(seen["PATH_INFO"], "/a b/c");
    assert_eq!(seen["PATH_TRANSLATED"], format!("{site}/a b/c").as_str());
    assert_eq!(seen["PHP_SELF"], "/index.php/a b/c");
    assert_eq!(seen["DOCUMENT_URI"], "/index.php/a b/c");
    assert_eq!(seen["REQUEST_URI"], "/index.php/a%20b/c?do=server");
}

fn scripts(server: &Server) {
    for (path, expected) in [
        ("/", "pong"),
        ("/any/where", "pong"),
        ("/info.php", "/info.php -"),
        ("/info.php/x/y", "/info.php /x/y"),
        ("/blog/", "/blog/index.php -"),
        ("/blog/index.php/x", "/blog/index.php /x"),
        ("/style.css", "body { color: black }\n"),
        ("/upload.jpg", "<?php echo 'executed';\n"),
        // None of these runs what was uploaded, or what lies outside: the front controller responds.
        ("/upload.jpg/x.php", "pong"),
        ("/upload.jpg/.php", "pong"),
        ("/upload.jpg%00.php", ""),
        ("/upload.jpg%2Fx.php", "pong"),
        ("/out.php", "pong"),
        ("/out.php/x", "pong"),
        ("/../outside.php", "pong"),
        ("/..%2Foutside.php", "pong"),
        ("/blog/..%2f..%2foutside.php", "pong"),
        ("/%2e%2e/outside.php", "pong"),
        ("/gone.php", "pong"),
    ] {
        let response = server.ask(get(path));
        match expected {
            "" => assert_eq!(response.status, 400, "{path}"),
            text => assert_eq!((response.status, response.text().as_str()), (200, text), "{path}"),
        }
        assert_ne!(response.text(), "executed", "{path}");
    }
    let folder = server.ask(get("/blog?x=1"));
    assert_eq!((folder.status, folder.field("location")), (301, Some("/blog/?x=1")));
    // A script is run, never shown.
    fs::write(server.folder().join("site/conf.php"), "<?php $password = 'secret'; echo 'ran';")
        .expect("written");
    assert_eq!(server.ask(get("/conf.php")).text(), "ran");
    assert!(!server.ask(get("/conf.php/")).text().contains("secret"));
}

fn forms(server: &Server) {
    let form = ask(
        server,
        "POST",
        "/?do=form",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "a=1&b[]=2&b[]=3&c%20d=%C3%A4",
    );
    assert_eq!(form.json()["post"].to_string(), r#"{"a":"1","b":["2","3"],"c_d":"ä"}"#);

    let file = server.folder().join("upload");
    let bytes: Vec<u8> = (0..1_500_000_u32).map(|n| (n % 253) as u8).collect();
    fs::write(&file, &bytes).expect("written");
    let md5 = run_ok(Command::new("md5sum").arg(&file), LONG)
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned();
    let upload = |name: &str| format!("{name}=@{};type=text/x", file.display());
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "--max-time",
        "30",
        "-F",
        "title=x",
        "-F",
        &upload("one"),
        "-F",
        &upload("many[a][b]"),
    ]);
    let seen: serde_json::Value =
        serde_json::from_str(&run_ok(curl.arg(server.url("/?do=form")), LONG)).expect("JSON");
    assert_eq!(seen["post"]["title"], "x");
    for at in 0..2 {
        assert_eq!(seen["files"][at]["md5"], md5.as_str(), "{seen}");
        assert_eq!(
            (&seen["files"][at]["tmp"], &seen["files"][at]["size"]),
            (&true.into(), &1_500_000.into())
        );
    }
    // A body of unknown length is measured before, since a script gets its length; one after `Expect` is requested.
    for arguments in [["-H", "Transfer-Encoding: chunked"], ["-H", "Expect: 100-continue"], ["-H", "X: y"]] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "30", "-H", "Content-Type: text/x", "--expect100-timeout", "20"])
            .args(arguments);
        curl.arg("--data-binary").arg(format!("@{}", file.display())).arg(server.url("/?do=input"));
        let seen: serde_json::Value = serde_json::from_str(&run_ok(&mut curl, LONG)).expect("JSON");
        assert_eq!(
            (seen["length"].as_u64(), seen["md5"].as_str()),
            (Some(1_500_000), Some(md5.as_str())),
            "{arguments:?}"
        );
    }
}

fn responds(server: &Server) {
    let status = server.ask(get("/?do=status&code=418"));
    assert_eq!((status.status, status.text().as_str()), (418, "status"));
    let redirect = server.ask(get("/?do=redirect"));
    assert_eq!((redirect.status, redirect.field("location")), (302, Some("/elsewhere?a=b")));
    let cookies = server.ask(get("/?do=cookies"));
    assert_eq!(cookies.all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(cookies.all("x-two"), ["1", "2"]);
    assert_eq!(cookies.field("content-type"), Some("text/html; charset=UTF-8"));
    for status in ["204", "304"] {
        let empty = server.ask(get(&format!("/?do=status&code={status}")));
        assert_eq!((empty.status.to_string().as_str(), empty.body.len()), (status, 0));
    }
    let head = ask(server, "HEAD", "/?do=pong", "", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let big = server.ask(get("/?do=big&bytes=3000000"));
    assert!(big.body.len() == 3_000_000 && big.body.iter().all(|&byte| byte == b'x'));

    let mut client = server.client();
    let first = client.ask(get("/?do=session"));
    let cookie =
        first.field("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a session").to_owned();
    let again = client.ask(format!("GET /?do=session HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"));
    assert_eq!((first.text().as_str(), again.text().as_str()), ("1", "2"));
    assert_eq!(server.ask(get("/?do=session")).text(), "1", "another's session");

    let handed = ask(server, "GET", "/?do=send&file=/protected/a.bin", "Range: bytes=2-4\r\n", "");
    assert_eq!((handed.status, handed.text().as_str()), (206, "234"));
    assert_eq!(
        (handed.field("content-type"), handed.field("x-accel-redirect")),
        (Some("application/x-handed"), None)
    );
    assert!(
        handed.fields.iter().any(|(name, _)| name == "Content-Type"),
        "named as by the script: {handed:?}"
    );
    assert_eq!(server.ask(get("/?do=send&file=/protected/../outside.php")).status, 502);
    assert_eq!(server.ask(get("/?do=pong")).text(), "pong", "its process is free");

    // A stream leaves as it comes.
    let streamed = server.ask(get("/?do=stream"));
    assert_eq!(streamed.text(), "part 0\npart 1\npart 2\n");
}

fn ends(server: &Server) {
    assert_eq!(server.ask(get("/?do=exit")).text(), "before exit");
    let fatal = server.ask(get("/?do=fatal"));
    assert_eq!((fatal.status, fatal.text().as_str()), (500, "before fatal"));
    server.wait_for_log("Call to undefined function undefined_function_of_the_test()", LONG);
    assert_eq!(server.ask(get("/?do=memory")).status, 500);
    server.wait_for_log("Allowed memory size of", LONG);
    assert_eq!(server.ask(get("/?do=log")).text(), "logged");
    server.wait_for_log("words for the log", LONG);

    // A process that dies: that request is lost, and no other.
    let died = ask(server, "POST", "/?do=die", "", "x");
    assert_eq!(died.status, 502);
    wait_until("the site responds", LONG, || server.ask(get("/?do=pong")).text() == "pong");
    let mut client = server.client();
    client.send(get("/?do=die-late"));
    is_not_whole(&mut client);
    wait_until("the site responds", LONG, || server.ask(get("/?do=pong")).text() == "pong");
    server.wait_for_log("broke off in the middle of its response", LONG);
}

/// A response that breaks off is not ended as if it were whole: it is cut or, if none of it had been sent yet, a 502.
#[track_caller]
fn is_not_whole(client: &mut Client) {
    if let Ok(response) = client.try_response("GET") {
        assert_eq!(response.status, 502, "{client}");
    }
}

/// One process: a request after a script whose client has gone waits for it, and both run.
fn lost_client(server: &Server) {
    let file = server.folder().join("count");
    let count = |id: &str| format!("/?do=slow-count&file={}&id={id}", file.display());
    let mut lost = server.client();
    lost.send(get(&count("first")));
    let mut second = server.client().patient(LONG);
    wait_until("it has begun", LONG, || file.with_extension("begun").exists());
    lost.reset();
    second.send(get(&count("second")));
    assert_eq!(second.response("GET").text(), "second");
    let ids = fs::read_to_string(&file).expect("counted");
    assert_eq!(ids.lines().collect::<Vec<_>>(), ["first", "second"]);
}

/// Its script keeps running in its own process; the other one is free.
fn lost_client_beside_others(server: &Server) {
    let file = server.folder().join("go");
    let mut lost = server.client();
    lost.send(get(&format!("/?do=wait&file={}", file.display())));
    wait_until("it has begun", LONG, || Path::new(&format!("{}.begun", file.display())).exists());
    lost.reset();
    let mut client = server.client().patient(LONG);
    let begun = std::time::Instant::now();
    for _ in 0..6 {
        assert_eq!(client.ask(get("/?do=pong")).text(), "pong");
    }
    assert!(begun.elapsed() < LONG / 2, "one of them waited for the script to end");
    fs::write(&file, "").expect("written");
    wait_until("both are free", LONG, || {
        let pid = || ask(server, "GET", "/?do=sleep&ms=50", "", "").text();
        let both: HashSet<String> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..2).map(|_| scope.spawn(pid)).collect();
            clients.into_iter().map(|client| client.join().expect("a client")).collect()
        });
        both.len() == 2
    });
}

/// Server-sent events without an end, on the only process: PHP stops the script at the output after the client has left, as behind nginx and in
/// Apache (PHP manual, "Connection handling").
fn left_stream(server: &Server) {
    let file = server.folder().join("stream");
    let script = "<?php header('Content-Type: text/event-stream'); while (ob_get_level()) ob_end_flush(); \
        register_shutdown_function(fn () => file_put_contents($_GET['file'], connection_aborted())); \
        while (true) { echo \"data: 1\\n\\n\"; flush(); usleep(50000); }";
    fs::write(server.folder().join("site/stream.php"), script).expect("a script");
    let begun = std::time::Instant::now();
    for _ in 0..3 {
        let mut lost = server.client().patient(LONG);
        lost.send(get(&format!("/stream.php?file={}", file.display())));
        lost.read_through(b"data: 1");
        lost.reset();
        assert_eq!(server.client().patient(LONG).ask(get("/?do=pong")).text(), "pong");
    }
    assert!(begun.elapsed() < LONG / 3, "a request waited for a script that nobody reads");
    assert_eq!(fs::read_to_string(&file).expect("the script has ended"), "1");
    assert!(!server.log().contains("process killed"), "{}", server.log());
}

/// With `ignore_user_abort` it runs to its end, and the next request waits for that.
fn ignored_client(server: &Server) {
    let file = server.folder().join("ended");
    let script = "<?php ignore_user_abort(true); for ($i = 0; $i < 10; $i++) { echo \"$i\\n\"; while (ob_get_level()) ob_end_flush(); \
        flush(); usleep(50000); } file_put_contents($_GET['file'], 'ended');";
    fs::write(server.folder().join("site/ignores.php"), script).expect("a script");
    let mut lost = server.client().patient(LONG);
    lost.send(get(&format!("/ignores.php?file={}", file.display())));
    lost.read_through(b"0\n");
    lost.reset();
    assert_eq!(server.client().patient(LONG).ask(get("/?do=pong")).text(), "pong");
    assert_eq!(fs::read_to_string(&file).expect("it has ended"), "ended");
}

/// php-fpm sends what a script logs and its head over one connection, with several writes.
fn logs_first(server: &Server) {
    let script =
        "<?php for ($i = 0; $i < 40; $i++) error_log(str_repeat('e', 400)); usleep(50000); echo 'said';";
    fs::write(server.folder().join("site/logs.php"), script).expect("a script");
    for _ in 0..3 {
        assert_eq!(ask(server, "GET", "/logs.php", "", "").text(), "said");
    }
    assert!(!server.log().contains("head_in_pieces"), "{}", server.log());
}

/// A site behind a prefix: `Location: login.php` of its index would lead out of it.
#[test]
fn the_prefix_of_a_site_is_redirected_to_its_directory() {
    let route = "[[listen.main.route]]\npath = \"/shop/*\"\nstrip_prefix = true\n";
    let config = config(&php_fpm(), 1).replacen("[[listen.main.route]]\n", route, 1);
    let server = start_config(&config);
    let response = ask(&server, "GET", "/shop?a=1", "", "");
    assert_eq!((response.status, response.field("location")), (301, Some("/shop/?a=1")));
    assert_eq!(ask(&server, "GET", "/shop/?do=pong", "", "").text(), "pong");
}

/// As LDAP Account Manager and other sites of pages have it: each script is its own page, and what is missing is 404.
#[test]
fn a_directory_of_scripts_has_no_front_controller() {
    for interpreter in ["php-cgi".to_owned(), php_fpm()] {
        let config = config(&interpreter, 1).replace("entry = \"index.php\"", "entry = \".\"");
        let server = Server::start_with(&config, |command| {
            let folder = command.get_current_dir().expect("a folder");
            fs::create_dir_all(folder.join("site/pages")).expect("folders");
            fs::create_dir(folder.join("vault")).expect("a folder");
            fs::write(folder.join("site/index.html"), "<a href=pages/login.php>").expect("a page");
            let script = "<?php echo $_SERVER['SCRIPT_NAME'], $_SERVER['PATH_INFO'] ?? '', ' ', basename($_SERVER['DOCUMENT_ROOT']);";
            fs::write(folder.join("site/pages/login.php"), script).expect("a script");
        });
        for (path, status, text) in [
            ("/", 200, "<a href=pages/login.php>"),
            ("/pages/login.php", 200, "/pages/login.php site"),
            ("/pages/login.php/x", 200, "/pages/login.php/x site"),
            ("/pages", 404, "There is no such page."),
            ("/gone.php", 404, "There is no such page."),
            ("/gone", 404, "There is no such page."),
        ] {
            let response = ask(&server, "GET", path, "", "");
            assert_eq!(response.status, status, "{interpreter} {path}");
            assert!(response.text().contains(text), "{interpreter} {path}: {}", response.text());
        }
        // Nor is an `index.php` one: it serves its directory.
        fs::write(server.folder().join("site/pages/index.php"), "<?php echo 'index';").expect("written");
        wait_until("the index is found", LONG, || ask(&server, "GET", "/pages/", "", "").text() == "index");
        assert_eq!(ask(&server, "GET", "/pages/gone", "", "").status, 404);
    }
}

fn reload(server: &Server) {
    let file = server.folder().join("count");
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let responded: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (stop, sent, file) = (&stop, &sent, &file);
                scope.spawn(move || {
                    let mut connection = server.client().patient(LONG);
                    let mut ids = Vec::new();
                    for number in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let id = format!("{client}-{number}");
                        let path = format!("/?do=count&file={}&id={id}", file.display());
                        let request =
                            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
                        let response = connection.ask(request);
                        assert_eq!((response.status, response.text()), (200, id.clone()));
                        ids.push(id);
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    ids
                })
            })
            .collect();
        let more = |count: usize| {
            let goal = sent.load(Ordering::Relaxed) + count;
            wait_until("requests get responses", LONG, || sent.load(Ordering::Relaxed) >= goal);
        };
        more(30);
        let config = fs::read_to_string(server.folder().join("keepwarm.toml")).expect("a configuration");
        for generation in 2..5 {
            server
                .configure(&config.replace("GENERATION = \"1\"", &format!("GENERATION = \"{generation}\"")));
            server.signal(Signal::HUP);
            wait_until("the new generation serves", LONG, || {
                server.ask(get("/?do=generation")).text() == generation.to_string()
            });
            more(30);
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    let counted = fs::read_to_string(&file).expect("counted");
    let ids: Vec<&str> = counted.lines().collect();
    let unique: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "none is run twice");
    assert_eq!(unique, responded.iter().map(String::as_str).collect::<HashSet<_>>(), "none is lost");
}

fn ab(server: &Server) {
    let mut ab = Command::new("ab");
    ab.args(["-q", "-n", "200", "-c", "4"]).arg(server.url("/?do=pong"));
    let report = run_ok(&mut ab, LONG);
    assert!(
        report.contains("Complete requests:      200") && report.contains("Failed requests:        0"),
        "{report}"
    );
}

/// One process, a response larger than every buffer of a socket, and a client that does not read it.
fn slow_reader(server: &Server) {
    let mut slow = server.client().patient(LONG);
    rustix::net::sockopt::set_socket_recv_buffer_size(slow.stream(), 32_768).expect("SO_RCVBUF");
    slow.send(get("/?do=big&bytes=20000000"));
    assert_eq!(slow.head("GET").0, 200);
    assert_eq!(server.client().patient(LONG).ask(get("/?do=pong")).text(), "pong");
}

#[test]
fn a_script_that_times_out_is_stopped_and_the_site_keeps_running() {
    for interpreter in ["php-cgi".to_owned(), php_fpm()] {
        let config = config(&interpreter, 1).replace("workers = 1", "workers = 1\nrequest_timeout = \"1s\"");
        let server = start_config(&config);
        let response = server.client().patient(LONG).ask(get("/?do=sleep&ms=60000"));
        assert_eq!(response.status, 504, "{interpreter}");
        wait_until("the site responds", LONG, || {
            server.client().patient(LONG).ask(get("/?do=pong")).status == 200
        });
    }
}

/// Their socket is in a directory where they may create one, and which no other user may enter.
#[test]
fn scripts_run_as_the_configured_user() {
    // Only root can start processes of others.
    let user = if rustix::process::geteuid().is_root() { "nobody" } else { return };
    for interpreter in ["php-cgi".to_owned(), php_fpm()] {
        let config =
            config(&interpreter, 1).replace("workers = 1", &format!("workers = 1\nuser = \"{user}\""));
        let server = start_config(&config);
        assert_eq!(server.client().patient(LONG).ask(get("/?do=user")).text(), user, "{interpreter}");
    }
}

/// A server that lies: each lie is a 502 or a cut, and never part of another's response.
#[test]
fn fastcgi_violations_are_502_and_the_site_stays_up() {
    let interpreter = keepwarm_tests::apps().join("garbage_fastcgi.py");
    let server = start(interpreter.to_str().expect("UTF-8"), 1);
    let asked = |response: &str| {
        server.ask(format!("POST /?response={response} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"))
    };
    assert_eq!(asked("ok").text(), "fine");
    for (response, reason) in [
        ("text", "no FastCGI record"),
        ("other", "belongs to another request"),
        ("nothing", "closed_without_response"),
        ("headless", "no field"),
        ("empty", "before its response head"),
        ("forged", "control character"),
        ("overloaded", "has no capacity"),
        ("endless-head", "too large"),
        ("late", "nothing was asked"),
    ] {
        let mark = server.mark();
        let refused = asked(response);
        assert_eq!(refused.status, 502, "{response}");
        assert!(
            !refused.text().contains("of another") && refused.field("set-cookie").is_none(),
            "{response}"
        );
        server.wait_for_log_after(mark, reason, LONG);
        assert_eq!(asked("ok").text(), "fine", "after {response}");
    }
    let mut client = server.client();
    client.send("GET /?response=cut HTTP/1.1\r\nHost: a\r\n\r\n");
    is_not_whole(&mut client);
    assert_eq!(asked("ok").text(), "fine");
}

#[test]
fn a_head_of_a_script_with_obsolete_syntax_is_normalized() {
    let interpreter = keepwarm_tests::apps().join("garbage_fastcgi.py");
    let server = start(interpreter.to_str().expect("UTF-8"), 1);
    for _ in 0..2 {
        let response = server.ask(get("/?response=folded"));
        assert_eq!(
            (response.status, response.field("x-a"), response.text().as_str()),
            (200, Some("1   2"), "fine")
        );
    }
    server.wait_for_log("fixed syntax faults", LONG);
}

#[test]
fn a_server_that_is_none_is_not_taken_for_ready() {
    let interpreter = keepwarm_tests::apps().join("garbage_fastcgi.py");
    let config = config(interpreter.to_str().expect("UTF-8"), 1)
        .replace("GENERATION = \"1\"", "GARBAGE = \"1\"")
        .replace("workers = 1", "workers = 1\nboot_timeout = \"1s\"\nstart_retries = 0");
    let server = Server::spawn(&config, |command| {
        prepare_empty(command.get_current_dir().expect("a folder"));
    });
    assert!(!server.wait_for_exit(LONG).success());
}

#[test]
fn a_script_is_run_from_the_command_line_with_the_files_beside_it() {
    let site = keepwarm_tests::apps().join("classic");
    let server = Server::run(&["index.php", "--bind", "127.0.0.1:0", "--workers", "1"], &site);
    for (path, text) in
        [("/", "pong"), ("/info.php/a", "/info.php /a"), ("/style.css", "body { color: black }\n")]
    {
        assert_eq!(server.client().patient(LONG).ask(get(path)).text(), text, "{path}");
    }
}

#[test]
fn a_link_that_leads_out_of_the_site_is_named_in_the_log() {
    let server = start("php-cgi", 1);
    assert_eq!(server.ask(get("/gone.php")).text(), "pong");
    assert!(!server.log().contains("leads out of the site"), "{}", server.log());
    for _ in 0..2 {
        assert_eq!(server.ask(get("/out.php")).text(), "pong");
    }
    server.wait_for_log("a link leads out of the site", LONG);
    let link = format!("script={}", server.folder().join("site/out.php").display());
    assert!(server.log().contains(&link) && server.log().contains("leads_to=/"), "{}", server.log());
}

/// MediaWiki's sessions and rate limits count on it. Where no interpreter is configured, that is so: a php-fpm is the default.
#[test]
fn processes_share_apcu_and_opcache_by_default() {
    let server = start_config(&config("", 4).replace("interpreter = \"\"\n", ""));
    let line = server.wait_for_log("this server runs its scripts", LONG);
    assert!(line.contains(&format!("server={}", php_fpm())), "{line}");
    let script = "<?php usleep(5000); echo apcu_inc('hits'), ' ', getmypid(), ' ', (int) opcache_is_script_cached(__FILE__);";
    let file = server.folder().join("site/count.php");
    fs::write(&file, script).expect("a script");
    // Opcache skips files younger than two seconds (opcache.file_update_protection).
    let minute = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::options().write(true).open(&file).and_then(|file| file.set_modified(minute)).expect("its time");
    let responses: Vec<String> = std::thread::scope(|scope| {
        let ask = || {
            (0..25).map(|_| ask(&server, "GET", "/count.php", "", "").text().to_owned()).collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    let part = |at: usize| {
        responses
            .iter()
            .map(move |response| response.split(' ').nth(at).unwrap_or_default())
            .collect::<HashSet<_>>()
    };
    let expected: HashSet<String> = (1..=100).map(|count| count.to_string()).collect();
    assert_eq!(part(0).into_iter().map(str::to_owned).collect::<HashSet<_>>(), expected, "{responses:?}");
    assert!(part(1).len() > 1, "one process served everything: {responses:?}");
    assert!(part(2).contains("1"), "{responses:?}");
}

#[test]
fn an_interpreter_that_is_missing_is_named() {
    let server = Server::spawn(&config("php-cgi-of-another-age", 1), |command| {
        prepare_empty(command.get_current_dir().expect("a folder"))
    });
    assert!(!server.wait_for_exit(LONG).success());
    assert!(server.log().contains("php-cgi-of-another-age"), "{}", server.log());
}

fn prepare_empty(folder: &Path) {
    for name in ["site", "vault"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    fs::write(folder.join("site/index.php"), "<?php").expect("written");
}
