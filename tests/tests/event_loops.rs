//! `loop` and `options` of an ASGI app: Trio, uvloop or asyncio, and asyncio's debug mode.

use std::time::Duration;

use keepwarm_tests::{Server, get, websocket};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

fn config(entry: &str, keys: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"shop\"\n\
         [app.shop]\nentry = \"{entry}\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n{keys}\n"
    )
}

#[test]
fn an_application_of_trio_runs_in_trio() {
    let server = Server::start(&config("trio_app:app", "loop = \"trio\"")).warm("/");
    assert_eq!(server.ask(get("/")).text(), "Trio has read 0 bytes");
    let body = "b".repeat(3_000_000);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3000000\r\n\r\n";
    assert_eq!(server.ask(format!("{head}{body}")).text(), "Trio has read 3000000 bytes");
    assert_eq!(server.ask(get("/boom")).status, 500);
    let log = server.wait_for_log("ValueError: no such card", LONG);
    assert!(!log.contains("asgi_trio.py"), "the application's frames alone: {log}");

    let mut client = server.client();
    websocket::open(&mut client, "/ws", "");
    client.send(websocket::frame(0x81, b"hello"));
    assert_eq!(websocket::message(&mut client), (1, b"HELLO".to_vec()));
    drop(client);

    server.signal(Signal::TERM);
    server.wait_for_log("the application has stopped", LONG);
}

#[test]
fn a_request_of_trio_that_times_out_is_cancelled() {
    let keys = "loop = \"trio\"\nrequest_timeout = \"500ms\"";
    let server = Server::start(&config("trio_app:app", keys)).warm("/");
    assert_eq!(server.ask(get("/hang")).status, 504);
    server.wait_for_log("the request was cancelled", LONG);
    assert_eq!(server.ask(get("/")).status, 200, "and the worker serves others");
    assert_eq!(server.workers().len(), 1);
}

#[test]
fn the_event_loop_is_the_one_that_is_configured_in_debug_mode_where_python_is() {
    let debug = "options = [\"-X\", \"dev\"]";
    for (keys, loop_, debugged) in [
        ("", "uvloop", false),
        ("loop = \"uvloop\"", "uvloop", false),
        ("loop = \"asyncio\"", "asyncio.unix_events", false),
        (&format!("loop = \"uvloop\"\n{debug}"), "uvloop", true),
        (&format!("loop = \"asyncio\"\n{debug}"), "asyncio.unix_events", true),
        ("loop = \"asyncio\"\nenv = { PYTHONASYNCIODEBUG = \"1\" }", "asyncio.unix_events", true),
    ] {
        let server = Server::start(&config("loop_app:app", keys)).warm("/");
        let told = format!("{{\"loop\": \"{loop_}\", \"debug\": {debugged}}}");
        assert_eq!(server.ask(get("/")).text(), told, "{keys}");
    }
}
