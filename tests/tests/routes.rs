//! What a route and the server forward about the client, and how bodies are passed on.

use std::time::Duration;

use keepwarm_tests::{Client, Server, get};

fn app(server: &str, route: &str, workers: u32) -> Server {
    let config = format!(
        "{server}\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n{route}\n\
         [app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\n"
    );
    Server::start(&config)
}

/// What a client of that address, as a proxy at 127.0.0.1 tells it, is to the application.
fn seen(server: &Server, fields: &str) -> serde_json::Value {
    server.ask(format!("GET /echo HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).json()
}

#[test]
fn forwarding_headers_of_an_untrusted_client_are_replaced() {
    let server = app("", "", 1);
    let environ = seen(
        &server,
        "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\nForwarded: for=203.0.113.7;proto=https\r\nX-Real-IP: 203.0.113.7\r\n",
    );
    assert_eq!(environ["REMOTE_ADDR"], "127.0.0.1");
    assert_eq!(environ["wsgi.url_scheme"], "http");
    assert_eq!(environ["HTTP_X_FORWARDED_FOR"], "127.0.0.1");
    assert_eq!(environ["HTTP_X_FORWARDED_PROTO"], "http");
    assert_eq!(environ["HTTP_X_FORWARDED_HOST"], "a.example");
    assert!(!environ.to_string().contains("203.0.113.7"), "{environ}");
}

#[test]
fn forwarding_headers_of_a_trusted_proxy_are_kept() {
    let server = app("[server]\ntrusted_proxies = [\"127.0.0.0/8\"]", "", 1);
    let environ = seen(&server, "X-Forwarded-For: 198.51.100.1, 203.0.113.7\r\nX-Forwarded-Proto: https\r\n");
    assert_eq!(environ["REMOTE_ADDR"], "203.0.113.7", "the rightmost that is no proxy");
    assert_eq!(environ["wsgi.url_scheme"], "https");
    assert_eq!(environ["HTTP_X_FORWARDED_FOR"], "203.0.113.7");
}

#[test]
fn addresses_are_allowed_and_denied() {
    assert_eq!(app("", "deny = [\"127.0.0.0/8\"]", 1).ask(get("/pong")).status, 403);
    assert_eq!(app("", "allow = [\"10.0.0.0/8\"]", 1).ask(get("/pong")).status, 403);
    assert_eq!(app("", "allow = [\"127.0.0.1/32\"]", 1).ask(get("/pong")).status, 200);
}

#[test]
fn an_unbuffered_request_holds_its_worker_from_its_head_on() {
    let server = app("", "buffer_request = false", 1).warm("/pong");
    let mut slow = server.client();
    slow.send("POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    let mut other = server.client();
    other.send(get("/pong"));
    other.expect_silence(Duration::from_millis(300));
    slow.send("2\r\nde\r\n0\r\n\r\n");
    assert_eq!(slow.response("POST").json()["length"], 5);
    assert_eq!(other.response("GET").text(), "pong");
}

#[test]
fn an_unbuffered_response_holds_its_worker_until_the_client_takes_it() {
    let held = app("", "buffer_response = false", 1).warm("/pong");
    let mut reader = held.client().patient(Duration::from_secs(10));
    rustix::net::sockopt::set_socket_recv_buffer_size(reader.stream(), 65_536).expect("SO_RCVBUF");
    reader.send(get("/big?bytes=30000000"));
    reader.head("GET");
    let mut other = held.client().patient(Duration::from_secs(10));
    other.send(get("/pong"));
    other.expect_silence(Duration::from_millis(300));
    assert_eq!(reader.read_exact(30_000_000).len(), 30_000_000);
    assert_eq!(other.response("GET").text(), "pong");
}

/// On all addresses it is the one that the client has connected to, whatever it calls the server.
#[test]
fn an_app_learns_which_address_was_connected_to() {
    const CONFIG: &str = r#"
[listen.main]
bind = "0.0.0.0:0"
[[listen.main.route]]
host = "script.example"
app = "script"
[[listen.main.route]]
app = "app"
[listen.local]
bind = "unix:@DIR@/app.sock"
[[listen.local.route]]
app = "app"
[app.app]
entry = "asgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
[app.script]
kind = "fastcgi"
entry = "web/index.php"
directory = "@APPS@"
workers = 1
"#;
    let server = Server::start(CONFIG).warm("/pong");
    let port = server.address().port();
    for address in ["127.0.0.1", "127.0.0.2"] {
        let seen = |host: &str| {
            let client = Client::connect(format!("{address}:{port}").parse().expect("an address"));
            let request = format!("GET /echo HTTP/1.1\r\nHost: {host}:81\r\n\r\n");
            client.patient(Duration::from_secs(30)).ask(request).json()
        };
        assert_eq!(seen("shop.example")["server"], serde_json::json!([address, port]));
        let script = seen("script.example");
        assert_eq!(script["SERVER_ADDR"], address);
        assert_eq!(
            (&script["SERVER_NAME"], &script["SERVER_PORT"]),
            (&"script.example".into(), &"81".into())
        );
    }
    let socket = server.folder().join("app.sock");
    let seen: serde_json::Value =
        serde_json::from_str(&keepwarm_tests::admin::ask_unix(&socket, "GET", "/echo").1).expect("JSON");
    assert_eq!(seen["server"], serde_json::json!([socket, null]));
}

#[test]
fn header_rules_of_a_listener_apply_to_all_its_responses() {
    let server = Server::start(
        r#"
[listen.main]
bind = "127.0.0.1:0"
headers = { set = { X-Site = "$host_name", X-Frame-Options = "DENY" }, if_missing = { Cache-Control = "no-cache" } }
request_headers = { set = { X-Tenant = "$host_name", X-Forwarded-Port = "8443" }, remove = ["X-Secret"] }
[[listen.main.route]]
path = "/fixed"
respond = { status = 200, body = "fixed" }
headers = { remove = ["X-Frame-Options"], set = { Cache-Control = "public" } }
[[listen.main.route]]
path = "/app/*"
strip_prefix = true
app = "app"
request_headers = { set = { X-Route = "1" } }
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#,
    );
    let fixed = server.ask(get("/fixed"));
    assert_eq!((fixed.field("x-site"), fixed.field("x-frame-options")), (Some("test.example"), None));
    assert_eq!(fixed.field("cache-control"), Some("public"));
    let app = server.ask(
        "GET /app/echo HTTP/1.1\r\nHost: b.example:80\r\nX-Secret: 1\r\nX-Tenant: 2\r\nX-Forwarded-Port: 6\r\n\r\n",
    );
    assert_eq!((app.field("x-site"), app.field("x-frame-options")), (Some("b.example"), Some("DENY")));
    assert_eq!(app.field("cache-control"), Some("no-cache"));
    let seen = app.json();
    assert_eq!((&seen["HTTP_X_TENANT"], &seen["HTTP_X_ROUTE"]), (&"b.example".into(), &"1".into()));
    assert!(seen["HTTP_X_SECRET"].is_null());
    assert_eq!(seen["HTTP_X_FORWARDED_PORT"], "8443", "no client's, and Keepwarm writes none itself");
    // Without a route, and malformed.
    assert_eq!(server.ask(get("/none")).field("x-frame-options"), Some("DENY"));
    let malformed = server.ask("GET / HTTP/1.1\r\nHost: a.example\r\nBad Header: 1\r\n\r\n");
    assert_eq!((malformed.status, malformed.field("x-frame-options")), (400, Some("DENY")));
}

#[test]
fn a_body_has_values_of_the_request_that_stay_values() {
    let server = Server::start(
        r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/html/*"
respond = { body = "<p title='$arg_q'>$1: $arg_q, $$5</p>", content_type = "text/html; charset=utf-8" }
[[listen.main.route]]
path = "/json"
respond = { status = 404, body = '{"q":"$arg_q","client":"$client"}', content_type = "application/problem+json" }
[[listen.main.route]]
path = "/guarded/*"
respond = { body = "$1 $method" }
concurrency = { total = 4 }
"#,
    );
    let html = server.ask(get("/html/a?q=%3Cb%20x=%27%22%3E%26"));
    let value = "&lt;b x=&#39;&quot;&gt;&amp;";
    assert_eq!(html.text(), format!("<p title='{value}'>a: {value}, $5</p>"));
    let json = server.ask(get("/json?q=%22%2C%22x%22%3A%0A%5C"));
    assert_eq!((json.status, json.json()["q"].as_str()), (404, Some("\",\"x\":\n\\")));
    assert_eq!(json.json()["client"], "127.0.0.1");
    assert_eq!(server.ask(get("/guarded/b/c")).text(), "b/c GET");
    let mut client = server.client();
    client.send("HEAD /guarded/b HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let head = client.response("HEAD");
    assert_eq!((head.field("content-length"), head.text().as_str()), (Some("6"), ""));
}
