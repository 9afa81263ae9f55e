//! The log in a collector: what Keepwarm decides and what apps print (OTLP/HTTP, `logs/v1/logs.proto`).

use std::net::SocketAddr;
use std::time::Duration;

use keepwarm_tests::origin::Gate;
use keepwarm_tests::otlp::{Collector, LogRecord, accept, respond};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Server, admin, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

/// Prints what it is asked for: a line, a traceback, many lines, nothing.
const APP: &str = "import os, sys
def application(environ, start_response):
    path = environ['PATH_INFO']
    if path == '/line':
        print('sold \\x1b[31m<b>10</b> \\u00fc', flush=True)
    if path == '/warn':
        print('WARNING: few left', file=sys.stderr, flush=True)
    if path == '/fail':
        raise ValueError('no such card')
    if path == '/many':
        for number in range(500):
            print('x' * 1000, number, flush=True)
    start_response('200 OK', [])
    return [b'']
";

fn config(collector: SocketAddr, logs: &str, more: &str) -> String {
    format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[app.shop]\nentry = \"shop:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         [upstream.collector]\nurl = \"http://{collector}\"\n[otlp]\nupstream = \"collector\"\nservice_name = \"edge\"\n[otlp.logs]\ninterval = \"20ms\"\n{logs}\n{more}"
    )
}

fn start(config: &str) -> Server {
    Server::spawn(config, |command| {
        let folder = command.get_current_dir().expect("a folder");
        std::fs::write(folder.join("shop.py"), APP).expect("written");
    })
    .listening()
}

fn attribute<'r>(record: &'r LogRecord, name: &str) -> &'r str {
    record.attributes.get(name).map_or("", String::as_str)
}

#[test]
fn what_an_app_prints_is_a_record_with_its_worker() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", ""));
    server.ask(get("/line"));
    let line = collector.wait_for_record("the line", |record| record.body.starts_with("sold"));
    assert_eq!(line.body, "sold \u{1b}[31m<b>10</b> ü", "as it was printed");
    assert_eq!((line.severity, line.severity_text.as_str()), (9, "INFO"));
    assert_eq!(line.event, "app_output");
    assert_eq!((attribute(&line, "keepwarm.app"), attribute(&line, "keepwarm.worker")), ("shop", "1"));
    assert_eq!(attribute(&line, "log.iostream"), "stdout");
    let worker = server.workers()[0];
    assert_eq!(attribute(&line, "process.pid"), worker.to_string());
    assert_eq!(line.resource["service.name"], "edge");
    assert_eq!(line.resource["process.pid"], server.pid().to_string());
    server.ask(get("/warn"));
    let warning = collector.wait_for_record("the warning", |record| record.body.contains("few left"));
    assert_eq!((warning.severity, attribute(&warning, "log.iostream")), (13, "stderr"));
    server.ask(get("/fail"));
    let traceback = collector.wait_for_record("the traceback", |record| record.body.contains("ValueError"));
    assert_eq!(traceback.severity, 17);
    assert!(traceback.body.lines().count() > 2, "one record: {}", traceback.body);
    // The log has them, too.
    server.wait_for_log("no such card", LONG);
}

#[test]
fn what_keepwarm_decides_is_a_record_with_its_event() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", ""));
    let worker = server.workers()[0];
    process::signal(worker, Signal::KILL);
    let ended = collector.wait_for_record("its end", |record| {
        record.severity >= 13 && attribute(record, "process.pid") == worker.to_string()
    });
    assert!(!ended.event.is_empty() && !ended.event.contains(' '), "{ended:?}");
    assert_eq!(attribute(&ended, "keepwarm.app"), "shop");
    assert!(ended.time > 1_700_000_000_000_000_000, "nanoseconds since 1970: {}", ended.time);
}

#[test]
fn records_below_the_level_are_not_sent() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "level = \"warn\"", ""));
    server.ask(get("/line"));
    server.wait_for_log("sold", LONG);
    server.ask(get("/warn"));
    collector.wait_for_record("the warning", |record| record.body.contains("few left"));
    let low: Vec<_> = collector.log_records().into_iter().filter(|record| record.severity < 13).collect();
    assert!(low.is_empty(), "{low:?}");
}

/// Nothing waits for it, memory is bounded, and the log has what was dropped.
#[test]
fn a_collector_that_is_silent_costs_the_log_nothing() {
    let gate = Gate::default();
    let held = gate.clone();
    let collector = Collector::responding(move |_, _, stream| {
        held.wait();
        accept(stream)
    });
    let server = start(&config(collector.address(), "buffer = \"64KiB\"\nbatch = 10", ""));
    server.ask(get("/many"));
    server.wait_for_log("x 499", LONG);
    let dropped = admin::wait_for_metric(&server, "keepwarm_log_records_dropped_total", 1.0);
    assert!(dropped >= 300.0, "64 KiB of 500 KB: {dropped}");
    gate.open();
    let sent = "keepwarm_log_records_exported_total{outcome=\"sent\"}";
    admin::wait_for_metric(&server, sent, 10.0);
    server.ask(get("/line"));
    collector.wait_for_record("a record after that", |record| record.body.starts_with("sold"));
}

#[test]
fn a_part_that_is_rejected_is_counted_and_said_once() {
    // ExportLogsPartialSuccess: one rejected, "too old".
    let body = b"\x0a\x0b\x08\x01\x12\x07too old";
    let collector = Collector::responding(move |_, _, stream| respond(stream, "200 OK", "", body));
    let server = start(&config(collector.address(), "", ""));
    server.ask(get("/line"));
    let line = server.wait_for_log("rejected a part", LONG);
    assert!(line.contains("too old") && line.contains("signal=logs"), "{line}");
    admin::wait_for_metric(&server, "keepwarm_log_records_exported_total{outcome=\"rejected\"}", 1.0);
}

/// What failed is itself a record, which must not make another without an end.
#[test]
fn a_failure_to_send_makes_no_record_after_record() {
    let collector = Collector::responding(move |_, _, stream| respond(stream, "400 Bad", "", b""));
    let server = start(&config(collector.address(), "batch = 1", ""));
    server.ask(get("/line"));
    server.wait_for_log("collector did not accept telemetry", LONG);
    let refused = "keepwarm_log_records_exported_total{outcome=\"refused\"}";
    let before = admin::wait_for_metric(&server, refused, 2.0);
    // A round trip through the exporter for each.
    for count in 1..=5 {
        server.ask(get("/line"));
        admin::wait_for_metric(&server, refused, before + f64::from(count));
    }
    assert_eq!(server.log().matches("did not accept telemetry").count(), 1, "{}", server.log());
}

#[test]
fn the_last_records_are_sent_at_the_end() {
    let collector = Collector::start();
    let server = start(&config(collector.address(), "", "").replace("20ms", "60s"));
    server.ask(get("/line"));
    server.wait_for_log("sold", LONG);
    assert!(collector.log_records().is_empty());
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    let records = collector.log_records();
    assert!(records.iter().any(|record| record.body.starts_with("sold")), "{records:#?}");
}

#[test]
fn a_reload_begins_and_ends_it() {
    let collector = Collector::start();
    let whole = config(collector.address(), "", "");
    let (without, _) = whole.split_once("[otlp]").expect("a section");
    let server = start(without);
    server.ask(get("/line"));
    server.wait_for_log("sold", LONG);
    server.reload_with(&whole);
    server.ask(get("/warn"));
    collector.wait_for_record("the warning", |record| record.body.contains("few left"));
    assert!(!collector.log_records().iter().any(|record| record.body.starts_with("sold")));
    server.reload_with(without);
    // What was there is sent, and nothing after.
    let lines = |server: &Server| server.log().matches("few left").count();
    let before = lines(&server);
    server.ask(get("/warn"));
    wait_until("the log has it", LONG, || lines(&server) > before);
    let warnings = collector.log_records().iter().filter(|record| record.body.contains("few left")).count();
    assert_eq!(warnings, 1);
}
