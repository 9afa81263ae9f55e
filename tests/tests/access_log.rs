//! The form of access-log records, and which requests are recorded.

use std::time::Duration;

use keepwarm_tests::http2::{DATA, END_STREAM, Http2, RST_STREAM, frame};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Server, WSGI, get};

const ROUTES: &str = r#"
[[listen.main.route]]
path = "/healthz"
respond = { body = "ok" }

[[listen.main.route]]
path = "/in/*"
rewrite = "/pong"
app = "app"

[[listen.main.route]]
path = "/missing"
respond = 404

[[listen.main.route]]
respond = { body = "any" }

[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

/// The records of these requests, in order, once the last is written.
fn records(log: &str, requests: &[&str]) -> Vec<String> {
    let server =
        Server::start(&format!("[listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = {log}\n{ROUTES}"));
    for request in requests {
        server.ask(*request);
    }
    server.ask(get("/last"));
    server.wait_for_log("/last", Duration::from_secs(5));
    own_lines(&server).into_iter().take_while(|line| !line.contains("/last")).collect()
}

/// What is not a record of the log, which begins with the year, nor one of the first lines of a run.
fn own_lines(server: &Server) -> Vec<String> {
    let is_own = |line: &&str| !["20", "keepwarm ", " "].iter().any(|start| line.starts_with(start));
    server.log().lines().filter(is_own).map(str::to_owned).collect()
}

fn request(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.example:80\r\n{fields}\r\n")
}

#[test]
fn a_line_has_the_configured_variables_escaped() {
    let lines = records(
        r#"{ format = "$client $method $host_name $target $status $bytes $version $route [$header_user_agent] $arg_a $cookie_c $reason $$1" }"#,
        &[
            &request("/x?a=1%0A2", "User-Agent: a\"b\\c\r\nCookie: c=3\r\n"),
            &request("/in/a?a=2", ""),
            &request("/missing", ""),
        ],
    );
    let expected = [
        r#"127.0.0.1 GET a.example /x?a=1%0A2 200 3 HTTP/1.1 respond [a\"b\\c] 1\x0a2 3 - $1"#,
        "127.0.0.1 GET a.example /in/a?a=2 200 4 HTTP/1.1 app [-] 2 - - $1",
        "127.0.0.1 GET a.example /missing 404 0 HTTP/1.1 respond [-] - - - $1",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_json_record_has_the_configured_members() {
    let lines = records(
        r#"{ format = { at = "$time", status = "$status", took = "$seconds", bytes = "$bytes", what = "$method $target", agent = "$header_user_agent", both = "$status/$bytes" } }"#,
        &[&request("/x\u{22}", ""), &request("/y", "User-Agent: \"q\"\r\n")],
    );
    let record: serde_json::Value = serde_json::from_str(&lines[1]).expect("JSON");
    assert_eq!((&record["status"], &record["bytes"]), (&200.into(), &3.into()));
    assert_eq!((&record["what"], &record["agent"]), (&"GET /y".into(), &"\"q\"".into()));
    assert_eq!(record["both"], "200/3");
    assert!(record["took"].is_f64() && record["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{record}");
    let first: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert!(first.get("agent").is_none(), "{first}");
}

#[test]
fn conditions_say_which_requests_are_recorded() {
    let asked = [
        request("/healthz", ""),
        request("/x/../healthz", ""),
        request("/in/a", ""),
        request("/missing", ""),
        request("/x", "User-Agent: bot\r\n"),
        request("/y", ""),
    ];
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let of = |conditions: &str| records(&format!("{{ format = \"$target\", {conditions} }}"), &asked);
    assert_eq!(of(r#"path = "!/healthz""#), ["/in/a", "/missing", "/x", "/y"]);
    assert_eq!(of(r#"path = ["/in/*", "/last"]"#), ["/in/a"]);
    assert_eq!(of(r#"header = { User-Agent = "!bot" }, path = "!~^/(healthz|x/|in/|missing)""#), ["/y"]);
    assert_eq!(of(r#"client = "127.0.0.0/8", path = ["/y", "/last"]"#), ["/y"]);
}

#[test]
fn a_log_of_errors_has_no_other_responses() {
    let server = Server::start(&format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = {{ format = \"$status $target\", status = \"400-599\" }}\n{ROUTES}"
    ));
    for target in ["/x", "/missing", "/y", "/missing?last"] {
        server.ask(get(target));
    }
    server.wait_for_log("?last", Duration::from_secs(5));
    let own = own_lines(&server);
    assert_eq!(own, ["404 /missing", "404 /missing?last"]);
}

/// Method, path, headers, and the status of the response.
type Case<'c> = (&'c str, &'c str, &'c [(&'c str, &'c str)], u16);

/// A request that is refused before a route is looked for has its record, in each version of HTTP.
#[test]
fn refused_heads_are_recorded() {
    let config = "[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ respond = 204 }]\n\
                  access_log = { format = \"refused $version $method $target $status $reason\" }\n\
                  [listen.main.limits]\nheader_fields = 8\n";
    let many: Vec<(String, String)> = (0..9).map(|n| (format!("x-{n}"), "1".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let cases: [Case<'_>; 5] = [
        ("GET", "/%00", &[], 400),
        ("GET", "/%zz", &[], 400),
        ("GET", "/other-host", &[("host", "other.example")], 400),
        ("GET", "/many", &many, 431),
        ("TRACE", "/trace", &[], 405),
    ];
    let server = Server::start(config);
    let mut http2 = Http2::connect(server.address());
    for (stream, (method, path, fields, status)) in (1..).step_by(2).zip(cases) {
        http2.head(stream, method, path, fields);
        assert_eq!(http2.status(stream), status, "{path}");
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        server.ask(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"));
    }
    // Refused by the rules of HTTP/2 itself (RFC 9113 §8.2.2), of which no head is known.
    http2.head(101, "GET", "/connection", &[("connection", "close")]);
    http2.until(|frame| frame.kind == RST_STREAM && frame.stream == 101);
    drop(http2);
    let last = "refused HTTP/2.0 GET - - http2_refused";
    server.wait_for_log(last, Duration::from_secs(5));
    let faults = [
        "/%00 400 nul_in_path",
        "/%zz 400 bad_percent_encoding",
        "- 400 several_hosts",
        "- 431 too_many_fields",
    ];
    let expected: Vec<String> = faults
        .iter()
        .map(|fault| format!("GET {fault}"))
        .chain(["TRACE /trace 405 trace_refused".to_owned()])
        .flat_map(|fault| ["2.0", "1.1"].map(|version| format!("refused HTTP/{version} {fault}")))
        .chain([last.to_owned()])
        .collect();
    assert_eq!(own_lines(&server), expected);
}

/// RFC 9113 §8.1.1: such a request is malformed. Its client did not leave.
#[test]
fn a_body_over_http2_of_another_length_than_announced_is_refused_and_no_reset_of_its_client() {
    let server = Server::start(WSGI).warm("/pong");
    let mut client = Http2::connect(server.address());
    for (stream, length, flags) in [(1, 4, END_STREAM), (3, 6, 0), (5, 6, END_STREAM)] {
        client.head(stream, "POST", "/digest", &[("content-length", "5")]);
        client.send(&frame(DATA, flags, stream, &vec![b'x'; length]));
        client.until(|frame| frame.kind == RST_STREAM && frame.stream == stream);
    }
    client.head(7, "POST", "/digest", &[("content-length", "5")]);
    client.send(&frame(RST_STREAM, 0, 7, &8_u32.to_be_bytes()));
    let count = |reason| {
        server.log().lines().filter(|line| line.contains("POST /digest") && line.contains(reason)).count()
    };
    wait_until("all four are recorded", Duration::from_secs(10), || {
        count(" http2_refused ") + count(" client_reset ") == 4
    });
    assert_eq!((count(" http2_refused "), count(" client_reset ")), (3, 1), "{}", server.log());
}
