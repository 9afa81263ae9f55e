//! What an app behind a route receives.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use keepwarm_edge::{Route, Site, Target};
use keepwarm_serve::{BodyProgress, Exchange, FieldEdits, FieldNames, Handler, respond_with_error};

use crate::harness::{Server, at, block, body, status_of};

/// Reads the body and responds with what it received.
struct Mirror;

impl Handler for Mirror {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let mut body = Vec::new();
            loop {
                match poll_fn(|cx| exchange.poll_body(cx, &mut body, 1 << 16)).await {
                    Ok(BodyProgress::More) => {}
                    Ok(BodyProgress::Done) => break,
                    Err(error) => {
                        if let Some(refusal) = error.refusal() {
                            respond_with_error(exchange, refusal.status, refusal.name, &refusal.detail, &[]);
                        }
                        return;
                    }
                }
            }
            let told = told(exchange, body.len());
            let fields: [(&[u8], &[u8]); 2] = [(b"Server", b"mirror"), (b"X-App", b"1")];
            exchange.head(200, Some(told.len() as u64), false, fields.into_iter()).unwrap();
            exchange.data(told.as_bytes());
            exchange.end();
        })
    }
}

fn told(exchange: &Exchange<'_>, body: usize) -> String {
    let request = exchange.request();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let client = request.client_address().map_or(String::new(), |client| client.to_string());
    let (script, path) = request.path().split_at(request.mount());
    let mut lines = vec![
        format!("client={client} scheme={}", request.scheme().as_str()),
        format!("script={} path={} body={body}", text(script), text(path)),
    ];
    let kept = request.head.fields.iter().filter(|(name, _)| !request.drops_field(name, FieldNames::Http));
    let told = kept.filter(|(name, _)| !matches!(*name, b"host" | b"connection" | b"content-length"));
    lines.extend(told.map(|(name, value)| format!("{}: {}", text(name), text(value))));
    lines.extend(
        request.extra_fields.iter().map(|(name, value)| format!("+ {}: {}", text(name), text(value))),
    );
    lines.join("\n")
}

pub(crate) fn mirror() -> Target {
    Target::App { name: "mirror".into(), handler: Arc::new(Mirror) }
}

const SPOOFED: &str = "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\
                       X-Forwarded-Prefix: /evil\r\nX-Real-IP: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\nX-Mine: 1\r\n";

#[test]
fn a_stranger_cannot_say_who_it_is() {
    let site = Site::new(vec![Route::to(mirror())], vec![block("10.0.0.0", 8)]);
    let response = Server::start(site).get("/p", SPOOFED);
    assert_eq!(
        body(&response),
        "client=127.0.0.1 scheme=http\nscript= path=/p body=0\nx-mine: 1\n\
         + x-forwarded-for: 127.0.0.1\n+ x-forwarded-proto: http\n+ x-forwarded-host: a.example\n\
         + forwarded: for=127.0.0.1;host=\"a.example\";proto=http"
    );
}

#[test]
fn a_trusted_proxy_can_and_the_app_sees_one_value_of_each() {
    let site = || vec![Route::to(mirror())];
    let server = Server::start(Site::new(site(), vec![block("127.0.0.0", 8)]));
    let lines = "X-Forwarded-For: 9.9.9.9, 203.0.113.7, 127.0.0.9\r\nX-Forwarded-Proto: https\r\n\
                 X-Forwarded-Host: shop.example\r\nForwarded: for=8.8.8.8\r\nX-Forwarded-Prefix: /shop\r\n";
    assert_eq!(
        body(&server.get("/p", lines)),
        "client=203.0.113.7 scheme=https\nscript= path=/p body=0\nx-forwarded-prefix: /shop\n\
         + x-forwarded-for: 203.0.113.7\n+ x-forwarded-proto: https\n+ x-forwarded-host: shop.example\n\
         + forwarded: for=203.0.113.7;host=\"shop.example\";proto=https"
    );
    let v6 = "Forwarded: for=\"[2001:db8::7]:99\";proto=https;host=h.example\r\n";
    assert_eq!(
        body(&server.get("/p", v6)),
        "client=2001:db8::7 scheme=https\nscript= path=/p body=0\n\
         + x-forwarded-for: 2001:db8::7\n+ x-forwarded-proto: https\n+ x-forwarded-host: h.example\n\
         + forwarded: for=\"[2001:db8::7]\";host=\"h.example\";proto=https"
    );
    // A check of the proxy itself: it forwards for nobody.
    assert!(body(&server.get("/p", "")).starts_with("client=127.0.0.1 scheme=http\n"));
}

#[test]
fn names_that_alias_are_dropped_unless_the_route_lets_them_pass() {
    let route = |any_names| Route {
        passing: keepwarm_serve::ForwardingPolicy {
            any_names,
            ..keepwarm_serve::ForwardingPolicy::default()
        },
        ..Route::to(mirror())
    };
    let lines = "X_User: 1\r\nX.User: 2\r\nX-User: 3\r\nProxy: 4\r\n";
    let counted = keepwarm_telemetry::counters::UNSAFE_NAMES.value();
    for (any_names, kept) in [(false, "x-user: 3"), (true, "x_user: 1\nx.user: 2\nx-user: 3")] {
        let response = Server::start(Site::new(vec![route(any_names)], Vec::new())).get("/p", lines);
        assert!(body(&response).contains(&format!("body=0\n{kept}\n+ ")), "{response}");
    }
    assert!(keepwarm_telemetry::counters::UNSAFE_NAMES.value() >= counted + 2);
}

/// RFC 9110 §7.4.
#[test]
fn a_request_for_https_that_came_unencrypted_is_misdirected() {
    let asked = "GET https://a.example/p HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let site = |trusted| Site::new(vec![Route::to(mirror())], trusted);
    let stranger = Server::start(site(Vec::new()));
    assert!(stranger.says(asked).starts_with("HTTP/1.1 421 "));
    assert!(stranger.says(asked.replacen("https", "http", 1)).starts_with("HTTP/1.1 200 "));
    // It has taken it over TLS.
    assert!(Server::start(site(vec![block("127.0.0.0", 8)])).says(asked).starts_with("HTTP/1.1 200 "));
}

#[test]
fn findings_of_one_request_are_not_those_of_the_next() {
    use std::io::Write;
    let site = Site::new(vec![Route::to(mirror())], vec![block("127.0.0.0", 8)]);
    let server = Server::start(site);
    let mut stream = server.connect();
    stream.write_all(b"GET /%61 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n").unwrap();
    assert!(crate::harness::read_response(&mut stream).contains("client=203.0.113.7"));
    stream.write_all(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let second = crate::harness::read_response(&mut stream);
    assert!(body(&second).starts_with("client=127.0.0.1 scheme=http\nscript= path=/b body=0"), "{second}");
    assert!(!second.contains("203.0.113.7"), "{second}");
}

#[test]
fn a_prefix_stays_unless_it_is_stripped() {
    let mut stripped = at("/admin/*", mirror());
    stripped.strip_prefix = true;
    let routes = vec![stripped, at("/shop/*", mirror())];
    let server = Server::start(Site::new(routes, Vec::new()));
    for (path, expected) in [
        ("/admin/", "script=/admin path=/ "),
        ("/x/../admin/u%7e/%2F", "script=/admin path=/u~/%2F "),
        ("/shop/cart", "script= path=/shop/cart "),
    ] {
        let response = server.get(path, "");
        assert!(body(&response).contains(expected), "{path}: {response}");
    }
}

#[test]
fn a_body_is_limited_also_when_it_does_not_say_its_length() {
    let mut route = Route::to(mirror());
    route.max_body = Some(10);
    let server = Server::start(Site::new(vec![route], Vec::new()));
    let chunked = |chunks: &str| {
        server.says(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunks}0\r\n\r\n"
        ))
    };
    assert!(body(&chunked("a\r\n0123456789\r\n")).contains(" body=10"));
    let refused = chunked("a\r\n0123456789\r\n1\r\nx\r\n");
    assert_eq!(status_of(&refused), "413", "{refused}");
}

#[test]
fn a_routes_edits_change_the_apps_response() {
    let mut route = Route::to(mirror());
    let edits = FieldEdits::new(["server"], [("Strict-Transport-Security", "max-age=1"), ("x-app", "2")]);
    route.edits = Some(Arc::new(edits.unwrap()));
    let response = Server::start(Site::new(vec![route], Vec::new())).get("/", "");
    let (head, _) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nStrict-Transport-Security: max-age=1\r\nx-app: 2"), "{head}");
    assert!(!head.contains("mirror") && !head.contains("X-App"), "{head}");
}
