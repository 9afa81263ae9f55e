//! The edge's own output: error responses in the client's format, request ids, the access log.

use std::sync::OnceLock;
use std::time::Duration;

use keepwarm_tests::{Client, Failure, Response, Server, WSGI, get};

const ERRORS: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/app/*"
strip_prefix = true
app = "app"
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

fn errors() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(ERRORS).warm("/app/pong"))
}

fn not_found(accept: &str) -> Response {
    let accept = if accept.is_empty() { String::new() } else { format!("Accept: {accept}\r\n") };
    errors().ask(format!("GET /nowhere HTTP/1.1\r\nHost: a\r\n{accept}\r\n"))
}

fn media(response: &Response) -> String {
    response.field("content-type").unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

#[test]
fn an_error_response_is_in_the_clients_format() {
    for (accept, wanted) in [
        ("application/json", "application/json"),
        ("application/problem+json", "application/problem+json"),
        ("text/html", "text/html"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("text/plain", "text/plain"),
        ("*/*", "text/plain"),
        ("", "text/plain"),
        ("image/png", "text/plain"),
        ("text/html;q=0.1, application/json", "application/json"),
        ("application/json;q=0.1, text/html;q=0.9", "text/html"),
        ("text/html;q=0, application/json", "application/json"),
        ("APPLICATION/JSON", "application/json"),
        ("application/*", "application/json"),
    ] {
        let response = not_found(accept);
        assert_eq!(response.status, 404);
        let got = media(&response);
        // A problem document is JSON too.
        let fits = got == wanted || (wanted.ends_with("json") && got.ends_with("json"));
        assert!(fits, "Accept: {accept}: {got}, not {wanted}");
        assert!(response.body.len() < 2048, "short: {}", response.text());
        if got.ends_with("json") {
            assert!(response.json().is_object());
        }
    }
}

#[test]
fn a_hostile_accept_is_survived() {
    for accept in [
        "",
        ",",
        ";",
        "q=1",
        "a/b;q=2",
        "a/b;q=-1",
        "a/b;q=nan",
        "*/",
        "/*",
        ";;;,,,",
        "text/html;q=0.0000000001",
        "\u{e9}/\u{e9}",
    ] {
        assert_eq!(not_found(accept).status, 404, "{accept}");
    }
    assert_eq!(not_found(&"a/b,".repeat(2000)).status, 404);
}

#[test]
fn an_error_response_never_echoes_the_request_unescaped() {
    let response = errors().ask(
        "GET /%3Cscript%3Ealert(1)%3C/script%3E?<script> HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n",
    );
    assert!(!response.text().contains("<script>"), "{}", response.text());
}

#[test]
fn a_head_request_gets_the_head_of_an_error_alone() {
    let mut client = errors().client();
    let response = client.ask("HEAD /nowhere HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n");
    assert_eq!(response.status, 404);
    client.expect_kept("/app/pong");
}

/// The request's id in the response: in a field, or in the body of an error response.
#[track_caller]
fn id_of(response: &Response) -> String {
    let text = response.text();
    let id = match response.field("x-request-id") {
        Some(id) => id.to_owned(),
        None if text.starts_with('{') => {
            let object = response.json();
            let id =
                object.as_object().and_then(|fields| fields.iter().find(|(name, _)| name.contains("id")));
            id.and_then(|(_, id)| id.as_str()).unwrap_or("").to_owned()
        }
        None => {
            let (_, rest) = text.split_once("equest id: ").unwrap_or_else(|| panic!("no request id: {text}"));
            rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("").to_owned()
        }
    };
    assert!(id.len() >= 8 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id:?} in {text}");
    id
}

#[test]
fn the_request_id_stands_in_the_response_its_body_and_the_log() {
    let response = errors().ask("GET /app/raise HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n");
    assert_eq!(response.status, 500);
    let id = id_of(&response);
    assert!(response.text().contains(&id), "{}", response.text());
    errors().wait_for_log(&id, Duration::from_secs(20));
    // And the traceback of the application is there too.
    errors().wait_for_log("ValueError: before the response", Duration::from_secs(20));
}

#[test]
fn every_request_has_an_id_of_its_own() {
    let ids: std::collections::BTreeSet<String> = (0..50).map(|_| id_of(&not_found(""))).collect();
    assert_eq!(ids.len(), 50);
}

#[test]
fn refusals_of_the_codec_have_an_id_too() {
    for request in ["BAD\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/2.0\r\nHost: a\r\n\r\n"] {
        let response = errors().ask(request);
        let id = id_of(&response);
        errors().wait_for_log(&id, Duration::from_secs(20));
    }
}

#[test]
fn worker_output_is_log_lines_that_name_app_and_worker() {
    let server = Server::start(
        &WSGI.replace("app.app", "app.shopfront").replace("app = \"app\"", "app = \"shopfront\""),
    )
    .warm("/pong");
    server.ask(get("/says"));
    for text in ["a line on stdout", "a line on stderr"] {
        let line = server.wait_for_log(text, Duration::from_secs(20));
        assert!(line.contains("shopfront"), "{line}");
        let rest = line.replace(text, "");
        assert!(rest.chars().any(|c| c.is_ascii_digit()), "no worker in {line}");
    }
}

#[test]
fn the_access_log_in_text() {
    let server = Server::start(&WSGI.replacen("bind =", "access_log = \"text\"\nbind =", 1)).warm("/pong");
    let mark = server.mark();
    server
        .ask("GET /list?secret-looking=%22%0a HTTP/1.1\r\nHost: a\r\nUser-Agent: evil\u{e9}\" agent\r\n\r\n");
    let line = server.wait_for_log_after(mark, "/list", Duration::from_secs(20));
    for part in ["GET", "200", "127.0.0.1", "HTTP/1.1"] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    assert!(!line.contains('\u{1b}'), "no color in a record");
}

#[test]
fn the_access_log_in_json() {
    let file = "access_log = { format = \"json\", file = \"@DIR@/access.log\" }\nbind =";
    let server = Server::start(&WSGI.replacen("bind =", file, 1)).warm("/pong");
    let response =
        server.ask("POST /digest?q=1 HTTP/1.1\r\nHost: \u{61}\r\nContent-Length: 5\r\nX: \"\\\r\n\r\nhello");
    let path = server.folder().join("access.log");
    let mut records = Vec::new();
    keepwarm_tests::process::wait_until("the record is written", Duration::from_secs(20), || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        records =
            text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).collect();
        records.iter().any(|record| record.to_string().contains("/digest"))
    });
    let text = std::fs::read_to_string(&path).expect("the access log");
    assert!(
        text.lines().all(
            |line| serde_json::from_str::<serde_json::Value>(line).is_ok_and(|record| record.is_object())
        ),
        "{text}"
    );
    let record = records.iter().find(|record| record.to_string().contains("/digest")).expect("found above");
    let shown = record.to_string();
    assert_eq!((&record["method"], &record["status"]), (&"POST".into(), &200.into()), "{shown}");
    if let Some(id) = response.field("x-request-id") {
        assert!(shown.contains(id), "{shown}");
    }
}

#[test]
fn every_request_is_in_the_access_log_once() {
    let file = "access_log = { format = \"json\", file = \"@DIR@/access.log\" }\nbind =";
    let server = Server::start(&WSGI.replacen("bind =", file, 1)).warm("/pong");
    let mut client = server.client();
    for number in 0..100 {
        client.expect_kept(&format!("/list?number={number}"));
    }
    // A pipeline, refusals and a client that leaves belong in it too.
    server.ask("GET /list HTTP/1.1\r\n\r\n");
    let path = server.folder().join("access.log");
    keepwarm_tests::process::wait_until("all records are written", Duration::from_secs(20), || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        (0..100).all(|number| text.matches(&format!("number={number}\"")).count() == 1)
            && text.lines().any(|line| line.contains("400"))
    });
}

#[test]
fn a_head_that_breaks_off_is_in_the_access_log() {
    let server = Server::start(&WSGI.replacen("bind =", "access_log = \"json\"\nbind =", 1)).warm("/pong");
    for begin in ["G", "GET /list HTTP/1.1\r\nHost: a\r\nX-Half: "] {
        for kept in [false, true] {
            let mark = server.mark();
            let mut client = server.client();
            if kept {
                client.expect_kept("/pong");
            }
            client.send(begin);
            client.half_close();
            client.expect_eof();
            let line = server.wait_for_log_after(mark, "head_incomplete", Duration::from_secs(20));
            assert!(line.contains("127.0.0.1") && !line.contains("\"status\""), "{line}");
            assert!(!line.contains("/pong"), "{line}");
        }
    }
    // A client that sends nothing, or ends between two requests, has sent no request.
    let mark = server.mark();
    let mut client = server.client();
    client.expect_kept("/pong");
    client.half_close();
    client.expect_eof();
    server.ask(get("/list?last"));
    server.wait_for_log_after(mark, "last", Duration::from_secs(20));
    let after: String = server.log().lines().skip(mark).collect();
    assert!(!after.contains("head_incomplete"), "{after}");
}

#[test]
fn a_client_cannot_forge_a_line_of_the_log() {
    let server = Server::start(&WSGI.replacen("bind =", "access_log = \"text\"\nbind =", 1)).warm("/pong");
    let mark = server.mark();
    server.ask("GET /list HTTP/1.1\r\nHost: a\r\nUser-Agent: x\u{1b}[31m\r\nReferer: y\r\n\r\n");
    server.ask("GET /list?a=\u{e9}\u{7f}forged HTTP/1.1\r\nHost: a\r\n\r\n");
    server.ask("GET /list?done HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_log_after(mark, "done", Duration::from_secs(20));
    let log = server.log();
    assert!(
        !log.bytes().any(|byte| (byte < 0x20 && byte != b'\n' && byte != b'\t') || byte == 0x7f),
        "controls in the log:\n{}",
        log.escape_debug()
    );
}

#[test]
fn the_start_log_names_apps_and_listeners() {
    let server = Server::start(WSGI).warm("/pong");
    let address = server.address().to_string();
    for part in [address.as_str(), "wsgi_app:application", "wsgi"] {
        keepwarm_tests::process::wait_until(part, Duration::from_secs(20), || {
            server.log().to_lowercase().contains(part)
        });
    }
}

fn start_with_limits(more: &str) -> Server {
    Server::start(&format!(
        "{more}[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"trouble_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         env = {{ DIR = \"@DIR@\" }}\n",
    ))
}

/// A client that was sent a response of 60,000 bytes and has room for few: the rest is with the server's kernel, and the server is done.
fn behind(server: &Server) -> Client {
    let mut client = server.client();
    rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 4096).expect("SO_RCVBUF");
    client.send(get("/large?id=1&n=20&ms=0"));
    server.wait_for_log("/large?id=1", Duration::from_secs(30));
    client
}

#[track_caller]
fn expect_the_large_one(client: &mut Client) {
    let first = client.try_response("GET").map(|response| (response.status, response.body.len()));
    assert!(matches!(first, Ok((200, 60_000))), "it is not whole");
}

#[track_caller]
fn expect_a_cut_one(client: &mut Client) {
    match client.try_response("GET") {
        Err(Failure::Cut(_)) => {}
        other => panic!("the second is cut, not {other:?}"),
    }
}

/// A reset takes with it what its client has not read yet of the responses before (RFC 9112 §9.6).
#[test]
fn a_response_that_is_cut_costs_a_pipelining_client_none_before_it() {
    let server = start_with_limits("");
    let mut client = server.client();
    // Most of the first response stays with the server until it is read.
    rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 4096).expect("SO_RCVBUF");
    client.send([get("/large?id=1&n=20&ms=0"), get("/late?id=2&n=3&ms=0&pause=0")].concat());
    server.wait_for_log("/late?id=2", Duration::from_secs(30));
    expect_the_large_one(&mut client);
    expect_a_cut_one(&mut client);
}

/// The next request comes when the response before is done with, and its client has not read that; the server cannot know.
#[test]
fn a_response_that_is_cut_costs_none_that_waits_to_be_read() {
    let server = start_with_limits("");
    let mut client = behind(&server);
    client.send(get("/late?id=2&n=3&ms=0&pause=0"));
    server.wait_for_log("/late?id=2", Duration::from_secs(30));
    expect_the_large_one(&mut client);
    expect_a_cut_one(&mut client);
}

/// A request that reaches a closed socket resets the connection, and takes with it what has not left of the last response (RFC 9112 §9.6).
#[test]
fn a_response_that_ends_the_connection_survives_a_request_that_was_on_its_way() {
    let server = start_with_limits("[server.limits]\nconnection_requests = 1\n");
    let mut client = behind(&server);
    client.send(get("/large?id=2&n=20&ms=0"));
    expect_the_large_one(&mut client);
    client.expect_eof();
}
