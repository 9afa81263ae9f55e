//! `spec/http.md` §1, which side closes: the product of version, `Connection`, method and response, for fixed responses and every kind of app.
//!
//! Nothing here may wait for a timeout: the client's bound is 2 s, the shortest timeout of the server is 10 s. "Kept" is proved by a
//! second request on the same connection, "closed" by an orderly end with nothing after the response.

use std::sync::OnceLock;

use keepwarm_tests::shared::{asgi, fastcgi, php, rack, wsgi};
use keepwarm_tests::{Client, Framing, Response, Server, get};

/// One way to say `Connection`: its field lines, and what they mean together (RFC 9112 §9.3).
struct Say {
    lines: &'static str,
    close: bool,
    keep: bool,
}

const fn say(lines: &'static str, close: bool, keep: bool) -> Say {
    Say { lines, close, keep }
}

const SAYS: &[Say] = &[
    say("", false, false),
    say("Connection: close\r\n", true, false),
    say("Connection: Close\r\n", true, false),
    say("CONNECTION: CLOSE\r\n", true, false),
    say("connection:close\r\n", true, false),
    say("Connection: keep-alive\r\n", false, true),
    say("Connection: Keep-Alive\r\n", false, true),
    say("Connection:\tKEEP-ALIVE\t\r\n", false, true),
    say("Connection: keep-alive, close\r\n", true, true),
    say("Connection: close, keep-alive\r\n", true, true),
    say("Connection: x-one ,\tclose , x-two\r\n", true, false),
    say("Connection: , ,close\r\n", true, false),
    say("Connection: x-one, keep-alive,\r\n", false, true),
    say("Connection: keep-alive\r\nConnection: close\r\n", true, true),
    say("Connection: x-one\r\nX-Between: 1\r\nConnection: close\r\n", true, false),
    say("Connection: x-one\r\nConnection: keep-alive\r\n", false, true),
    // Not the tokens they look like.
    say("Connection: closed\r\n", false, false),
    say("Connection: x-close, keep-alive-not\r\n", false, false),
    // This field does not apply to servers.
    say("Proxy-Connection: keep-alive\r\n", false, false),
    say("Keep-Alive: timeout=5\r\n", false, false),
];

/// How a response's length is known before the head leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Length {
    /// Known to the server.
    Known(usize),
    /// Unknown, but the producer ends at once, below 64 KiB.
    Short(usize),
    /// Unknown, and longer than 64 KiB.
    Long(usize),
    /// Unknown, with more than 2 ms of silence.
    Silent(usize),
    /// 204 and 304.
    Bodiless,
    /// 205.
    Reset,
}

/// One way to respond.
struct Expected {
    path: &'static str,
    status: u16,
    length: Length,
    /// The application itself says `Connection: close`.
    closes: bool,
}

const fn expect(path: &'static str, status: u16, length: Length) -> Expected {
    Expected { path, status, length, closes: false }
}

const FROM_APPS: &[Expected] = &[
    expect("/pong", 200, Length::Known(4)),
    expect("/list", 200, Length::Known(4)),
    expect("/empty", 200, Length::Known(0)),
    expect("/short", 200, Length::Short(4)),
    expect("/long", 200, Length::Long(4096 * 50)),
    expect("/silent", 200, Length::Silent(12)),
    expect("/204", 204, Length::Bodiless),
    expect("/204-length", 204, Length::Bodiless),
    expect("/204-body", 204, Length::Bodiless),
    expect("/304", 304, Length::Bodiless),
    expect("/304-length", 304, Length::Bodiless),
    expect("/205", 205, Length::Reset),
    expect("/205-body", 205, Length::Reset),
    expect("/hop", 200, Length::Known(4)),
    expect("/chunked-itself", 200, Length::Known(4)),
    Expected { path: "/close", status: 200, length: Length::Known(4), closes: true },
    expect("/date", 200, Length::Known(4)),
];

/// A script has no way to give a body whole: without a length of its own, none is known.
const FROM_SCRIPTS: &[Expected] = &[
    expect("/pong", 200, Length::Known(4)),
    expect("/list", 200, Length::Short(4)),
    expect("/empty", 200, Length::Known(0)),
    expect("/short", 200, Length::Short(4)),
    expect("/long", 200, Length::Long(4096 * 50)),
    expect("/silent", 200, Length::Silent(12)),
    expect("/204", 204, Length::Bodiless),
    expect("/204-length", 204, Length::Bodiless),
    expect("/204-body", 204, Length::Bodiless),
    expect("/304", 304, Length::Bodiless),
    expect("/304-length", 304, Length::Bodiless),
    expect("/205", 205, Length::Reset),
    expect("/205-body", 205, Length::Reset),
    expect("/hop", 200, Length::Known(4)),
    expect("/chunked-itself", 200, Length::Short(4)),
    Expected { path: "/close", status: 200, length: Length::Known(4), closes: true },
    expect("/date", 200, Length::Known(4)),
];

const FIXED_RESPONSES: &[Expected] = &[
    expect("/pong", 200, Length::Known(4)),
    expect("/empty", 200, Length::Known(0)),
    expect("/204", 204, Length::Bodiless),
    expect("/205", 205, Length::Reset),
    expect("/304", 304, Length::Bodiless),
    expect("/moved", 302, Length::Known(usize::MAX)),
    expect("/nowhere", 404, Length::Known(usize::MAX)),
];

const FIXED: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/pong"
respond = { status = 200, body = "pong" }
[[listen.main.route]]
path = "/empty"
respond = { status = 200, body = "" }
[[listen.main.route]]
path = "/204"
respond = { status = 204 }
[[listen.main.route]]
path = "/205"
respond = { status = 205 }
[[listen.main.route]]
path = "/304"
respond = { status = 304 }
[[listen.main.route]]
path = "/moved"
redirect = { to = "/pong", status = 302 }
"#;

const METHODS: &[&str] = &["GET", "HEAD", "POST", "OPTIONS"];

fn fixed() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(FIXED))
}

#[test]
fn fixed_responses() {
    product(fixed(), FIXED_RESPONSES);
}

#[test]
fn wsgi_responses() {
    product(wsgi(), FROM_APPS);
}

#[test]
fn rack_responses() {
    product(rack(), FROM_APPS);
}

#[test]
fn asgi_responses() {
    product(asgi(), FROM_APPS);
}

#[test]
fn php_responses() {
    product(php(), FROM_APPS);
}

#[test]
fn fastcgi_responses() {
    product(fastcgi(), FROM_SCRIPTS);
}

/// A failing case may cost the client's whole bound: after this many the rest says nothing new.
const ENOUGH: usize = 25;

fn product(server: &Server, responses: &[Expected]) {
    let mut faults = Vec::new();
    for expected in responses {
        for version in ["1.1", "1.0"] {
            for say in SAYS {
                for method in METHODS {
                    let name = format!("{method} {} HTTP/{version} {:?}", expected.path, say.lines);
                    if faults.len() == ENOUGH {
                        break;
                    }
                    if let Err(fault) = case(server, expected, version, say, method) {
                        faults.push(format!("{name}: {fault}"));
                    }
                }
            }
        }
    }
    let shown = faults.iter().take(12).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(faults.is_empty(), "{} cases fail, the first of them:\n{shown}", faults.len());
}

/// One case. On a loaded machine a short response of unknown length may meet 2 ms of silence, and a silence may go unnoticed: these are
/// asked for up to twenty times.
fn case(server: &Server, expected: &Expected, version: &str, say: &Say, method: &str) -> Result<(), String> {
    let tries = if matches!(expected.length, Length::Short(_) | Length::Silent(_)) { 20 } else { 1 };
    let mut last = Ok(());
    for _ in 0..tries {
        last = once(server, expected, version, say, method);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn once(server: &Server, expected: &Expected, version: &str, say: &Say, method: &str) -> Result<(), String> {
    let body = if method == "POST" { "Content-Length: 5\r\n\r\nhello" } else { "\r\n" };
    let request =
        format!("{method} {} HTTP/{version}\r\nHost: test.example\r\n{}{body}", expected.path, say.lines);
    let mut client = server.client();
    client.send(&request);
    let response = client.try_response(method).map_err(|failure| format!("{failure:?}\n{client}"))?;
    let keeps = check_head(expected, version, say, method, &response)
        .map_err(|fault| format!("{fault}\n{client}"))?;
    if keeps {
        kept(&mut client, expected, version).map_err(|fault| format!("{fault}\n{client}"))
    } else {
        ended(&mut client).map_err(|fault| format!("{fault}\n{client}"))
    }
}

/// The table of `spec/http.md` §1, read from top to bottom. Returns whether the connection is kept.
fn check_head(
    expected: &Expected,
    version: &str,
    say: &Say,
    method: &str,
    response: &Response,
) -> Result<bool, String> {
    let describe = |what: String| {
        format!("{what}; {} {:?}, framing {:?}", response.status, response.fields, response.framing)
    };
    let wrong = |what: String| Err(describe(what));
    if response.status != expected.status {
        return wrong(format!("status {} wanted", expected.status));
    }
    let bodiless = method == "HEAD" || expected.length == Length::Bodiless;
    let old = version == "1.0";
    let connection = response.field("connection").map(str::to_ascii_lowercase);
    let known = bodiless || matches!(expected.length, Length::Known(_) | Length::Short(_) | Length::Reset);
    let keeps = !expected.closes && !say.close && if old { say.keep && known } else { true };
    let wanted = match (keeps, old) {
        (true, true) => Some("keep-alive"),
        (true, false) => None,
        (false, _) => Some("close"),
    };
    if connection.as_deref() != wanted {
        return wrong(format!("Connection: {wanted:?} wanted"));
    }
    if old && response.framing == Framing::Chunked {
        return wrong("chunked to a 1.0 client".into());
    }
    if old && !response.all("transfer-encoding").is_empty() {
        return wrong("Transfer-Encoding to a 1.0 client".into());
    }
    let framed = matches!(response.framing, Framing::Length(_) | Framing::Chunked | Framing::None);
    if keeps && !framed {
        return wrong("kept without a framing".into());
    }
    if old
        && say.keep
        && !say.close
        && matches!(expected.length, Length::Long(_) | Length::Silent(_))
        && !bodiless
        && response.framing != Framing::Close
    {
        return wrong("an unknown length to a 1.0 client is delimited by the close".into());
    }
    if !old
        && !bodiless
        && matches!(expected.length, Length::Long(_) | Length::Silent(_))
        && response.framing != Framing::Chunked
    {
        return wrong("an unknown length is chunked".into());
    }
    check_length(expected, method, response).map_err(describe)?;
    check_fields(expected, keeps, response).map_err(describe)?;
    Ok(keeps)
}

fn check_length(expected: &Expected, method: &str, response: &Response) -> Result<(), String> {
    let field = response.field("content-length");
    match expected.length {
        Length::Bodiless if field.is_some() => return Err("Content-Length on a 204 or a worker's 304".into()),
        Length::Reset if method != "HEAD" && field != Some("0") => {
            return Err("a 205 goes out with Content-Length: 0".into());
        }
        // A length is never computed for HEAD: only the application's own may be sent.
        Length::Short(_) | Length::Long(_) | Length::Silent(_) if method == "HEAD" && field.is_some() => {
            return Err("a length computed for HEAD".into());
        }
        Length::Known(length)
            if length != usize::MAX && field.is_some_and(|field| field != length.to_string()) =>
        {
            return Err(format!("Content-Length {length} wanted"));
        }
        Length::Known(_) if method != "HEAD" && field.is_none() => {
            return Err("a known length is said".into());
        }
        _ => {}
    }
    let wanted = match expected.length {
        _ if method == "HEAD" => 0,
        Length::Known(usize::MAX) => response.body.len(),
        Length::Known(length) | Length::Short(length) | Length::Long(length) | Length::Silent(length) => {
            length
        }
        Length::Bodiless | Length::Reset => 0,
    };
    if response.body.len() == wanted {
        Ok(())
    } else {
        Err(format!("a body of {}, not {wanted}", response.body.len()))
    }
}

fn check_fields(expected: &Expected, keeps: bool, response: &Response) -> Result<(), String> {
    let wanted = keeps.then_some("timeout=75");
    if response.field("keep-alive") != wanted {
        return Err(format!("Keep-Alive: {wanted:?} wanted on the first response"));
    }
    let Some(date) = response.field("date") else { return Err("no Date (RFC 9110 §6.6.1)".into()) };
    if !is_imf_fixdate(date) {
        return Err(format!("Date {date:?}"));
    }
    for name in ["proxy-connection", "x-private"] {
        if response.field(name).is_some() {
            return Err(format!("{name} reached the client"));
        }
    }
    let dated = expected.path == "/date";
    if dated != (date == "Sun, 06 Nov 1994 08:49:37 GMT")
        || response.field("server") != dated.then_some("app/1")
    {
        return Err("Date and Server are the application's when it gives them".into());
    }
    if expected.path == "/hop" && response.field("x-kept") != Some("1") {
        return Err("an end-to-end field was lost".into());
    }
    Ok(())
}

/// The connection serves another request. Only the first response says how long it is kept.
fn kept(client: &mut Client, expected: &Expected, version: &str) -> Result<(), String> {
    let keep = if version == "1.0" { "Connection: keep-alive\r\n" } else { "" };
    let path = if expected.path == "/nowhere" || expected.path == "/moved" { "/pong" } else { expected.path };
    client.send(format!("GET /pong HTTP/{version}\r\nHost: test.example\r\n{keep}\r\n"));
    let response =
        client.try_response("GET").map_err(|failure| format!("not kept: {failure:?}, after {path}"))?;
    if response.text() != "pong" || response.field("keep-alive").is_some() {
        return Err(format!("second response: {response:?}"));
    }
    client.send(format!("GET /pong HTTP/{version}\r\nHost: test.example\r\nConnection: close\r\n\r\n"));
    let last = client.try_response("GET").map_err(|failure| format!("third response: {failure:?}"))?;
    if last.text() != "pong" || !last.says_close() {
        return Err(format!("third response: {last:?}"));
    }
    ended(client)
}

fn ended(client: &mut Client) -> Result<(), String> {
    match client.try_response("GET") {
        Err(keepwarm_tests::Failure::Closed) => Ok(()),
        other => Err(format!("an orderly end wanted, not {other:?}")),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
fn is_imf_fixdate(text: &str) -> bool {
    let pattern = "Aaa, 00 Aaa 0000 00:00:00 GMT";
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, kind)| match kind {
            b'0' => byte.is_ascii_digit(),
            b'A' => byte.is_ascii_uppercase(),
            b'a' => byte.is_ascii_lowercase(),
            b'G' | b'M' | b'T' => byte == kind,
            other => byte == other,
        })
}

#[test]
fn an_error_response_of_the_edge_follows_the_same_rules() {
    for (version, say, keeps) in
        [("1.1", "", true), ("1.0", "", false), ("1.0", "Connection: keep-alive\r\n", true)]
    {
        let mut client = fixed().client();
        let response = client.ask(format!("GET /nowhere HTTP/{version}\r\nHost: a\r\n{say}\r\n"));
        assert_eq!(response.status, 404);
        if keeps {
            client.expect_kept("/pong");
        } else {
            assert!(response.says_close());
            client.expect_eof();
        }
    }
}

#[test]
fn a_client_that_closes_its_write_side_gets_its_response() {
    for server in [fixed(), wsgi(), rack(), asgi(), php(), fastcgi()] {
        let mut client = server.client();
        client.send("GET /pong HTTP/1.1\r\nHost: a\r\n\r\n");
        client.half_close();
        assert_eq!(client.response("GET").text(), "pong");
        client.expect_eof();
    }
}

#[test]
fn a_half_closed_client_gets_a_slow_response_too() {
    for server in [wsgi(), rack(), asgi(), php(), fastcgi()] {
        let mut client = server.client();
        client.send("GET /sleep?ms=60 HTTP/1.1\r\nHost: a\r\n\r\n");
        client.half_close();
        assert_eq!(client.response("GET").text(), "pong");
        client.expect_eof();
    }
}

#[test]
fn an_unread_body_never_becomes_a_request_and_never_delays_the_response() {
    // The body lies in the same segment as the head; whether the connection is kept is the server's choice, if it announces it.
    for server in [wsgi(), rack(), asgi(), php(), fastcgi()] {
        let mut client = server.client();
        let response = client.ask("POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\nGET /pong HTTP/1.1\r\nHo: a\r\n\r\n");
        assert_eq!(response.status, 403);
        if response.says_close() {
            client.expect_eof();
        } else {
            client.expect_kept("/pong");
        }
    }
}

#[test]
fn a_post_to_a_fixed_response_gets_it_before_the_body_has_arrived() {
    let mut client = fixed().client();
    let response = client.ask("POST /pong HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    assert_eq!(response.status, 200);
    if response.says_close() {
        client.expect_eof();
    } else {
        client.send(vec![b'x'; 1000]);
        client.expect_kept("/pong");
    }
}

/// Like a body with a length: the response comes without reading it, and it is skipped.
#[test]
fn a_chunked_body_that_has_come_costs_no_connection() {
    const BODIES: [&str; 3] =
        ["0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "5;x=1\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n"];
    let files = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/pong\"\nrespond = 200\n\
         [[listen.main.route]]\nfiles = \"@DIR@\"\n",
    );
    let head = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (server, path, status) in [
        (fixed(), "/pong", 200),
        (fixed(), "/moved", 302),
        (fixed(), "/nowhere", 404),
        (&files, "/file", 405),
        (asgi(), "/unread", 403),
    ] {
        for body in BODIES {
            let mut client = server.client();
            client.send(format!("{}{body}{}", head(path), get("/pong")));
            let expected = client.response("POST");
            assert_eq!((expected.status, expected.says_close()), (status, false), "{path} {body:?}");
            assert_eq!(client.response("GET").status, 200, "{path} {body:?}");
            client.expect_kept("/pong");
        }
    }
    // The length of an incomplete one is unknown.
    for begin in ["", "5\r\nhel", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\nX: 1\r\n"] {
        let mut client = fixed().client();
        let expected = client.ask(head("/pong") + begin);
        assert!(expected.status == 200 && expected.says_close(), "{begin:?}");
        client.expect_eof();
    }
}

#[test]
fn an_app_still_reads_a_chunked_body_after_its_response_has_begun() {
    let mut client = asgi().client();
    client.send(
        "POST /respond-then-read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    assert_eq!(client.response("POST").text(), "begun,5");
    client.expect_kept("/pong");
}
