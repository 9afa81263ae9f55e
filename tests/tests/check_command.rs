//! `keepwarm check`: its command line, its exit statuses, its outputs. The findings of probes are not tested here.

use std::io::Write;
use std::process::{Command, Output};
use std::time::Duration;

use keepwarm_tests::origin::{After, Origin};
use keepwarm_tests::{keepwarm, python, tools};
use serde_json::Value;

const BOUND: Duration = Duration::from_secs(60);

fn check(arguments: &[&str]) -> Output {
    tools::run(Command::new(keepwarm()).arg("check").args(arguments), BOUND)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Does as it should.
fn sound() -> (Origin, String) {
    let origin = Origin::start(|request, stream| {
        let connection = request.field("connection").unwrap_or_default().to_ascii_lowercase();
        let asks = |word: &str| connection.split(',').any(|one| one.trim() == word);
        let (keep, says) = match request.head.contains("HTTP/1.0\r\n") {
            _ if asks("close") => (After::Close, "Connection: close\r\n"),
            true if asks("keep-alive") => (After::Keep, "Connection: keep-alive\r\n"),
            true => (After::Close, "Connection: close\r\n"),
            false => (After::Keep, ""),
        };
        let body = if request.method() == "HEAD" { "" } else { "hello" };
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{says}\r\n{body}");
        keep
    });
    let url = format!("http://{}/", origin.address());
    (origin, url)
}

/// Never closes on a client of HTTP/1.0: `persistence` finds it bad.
fn stalling() -> (Origin, String) {
    let origin = Origin::fixed("hello");
    let url = format!("http://{}/", origin.address());
    (origin, url)
}

#[test]
fn the_exit_status_follows_the_findings() {
    let ((_sound, sound), (_stalling, stalling)) = (sound(), stalling());
    let nobody = format!("http://{}/", tools::nobody());
    for (arguments, status) in [
        (vec![&*sound, "--only", "persistence", "--fail-on", "warning", "--json"], 0),
        (vec![&*stalling, "--only", "persistence", "--fail-on", "bad"], 1),
        (vec![&*stalling, "--only", "ladder", "--fail-on", "bad"], 0),
        (vec![&*nobody], 3),
        (vec![&*sound, &*nobody, "--only", "persistence", "--fail-on", "bad"], 3),
    ] {
        let output = check(&arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}\n{}{}", out(&output), err(&output));
    }
}

#[test]
fn the_plan_is_printed_first() {
    let (_origin, url) = sound();
    let promise = "Opens at most 8 connections at once and sends at most 40 requests a second, about";
    let output = check(&[&url, "--only", "persistence"]);
    assert!(out(&output).starts_with(promise), "{}", out(&output));
    assert!(out(&output).contains("\npersistence       good ("), "{}", out(&output));
    assert_eq!(err(&output), "", "nothing else where no terminal is");
    assert!(!out(&output).contains('\x1b'), "{}", out(&output));

    let output = check(&[&url, "--only", "persistence", "--json", "--rate", "5"]);
    assert!(err(&output).contains("at most 5 requests a second"), "{}", err(&output));
    let report: Value = serde_json::from_str(&out(&output)).expect("JSON and nothing else");
    assert_eq!(report["url"], url);
    assert_eq!(report["verdict"], "good");
    assert_eq!(report["reached"], true);
    assert_eq!(report["probes"][0]["id"], "persistence");
    assert!(report["requests"].as_u64().is_some_and(|count| count > 1), "{report}");
    for finding in report["probes"][0]["findings"].as_array().expect("findings") {
        assert!(finding["id"].as_str().is_some_and(|id| id.starts_with("persistence.")), "{finding}");
        assert!(finding["evidence"].as_str().is_some_and(|evidence| !evidence.is_empty()), "{finding}");
    }
}

#[test]
fn several_stand_side_by_side() {
    let ((_one, first), (_two, second)) = (sound(), sound());
    let output =
        check(&[&first, &second, "--skip", "boot,connect,expect,framing,health,informational,writes"]);
    let text = out(&output);
    assert!(text.contains("\npersistence       good             good\n"), "{text}");
    assert!(
        text.contains(&format!("\n1  {first}   ")) && text.contains(&format!("\n2  {second}   ")),
        "{text}"
    );

    let output = check(&[&first, &second, "--only", "ladder", "--json"]);
    let report: Value = serde_json::from_str(&out(&output)).expect("JSON");
    let urls: Vec<&Value> = report.as_array().expect("an array").iter().map(|one| &one["url"]).collect();
    assert_eq!(urls, [&Value::from(first), &Value::from(second)]);
}

#[test]
fn the_wire_trace_shows_every_message() {
    let (origin, url) = sound();
    let output =
        check(&[&url, "--only", "persistence", "-v", "--header", "X-Ticket: 42", "-H", "User-Agent: me"]);
    let seen = err(&output);
    assert!(seen.contains("> GET / HTTP/1.1\\r\\n") && seen.contains("< HTTP/1.1 200 OK\\r\\n"), "{seen}");
    assert!(!out(&output).contains("> GET"), "{}", out(&output));
    assert!(out(&output).contains("persistence."), "with -v every finding is there: {}", out(&output));
    for request in origin.requests() {
        assert_eq!(request.field("x-ticket"), Some("42"), "{}", request.head);
        assert_eq!(request.field("user-agent"), Some("me"), "{}", request.head);
    }
}

#[test]
fn an_address_stands_in_for_a_name() {
    let (origin, _) = sound();
    let port = origin.address().port();
    let url = format!("http://shop.invalid:{port}/cart?full=1");
    let output = check(&[&url, "--only", "ladder", "--resolve", &format!("shop.invalid:{port}:127.0.0.1")]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let request = origin.requests().swap_remove(0);
    assert_eq!(request.target(), "/cart?full=1");
    assert_eq!(request.field("host"), Some(&*format!("shop.invalid:{port}")));
}

#[test]
fn only_safe_methods_unless_a_path_is_named() {
    let (origin, url) = sound();
    for arguments in [vec![&*url], vec![&*url, "--method", "OPTIONS"]] {
        check(&arguments);
    }
    let safe = ["GET", "HEAD", "OPTIONS"];
    // An empty line before a request is none.
    for request in origin.requests().iter().filter(|request| !request.head.trim().is_empty()) {
        assert!(safe.contains(&request.method()), "{}", request.head);
    }
    let before = origin.requests().len();
    let output = check(&[&url, "--only", "ladder", "--method", "POST", "--post", "/echo", "--body", "a=b"]);
    assert!(out(&output).contains("and POST to /echo"), "{}", out(&output));
    let request = origin.requests().swap_remove(before);
    assert_eq!((request.method(), request.target(), &*request.body), ("POST", "/echo", &b"a=b"[..]));
}

#[test]
fn no_redirect_leads_a_post_elsewhere() {
    // By path: what POST may ask is that path alone.
    let origin = Origin::start(|request, stream| {
        let location = if request.target() == "/echo" { "Location: /other\r\n" } else { "" };
        let _ = write!(stream, "HTTP/1.1 307 Temporary Redirect\r\n{location}Content-Length: 0\r\n\r\n");
        After::Keep
    });
    let url = format!("http://{}/", origin.address());
    let output = check(&[&url, "--only", "ladder", "--method", "POST", "--post", "/echo"]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    assert!(origin.requests().iter().all(|request| request.target() == "/echo"));

    // By site: it may not be asked at another.
    let origin = Origin::start(|request, stream| {
        let port = stream.local_addr().expect("connected").port();
        let elsewhere =
            format!("HTTP/1.1 301 Moved\r\nLocation: http://localhost:{port}/\r\nContent-Length: 0\r\n\r\n");
        let here = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned();
        let is_first = request.field("host").is_some_and(|host| host.starts_with("127."));
        let _ = stream.write_all(if is_first { elsewhere } else { here }.as_bytes());
        After::Keep
    });
    let url = format!("http://{}/", origin.address());
    check(&[&url, "--only", "expect", "--post", "/echo"]);
    let asked: Vec<_> = origin.requests();
    assert!(asked.len() > 2 && asked.iter().all(|request| request.method() != "POST"), "{asked:?}");
}

#[test]
fn errors_on_the_command_line() {
    let url = "http://127.0.0.1:1/";
    for (arguments, parts) in [
        (vec![], vec!["URL"]),
        (vec!["shop.example"], vec!["\"shop.example\"", "http://shop.example"]),
        (vec![url, "--only", "expct"], vec!["--only", "'expect'", "informational", "ladder"]),
        (vec![url, "--skip", "writs,boot"], vec!["--skip", "'writes'", "persistence"]),
        (vec![url, "--only", "boot", "--skip", "boot"], vec!["--only", "--skip", "no probe"]),
        (vec![url, "--fail-on", "good"], vec!["--fail-on", "warning, bad"]),
        (vec![url, "--header", "Accept"], vec!["--header", "a colon"]),
        (vec![url, "--header", "Connection: close"], vec!["--header", "set themselves"]),
        (vec![url, "--method", "DELETE"], vec!["--method", "GET, HEAD, OPTIONS, POST"]),
        (vec![url, "--method", "POST"], vec!["--method POST", "--post PATH"]),
        (vec![url, "--post", "echo"], vec!["--post", "begins with /"]),
        (vec![url, "--body", "@/no/such/file"], vec!["--body", "/no/such/file", "No such file"]),
        (vec![url, "--resolve", "shop.example:127.0.0.1"], vec!["--resolve", "HOST:PORT:ADDRESS"]),
        (vec![url, "--timeout", "1h"], vec!["--timeout", "500ms"]),
        (vec![url, "--ca", "/dev/null"], vec!["--ca", "no certificate in it"]),
        (vec![url, "--cert", "/dev/null"], vec!["--key"]),
        (vec![url, "--cert", "/dev/null", "--key", "/dev/null"], vec!["--cert", "no certificate in it"]),
        (vec![url, "--rate", "0"], vec!["--rate", "1"]),
        (vec![url, "--via", "shop.example"], vec!["--via", "http://shop.example"]),
        (vec![url, "--config", "x.toml"], vec!["--config", "--self"]),
        (vec![url, "--self"], vec!["--self", "URL"]),
    ] {
        let output = check(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}\n{}{}", out(&output), err(&output));
        for part in parts {
            assert!(err(&output).contains(part), "{arguments:?}: {part:?} is not in\n{}", err(&output));
        }
    }
}

#[test]
fn the_help_teaches() {
    let help = out(&check(&["--help"]));
    for part in
        ["persistence ", "informational ", "Examples:", "Exit statuses:", "--self", "--fail-on <VERDICT>"]
    {
        assert!(help.contains(part), "{part}\n{help}");
    }
}

/// On a terminal of its own, made by Python.
fn on_a_terminal(url: &str, no_color: &str) -> String {
    let script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut command = Command::new(python());
    command.args(["-c", script]).arg(keepwarm()).args(["check", url, "--only", "persistence"]);
    command.env("NO_COLOR", no_color).env("TERM", "xterm");
    tools::run_ok(&mut command, BOUND)
}

#[test]
fn a_terminal_shows_progress_and_colors() {
    let (_origin, url) = sound();
    let seen = on_a_terminal(&url, "");
    assert!(seen.contains("\r\x1b[2K") && seen.contains("1/1 persistence"), "{seen:?}");
    assert!(seen.contains("\x1b[32mgood\x1b[0m"), "{seen:?}");
    let seen = on_a_terminal(&url, "1");
    assert!(seen.contains("1/1 persistence") && !seen.contains("\x1b[32m"), "{seen:?}");
}
