//! A php-fpm of ours: what holds for one process of php-cgi holds for each of its processes.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use keepwarm_tests::classic::{config, php_fpm, start_config};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::tools::run_ok;
use keepwarm_tests::{Response, Server, get, keepwarm};

/// A bound for what a busy machine may need.
const LONG: Duration = Duration::from_secs(30);

/// With this many processes, these keys and these scripts.
#[track_caller]
fn start(workers: &str, keys: &str, scripts: &[(&str, &str)]) -> Server {
    let keys = format!("workers = {workers}\n{keys}");
    let server = start_config(&config(&php_fpm(), 1).replace("workers = 1", &keys));
    for (name, text) in scripts {
        fs::write(server.folder().join("site").join(name), format!("<?php {text}")).expect("a script");
    }
    server
}

fn post(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
}

#[track_caller]
fn ask(server: &Server, path: &str) -> Response {
    server.client().patient(LONG).ask(get(path))
}

/// The process that responded, and its parent.
const WHO: (&str, &str) = ("who.php", "echo getmypid(), ' ', posix_getppid();");
/// Responds when the file is there.
const WAITS: (&str, &str) = (
    "waits.php",
    "touch($_GET['file'] . '.' . getmypid()); while (!file_exists($_GET['file'])) { usleep(5000); clearstatcache(); } echo getmypid();",
);

#[track_caller]
fn who(server: &Server) -> (u32, u32) {
    let text = ask(server, "/who.php").text();
    let (child, master) = text.split_once(' ').unwrap_or_else(|| panic!("{text}"));
    (child.parse().expect("a pid"), master.parse().expect("a pid"))
}

/// The processes that wait for this file.
fn waiting(file: &Path) -> Vec<u32> {
    let name = format!("{}.", file.file_name().and_then(|name| name.to_str()).expect("a name"));
    let entries = fs::read_dir(file.parent().expect("a folder")).expect("a folder");
    let pid = |entry: std::io::Result<fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.strip_prefix(&name)?.parse::<u32>().ok()
    };
    entries.filter_map(pid).collect()
}

/// It idles on a connection that is kept: that is not the time of any request.
#[test]
fn a_process_that_idles_for_longer_than_a_request_may_take_is_not_ended() {
    let server = start("1", "request_timeout = \"1s\"", &[WHO]);
    let first = who(&server);
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!(who(&server), first);
    assert!(!server.log().contains("timed out"), "{}", server.log());
}

#[test]
fn a_script_that_takes_too_long_ends_with_its_process_and_no_other() {
    let server = start("2", "request_timeout = \"1s\"", &[WHO, WAITS]);
    let (_, master) = who(&server);
    let (late, quick) = (server.folder().join("late"), server.folder().join("quick"));
    std::thread::scope(|scope| {
        let late = scope.spawn(|| ask(&server, &format!("/waits.php?file={}", late.display())));
        wait_until("it has begun", LONG, || waiting(&server.folder().join("late")).len() == 1);
        std::thread::sleep(Duration::from_millis(300));
        let other = scope.spawn(|| ask(&server, &format!("/waits.php?file={}", quick.display())));
        let pid = waiting(&server.folder().join("late"))[0];
        assert_eq!(late.join().expect("a client").status, 504);
        wait_until("its process has ended", LONG, || !process::alive(pid));
        fs::write(&quick, "").expect("written");
        assert_eq!(other.join().expect("a client").status, 200);
    });
    assert_eq!(who(&server).1, master, "the others are as they were");
}

/// WordPress' `wp-cron.php` responds at once and works for minutes.
#[test]
fn no_request_is_given_to_a_process_that_works_after_its_response() {
    let behind = (
        "behind.php",
        "echo 'responded'; fastcgi_finish_request(); touch($_GET['file'] . '.' . getmypid()); while (!file_exists($_GET['file'])) { usleep(5000); clearstatcache(); } touch($_GET['file'] . '.done');",
    );
    let server = start("2", "", &[WHO, behind]);
    let file = server.folder().join("go");
    let mut client = server.client().patient(LONG);
    // On a connection that has been used before.
    assert_eq!(client.ask(get("/who.php")).status, 200);
    assert_eq!(client.ask(get(&format!("/behind.php?file={}", file.display()))).text(), "responded");
    for _ in 0..20 {
        let response = client.ask(get("/who.php"));
        assert_eq!(response.status, 200);
        let pid: u32 = response.text().split(' ').next().and_then(|pid| pid.parse().ok()).expect("a pid");
        assert!(!waiting(&file).contains(&pid));
    }
    assert!(!file.with_extension("done").exists());
    fs::write(&file, "").expect("written");
    wait_until("it has come to its end", LONG, || file.with_extension("done").exists());
}

/// Its work there has the time limit of a request, as everywhere.
#[test]
fn work_after_a_response_that_takes_too_long_is_ended() {
    let behind = ("behind.php", "echo getmypid(); fastcgi_finish_request(); while (true) { usleep(5000); }");
    let server = start("1", "request_timeout = \"1s\"", &[WHO, behind]);
    let pid: u32 = ask(&server, "/behind.php").text().parse().expect("a pid");
    wait_until("its process has ended", LONG, || !process::alive(pid));
    assert_ne!(who(&server).0, pid);
}

#[test]
fn processes_are_replaced_after_their_requests_and_none_is_lost() {
    let server = start("2", "max_requests = 10", &[WHO]);
    let (_, master) = who(&server);
    let seen: HashSet<u32> = std::thread::scope(|scope| {
        let ask = || {
            let mut client = server.client().patient(LONG);
            let all: Vec<u32> = (0..60)
                .map(|_| {
                    let response = client.ask(post("/who.php"));
                    assert_eq!(response.status, 200, "{}", response.text());
                    let (pid, above) = response
                        .text()
                        .split_once(' ')
                        .map(|(a, b)| (a.to_owned(), b.to_owned()))
                        .expect("two");
                    assert_eq!(above, master.to_string());
                    pid.parse().expect("a pid")
                })
                .collect();
            all
        };
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    assert!((18..=22).contains(&seen.len()), "181 requests, ten or nine for each process: {}", seen.len());
    wait_until("those before have ended", LONG, || {
        seen.iter().filter(|&&pid| process::alive(pid)).count() <= 2
    });
}

#[test]
fn a_process_that_holds_too_much_memory_is_replaced_after_its_request() {
    let hold = (
        "hold.php",
        "ini_set('memory_limit', '1G'); $a = str_repeat('x', 120 << 20); touch($_GET['file'] . '.' . getmypid()); while (!file_exists($_GET['file'])) { usleep(5000); clearstatcache(); } echo strlen($a);",
    );
    let server = start("2", "max_memory = \"64MiB\"", &[WHO, hold]);
    let (_, master) = who(&server);
    let file = server.folder().join("go");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| ask(&server, &format!("/hold.php?file={}", file.display())));
        wait_until("it holds", LONG, || waiting(&file).len() == 1);
        let line = server.wait_for_log("above max_memory", LONG);
        let pid = waiting(&file)[0];
        assert!(line.contains(&format!("process={pid}")), "{line}");
        assert!(process::alive(pid));
        fs::write(&file, "").expect("written");
        assert_eq!(held.join().expect("a client").text(), (120 << 20).to_string());
        wait_until("it has ended", LONG, || !process::alive(pid));
    });
    assert_eq!(who(&server).1, master);
}

#[test]
fn a_process_that_holds_far_too_much_memory_is_killed_and_no_other() {
    let hold = (
        "hold.php",
        "ini_set('memory_limit', '1G'); $a = str_repeat('x', 120 << 20); touch($_GET['file'] . '.' . getmypid()); sleep(60);",
    );
    let server = start("2", "kill_memory = \"64MiB\"", &[WHO, WAITS, hold]);
    let (_, master) = who(&server);
    let (file, other) = (server.folder().join("held"), server.folder().join("other"));
    std::thread::scope(|scope| {
        let other_one = scope.spawn(|| ask(&server, &format!("/waits.php?file={}", other.display())));
        wait_until("the other has begun", LONG, || waiting(&other).len() == 1);
        assert_eq!(ask(&server, &format!("/hold.php?file={}", file.display())).status, 502);
        assert_eq!(waiting(&file).len(), 1, "it is not tried once more");
        fs::write(&other, "").expect("written");
        assert_eq!(other_one.join().expect("a client").status, 200);
    });
    assert_eq!(who(&server).1, master);
    server.wait_for_log("above kill_memory", LONG);
}

/// As any page that ends its worker time and again.
#[test]
fn a_page_that_ends_its_process_again_and_again_is_refused_for_a_while() {
    let server = start("2", "", &[WHO, ("dies.php", "posix_kill(getmypid(), 9);")]);
    let (_, master) = who(&server);
    wait_until("it is refused", LONG, || server.client().patient(LONG).ask(post("/dies.php")).status == 503);
    server.wait_for_log("kills workers", LONG);
    assert_eq!(who(&server).1, master);
}

/// The master outlives its processes, so that there is nothing to wait for.
#[test]
fn a_request_whose_process_has_died_is_retried_at_once() {
    let dies_once = "$file = __FILE__ . '.seen'; if (!file_exists($file)) { touch($file); posix_kill(getmypid(), 9); } echo 'second';";
    let pages = ["a.php", "b.php", "c.php", "d.php"];
    let scripts: Vec<_> = pages.iter().map(|page| (*page, dies_once)).collect();
    let server = start("4", "", &scripts);
    let times = pages.map(|page| {
        let asked = Instant::now();
        assert_eq!(ask(&server, &format!("/{page}")).text(), "second");
        asked.elapsed()
    });
    // A busy machine may delay some of them.
    assert!(times.iter().any(|time| *time < Duration::from_millis(400)), "{times:?}");
}

#[test]
fn the_number_of_processes_follows_the_load() {
    let server = start("{ min = 1, max = 4, idle = \"1s\" }", "", &[WHO, WAITS]);
    let (_, master) = who(&server);
    let children = || process::children(master).len();
    assert!(children() <= 2, "{}", children());
    let file = server.folder().join("go");
    let path = format!("/waits.php?file={}", file.display());
    let pids: HashSet<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..6).map(|_| scope.spawn(|| ask(&server, &path).text())).collect();
        wait_until("four are at work", LONG, || waiting(&file).len() == 4);
        assert_eq!(children(), 4, "never more than `max`");
        fs::write(&file, "").expect("written");
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    assert_eq!(pids.len(), 4, "{pids:?}");
    wait_until("those that are not needed have ended", LONG, || children() <= 2);
    assert_eq!(who(&server).1, master);
}

#[test]
fn a_slow_request_is_named_with_its_process() {
    let server = start("2", "slow_log = \"100ms\"", &[WHO, WAITS]);
    who(&server);
    let file = server.folder().join("go");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&server, &format!("/waits.php?file={}", file.display())));
        let line = server.wait_for_log("slow request", LONG);
        assert!(line.contains(&format!("process={}", waiting(&file)[0])), "{line}");
        fs::write(&file, "").expect("written");
        assert_eq!(waits.join().expect("a client").status, 200);
    });
    assert_eq!(server.log().matches("slow request").count(), 1, "{}", server.log());
}

#[test]
fn the_keys_of_a_process_hold_for_each_of_its_processes() {
    let about = (
        "about.php",
        "echo json_encode(['umask' => umask(), 'env' => getenv('COLOR'), 'file' => getenv('SHAPE'), 'memory' => ini_get('memory_limit'), 'files' => posix_getrlimit()['soft openfiles']]);",
    );
    let keys = "umask = \"027\"\nenv_file = \"@DIR@/env\"\noptions = [\"-d\", \"memory_limit=77M\"]\nlimits = { files = 300 }";
    let config = config(&php_fpm(), 1).replace("workers = 1", &format!("workers = 1\n{keys}"));
    let config = config.replace("GENERATION = \"1\"", "COLOR = \"red\"");
    let server = Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("a folder");
        for name in ["site", "vault"] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        fs::write(folder.join("env"), "SHAPE=round\n").expect("written");
        fs::write(folder.join("site/index.php"), "<?php").expect("written");
        fs::write(folder.join("site").join(about.0), format!("<?php {}", about.1)).expect("written");
    });
    let seen = ask(&server, "/about.php").json();
    assert_eq!(
        seen,
        serde_json::json!({ "umask": 0o027, "env": "red", "file": "round", "memory": "77M", "files": 300 })
    );
}

#[test]
fn the_status_counts_the_memory_of_all_of_them() {
    let server = start(
        "2",
        "",
        &[
            WHO,
            (
                "hold.php",
                "ini_set('memory_limit', '1G'); $a = str_repeat('x', 96 << 20); touch($_GET['file'] . '.' . getmypid()); while (!file_exists($_GET['file'])) { usleep(5000); clearstatcache(); }",
            ),
        ],
    );
    who(&server);
    let file = server.folder().join("go");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| ask(&server, &format!("/hold.php?file={}", file.display())));
        wait_until("the status shows it", LONG, || {
            let mut status = Command::new(keepwarm());
            let status = run_ok(status.args(["status", "--json"]).current_dir(server.folder()), LONG);
            let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
            status["workers"][0]["memory"]["own_bytes"].as_u64().is_some_and(|own| own > 96 << 20)
        });
        fs::write(&file, "").expect("written");
        held.join().expect("a client");
    });
}

/// A container's log is its standard error.
#[test]
fn the_standard_error_of_a_script_is_logged() {
    let script = "file_put_contents('php://stderr', 'PHP Warning:  ' . str_repeat('w', 3000) . \" end\\n\"); error_log('by error_log'); echo 'ok';";
    let server = start("1", "", &[("err.php", script)]);
    assert_eq!(ask(&server, "/err.php").text(), "ok");
    let line = server.wait_for_log("www end", LONG);
    assert!(line.contains("WARN") && line.contains("PHP Warning:  www"), "{line}");
    server.wait_for_log("by error_log", LONG);
}

/// php-fpm writes its scripts' messages to standard error and to the FastCGI connection, where all of a request are one text.
#[test]
fn what_php_logs_is_in_the_log_once_and_line_by_line() {
    let script = "trigger_error('first', E_USER_NOTICE); trigger_error('second', E_USER_WARNING); error_log('third'); nothing();";
    let server = start("1", "", &[("err.php", script)]);
    assert_eq!(ask(&server, "/err.php").status, 500);
    server.wait_for_log("nothing()", LONG);
    // Behind it all, what another request logs.
    ask(&server, "/err.php");
    wait_until("both are logged", LONG, || {
        server.log().matches("Call to undefined function nothing()").count() >= 2
    });
    let log = server.log();
    for (text, level) in
        [("first", "INFO"), ("second", "WARN"), ("third", "INFO"), ("undefined function nothing()", "ERROR")]
    {
        let lines: Vec<&str> =
            log.lines().filter(|line| line.contains("PHP message") && line.contains(text)).collect();
        assert_eq!(lines.len(), 2, "{text}: {lines:#?}");
        assert!(lines.iter().all(|line| line.contains(level)), "{text}: {lines:#?}");
    }
}

#[test]
fn a_master_that_dies_is_replaced() {
    let server = start("2", "", &[WHO]);
    let (_, master) = who(&server);
    process::signal(master, rustix::process::Signal::KILL);
    wait_until("another serves", LONG, || {
        let response = ask(&server, "/who.php");
        response.status == 200 && !response.text().ends_with(&format!(" {master}"))
    });
}

/// Bodies of any size; clients that go away; processes that end: whatever happens, each request is run once and no process is lost for good.
#[test]
fn processes_are_replaced_under_load_with_large_bodies_and_clients_that_leave() {
    let counts = (
        "counts.php",
        "file_put_contents($_GET['file'], $_GET['id'] . ' ' . strlen(file_get_contents('php://input')) . \"\\n\", FILE_APPEND | LOCK_EX); echo $_GET['id'];",
    );
    let server = start("2", "max_requests = 5", &[WHO, counts]);
    let file = server.folder().join("count");
    let body = "b".repeat(300_000);
    std::thread::scope(|scope| {
        let leaver = scope.spawn(|| {
            for _ in 0..40 {
                let mut client = server.client();
                client.send(get("/?do=sleep&ms=5"));
                client.reset();
            }
        });
        let begun = Instant::now();
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (server, file, body) = (&server, &file, &body);
                scope.spawn(move || {
                    let mut connection = server.client().patient(LONG);
                    for number in 0..20 {
                        let path = format!("/counts.php?file={}&id={client}-{number}", file.display());
                        let head = format!(
                            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                            body.len()
                        );
                        let response = connection.ask(head + body);
                        assert_eq!((response.status, response.text()), (200, format!("{client}-{number}")));
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("a client"));
        assert!(begun.elapsed() < LONG);
        leaver.join().expect("a client");
    });
    let counted = fs::read_to_string(&file).expect("counted");
    let ids: HashSet<&str> = counted.lines().collect();
    assert_eq!((counted.lines().count(), ids.len()), (60, 60));
}
