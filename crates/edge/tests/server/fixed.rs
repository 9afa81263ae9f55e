//! Fixed responses and redirects.

use std::io::Write;
use std::sync::Arc;

use http::Method;
use keepwarm_edge::{FixedResponse, Redirect, Route, Site, Target, Template, TemplatePiece, Variable};
use keepwarm_serve::FieldEdits;

use crate::harness::{Server, at, on_host, read_response, respond, status_of};

#[test]
fn a_fixed_response_is_what_was_configured_and_no_more() {
    let fields = [("X-One".to_owned(), "1".to_owned()), ("Link".to_owned(), "</a>".to_owned())];
    let response = FixedResponse::new(200, Some("text/plain; charset=utf-8"), &fields, "pong").unwrap();
    let server = Server::start(Site::new(vec![Route::to(Target::Respond(response))], Vec::new()));
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nX-One: 1\r\nLink: </a>\r\n\
                Content-Length: 4\r\nConnection: close\r\nDate: DATE\r\n\r\n";
    assert_eq!(server.get("/", ""), format!("{head}pong"));
    let headless = server.says("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(headless, head, "HEAD has the length and no body");
    // A load balancer's check: HTTP/1.0, no Host (`spec/http.md` §1).
    assert_eq!(server.says("OPTIONS / HTTP/1.0\r\n\r\n"), format!("{head}pong"));
}

#[test]
fn a_response_without_content_has_no_length_but_205_has_zero() {
    let routes =
        vec![at("/204", respond(204, "")), at("/304", respond(304, "")), at("/205", respond(205, ""))];
    let server = Server::start(Site::new(routes, Vec::new()));
    assert!(!server.get("/204", "").contains("Content-Length"));
    assert!(!server.get("/304", "").contains("Content-Length"));
    assert!(server.get("/205", "").contains("Content-Length: 0\r\n"));
}

#[test]
fn routes_match_the_normal_path_and_the_host() {
    let routes = vec![
        on_host("*.example", at("/a b", respond(201, ""))),
        on_host("*.example", at("/files/*", respond(202, ""))),
        at("/files/%2F", respond(203, "")),
        on_host("b.test", Route::to(respond(206, ""))),
    ];
    let server = Server::start(Site::new(routes, Vec::new()));
    let status = |host: &str, path: &str| {
        let response =
            server.says(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        status_of(&response).to_owned()
    };
    let cases = [
        ("a.example:80", "/files/x", "202"),
        ("A.EXAMPLE.", "/x/../f%69les/./y", "202"),
        ("a.example", "/files", "404"),
        ("a.example", "//files/x", "404"),
        ("a.example", "/files%2fx", "404"),
        ("b.test", "/files/%2f", "203"),
        ("b.test", "/../files/", "206"),
        ("", "/files/%2F", "203"),
        ("", "/", "404"),
        // The target's authority counts, not Host (RFC 9112 §3.2.2).
        ("c.test", "http://b.test/", "206"),
    ];
    for (host, path, expected) in cases {
        assert_eq!(status(host, path), expected, "{host} {path}");
    }
}

#[test]
fn redirects_build_their_location_from_the_request() {
    let to = |status, pieces: &[TemplatePiece]| {
        Target::Redirect(Redirect::new(status, Template(pieces.to_vec())).unwrap())
    };
    let text = |text: &str| TemplatePiece::Text(text.to_owned());
    let of = TemplatePiece::Variable;
    let mut stripped = at("/old/*", to(308, &[text("/new"), of(Variable::Path), of(Variable::Query)]));
    stripped.strip_prefix = true;
    let routes = vec![
        at("/fixed", to(302, &[text("https://b.example/there?x=1")])),
        stripped,
        at("/bare/*", to(307, &[of(Variable::Path)])),
        on_host("open.example", Route::to(to(302, &[of(Variable::Path), of(Variable::Query)]))),
        Route::to(to(301, &[text("https://"), of(Variable::Host), of(Variable::Path), of(Variable::Query)])),
    ];
    let server = Server::start(Site::new(routes, Vec::new()));
    let location = |host: &str, path: &str| {
        let response =
            server.says(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        let location = response.split("Location: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        format!("{} {}", status_of(&response), location.unwrap_or("-"))
    };
    let cases = [
        ("a.example", "/fixed?y=2", "302 https://b.example/there?x=1"),
        ("a.example", "/old/x/y?z", "308 /new/x/y?z"),
        ("a.example", "/old/?", "308 /new/?"),
        ("a.example", "/bare/x?dropped", "307 /bare/x"),
        ("a.example:8080", "/p/../q%7e?a=%20", "301 https://a.example:8080/q~?a=%20"),
        ("a.example", "/\"quoted\"?{x}", "301 https://a.example/%22quoted%22?%7Bx%7D"),
        ("a.example", "/%c3%a9", "301 https://a.example/%C3%A9"),
        // Raw bytes are no part of a target (RFC 9112 §3.2).
        ("a.example", "/\u{e9}", "400 -"),
        // Each would send the client to a host of its own choice.
        ("open.example", "//evil.example/x", "302 /evil.example/x"),
        ("open.example", "/%2e%2e//evil.example", "302 /evil.example"),
        ("open.example", "/\\evil.example", "302 /%5Cevil.example"),
        ("", "/", "400 -"),
    ];
    for (host, path, expected) in cases {
        assert_eq!(location(host, path), expected, "{host} {path}");
    }
}

#[test]
fn a_routes_edits_are_in_its_responses_and_in_its_errors() {
    let edits = FieldEdits::new(["X-Remove"], [("X-Set", "edge")]).unwrap();
    let fields = [("x-remove".to_owned(), "me".to_owned()), ("X-Set".to_owned(), "app".to_owned())];
    let mut route = Route::to(Target::Respond(FixedResponse::new(200, None, &fields, "").unwrap()));
    route.edits = Some(Arc::new(edits));
    route.max_body = Some(1);
    let server = Server::start(Site::new(vec![route], Vec::new()));
    let ok = server.get("/", "");
    assert!(ok.contains("X-Set: edge\r\n") && !ok.to_lowercase().contains("x-remove"), "{ok}");
    assert_eq!(ok.to_lowercase().matches("x-set").count(), 1, "{ok}");
    let refused = server.get("/", "Content-Length: 2\r\n");
    assert!(refused.starts_with("HTTP/1.1 413 ") && refused.contains("X-Set: edge\r\n"), "{refused}");
}

#[test]
fn a_new_site_holds_from_the_next_request_of_a_kept_connection() {
    let site = |body: &str| Site::new(vec![Route::to(respond(200, body))], Vec::new());
    let server = Server::start(site("old"));
    let mut stream = server.connect();
    let mut ask = || {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        read_response(&mut stream)
    };
    assert!(ask().ends_with("\r\n\r\nold"));
    server.edge.replace(site("new"));
    assert!(ask().ends_with("\r\n\r\nnew"));
}

#[test]
fn a_body_that_a_fixed_response_does_not_read_does_not_become_the_next_request() {
    let mut only_get = at("/get", respond(200, "got"));
    only_get.methods = vec![Method::GET];
    let server = Server::start(Site::new(vec![only_get, Route::to(respond(200, "any"))], Vec::new()));
    let responses = server.says(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18\r\n\r\nGET /get HTTP/1.1\n\
         GET /get HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 2, "{responses}");
    assert!(responses.contains("any") && responses.ends_with("got"), "{responses}");
}
