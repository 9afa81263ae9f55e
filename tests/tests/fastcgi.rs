//! Classic PHP beyond what a script sees: servers that run already, responses for another path, `Expect`, the end of a php-fpm.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use keepwarm_tests::classic::{Fpm, config, config_at, php_fpm, start, start_config};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::tools::run_ok;
use keepwarm_tests::{Server, get, tools};
use rustix::process::Signal;

/// A bound for what a busy machine may need.
const LONG: Duration = Duration::from_secs(30);

fn both() -> [String; 2] {
    ["php-cgi".to_owned(), php_fpm()]
}

/// A request whose script ends when the file exists. Returns when the script has begun.
fn hold(server: &Server, name: &str) -> (keepwarm_tests::Client, std::path::PathBuf) {
    let file = server.folder().join(name);
    let mut held = server.client().patient(LONG);
    held.send(get(&format!("/?do=wait&file={}", file.display())));
    let begun = server.folder().join(format!("{name}.begun"));
    wait_until("the script has begun", LONG, || begun.exists());
    (held, file)
}

const EXPECTING: &str = "POST /?do=input HTTP/1.1\r\nHost: a\r\nContent-Type: text/x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn a_100_is_sent_when_a_worker_is_free_to_take_the_request() {
    for interpreter in both() {
        let server = start(&interpreter, 1);
        let (mut held, file) = hold(&server, "first");
        let mut client = server.client().patient(LONG);
        client.send(EXPECTING);
        client.expect_silence(Duration::from_millis(60));
        fs::write(&file, "").expect("written");
        assert_eq!(held.response("GET").text(), "waited", "{interpreter}");
        assert_eq!(client.response("POST").status, 100, "{interpreter}");
        // While the body comes, the only worker is everybody's.
        assert_eq!(server.client().patient(LONG).ask(get("/?do=pong")).text(), "pong", "{interpreter}");
        client.send("hello");
        let response = client.response("POST");
        assert_eq!((response.status, &response.json()["length"]), (200, &5.into()), "{interpreter}");
        client.expect_kept("/?do=pong");
    }
}

#[test]
fn an_expecting_client_is_refused_before_its_body_or_served_after_its_100() {
    let server = start_config(&config(&php_fpm(), 1).replace("workers = 1", "workers = 1\nqueue = 0"));
    let mut told = server.client().patient(LONG);
    told.send(EXPECTING);
    assert_eq!(told.response("POST").status, 100);
    let (mut held, file) = hold(&server, "first");
    let mut refused = server.client().patient(LONG);
    refused.send(EXPECTING);
    let response = refused.response("POST");
    assert_eq!(response.status, 503, "{refused}");
    assert!(response.says_close(), "{refused}");
    refused.expect_eof();
    // The queue has no room, but this one has been promised its response.
    told.send("hello");
    told.expect_silence(Duration::from_millis(60));
    fs::write(&file, "").expect("written");
    assert_eq!(held.response("GET").text(), "waited");
    assert_eq!(told.response("POST").json()["length"], 5);
}

/// RFC 3875 §6.2.2.
#[test]
fn a_local_redirect_is_followed_internally() {
    for interpreter in both() {
        let server = start(&interpreter, 1);
        let to = |path: &str| format!("/?do=local&to={}", path.replace('&', "%26").replace('#', "%23"));
        let mut client = server.client().patient(LONG);
        for (path, expected) in [
            ("/?do=pong", "pong"),
            ("/info.php/x/y", "/info.php /x/y"),
            ("/blog/../info.php", "/info.php -"),
            ("/any/where?do=pong#behind", "pong"),
            // A file of the site is served as a file here, too.
            ("/style.css", "body { color: black }\n"),
            // Never out of the site.
            ("/../outside.php", "pong"),
        ] {
            let response = client.ask(get(&to(path)));
            assert_eq!((response.status, response.text().as_str()), (200, expected), "{interpreter} {path}");
            assert_eq!(response.field("location"), None, "{interpreter} {path}");
        }
        // The response to a form is fetched, as other servers do: by GET, and without the form.
        let form = format!(
            "POST {} HTTP/1.1\r\nHost: a\r\nContent-Type: text/x\r\nContent-Length: 2\r\n\r\nab",
            to("/?do=server&x=1")
        );
        let seen = client.ask(form).json();
        for (name, expected) in [
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_URI", "/?do=server&x=1"),
            ("CONTENT_LENGTH", ""),
            ("CONTENT_TYPE", ""),
            ("HTTP_HOST", "a"),
        ] {
            assert_eq!(seen[name], expected, "{interpreter} {name}");
        }
        let head = client.ask(format!("HEAD {} HTTP/1.1\r\nHost: a\r\n\r\n", to("/?do=pong")));
        assert_eq!((head.status, head.body.len()), (200, 0), "{interpreter}");
        // The log has the client's request target.
        server.wait_for_log("/?do=local&to=/style.css", LONG);
    }
}

#[test]
fn an_endless_local_redirect_is_a_502_and_the_site_keeps_running() {
    let server = start("php-cgi", 1);
    let loops = "/?do=local&to=/round.php";
    fs::write(
        server.folder().join("site/round.php"),
        "<?php ini_set('default_mimetype', ''); header_remove('X-Powered-By'); header('Location: /round.php'); http_response_code(200);",
    )
    .expect("written");
    let response = server.client().patient(LONG).ask(get(loops));
    assert_eq!(response.status, 502);
    server.wait_for_log("it has redirected ten times before", LONG);
    assert_eq!(server.ask(get("/?do=local&to=/%25zz")).status, 502, "no path");
    assert_eq!(server.ask(get("/?do=pong")).text(), "pong");
}

#[test]
fn a_reload_lets_php_fpm_finish_work_after_responses() {
    let server = start(&php_fpm(), 1);
    let file = server.folder().join("done");
    let master = process::descendants(server.pid())
        .into_iter()
        .find(|&pid| process::command(pid).contains("master process"))
        .expect("a php-fpm");
    let mut client = server.client().patient(LONG);
    // Longer than a worker that has finished gets before it is killed.
    assert_eq!(client.ask(get(&format!("/?do=behind&ms=4000&file={}", file.display()))).text(), "responded");
    server.signal(Signal::HUP);
    server.wait_for_log("worker has finished: sending SIGQUIT", LONG);
    wait_until("the script has done its work", LONG, || file.exists());
    wait_until("the old php-fpm has ended", LONG, || !process::alive(master));
    assert_eq!(client.ask(get("/?do=pong")).text(), "pong");
}

#[test]
fn a_php_fpm_that_runs_already_is_given_the_requests() {
    let port = tools::free_port();
    let folder = std::env::temp_dir().join(format!("keepwarm-fpm-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let fpm = Fpm::start(&folder, &format!("127.0.0.1:{port}"), 2);
    let server = start_config(&config_at(&format!("127.0.0.1:{port}"), 2));
    for (path, text) in [
        ("/", "pong"),
        ("/info.php/a", "/info.php /a"),
        ("/blog/", "/blog/index.php -"),
        ("/style.css", "body { color: black }\n"),
        ("/out.php", "pong"),
        ("/upload.jpg/x.php", "pong"),
    ] {
        assert_eq!(server.client().patient(LONG).ask(get(path)).text(), text, "{path}");
    }
    let php = |pid: &u32| process::command(*pid).contains("php");
    assert!(!process::descendants(server.pid()).iter().any(php), "it starts none of its own");
    // A connection for each of its processes, and no more: others would wait there unheard.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = server.client().patient(LONG);
                for _ in 0..20 {
                    assert_eq!(client.ask(get("/?do=pong")).text(), "pong");
                }
            });
        }
    });
    // A reload neither starts nor ends anything there.
    server.reload();
    assert_eq!(server.client().patient(LONG).ask(get("/?do=pong")).text(), "pong");
    drop(fpm);
    let _ = fs::remove_dir_all(folder);
}

/// Keepwarm does not wait for the death of a server that is not its own.
#[test]
fn a_request_that_a_php_fpm_has_dropped_is_retried_at_once() {
    let port = tools::free_port();
    let folder = std::env::temp_dir().join(format!("keepwarm-fpm-drops-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let fpm = Fpm::start(&folder, &format!("127.0.0.1:{port}"), 2);
    let server = start_config(&config_at(&format!("127.0.0.1:{port}"), 2));
    let dies_once = "<?php $file = __FILE__ . '.seen'; if (!file_exists($file)) { touch($file); posix_kill(getmypid(), 9); } echo 'second';";
    let times = ["a.php", "b.php", "c.php", "d.php"].map(|page| {
        fs::write(server.folder().join("site").join(page), dies_once).expect("a script");
        let asked = Instant::now();
        assert_eq!(server.client().patient(LONG).ask(get(&format!("/{page}"))).text(), "second");
        asked.elapsed()
    });
    // A busy machine may delay some of them.
    assert!(times.iter().any(|time| *time < Duration::from_millis(400)), "{times:?}");
    drop(fpm);
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn while_a_php_fpm_is_away_the_response_is_503_and_it_is_used_as_soon_as_it_returns() {
    let config = config_at("unix:@DIR@/fpm.sock", 1) + "[admin]\nbind = \"unix:@DIR@/admin.sock\"\n";
    let server = start_config(&config);
    let ready = || {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "30", "--unix-socket"]).arg(server.folder().join("admin.sock"));
        run_ok(curl.arg("http://localhost/readyz"), LONG)
    };
    let status = || {
        let mut status = Command::new(keepwarm_tests::keepwarm());
        status.arg("status").arg("--config").arg(server.folder().join("keepwarm.toml"));
        run_ok(&mut status, LONG)
    };
    let socket = server.folder().join("fpm.sock");
    let socket = socket.to_str().expect("UTF-8");
    server.wait_for_log("the app's server accepts no connections", LONG);
    let post = || {
        server.client().patient(LONG).ask("POST /?do=pong HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
    };
    for _ in 0..3 {
        let away = post();
        assert_eq!((away.status, away.field("retry-after")), (503, Some("1")));
        assert!(away.text().contains("accepts no connections"), "{}", away.text());
        assert!(ready().contains("no server accepts connections at unix:"), "{}", ready());
        assert!(status().contains("no server accepts connections at unix:"), "{}", status());
        let mark = server.mark();
        let fpm = Fpm::start(server.folder(), socket, 1);
        // At once: the first request after its return, one that could not be repeated.
        assert_eq!(post().text(), "pong");
        server.wait_for_log_after(mark, "accepts connections again", LONG);
        assert_eq!(post().text(), "pong");
        assert_eq!(ready().trim(), "ok");
        assert!(!status().contains("no server accepts"), "{}", status());
        drop(fpm);
        // php-fpm removes its socket, or it refuses.
        let mark = server.mark();
        assert_eq!(post().status, 503);
        server.wait_for_log_after(mark, "accepts no connections", LONG);
    }
}

#[test]
fn a_reload_changes_between_a_php_fpm_that_runs_already_and_one_of_ours_without_loss() {
    let ours = config(&php_fpm(), 2);
    let server = start_config(&ours);
    let socket = server.folder().join("fpm.sock");
    let _fpm = Fpm::start(server.folder(), socket.to_str().expect("UTF-8"), 2);
    let theirs = config_at("unix:@DIR@/fpm.sock", 2);
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = server.client().patient(LONG);
                while !stop.load(Ordering::Relaxed) {
                    let response =
                        client.ask("POST /?do=pong HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
                    assert_eq!((response.status, response.text().as_str()), (200, "pong"));
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let has_own = || {
            process::descendants(server.pid()).iter().any(|&pid| process::command(pid).contains("php-fpm"))
        };
        for (config, own) in [(&theirs, false), (&ours, true), (&theirs, false)] {
            let goal = served.load(Ordering::Relaxed) + 50;
            wait_until("requests get responses", LONG, || served.load(Ordering::Relaxed) >= goal);
            server.reload_with(config);
            wait_until("the other one serves", LONG, || has_own() == own);
        }
        let goal = served.load(Ordering::Relaxed) + 50;
        wait_until("requests get responses", LONG, || served.load(Ordering::Relaxed) >= goal);
        stop.store(true, Ordering::Relaxed);
    });
}

/// PHP takes each record of parameters apart by itself, and closes the connection over one that ends inside a parameter.
#[test]
fn a_head_above_64_kib_reaches_the_script() {
    let limits = "[server.limits]\nheader_block = \"4MiB\"\nheader_fields = 65_536\n";
    for interpreter in both() {
        let server = start_config(&format!("{}{limits}", config(&interpreter, 1)));
        let mut client = server.client().patient(LONG);
        let large: String = (0..3).map(|n| format!("X-L{n}: {}\r\n", "x".repeat(40_000))).collect();
        let many = "X-Many: 1\r\n".repeat(15_000);
        let seen = client
            .ask(format!("GET /?do=server HTTP/1.1\r\nHost: a\r\nConnection: x-none\r\n{large}{many}\r\n"))
            .json();
        for (name, length) in [("HTTP_X_L0", 40_000), ("HTTP_X_L2", 40_000), ("HTTP_X_MANY", 3 * 15_000 - 2)]
        {
            assert_eq!(seen[name].as_str().map(str::len), Some(length), "{interpreter}: {name}");
        }
        let refused =
            client.ask(format!("GET /?do=server HTTP/1.1\r\nHost: a\r\nX-L: {}\r\n\r\n", "x".repeat(70_000)));
        assert_eq!(refused.status, 431, "{interpreter}");
        client.expect_kept("/?do=pong");
    }
}
