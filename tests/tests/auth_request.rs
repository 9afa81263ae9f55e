//! Authorization by another service: who gets in, what the service is asked, and what the app is told.

use std::io::Write;
use std::time::Duration;

use keepwarm_tests::http2::Http2;
use keepwarm_tests::origin::{After, Gate, Origin, ok};
use keepwarm_tests::{Client, Response, Server, admin, get};

const LONG: Duration = Duration::from_secs(60);

/// A route of each kind of service; `{service}` of a route is the host.
const APPS: &str = r#"
[server.log]
format = "text"
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
access_log = { format = "text" }
route = [
    { host = "wsgi.test", app = "app", auth_request = { app = "wsgi", @AUTH@ } },
    { host = "asgi.test", app = "app", auth_request = { app = "asgi", @AUTH@ } },
    { host = "rack.test", app = "app", auth_request = { app = "rack", @AUTH@ } },
    { host = "php.test", app = "app", auth_request = { app = "php", @AUTH@ } },
    { host = "classic.test", app = "app", auth_request = { app = "classic", @AUTH@ } },
    { host = "node.test", app = "app", auth_request = { app = "node", @AUTH@ } },
    { host = "respond.test", respond = { status = 200, body = "fixed" }, auth_request = { app = "wsgi", @AUTH@ } },
    { host = "redirect.test", redirect = "https://example.com/", auth_request = { app = "wsgi", @AUTH@ } },
    { host = "files.test", files = "@APPS@", auth_request = { app = "wsgi", @AUTH@ } },
    { host = "both.test", app = "app", basic_auth = { users = { alice = "@HASH@" } }, auth_request = { app = "wsgi", path = "/", headers = ["X-Auth-*"] } },
    { host = "rules.test", app = "app", rewrite = "/echo", request_headers = { set = { X-Was = "$header_remote_user" } }, auth_request = { app = "wsgi", @AUTH@ } },
]
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
[app.wsgi]
entry = "auth_wsgi:application"
directory = "@APPS@/auth"
interpreter = "@PYTHON@"
workers = 1
[app.asgi]
entry = "auth_asgi:application"
directory = "@APPS@/auth"
interpreter = "@PYTHON@"
workers = 1
[app.rack]
entry = "auth.ru"
directory = "@APPS@/auth"
workers = 1
[app.php]
kind = "php"
entry = "auth.php"
directory = "@APPS@/auth"
workers = 1
[app.classic]
kind = "fastcgi"
entry = "web/index.php"
directory = "@APPS@/auth"
workers = 1
[app.node]
command = ["node", "@APPS@/auth/auth.js"]
workers = 1
"#;

const AUTH: &str =
    r#"path = "/verify", headers = ["X-Auth-*"], user_header = "Remote-User", timeout = "60s""#;
/// `alice:secret`.
const HASH: &str = "$2y$10$ZvoX7xlQmE9pjmrHTd4CY.MT/b/9BFVs/D6trVCNSWLMmXiDwk6fe";

fn apps() -> Server {
    Server::start(&APPS.replace("@AUTH@", AUTH).replace("@HASH@", HASH))
}

fn ask(server: &Server, host: &str, target: &str, fields: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
    server.client().patient(LONG).ask(request)
}

const GOOD: &str = "Authorization: Bearer good\r\n";

#[test]
fn an_app_of_each_language_decides() {
    let server = apps();
    for service in ["wsgi", "asgi", "rack", "php", "classic", "node"] {
        let host = format!("{service}.test");
        let denied = ask(&server, &host, "/echo", "Remote-User: root\r\n");
        assert_eq!((denied.status, denied.text().as_str()), (401, "who are you?"), "{service}");
        assert_eq!(denied.field("www-authenticate"), Some("Bearer realm=\"x\""), "{service}");

        let login = ask(&server, &host, "/echo", "Authorization: Bearer login\r\n");
        assert_eq!(
            (login.status, login.field("location")),
            (302, Some("https://login.example/")),
            "{service}"
        );
        assert_eq!(login.all("set-cookie"), ["a=1", "b=2"], "{service}");

        let fields = format!(
            "{GOOD}Content-Type: text/x\r\nRange: bytes=0-1\r\nIf-None-Match: \"x\"\r\nRemote-User: root\r\n\
             X-Original-URI: /public\r\nX-Forwarded-Uri: /public\r\nX-Forwarded-For: 192.0.2.1\r\n"
        );
        let seen = ask(&server, &host, "/./a/../echo?b=%20c", &fields).json();
        assert_eq!((&seen["HTTP_REMOTE_USER"], &seen["HTTP_X_AUTH_GROUPS"]), (&"jo".into(), &"staff".into()));
        // What the service was told; a server may add `Content-Length: ""` or 0 itself.
        let told = seen["HTTP_X_AUTH_SEEN"].as_str().expect("a text").replace("|0|", "||");
        let url = format!("http://{host}/echo?b=%20c");
        let expected = format!("GET|GET|/echo?b=%20c|{url}|GET|/echo?b=%20c|127.0.0.1|||||");
        assert_eq!(told, expected, "{service}");
    }
    server.wait_for_log(" - jo [", LONG);
    for (outcome, count) in [("allowed", 1.0), ("denied", 2.0)] {
        let name = format!("keepwarm_auth_requests_total{{app=\"rack\",outcome=\"{outcome}\"}}");
        assert_eq!(admin::wait_for_metric(&server, &name, count), count, "{name}");
    }
}

#[test]
fn every_kind_of_route_is_guarded() {
    let server = apps();
    for (host, target, status) in
        [("respond.test", "/", 200), ("redirect.test", "/", 307), ("files.test", "/wsgi_app.py", 200)]
    {
        assert_eq!(ask(&server, host, target, "").status, 401, "{host}");
        assert_eq!(ask(&server, host, target, GOOD).status, status, "{host}");
    }
    // Over HTTP/2 alike.
    let mut client = Http2::connect(server.address());
    let head = |credentials: &'static str| [("host", "a.example"), ("authorization", credentials)];
    client.request(1, "/echo", &[]);
    assert_eq!(client.status(1), 404, "no route for a.example");
    drop(client);
    let server = Server::start(
        &APPS.replace("host = \"rack.test\", ", "").replace("@AUTH@", AUTH).replace("@HASH@", HASH),
    );
    let mut client = Http2::connect(server.address());
    client.request(1, "/echo", &head("Bearer bad"));
    assert_eq!(client.response(1).0, 401);
    client.request(
        3,
        "/echo",
        &[("authorization", "Bearer good"), ("remote_user", "root"), ("remote-user", "root")],
    );
    let (status, body) = client.response(3);
    let seen: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((status, &seen["HTTP_REMOTE_USER"]), (200, &"jo".into()));
    assert!(!seen.to_string().contains("root"), "{seen}");
}

/// caddy#7545: also when the service says nothing, and whatever the client does to keep them.
#[test]
fn no_identity_header_of_the_client_reaches_the_app() {
    let server = apps();
    for forged in [
        "Remote-User: root\r\n",
        "remote_user: root\r\n",
        "REMOTE.USER: root\r\n",
        "Remote~User: root\r\nX_Auth_Groups: root\r\n",
        "X-Auth-Anything: root\r\nx_auth-Other: root\r\n",
        "Remote-User: root\r\nConnection: Remote-User, X-Auth-Groups\r\n",
        "Remote-User: a\r\nremote-user: root\r\nConnection: close\r\n",
    ] {
        for (credentials, user) in [("silent", None), ("good", Some("jo"))] {
            let fields = format!("Authorization: Bearer {credentials}\r\n{forged}");
            let seen = ask(&server, "wsgi.test", "/echo", &fields).json();
            assert_eq!(seen["HTTP_REMOTE_USER"].as_str(), user, "{fields}");
            assert!(!seen.to_string().contains("root"), "{fields}: {seen}");
        }
    }
    // A rule of the route does not see it either.
    let seen = ask(&server, "rules.test", "/a/b", &format!("{GOOD}Remote-User: root\r\n")).json();
    assert!(!seen.to_string().contains("root"), "{seen}");
    let told = seen["HTTP_X_AUTH_SEEN"].as_str().expect("a text");
    assert!(told.contains("|/a/b|"), "the service judges what the client asked for: {told}");
    // A user with a password, and no right to the path.
    let both = ask(&server, "both.test", "/echo", "Authorization: Basic YWxpY2U6c2VjcmV0\r\n");
    assert_eq!((both.status, both.text().as_str()), (401, "who are you?"));
}

/// caddy#7941: the service decides by the path, and the app may read it otherwise.
#[test]
fn the_service_and_the_app_get_the_same_path() {
    let server = apps();
    for (target, status) in [
        ("/public/../echo", 200),
        ("/%65cho", 200),
        ("/public%2F..%2Fecho", 400),
        ("/public;/echo", 400),
        ("/public/..;/echo", 400),
        ("//echo", 400),
        ("/public%5C..%5Cecho", 400),
        ("/%00", 400),
    ] {
        let response = ask(&server, "wsgi.test", target, GOOD);
        assert_eq!(response.status, status, "{target}");
        if status == 200 {
            let told = response.json()["HTTP_X_AUTH_SEEN"].as_str().expect("a text").to_owned();
            assert!(told.contains("|/echo|"), "{target}: {told}");
        }
    }
}

/// A service of the test's, and an app after it.
fn with_service(service: &Origin, more: &str) -> Server {
    let config = format!(
        r#"
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
error_pages = {{ 503 = "@DIR@/503.html" }}
auth_request = {{ upstream = "auth", path = "/check?x=1", headers = ["Remote-User"], {more} }}
[upstream.auth]
url = "http://{}"
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#,
        service.address()
    );
    Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("its folder").to_owned();
        std::fs::write(folder.join("503.html"), "<p>come back</p>").expect("a file");
    })
}

/// The cookie of a renewed session, on every kind of route, whatever the app sends.
#[test]
fn a_permissions_headers_reach_the_client() {
    let service = Origin::start(|request, stream| {
        let status = if request.field("x-let").is_some() { "204 Yes" } else { "403 No" };
        let fields = "Set-Cookie: s=new; Path=/\r\nSet-Cookie: t=1\r\nX-Session: renewed\r\nX-Secret: 1\r\nCache-Control: private\r\n";
        let _ = write!(stream, "HTTP/1.1 {status}\r\n{fields}Content-Length: 0\r\n\r\n");
        After::Keep
    });
    let route = |path: &str, action: &str| {
        format!(
            "[[listen.main.route]]\npath = \"{path}\"\n{action}\nheaders = {{ set = {{ X-Session = \"route\", X-Own = \"route\" }} }}\n\
             auth_request = {{ upstream = \"auth\", path = \"/\", response_headers = [\"Set-Cookie\", \"X-Session\", \"Cache-*\"] }}\n"
        )
    };
    let routes = [
        route(
            "/fixed",
            "respond = { body = \"x\", headers = { Cache-Control = \"public\", Set-Cookie = \"app=1\" } }",
        ),
        route("/to", "redirect = \"/x\""),
        route("/files/*", "files = \"@APPS@\""),
        route("/gone", "upstream = \"gone\""),
        route("/node", "app = \"node\""),
    ]
    .concat();
    let server = Server::start(&format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n{routes}[upstream.auth]\nurl = \"http://{}\"\n\
         [upstream.gone]\nurl = \"http://127.0.0.1:1\"\n\
         [app.node]\ncommand = [\"node\", \"@APPS@/auth/auth.js\"]\nworkers = 1\n",
        service.address()
    ));
    for (path, status) in
        [("/fixed", 200), ("/to", 307), ("/files/wsgi_app.py", 200), ("/files/no", 404), ("/node", 302)]
    {
        let response = ask(&server, "a.example", path, "X-Let: 1\r\nAuthorization: Bearer login\r\n");
        let cookies: &[&str] = match path {
            "/fixed" => &["app=1", "s=new; Path=/", "t=1"],
            "/node" => &["a=1", "b=2", "s=new; Path=/", "t=1"],
            _ => &["s=new; Path=/", "t=1"],
        };
        assert_eq!((response.status, response.all("set-cookie").as_slice()), (status, cookies), "{path}");
        assert_eq!(response.all("x-session"), ["renewed"], "{path}");
        assert_eq!(response.all("x-own"), ["route"], "{path}");
        assert_eq!(response.all("cache-control"), ["private"], "{path}");
        assert!(response.field("x-secret").is_none(), "{path}");
    }
    let response = ask(&server, "a.example", "/gone", "X-Let: 1\r\n");
    assert!(response.status >= 502, "{}", response.status);
    assert_eq!(response.all("set-cookie"), ["s=new; Path=/", "t=1"], "an error response of the route");
    let denied = ask(&server, "a.example", "/fixed", "");
    assert_eq!((denied.status, denied.field("x-secret")), (403, Some("1")), "a refusal is passed on whole");
}

#[test]
fn a_service_that_does_not_decide_lets_nobody_in() {
    let answers: [(&str, u16, &str); 9] = [
        ("HTTP/1.1 500 Failed\r\nContent-Length: 0\r\n\r\n", 502, "auth_failed"),
        ("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 503, "auth_unavailable"),
        ("HTTP/1.1 304 Same\r\n\r\n", 502, "auth_failed"),
        ("HTTP/1.1 700 Odd\r\nContent-Length: 0\r\n\r\n", 502, "auth_failed"),
        ("nonsense\r\n\r\n", 502, "auth_failed"),
        // It ends within its head, and within the body of a refusal.
        ("HTTP/1.1 200 OK\r\nRemote-User: jo", 502, "auth_failed"),
        ("HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nshort", 502, "auth_failed"),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", 502, "auth_failed"),
        ("", 502, "auth_failed"),
    ];
    for (answer, status, reason) in answers {
        let service = Origin::raw(move |_, mut stream| {
            let mut reader = std::io::BufReader::new(stream.try_clone().expect("a descriptor"));
            if keepwarm_tests::origin::read_head(&mut reader).is_some() {
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let server = with_service(&service, "");
        let mut client = server.client().patient(LONG);
        let response = client.ask(get("/echo"));
        assert_eq!(response.status, status, "{answer:?}");
        server.wait_for_log(reason, LONG);
        if status == 503 {
            assert_eq!(response.text(), "<p>come back</p>", "pages of the operator apply");
        }
    }
}

#[test]
fn a_service_that_hangs_or_is_gone_lets_nobody_in() {
    let gate = Gate::default();
    let held = gate.clone();
    let service = Origin::start(move |_, stream| {
        held.wait();
        ok(stream, b"");
        After::Close
    });
    let server = with_service(&service, "timeout = \"100ms\"");
    let response = server.client().patient(LONG).ask(get("/echo"));
    assert_eq!(response.status, 503);
    server.wait_for_log("auth_timeout", LONG);
    gate.open();
    assert_eq!(server.client().patient(LONG).ask(get("/echo")).status, 200);
    let timeouts = "keepwarm_auth_requests_total{app=\"auth\",outcome=\"timeout\"}";
    assert_eq!(admin::wait_for_metric(&server, timeouts, 1.0), 1.0);

    // Nobody listens there.
    let nowhere = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ respond = 204, auth_request = { upstream = \"auth\", path = \"/\" } }]\n\
         [upstream.auth]\nurl = \"http://127.0.0.1:1\"\n",
    );
    let response = nowhere.client().patient(LONG).ask(get("/"));
    assert!(response.status == 502 || response.status == 503, "{}", response.status);
}

#[test]
fn a_service_that_dies_lets_nobody_in() {
    let server = apps();
    let response = ask(&server, "wsgi.test", "/echo", "Authorization: Bearer die\r\n");
    assert!((502..=503).contains(&response.status), "{}", response.status);
    server.wait_for_log("did not decide", LONG);
    // Its replacement decides.
    assert_eq!(ask(&server, "wsgi.test", "/echo", GOOD).status, 200);
}

#[test]
fn the_response_of_the_service_is_bounded() {
    let service = Origin::start(|request, stream| {
        let status = if request.field("x-let").is_some() { "200 OK" } else { "403 No" };
        let begin = format!("HTTP/1.1 {status}\r\nRemote-User: jo\r\nTransfer-Encoding: chunked\r\n\r\n");
        let _ = stream.write_all(begin.as_bytes());
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        // Without an end.
        while stream.write_all(chunk.as_bytes()).is_ok() {}
        After::Close
    });
    let server = with_service(&service, "max_response = \"100KiB\"");
    assert_eq!(server.client().patient(LONG).ask(get("/echo")).status, 502);
    server.wait_for_log("response_too_large", LONG);
    let let_in = "GET /echo HTTP/1.1\r\nHost: a.example\r\nX-Let: 1\r\n\r\n";
    assert_eq!(server.client().patient(LONG).ask(let_in).json()["HTTP_REMOTE_USER"], "jo");
    service.wait_until("endless responses are given up", |service| service.open() == 0);
}

#[test]
fn a_body_waits_for_the_decision() {
    let service = Origin::start(|request, stream| {
        let status = if request.field("authorization").is_some() { "204 Yes" } else { "403 No" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").is_ok();
        After::Keep
    });
    let server = with_service(&service, "");
    let upload = "POST /echo HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n";
    let mut client = server.client().patient(LONG);
    client.send(format!("{upload}\r\n"));
    let (status, _) = client.head("POST");
    assert_eq!(status, 403, "refused without `100 Continue`");

    let mut client = server.client().patient(LONG);
    client.send(format!("{upload}Authorization: x\r\n\r\n"));
    let (status, _) = client.head("POST");
    assert_eq!(status, 100, "once the app reads");
    client.send("hello");
    assert_eq!(client.response("POST").json()["body"], "hello");
    for asked in service.requests() {
        assert_eq!((asked.method(), asked.target(), asked.body.len()), ("GET", "/check?x=1", 0));
        for absent in ["expect", "content-length", "transfer-encoding", "upgrade", "te", "content-type"] {
            assert_eq!(asked.field(absent), None, "{absent}");
        }
        assert_eq!(asked.field("x-original-method"), Some("POST"));
        assert_eq!(asked.field("host"), Some("a.example"));
    }
}

#[test]
fn each_pipelined_request_is_decided_for_itself() {
    let service = Origin::start(|request, stream| {
        let user = request.field("authorization").unwrap_or_default();
        let _ = match user {
            "" => write!(stream, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"),
            user => write!(stream, "HTTP/1.1 200 OK\r\nRemote-User: {user}\r\nContent-Length: 0\r\n\r\n"),
        };
        After::Keep
    });
    let server = with_service(&service, "");
    let mut client = Client::connect(server.address()).patient(LONG);
    let request = |user: &str| match user {
        "" => get("/echo"),
        user => format!("GET /echo HTTP/1.1\r\nHost: a.example\r\nAuthorization: {user}\r\n\r\n"),
    };
    let users = ["jo", "", "eve", "jo", "", "root"];
    client.send(users.map(request).concat());
    for user in users {
        let response = client.response("GET");
        match user {
            "" => assert_eq!((response.status, response.text().as_str()), (403, "no")),
            user => assert_eq!(response.json()["HTTP_REMOTE_USER"], user),
        }
    }
}
