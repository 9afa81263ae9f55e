//! `[admin]`: access control, and what health reports of threads and apps.

use std::sync::OnceLock;
use std::time::Duration;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Client, Server, admin, get, process};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);
const TOKEN: &str = "0123456789abcdef-secret";

/// One app, and `[admin]` with these lines.
fn config(admin: &str, app: &str) -> String {
    format!(
        "[admin]\n{admin}\n[listen.main]\nbind = \"127.0.0.1:0\"\n[app.app]\nentry = \"wsgi_app:application\"\n\
         directory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n{app}\n"
    )
}

/// Open to this machine.
fn local() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let admin = "bind = [\"127.0.0.1:0\", \"unix:@DIR@/admin.sock\"]";
        Server::start(&config(admin, "")).warm("/pong")
    })
}

/// Open to other machines, with a token.
fn remote() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let admin = format!("bind = \"0.0.0.0:0\"\ntoken = \"{TOKEN}\"");
        Server::start(&config(&admin, "")).warm("/pong")
    })
}

fn json(server: &Server, path: &str) -> (u16, serde_json::Value) {
    let response = admin::get(server, path, "Accept: application/json\r\n");
    (response.status, response.json())
}

#[test]
fn the_health_of_a_healthy_server() {
    for path in ["/livez", "/readyz"] {
        let response = admin::get(local(), path, "");
        assert_eq!((response.status, response.text().as_str()), (200, "ok\n"), "{path}");
        assert_eq!(response.field("cache-control"), Some("no-store"));
    }
    let (status, live) = json(local(), "/livez");
    assert_eq!((status, &live["ok"]), (200, &true.into()), "{live}");
    assert_eq!(
        (&live["threads"][0]["name"], &live["threads"][1]["name"]),
        (&"control".into(), &"data-0".into())
    );
    let (_, ready) = json(local(), "/readyz");
    assert_eq!(ready["apps"][0]["name"], "app", "{ready}");
    assert!(ready["apps"][0]["why"].as_str().is_some_and(|why| why.contains("answered")), "{ready}");
}

#[test]
fn the_index_lists_the_pages_and_the_rest_is_404() {
    let index = admin::get(local(), "/", "").text();
    for path in ["/livez", "/readyz", "/metrics", "/status", "/reload"] {
        assert!(index.contains(path), "{index}");
    }
    assert_eq!(admin::get(local(), "/none", "").status, 404);
    assert_eq!(admin::get(local(), "/status/", "").status, 404);
    let mut client = Client::connect(admin::address(local()));
    let response = client.ask("DELETE /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((response.status, response.field("allow")), (405, Some("GET, HEAD")));
    let head = client.ask("HEAD /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

/// As HAProxy's `option httpchk` asks.
#[test]
fn a_check_by_http_1_0_needs_no_host() {
    let mut client = Client::connect(admin::address(local())).patient(LONG);
    assert_eq!(client.ask("GET /readyz HTTP/1.0\r\n\r\n").status, 200);
    client.expect_eof();
}

/// DNS rebinding: a page whose name resolves to loopback.
#[test]
fn another_name_is_refused() {
    let mut client = Client::connect(admin::address(local()));
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:9090", "10.0.0.1", ""] {
        let response = client.ask(format!("GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.status, 403, "{host}: {}", response.text());
    }
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "127.1.2.3"] {
        let response = client.ask(format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.status, 200, "{host}: {}", response.text());
    }
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let address = admin::address(local());
    for origin in ["http://evil.example", "null", "https://localhost", "http://localhost:1"] {
        let response = admin::get(local(), "/status", &format!("Origin: {origin}\r\n"));
        assert_eq!(response.status, 403, "{origin}");
    }
    assert_eq!(admin::get(local(), "/status", &format!("Origin: http://{address}\r\n")).status, 200);
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        let response = admin::get(local(), "/status", &format!("Sec-Fetch-Site: {site}\r\n"));
        assert_eq!(response.status, status, "{site}");
    }
}

#[test]
fn changes_need_the_unix_socket_or_the_token() {
    let post = |server: &Server, fields: &str| {
        let mut client = Client::connect(admin::address(server)).patient(LONG);
        let request =
            format!("POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{fields}\r\n");
        client.ask(request)
    };
    assert_eq!(post(local(), "").status, 403);
    assert_eq!(admin::get(local(), "/reload", "").status, 403);
    let mark = local().mark();
    let (status, body) = admin::ask_unix(&local().folder().join("admin.sock"), "POST", "/reload");
    assert!(status == 200 && body.contains("generation"), "{status} {body}");
    local().wait_for_log_after(mark, "reloaded in", LONG);
    assert_eq!(post(remote(), "").status, 401);
    assert_eq!(post(remote(), "Authorization: Bearer wrong-0123456789\r\n").status, 401);
    let response = post(remote(), &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert!(response.status == 200 && response.text().contains("generation"), "{}", response.text());
}

/// A worker gets a signal for it, and what it prints tells of its code: a change.
#[test]
fn a_stack_needs_the_unix_socket_or_the_token() {
    let socket = local().folder().join("admin.sock");
    let pid = local().workers()[0];
    for worker in ["app/1", "app%2F1", &pid.to_string()] {
        let (status, stack) = admin::ask_unix(&socket, "POST", &format!("/stack?worker={worker}"));
        assert!(status == 200 && stack.contains("File \""), "{status} {stack}");
    }
    for (query, status, reason) in [
        ("?worker=app/7", 404, "there is no worker \"app/7\""),
        ("?worker=1", 404, "there is no worker"),
        ("?worker=%00%ff/1", 404, "there is no worker"),
        ("?worker=", 400, "Name the worker"),
        ("", 400, "Name the worker"),
    ] {
        let (seen, text) = admin::ask_unix(&socket, "POST", &format!("/stack{query}"));
        assert!(seen == status && text.contains(reason), "{query}: {seen} {text}");
    }
    assert_eq!(admin::ask_unix(&socket, "GET", "/stack?worker=app/1").0, 405);
    let post = |server: &Server, fields: &str| {
        let mut client = Client::connect(admin::address(server)).patient(LONG);
        client.ask(format!(
            "POST /stack?worker=app/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{fields}\r\n"
        ))
    };
    assert_eq!((post(local(), "").status, post(remote(), "").status), (403, 401));
    let json =
        post(remote(), &format!("Authorization: Bearer {TOKEN}\r\nAccept: application/json\r\n")).json();
    assert_eq!(json["pid"], remote().workers()[0], "{json:#}");
    assert!(json["stack"].as_str().is_some_and(|stack| stack.contains("File \"")), "{json:#}");
    assert_eq!(local().workers(), [pid], "the worker continues");
}

/// No request is lost: the worker leaves after its replacement is ready.
#[test]
fn a_worker_is_replaced_on_request() {
    let server =
        Server::start(&config("bind = [\"127.0.0.1:0\", \"unix:@DIR@/admin.sock\"]", "")).warm("/pong");
    let socket = server.folder().join("admin.sock");
    let before = server.workers();
    let (status, text) = admin::ask_unix(&socket, "POST", "/recycle?worker=app/1");
    assert!(status == 202 && text.contains("worker app/1 "), "{status} {text}");
    let mut client = server.client();
    wait_until("another worker serves", LONG, || {
        assert_eq!(client.ask(get("/pong")).status, 200);
        let status = admin::status(&server);
        let workers = status["workers"].as_array().expect("a list");
        workers.len() == 1 && workers[0]["pid"] != before[0] && workers[0]["state"] == "ready"
    });
    assert_eq!(admin::status(&server)["apps"][0]["recycles"]["operator"], 1);
    assert_eq!(admin::status(&server)["apps"][0]["deaths"], serde_json::json!({}));
    assert_eq!(admin::ask_unix(&socket, "POST", "/recycle?worker=app/7").0, 404);
    assert_eq!(admin::ask_unix(&socket, "POST", &format!("/recycle?worker={}", before[0])).0, 404);
    assert_eq!(admin::ask_unix(&socket, "POST", "/recycle").0, 400);
    assert_eq!(admin::ask_unix(&socket, "GET", "/recycle?worker=app/1").0, 405);
    let mut other = Client::connect(admin::address(&server));
    let post = "POST /recycle?worker=app/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(other.ask(post).status, 403);
}

#[test]
fn other_machines_need_the_token_to_read() {
    let address = format!("127.0.0.1:{}", admin::address(remote()).port());
    let ask = |fields: &str| {
        let mut client = Client::connect(address.parse().expect("an address")).patient(LONG);
        client.ask(format!("GET /livez HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n"))
    };
    let refused = ask("");
    assert_eq!((refused.status, refused.field("www-authenticate")), (401, Some("Bearer realm=\"keepwarm\"")));
    for wrong in ["Bearer", "Bearer 0123456789abcdef-secre", "Basic 0123456789abcdef-secret", TOKEN] {
        assert_eq!(ask(&format!("Authorization: {wrong}\r\n")).status, 401, "{wrong}");
    }
    assert_eq!(ask(&format!("Authorization: Bearer {TOKEN}\r\n")).status, 200);
    // A client with the token may call the machine by any name.
    let mut client = Client::connect(address.parse().expect("an address")).patient(LONG);
    let request =
        format!("GET /livez HTTP/1.1\r\nHost: keepwarm.internal\r\nAuthorization: bearer {TOKEN}\r\n\r\n");
    assert_eq!(client.ask(request).status, 200);
}

#[test]
fn the_socket_file_is_for_the_user_and_its_group() {
    use std::os::unix::fs::PermissionsExt;
    let about = std::fs::metadata(local().folder().join("admin.sock")).expect("the socket");
    assert_eq!(about.permissions().mode() & 0o777, 0o660);
}

/// A busy worker cannot answer a ping before it has finished: that is not a reason to send requests elsewhere.
#[test]
fn a_busy_app_is_ready() {
    let server = Server::start(&config("bind = \"127.0.0.1:0\"", "")).warm("/pong");
    let mut client = server.client();
    client.send(get("/sleep?ms=25000"));
    admin::wait_for_status(&server, "the worker is at work", |status| {
        status["workers"][0]["active_requests"][0]["route"] == "/*"
    });
    let (status, ready) = json(&server, "/readyz");
    assert_eq!((status, &ready["ok"]), (200, &true.into()), "{ready}");
    assert!(
        ready["apps"][0]["why"].as_str().is_some_and(|why| why.contains("busy with requests")),
        "{ready}"
    );
}

/// An idle worker that does not answer through the wire would not take a request either.
#[test]
fn an_app_whose_idle_worker_does_not_reply_is_not_ready() {
    let server = Server::start(&config("bind = \"127.0.0.1:0\"", "request_timeout = \"60s\"")).warm("/pong");
    let worker = server.workers()[0];
    process::stop(worker);
    wait_until("the app is not ready", LONG, || admin::get(&server, "/readyz", "").status == 503);
    let (status, ready) = json(&server, "/readyz");
    assert_eq!((status, &ready["apps"][0]["ok"]), (503, &false.into()), "{ready}");
    assert!(ready["apps"][0]["why"].as_str().is_some_and(|why| why.contains("does not respond")), "{ready}");
    assert!(admin::get(&server, "/readyz", "").text().starts_with("app: "));
    assert_eq!(admin::get(&server, "/livez", "").status, 200, "the process itself is well");
    process::signal(worker, Signal::CONT);
    wait_until("the app is ready again", LONG, || admin::get(&server, "/readyz", "").status == 200);
}

/// A worker that does not speak the wire gets its usual health check.
#[test]
fn a_server_by_itself_is_ready_as_long_as_it_responds() {
    let text = "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[app.app]\nkind = \"http\"\n\
                command = [\"@PYTHON@\", \"@APPS@/hostile_server.py\"]\nworkers = 1\nrequest_timeout = \"60s\"\n";
    let server = Server::start(text);
    assert_eq!(server.client().patient(LONG).ask(get("/pid")).status, 200);
    wait_until("it is ready", LONG, || admin::get(&server, "/readyz", "").status == 200);
    let worker = admin::status(&server)["workers"][0]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let worker = worker.expect("a worker");
    process::stop(worker);
    wait_until("it is not ready", LONG, || admin::get(&server, "/readyz", "").status == 503);
    process::signal(worker, Signal::CONT);
    wait_until("it is ready again", LONG, || admin::get(&server, "/readyz", "").status == 200);
}

#[test]
fn readiness_fails_first_when_it_ends() {
    let config = format!("[server]\ndrain_delay = \"20s\"\n{}", config("bind = \"127.0.0.1:0\"", ""));
    let server = Server::start(&config).warm("/pong");
    assert_eq!(admin::get(&server, "/readyz", "").status, 200);
    server.signal(Signal::TERM);
    wait_until("readiness fails", LONG, || admin::get(&server, "/readyz", "").status == 503);
    assert!(admin::get(&server, "/readyz", "").text().contains("draining"));
    // Until a load balancer has seen it, requests are served.
    assert_eq!(server.ask(get("/pong")).status, 200);
    assert_eq!(admin::get(&server, "/livez", "").status, 200);
}

/// A start that takes long can be looked at: alive, and not ready.
#[test]
fn it_responds_before_the_first_worker_is_ready() {
    let text = "[admin]\nbind = \"unix:@DIR@/admin.sock\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[app.slow]\n\
                entry = \"slow:application\"\ndirectory = \"@DIR@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n";
    let slow = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\ndef application(environ, start):\n    \
                start('200 OK', [])\n    return [b'']\n";
    let server = Server::spawn(text, |command| {
        let folder = command.get_current_dir().expect("the server's folder");
        std::fs::write(folder.join("slow.py"), slow).expect("the app is written");
    });
    let socket = server.folder().join("admin.sock");
    assert_eq!(admin::ask_unix(&socket, "GET", "/livez").0, 200);
    let (status, body) = admin::ask_unix(&socket, "GET", "/readyz");
    assert!(status == 503 && body.contains("starting"), "{status} {body}");
    assert!(admin::ask_unix(&socket, "GET", "/status").1.contains("\"starting\""));
    std::fs::write(server.folder().join("go"), "").expect("the flag");
    wait_until("it is ready", LONG, || admin::ask_unix(&socket, "GET", "/readyz").0 == 200);
}

#[test]
fn a_reload_takes_up_another_address_and_token() {
    let server = Server::start(&config("bind = \"127.0.0.1:0\"", "")).warm("/pong");
    let old = admin::address(&server);
    let reload = |admin: &str| server.reload_with(&config(admin, ""));
    reload("bind = \"unix:@DIR@/admin.sock\"");
    let socket = server.folder().join("admin.sock");
    assert_eq!(admin::ask_unix(&socket, "GET", "/readyz").0, 200);
    wait_until("the old address is closed", LONG, || std::net::TcpStream::connect(old).is_err());
    server.reload_with(&config("", "").replace("[admin]\n", ""));
    wait_until("the socket is gone", LONG, || !socket.exists());
    assert_eq!(server.ask(get("/pong")).status, 200);
}

#[test]
fn an_address_that_is_taken_stops_the_start_with_its_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound");
    let server = Server::spawn(&config(&format!("bind = \"{address}\""), ""), |_| {});
    assert_eq!(server.wait_for_exit(LONG).code(), Some(1));
    let log = server.log();
    assert!(log.contains(&format!("cannot listen on {address} (admin)")), "{log}");
}

#[test]
fn an_open_address_without_a_token_is_refused_before_anything_starts() {
    let server = Server::spawn(&config("bind = \"0.0.0.0:0\"", ""), |_| {});
    assert_eq!(server.wait_for_exit(LONG).code(), Some(2));
    assert!(server.log().contains("can be reached from other machines"), "{}", server.log());
}
