//! The access log of a served listener.

use std::time::Duration;

use keepwarm_edge::{AccessLog, Route, Site};
use keepwarm_telemetry::{Format, Output, Sink};

use crate::harness::{Server, TempFile, at, block, masked, respond};

/// The lines that `act` leaves, ids masked and times cut.
fn lines(format: Format, act: impl FnOnce(&Server)) -> Vec<String> {
    let file = TempFile::new();
    let sink = Sink::open(Output::File(file.0.clone()), format).unwrap();
    let routes = vec![at("/ping", respond(200, "pong"))];
    let site = Site::new(routes, vec![block("127.0.0.1", 32)]);
    let server = Server::start(site.with_access_log(AccessLog::new(sink.clone(), format)));
    act(&server);
    // The record follows the response: it is there for certain when the thread has ended.
    drop(server);
    assert!(sink.flush(Duration::from_secs(10)));
    std::fs::read_to_string(&file.0).unwrap().lines().map(masked).collect()
}

#[test]
fn text() {
    let lines = lines(Format::Text, |server| {
        server.get("/ping?a=\"b\"", "User-Agent: t\\est\r\nReferer: http://r.example/\r\n");
        server.get("/none", "X-Forwarded-For: 203.0.113.7\r\n");
        server.says("HEAD /ping HTTP/1.0\r\n\r\n");
        server.says("GET /ping\r\n\r\n");
    });
    let starts_and_ends = [
        (
            "127.0.0.1 - - [20",
            "\"GET /ping?a=\\\"b\\\" HTTP/1.1\" 200 4 \"http://r.example/\" \"t\\\\est\" 0.",
            " respond - ID",
        ),
        ("203.0.113.7 - - [20", "\"GET /none HTTP/1.1\" 404 100 \"-\" \"-\" 0.", " - no_route ID"),
        ("127.0.0.1 - - [20", "\"HEAD /ping HTTP/1.0\" 200 0 \"-\" \"-\" 0.", " respond - ID"),
        ("127.0.0.1 - - [20", "\"-\" 400 ", " ID"),
    ];
    assert_eq!(lines.len(), starts_and_ends.len(), "{lines:?}");
    for (line, (start, middle, end)) in lines.iter().zip(starts_and_ends) {
        assert!(line.starts_with(start) && line.contains(middle) && line.ends_with(end), "{line}");
    }
}

#[test]
fn json() {
    let lines = lines(Format::Json, |server| {
        server.get("/ping", "User-Agent: \"x\"\r\n");
    });
    let (time, rest) = lines[0].split_once("Z\",").unwrap();
    assert!(time.starts_with("{\"time\":\"20"), "{time}");
    let (front, back) = rest.split_once("\"seconds\":0.").unwrap();
    assert_eq!(
        front,
        "\"client\":\"127.0.0.1\",\"method\":\"GET\",\"target\":\"/ping\",\"version\":\"HTTP/1.1\",\"status\":200,\"bytes\":4,"
    );
    let back = back.trim_start_matches(|c: char| c.is_ascii_digit());
    assert_eq!(back, ",\"user_agent\":\"\\\"x\\\"\",\"route\":\"respond\",\"request_id\":\"ID\"}");
}

#[test]
fn off() {
    let server = Server::start(Site::new(vec![Route::to(respond(200, "pong"))], Vec::new()));
    assert!(server.get("/", "").ends_with("pong"));
}
