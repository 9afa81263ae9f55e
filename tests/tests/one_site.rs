//! One site of several apps, each with its own language and workers: by path, and by host.

use std::time::Duration;

use keepwarm_tests::process::{self, descendants, wait_until};
use keepwarm_tests::{Response, Server, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(30);

const SITE: &str = r#"
[listen.main]
bind = "127.0.0.1:0"

[[listen.main.route]]
path = "/chat/*"
strip_prefix = true
app = "node"

[[listen.main.route]]
host = "api.example"
app = "node"

[[listen.main.route]]
path = "/health"
respond = { status = 200, body = "well" }

[[listen.main.route]]
app = "python"

[app.node]
command = ["node", "@APPS@/node_app.js"]
workers = 2

[app.python]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

#[track_caller]
fn ask(server: &Server, request: impl AsRef<[u8]>) -> Response {
    server.client().patient(LONG).ask(request)
}

fn node_processes(server: &Server) -> Vec<u32> {
    let mut found = descendants(server.pid());
    found.retain(|&pid| {
        let command = process::command(pid);
        command.contains("node_app.js") && !command.contains("__launch")
    });
    found
}

#[track_caller]
fn all_parts_respond(server: &Server) {
    assert_eq!(ask(server, get("/chat/")).text(), "hello from node\n");
    assert_eq!(ask(server, "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n").text(), "hello from node\n");
    assert_eq!(ask(server, get("/pong")).text(), "pong");
    assert_eq!(ask(server, get("/health")).text(), "well");
}

#[test]
fn paths_and_hosts_lead_to_apps_of_several_languages() {
    let server = Server::start(SITE);
    all_parts_respond(&server);
    // On one connection, for every app.
    let mut client = server.client().patient(LONG);
    for _ in 0..3 {
        assert_eq!(client.ask(get("/chat/")).text(), "hello from node\n");
        assert_eq!(client.ask(get("/pong")).text(), "pong");
    }
}

#[test]
fn one_apps_deaths_and_reloads_are_nothing_to_the_others() {
    let server = Server::start(SITE);
    all_parts_respond(&server);
    let [python] = server.workers()[..] else { panic!("one worker of Python") };
    for pid in node_processes(&server) {
        process::signal(pid, Signal::KILL);
        assert_eq!(ask(&server, get("/pong")).text(), "pong");
    }
    wait_until("node is back", LONG, || ask(&server, get("/chat/")).status == 200);
    assert_eq!(server.workers(), [python], "untouched");
    let before = node_processes(&server);
    server.signal(Signal::HUP);
    wait_until("all others", LONG, || {
        let now = node_processes(&server);
        let python_now = server.workers();
        now.len() == 2
            && now.iter().all(|pid| !before.contains(pid))
            && python_now.len() == 1
            && python_now != [python]
    });
    all_parts_respond(&server);
}

/// One serves nothing, one does not exist: the others are served, and these are after a reload that fixes them.
#[test]
fn an_app_that_cannot_be_started_does_not_keep_the_others_from_it() {
    const TWO: &str = "\n[[listen.main.route]]\npath = \"/shop/*\"\napp = \"shop\"\n\
        [[listen.main.route]]\npath = \"/gone/*\"\napp = \"gone\"\n[[listen.main.route]]\napp = \"python\"\n";
    let site = SITE.replacen("\n[[listen.main.route]]\napp = \"python\"\n", TWO, 1);
    assert_ne!(site, SITE);
    let site = format!(
        "{site}[app.shop]\nkind = \"php\"\nentry = \"shop.php\"\ndirectory = \"@DIR@\"\nworkers = 1\n\
         [app.gone]\ncommand = [\"@DIR@/gone\"]\nworkers = 1\n"
    );
    let mut broken = None;
    let server = Server::start_with(&site, |command| {
        let folder = command.get_current_dir().expect("the server's folder").to_owned();
        std::fs::write(folder.join("shop.php"), "<?php return 'no app';").expect("written");
        broken = Some(folder);
    });
    all_parts_respond(&server);
    for path in ["/shop/", "/gone/"] {
        let refused = ask(&server, get(path));
        assert_eq!(refused.status, 503, "{path}");
        assert!(refused.text().contains("The application is not running"), "{}", refused.text());
    }
    let log = server.log();
    for part in [
        "app \"shop\" could not be started: worker 1 exited with status 1",
        "app \"gone\" could not be started: worker 1 exited with status 127",
        "failed    ",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let folder = broken.expect("set before the start");
    std::fs::write(folder.join("shop.php"), "<?php return fn () => 'sold';").expect("written");
    server.configure(&site.replace("[\"@DIR@/gone\"]", "[\"node\", \"@APPS@/node_app.js\"]"));
    server.signal(Signal::HUP);
    wait_until("the shop is open", LONG, || ask(&server, get("/shop/")).text() == "sold");
    assert_eq!(ask(&server, get("/gone/")).status, 404);
    all_parts_respond(&server);
}

/// An app that becomes another kind of app is replaced like any other.
#[test]
fn a_reload_may_change_the_kind_of_an_app() {
    let server = Server::start(SITE);
    all_parts_respond(&server);
    let other = SITE.replace(
        "[app.python]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"",
        "[app.python]\ncommand = [\"node\", \"@APPS@/node_app.js\"]",
    );
    assert_ne!(other, SITE);
    server.configure(&other);
    server.signal(Signal::HUP);
    wait_until("node serves what Python did", LONG, || ask(&server, get("/")).text() == "hello from node\n");
    server.configure(SITE);
    server.signal(Signal::HUP);
    wait_until("and back", LONG, || ask(&server, get("/pong")).text() == "pong");
}

/// Each responds with the status in the query, in the way of its kind of app.
const SAID: [(&str, &str, &str); 6] = [
    (
        "wsgi",
        "said.py",
        "def application(environ, start_response):\n    \
             start_response(environ['QUERY_STRING'] + ' Said', [('Content-Length', '4')])\n    return [b'said']\n",
    ),
    (
        "asgi",
        "heard.py",
        "async def application(scope, receive, send):\n    status = int(scope['query_string'])\n    \
             await send({'type': 'http.response.start', 'status': status, 'headers': [(b'content-length', b'4')]})\n    \
             await send({'type': 'http.response.body', 'body': b'said'})\n",
    ),
    (
        "rack",
        "said.ru",
        "run ->(env) { [env['QUERY_STRING'].to_i, { 'content-length' => '4' }, ['said']] }\n",
    ),
    (
        "php",
        "said.php",
        "<?php return fn ($request) => [(int) $_SERVER['QUERY_STRING'], ['Content-Length' => '4'], 'said'];\n",
    ),
    (
        "fastcgi",
        "script.php",
        "<?php header('Status: ' . $_SERVER['QUERY_STRING'] . ' Said'); echo 'said';\n",
    ),
    (
        "http",
        "server.py",
        "import os, socket\nlistener = socket.create_server(('127.0.0.1', int(os.environ['PORT'])))\nwhile True:\n    \
             connection, _ = listener.accept()\n    said = connection.recv(65536).split()[1].partition(b'?')[2] or b'200'\n    \
             connection.sendall(b'HTTP/1.1 ' + said + b' Said\\r\\nContent-Length: 4\\r\\nConnection: close\\r\\n\\r\\nsaid')\n    \
             connection.close()\n",
    ),
];

/// RFC 9110 §15: three digits; beyond 599 the client takes it for a 5xx.
#[test]
fn a_status_beyond_those_of_http_is_passed_on_by_every_kind_and_one_below_by_none() {
    let mut config = "[listen.main]\nbind = \"127.0.0.1:0\"\n".to_owned();
    for (kind, file, _) in SAID {
        let app = match kind {
            "http" => format!("command = [\"@PYTHON@\", \"@DIR@/{file}\"]"),
            "fastcgi" => format!("kind = \"fastcgi\"\nentry = \"{file}\""),
            "wsgi" | "asgi" => {
                let module = file.trim_end_matches(".py");
                format!("entry = \"{module}:application\"\ninterpreter = \"@PYTHON@\"\nkind = \"{kind}\"")
            }
            _ => format!("entry = \"{file}\""),
        };
        config += &format!("[[listen.main.route]]\npath = \"/{kind}\"\napp = \"{kind}\"\n");
        config += &format!("[app.{kind}]\nworkers = 1\n{app}\n");
    }
    let server = Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("its folder");
        SAID.iter().for_each(|(_, file, text)| std::fs::write(folder.join(file), text).expect("an app"));
    });
    for (kind, ..) in SAID {
        for status in [200, 299, 418, 599, 600, 799, 999] {
            let response = ask(&server, get(&format!("/{kind}?{status}")));
            assert_eq!((response.status, response.text().as_str()), (status, "said"), "{kind}");
        }
        // The app's own exception where it reports it to an adapter, a bad response where it has left the app.
        let wanted = if matches!(kind, "fastcgi" | "http") { 502 } else { 500 };
        for status in ["000", "042", "99"] {
            let response = ask(&server, get(&format!("/{kind}?{status}")));
            assert_eq!(response.status, wanted, "{kind} {status}");
        }
        assert_eq!(ask(&server, get(&format!("/{kind}?200"))).text(), "said", "{kind}");
    }
}
