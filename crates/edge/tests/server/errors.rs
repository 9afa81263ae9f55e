//! Error responses of the edge.

use http::Method;
use keepwarm_edge::{Route, Site};
use keepwarm_telemetry::counters;

use crate::harness::{Server, at, block, respond, status_of};

fn server() -> Server {
    let mut get = at("/get", respond(200, "got"));
    get.methods = vec![Method::GET];
    let mut small = at("/small", respond(200, "ok"));
    small.max_body = Some(10);
    let mut denied = at("/denied", respond(200, "ok"));
    denied.deny = vec![block("127.0.0.0", 8)];
    let mut internal = at("/internal", respond(200, "ok"));
    internal.allow = vec![block("10.0.0.0", 8)];
    let mut local = at("/local", respond(200, "ok"));
    local.allow = vec![block("127.0.0.0", 8)];
    Server::start(Site::new(vec![get, small, denied, internal, local], Vec::new()))
}

#[test]
fn an_error_is_text_html_or_json_as_the_client_accepts_it() {
    let server = server();
    let respond = |media: &str, body: &str| {
        // The id is masked by two letters.
        let length = body.len() - 2 + 32;
        format!(
            "HTTP/1.1 404 Not Found\r\nContent-Type: {media}\r\nCache-Control: no-store\r\n\
             Content-Length: {length}\r\nConnection: close\r\nDate: DATE\r\n\r\n{body}"
        )
    };
    let text = "404 Not Found\nNothing was found at this host and path.\nRequest id: ID\n";
    assert_eq!(server.get("/none", ""), respond("text/plain; charset=utf-8", text));
    let html = "<!doctype html>\n\
                <html lang=\"en\"><meta charset=\"utf-8\"><title>404 Not Found</title>\n\
                <h1>404 Not Found</h1>\n\
                <p>Nothing was found at this host and path.</p>\n\
                <p>Request id: <code>ID</code></p>\n\
                </html>\n";
    let browser = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n";
    assert_eq!(server.get("/none", browser), respond("text/html; charset=utf-8", html));
    let json = "{\"status\":404,\"title\":\"Not Found\",\"detail\":\"Nothing was found at this host and path.\",\
                \"reason\":\"no_route\",\"request_id\":\"ID\"}\n";
    assert_eq!(server.get("/none", "Accept: application/json\r\n"), respond("application/json", json));
}

#[test]
fn an_error_to_head_has_no_body() {
    let response = server().says("HEAD /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 404 Not Found\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\n"), "{response}");
}

#[test]
fn what_is_refused_how() {
    let server = server();
    let cases = [
        ("GET /get", "", "200", ""),
        ("HEAD /get", "", "200", ""),
        ("POST /get", "", "405", "Allow: GET, HEAD\r\n"),
        ("TRACE /get", "", "405", "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"),
        ("CONNECT a.example:443", "", "405", "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"),
        ("OPTIONS *", "", "200", "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"),
        ("OPTIONS /get", "", "405", "Allow: GET, HEAD\r\n"),
        ("GET /small", "Content-Length: 11\r\n", "413", "body_too_large"),
        ("GET /%zz", "", "400", "bad_percent_encoding"),
        ("GET /a%00", "", "400", "nul_in_path"),
        ("GET /denied", "", "403", "address_denied"),
        ("GET /internal", "", "403", "address_denied"),
        (
            "GET /internal",
            "X-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\n",
            "403",
            "address_denied",
        ),
        ("GET /local", "", "200", ""),
        ("POST /get", "Expect: 200-maybe\r\nContent-Length: 1\r\n", "417", "unknown_expectation"),
        ("GET /none", "", "404", "no_route"),
    ];
    for (line, fields, status, has) in cases {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n{fields}Connection: close\r\n\r\n"
        );
        let response = server.says(request);
        assert_eq!(status_of(&response), status, "{line}: {response}");
        assert!(response.contains(has), "{line}: {response}");
    }
}

#[test]
fn a_declared_length_above_the_limit_is_refused_without_a_continue() {
    let response = server()
        .says("POST /small HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    assert!(response.contains("Connection: close\r\n"), "{response}");
}

#[test]
fn what_is_no_request_is_answered_and_not_in_the_manner_of_the_request_before_it() {
    let server = server();
    let before = counters::REFUSALS.value("no_route");
    let responses = server.says(
        "HEAD /none HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n\
         GET /get HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n",
    );
    let second = responses.get(responses.rfind("HTTP/1.1 ").unwrap()..).unwrap();
    assert!(second.starts_with("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain"), "{responses}");
    assert!(second.contains("Connection: close\r\n"), "{responses}");
    assert!(second.contains("400 Bad Request\n") && second.ends_with("\nRequest id: ID\n"), "{responses}");
    assert!(counters::REFUSALS.value("no_route") > before);
}

#[test]
fn an_empty_site_serves_nothing() {
    let server = Server::start(Site::new(Vec::<Route>::new(), Vec::new()));
    assert_eq!(status_of(&server.get("/", "")), "404");
}
