//! Who may use a route: users with a password, addresses, spellings of paths, and how many requests at once.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use keepwarm_tests::{Response, Server, get, keepwarm};

/// `alice:secret` by bcrypt with the least cost, and `bob:password` by argon2id.
const USERS: &str = r#"
[listen.main]
bind = "127.0.0.1:0"

[[listen.main.route]]
path = "/admin/*"
strip_prefix = true
app = "app"
basic_auth = { file = "@DIR@/htpasswd", realm = "Staging" }

[[listen.main.route]]
path = "/inside/*"
strip_prefix = true
app = "app"
allow = ["192.0.2.0/24"]

[[listen.main.route]]
path = "/with/*"
strip_prefix = true
app = "app"
basic_auth = { file = "@DIR@/htpasswd", forward_credentials = true }

[[listen.main.route]]
path = "/fixed"
respond = { status = 200, body = "fixed" }
headers = { set = { X-Extra = "1" } }
basic_auth = { file = "@DIR@/htpasswd" }

[[listen.main.route]]
path = "/files/*"
files = "@DIR@"
basic_auth = { file = "@DIR@/htpasswd" }

[[listen.main.route]]
host = "script.example"
app = "script"
basic_auth = { file = "@DIR@/htpasswd" }

[[listen.main.route]]
app = "app"

[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1

[app.script]
kind = "fastcgi"
entry = "web/index.php"
directory = "@APPS@"
workers = 1
"#;

const ALICE: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
const BOB: &str = "Authorization: Basic Ym9iOnBhc3N3b3Jk\r\n";

/// A hash as the command makes it.
fn hash(password: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(keepwarm());
    command.arg("hash-password").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(format!("{password}\n").as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let users = format!(
            "# staff\n{}{}",
            hash("secret", &["--user", "alice", "--bcrypt"]),
            hash("password", &["--user", "bob"])
        );
        Server::start_with(USERS, |command| {
            let folder = command.get_current_dir().expect("its folder").to_owned();
            std::fs::write(folder.join("htpasswd"), &users).expect("a file");
        })
    })
}

fn ask(path: &str, fields: &str) -> Response {
    server().ask(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

#[test]
fn a_user_without_the_right_password_gets_a_challenge() {
    for fields in [
        "",
        "Authorization: Bearer YWxpY2U6c2VjcmV0\r\n",
        "Authorization: Basic\r\n",
        "Authorization: Basic !!!\r\n",
        // alice:Secret, eve:secret, and two at once.
        "Authorization: Basic YWxpY2U6U2VjcmV0\r\n",
        "Authorization: Basic ZXZlOnNlY3JldA==\r\n",
        &format!("{ALICE}{BOB}"),
    ] {
        let response = ask("/admin/echo", fields);
        assert_eq!(response.status, 401, "{fields:?}");
        // RFC 9110 §11.6.1, RFC 7617 §2.1.
        let challenge = response.field("www-authenticate");
        assert_eq!(challenge, Some("Basic realm=\"Staging\", charset=\"UTF-8\""), "{fields:?}");
    }
    assert_eq!(ask("/fixed", "").field("x-extra"), Some("1"), "the route's headers are on its 401 too");
}

#[test]
fn the_app_learns_the_user_and_not_the_password() {
    for (fields, user) in [(ALICE, "alice"), (BOB, "bob"), (ALICE, "alice")] {
        let environ = ask("/admin/echo", fields).json();
        assert_eq!(environ["HTTP_REMOTE_USER"], user);
        assert!(environ["HTTP_AUTHORIZATION"].is_null(), "{environ}");
    }
    assert_eq!(ask("/with/echo", ALICE).json()["HTTP_AUTHORIZATION"], "Basic YWxpY2U6c2VjcmV0");
    assert_eq!(ask("/fixed", ALICE).text(), "fixed");
    assert_eq!(ask("/files/htpasswd", "").status, 401);
    assert!(ask("/files/htpasswd", BOB).text().contains("alice:"));
    // RFC 3875 §4.1.1, §4.1.11.
    let script = server().ask(format!("GET /echo HTTP/1.1\r\nHost: script.example\r\n{ALICE}\r\n")).json();
    assert_eq!((&script["REMOTE_USER"], &script["AUTH_TYPE"]), (&"alice".into(), &"Basic".into()));
}

/// caddy#7545: in no spelling that an environment of CGI takes for the same.
#[test]
fn a_client_cannot_name_the_user_itself() {
    for forged in ["Remote-User", "remote-user", "REMOTE-USER", "Remote_User", "Remote.User"] {
        let environ = ask("/admin/echo", &format!("{ALICE}{forged}: root\r\n")).json();
        assert_eq!(environ["HTTP_REMOTE_USER"], "alice", "{forged}");
        assert!(!environ.to_string().contains("root\""), "{forged}: {environ}");
    }
}

/// caddy#7941: the app behind the last route decodes its path, and would serve what the rule protects.
#[test]
fn no_spelling_of_a_path_gets_around_an_access_rule() {
    for (path, status) in [
        ("/inside/echo", 403),
        ("/./inside/echo", 403),
        ("/x/../inside/echo", 403),
        ("/x/%2e%2e/inside/echo", 403),
        ("/%69nside/echo", 403),
        ("/inside%2Fecho", 400),
        ("/inside%2fecho", 400),
        ("/%2Finside/echo", 400),
        ("//inside/echo", 400),
        ("/x%2F..%2Finside%2Fecho", 400),
        ("/x/..%2Finside/echo", 400),
        ("/x/..;/inside/echo", 400),
        ("/inside;x=1/echo", 400),
        ("/inside%3Bx/echo", 400),
        ("/x%5C..%5Cinside%5Cecho", 400),
        ("/admin%2Fecho", 400),
        ("/admin;/echo", 400),
        // Nothing is protected there.
        ("/echo%2Finside", 404),
        ("/echo;inside", 404),
        ("/insides/echo", 404),
        ("/echo", 200),
    ] {
        assert_eq!(ask(path, "").status, status, "{path}");
    }
    // The rule itself applies where the path is one of its own.
    assert_eq!(ask("/admin/a%2Fb;c", "").status, 401);
}

#[test]
fn a_listener_admits_and_denies_by_address() {
    let start = |access: &str| {
        let config = format!(
            "[listen.main]\nbind = \"127.0.0.1:0\"\n{access}\n[[listen.main.route]]\nrespond = {{ status = 200, body = \"pong\" }}\n"
        );
        Server::start(&config)
    };
    for (access, status) in [
        ("deny = [\"127.0.0.0/8\"]", 403),
        ("allow = [\"10.0.0.0/8\"]", 403),
        ("allow = [\"127.0.0.1\"]", 200),
        ("allow = [\"127.0.0.1\"]\ndeny = [\"127.0.0.0/8\"]", 403),
    ] {
        let server = start(access);
        assert_eq!(server.ask(get("/")).status, status, "{access}");
        let all = server.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(all.status, status, "{access}");
    }
    // The client that a trusted proxy names.
    let server = start("allow = [\"203.0.113.7\"]\n[server]\ntrusted_proxies = [\"127.0.0.1\"]");
    assert_eq!(server.ask(get("/")).status, 403);
    let named = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n";
    assert_eq!(server.ask(named).status, 200);
}

const LIMITED: &str = r#"
[server]
trusted_proxies = ["127.0.0.1"]
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
host = "client.example"
app = "app"
buffer_request = false
concurrency = { per_client = 1 }
[[listen.main.route]]
host = "wait.example"
app = "app"
buffer_request = false
concurrency = { total = 1, wait = "30s" }
[[listen.main.route]]
app = "app"
buffer_request = false
concurrency = { total = 1 }
[app.app]
entry = "asgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

/// A request that is in progress until its last byte.
fn upload(host: &str, client: &str) -> String {
    format!(
        "POST /digest HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {client}\r\nContent-Length: 5\r\n\r\nabcd"
    )
}

#[test]
fn requests_in_progress_are_limited() {
    let server = Server::start(LIMITED).warm("/pong");
    let pong = |host: &str, client: &str| {
        server.ask(format!("GET /pong HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {client}\r\n\r\n"))
    };
    let wait_for = |host: &str, status: u16| {
        keepwarm_tests::process::wait_until("the upload is in progress", keepwarm_tests::BOUND, || {
            pong(host, "203.0.113.7").status == status
        });
    };
    // Of all clients: 503.
    let mut first = server.client();
    first.send(upload("a.example", "203.0.113.7"));
    wait_for("a.example", 503);
    let refused = pong("a.example", "203.0.113.8");
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    first.send("e");
    assert_eq!(first.response("POST").status, 200);
    wait_for("a.example", 200);
    // Of one client: 429 for it, and nobody else.
    let mut first = server.client();
    first.send(upload("client.example", "203.0.113.7"));
    wait_for("client.example", 429);
    assert_eq!(pong("client.example", "203.0.113.8").status, 200);
    first.reset();
    wait_for("client.example", 200);
    // With `wait`: in turn.
    let mut first = server.client();
    first.send(upload("wait.example", "203.0.113.7"));
    let mut second = server.client();
    second.send("GET /pong HTTP/1.1\r\nHost: wait.example\r\n\r\n");
    second.expect_silence(std::time::Duration::from_millis(200));
    first.send("e");
    assert_eq!(first.response("POST").status, 200);
    assert_eq!(second.response("GET").text(), "pong");
}

#[test]
fn a_password_that_cannot_be_hashed_is_an_error() {
    let mut command = Command::new(keepwarm());
    command.arg("hash-password").stdin(Stdio::null());
    let output = command.output().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the password is empty"));
}
