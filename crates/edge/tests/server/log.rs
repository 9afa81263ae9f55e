//! What the process's log says about the error responses of the edge.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::time::Duration;

use keepwarm_edge::{Route, Site, Target};
use keepwarm_telemetry::{Format, Output, Sink};
use serde_json::Value;

use crate::apps::mirror;
use crate::harness::{Server, TempFile, at, body, on_host, respond};

/// The log of the process. Every server of these tests begins with it, so that nothing is said before.
pub(crate) struct Log {
    file: File,
    sink: Sink,
}

pub(crate) static LOG: LazyLock<Log> = LazyLock::new(|| {
    // Removed at once: nobody could do it later, and the open file is enough.
    let path = TempFile::new();
    let output = Output::File(path.0.clone());
    let sink = keepwarm_telemetry::log::init(Format::Json, tracing::Level::INFO, output).unwrap();
    Log { file: File::open(&path.0).unwrap(), sink }
});

impl Log {
    /// The lines of which `member` has that value.
    fn lines(&self, member: &str, value: &str) -> Vec<Value> {
        assert!(self.sink.flush(Duration::from_secs(10)));
        let mut bytes = vec![0; usize::try_from(self.file.metadata().unwrap().len()).unwrap()];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        // Other tests log meanwhile: the last line may be half there.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let lines = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line[member] == value).collect()
    }
}

#[test]
fn an_error_is_logged_once_under_the_id_that_its_client_was_given() {
    let log = &*LOG;
    let mut small = on_host("small.example", Route::to(mirror()));
    small.max_body = Some(1);
    let server = Server::start(Site::new(vec![small, at("/", respond(200, "ok"))], Vec::new()));
    let refused = |request: &str| {
        let response = server.exchange(request);
        let error: Value = serde_json::from_str(body(&response)).unwrap();
        let lines = log.lines("id", error["request_id"].as_str().unwrap());
        assert_eq!(lines.len(), 1, "{response}");
        assert_eq!(lines[0]["status"], error["status"]);
        assert_eq!(lines[0]["reason"], error["reason"]);
        assert_eq!(lines[0]["message"], error["detail"]);
        assert_eq!(lines[0]["client"], "127.0.0.1");
        assert_eq!(lines[0]["level"], "info");
        lines[0].clone()
    };
    let ending = "Accept: application/json\r\nConnection: close\r\n";
    let nothing = refused(&format!("GET /none HTTP/1.1\r\nHost: a\r\n{ending}\r\n"));
    assert_eq!((&nothing["reason"], &nothing["app"]), (&Value::from("no_route"), &Value::Null));
    let large =
        refused(&format!("POST / HTTP/1.1\r\nHost: small.example\r\nContent-Length: 2\r\n{ending}\r\n"));
    assert_eq!((&large["reason"], &large["app"]), (&Value::from("body_too_large"), &Value::from("mirror")));
}

#[test]
fn a_proxy_that_is_not_believed_is_told_of_once() {
    let log = &*LOG;
    let target: Target = mirror();
    let server = Server::start(Site::new(vec![Route::to(target)], Vec::new()));
    for _ in 0..3 {
        server.get("/", "X-Forwarded-For: 203.0.113.7\r\n");
    }
    let about_proxies = |line: &&Value| line["message"].as_str().unwrap().contains("server.trusted_proxies");
    assert_eq!(log.lines("peer", "127.0.0.1").iter().filter(about_proxies).count(), 1);
}
