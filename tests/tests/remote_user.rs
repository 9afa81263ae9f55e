//! Who a request's user is, and by which version of HTTP it came: what each kind of app is told.

use std::time::Duration;

use keepwarm_tests::http2::Http2;
use keepwarm_tests::origin::Origin;
use keepwarm_tests::{Response, Server};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// Each kind of app has a route for users with a password, one for users that a service names, and one for everybody.
const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[app.wsgi]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
[app.threads]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
threads = 2
[app.asgi]
entry = "scope_app:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
workers = 1
[app.rack]
entry = "rack_app.ru"
directory = "@APPS@"
workers = 1
[app.puma]
entry = "rack_app.ru"
directory = "@APPS@"
workers = 1
threads = 2
[app.php]
kind = "php"
entry = "php_app.php"
directory = "@APPS@"
workers = 1
[app.classic]
kind = "fastcgi"
entry = "web/index.php"
directory = "@APPS@"
workers = 1
[app.node]
command = ["node", "@APPS@/node_app.js"]
workers = 1
[app.service]
entry = "auth_wsgi:application"
directory = "@APPS@/auth"
interpreter = "@PYTHON@"
workers = 1
"#;

const KINDS: [&str; 8] = ["wsgi", "threads", "asgi", "rack", "puma", "php", "classic", "node"];

/// `alice:secret`.
const HASH: &str = "$2y$10$ZvoX7xlQmE9pjmrHTd4CY.MT/b/9BFVs/D6trVCNSWLMmXiDwk6fe";

/// Responds with its scope.
const SCOPE_APP: &str = r#"
import json

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    user = scope["extensions"].get("keepwarm.user", {})
    seen = {"SERVER_PROTOCOL": scope["http_version"], "REMOTE_USER": user.get("name"), "AUTH_TYPE": user.get("auth_type") or None}
    for name, value in scope["headers"]:
        seen["HTTP_" + name.decode().upper().replace("-", "_")] = value.decode("latin-1")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(seen).encode()})
"#;

fn server() -> Server {
    let mut routes = String::new();
    for kind in KINDS {
        let begin = |which: &str| {
            format!("[[listen.main.route]]\napp = \"{kind}\"\nheader = {{ X-Kind = \"{kind}{which}\" }}\n")
        };
        let basic = format!("basic_auth = {{ users = {{ alice = \"{HASH}\" }} }}\n");
        let service = "auth_request = { app = \"service\", path = \"/\", user_header = \"Remote-User\", timeout = \"60s\" }\n";
        routes += &(begin(" basic") + &basic + &begin(" service") + service);
        routes += &begin("");
    }
    let config = CONFIG.replacen("[app.wsgi]", &format!("{routes}[app.wsgi]"), 1);
    Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("its folder").to_owned();
        std::fs::write(folder.join("scope_app.py"), SCOPE_APP).expect("a file");
    })
}

fn ask(server: &Server, kind: &str, fields: &str) -> Response {
    server
        .client()
        .patient(LONG)
        .ask(format!("GET /echo HTTP/1.1\r\nHost: a.example\r\nX-Kind: {kind}\r\n{fields}\r\n"))
}

/// What an app of this kind says it was told: node says it in headers only.
fn told(kind: &str, response: &Response) -> Value {
    match kind {
        "node" => response.json()["rawHeaders"].clone(),
        _ => response.json(),
    }
}

const ALICE: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
const FORGED: &str = "Remote-User: mallory\r\nRemote_User: mallory\r\nAuth-Type: mallory\r\n";

#[test]
fn an_app_learns_the_user_from_keepwarm_and_nobody_else() {
    let server = server();
    for kind in KINDS {
        let basic = format!("{ALICE}{FORGED}");
        let with_password = ask(&server, &format!("{kind} basic"), &basic);
        let with_service =
            ask(&server, &format!("{kind} service"), &format!("Authorization: Bearer good\r\n{FORGED}"));
        let anybody = ask(&server, kind, "Authorization: Bearer good\r\nRemote_User: mallory\r\n");
        let (with_password, with_service) = (told(kind, &with_password), told(kind, &with_service));
        if kind == "node" {
            for (headers, user) in [(with_password, "alice"), (with_service, "jo")] {
                let headers = headers.as_array().expect("a list").chunks(2);
                let is_user = |pair: &&[Value]| {
                    pair[0].as_str().is_some_and(|name| name.eq_ignore_ascii_case("remote-user"))
                };
                let users: Vec<&Value> = headers.filter(is_user).map(|pair| &pair[1]).collect();
                assert_eq!(users, [user]);
            }
            continue;
        }
        assert_eq!(
            (&with_password["REMOTE_USER"], &with_password["AUTH_TYPE"]),
            (&"alice".into(), &"Basic".into()),
            "{kind}"
        );
        assert_eq!(with_password["HTTP_REMOTE_USER"], "alice", "{kind}");
        assert_eq!(
            (&with_service["REMOTE_USER"], &with_service["HTTP_REMOTE_USER"]),
            (&"jo".into(), &"jo".into()),
            "{kind}"
        );
        assert!(with_service["AUTH_TYPE"].is_null(), "{kind}: {with_service}");
        let anybody = told(kind, &anybody);
        assert!(
            anybody["REMOTE_USER"].is_null() && !anybody.to_string().contains("mallory"),
            "{kind}: {anybody}"
        );
    }
}

#[test]
fn an_app_learns_the_version_that_the_client_used() {
    let server = server();
    for kind in KINDS.into_iter().filter(|kind| *kind != "node") {
        let mut client = Http2::connect(server.address());
        client.request(1, "/echo", &[("x-kind", kind)]);
        let (status, body) = client.response(1);
        assert_eq!(status, 200, "{kind}");
        let told: Value = serde_json::from_slice(&body).expect("JSON");
        let first = ask(&server, kind, "").json();
        let old = server
            .client()
            .patient(LONG)
            .ask(format!("GET /echo HTTP/1.0\r\nHost: a.example\r\nX-Kind: {kind}\r\n\r\n"))
            .json();
        let (expected, prefix) = if kind == "asgi" { ("2", "") } else { ("HTTP/2.0", "HTTP/") };
        assert_eq!(told["SERVER_PROTOCOL"], expected, "{kind}");
        assert_eq!(first["SERVER_PROTOCOL"], format!("{prefix}1.1"), "{kind}");
        assert_eq!(old["SERVER_PROTOCOL"], format!("{prefix}1.0"), "{kind}");
    }
}

#[test]
fn an_upstream_learns_the_user_by_a_header() {
    let origin = Origin::fixed("ok");
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\nupstream = \"origin\"\n\
         basic_auth = {{ users = {{ alice = \"{HASH}\" }} }}\n[upstream.origin]\nurl = \"http://{}\"\n",
        origin.address()
    );
    let server = Server::start(&config);
    assert_eq!(ask(&server, "", &format!("{ALICE}{FORGED}")).status, 200);
    // Nor by a trailer, for a server that merges them into its fields.
    for (trailers, kept) in [("X-Sum: 1\r\n", 1), ("X-Sum: 1\r\nRemote_User: mallory\r\n", 0)] {
        let body = format!("2\r\nab\r\n0\r\n{trailers}\r\n");
        let request =
            format!("POST / HTTP/1.1\r\nHost: a.example\r\n{ALICE}Transfer-Encoding: chunked\r\n\r\n{body}");
        assert_eq!(server.client().patient(LONG).ask(request).status, 200);
        assert_eq!(origin.last().trailers.len(), kept, "{:?}", origin.last().trailers);
    }
    assert_eq!(ask(&server, "", &format!("{ALICE}{FORGED}")).status, 200);
    let asked = origin.last();
    assert_eq!(asked.head.to_lowercase().matches("remote-user").count(), 1, "{}", asked.head);
    assert_eq!((asked.field("remote-user"), asked.field("authorization")), (Some("alice"), None));
}
