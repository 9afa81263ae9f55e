//! The page of `[admin]`: which client gets what, and what Debian's Chromium makes of it. `tests/apps/browser/page.py` drives the browser, and prints
//! what was seen.

use std::process::Command;
use std::time::Duration;

use keepwarm_tests::{Client, Response, Server, admin, apps, get, python, tools};
use serde_json::{Value, json};

/// The limit on what a browser may take, on a machine that runs the other tests too.
const BOUND: Duration = Duration::from_secs(240);
const TOKEN: &str = "0123456789abcdef-secret";
const LOCAL: &str = "bind = [\"127.0.0.1:0\", \"unix:@DIR@/admin.sock\"]";
const TITLES: [&str; 8] =
    ["Apps", "Workers", "Requests", "Slow and failed", "Routes", "Upstreams", "Listeners", "Certificates"];

fn start(admin: &str) -> Server {
    start_with(admin, "")
}

fn start_with(admin: &str, more: &str) -> Server {
    Server::start(&format!(
        "[admin]\n{admin}\n[listen.main]\nbind = \"127.0.0.1:0\"\n{more}[[listen.main.route]]\napp = \"kettle\"\n\
         [app.kettle]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 2\nqueue_timeout = \"300s\"\nrequest_timeout = \"300s\"\n"
    ))
    .warm("/pong")
}

/// Reads need the token, also from this machine.
fn with_token() -> Server {
    start(&format!("bind = \"0.0.0.0:0\"\ntoken = \"{TOKEN}\""))
}

fn local_address(server: &Server) -> String {
    format!("127.0.0.1:{}", admin::address(server).port())
}

/// What a scenario saw.
#[track_caller]
fn visit(server: &Server, scenario: &str, arguments: &[&str]) -> Value {
    let seen = tools::run_ok(
        Command::new(python())
            .arg(apps().join("browser/page.py"))
            .args([scenario, &local_address(server)])
            .arg(server.folder().join("browser"))
            .args(arguments),
        BOUND,
    );
    serde_json::from_str(&seen).expect("JSON")
}

/// The browser has reported no error, and the policy was never violated.
#[track_caller]
fn assert_quiet(seen: &Value) {
    assert_eq!((&seen["complaints"], &seen["violations"]), (&json!([]), &json!([])), "{seen:#}");
}

/// As a browser asks for a document.
fn ask(server: &Server, path: &str, fields: &str) -> Response {
    let address = local_address(server);
    let mut client = Client::connect(address.parse().expect("an address")).patient(BOUND);
    let fields =
        if fields.contains("Host:") { fields.to_owned() } else { format!("Host: {address}\r\n{fields}") };
    client.ask(format!("GET {path} HTTP/1.1\r\n{fields}Accept: text/html,*/*;q=0.8\r\n\r\n"))
}

#[test]
fn a_browser_gets_the_page_and_others_the_list_of_paths() {
    let server = start(LOCAL);
    let page = ask(&server, "/", "");
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().starts_with("<!doctype html>"), "{}", page.text());
    let list = admin::get(&server, "/", "Accept: */*\r\n");
    assert_eq!((list.status, list.field("content-type")), (200, Some("text/plain; charset=utf-8")));
    assert!(list.text().contains("GET  /events"), "{}", list.text());
    for file in ["main.js", "page.css", "icon.svg"] {
        assert_eq!(ask(&server, &format!("/page/{file}"), "").status, 200, "{file}");
    }
    for path in ["/page/", "/page", "/page/none.js", "/page/../main.js", "/page/main.js/", "/index.html"] {
        assert_eq!(ask(&server, path, "").status, 404, "{path}");
    }
    let post = Client::connect(admin::address(&server))
        .ask("POST / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((post.status, post.field("allow")), (405, Some("GET, HEAD")));
    let head = Client::connect(admin::address(&server))
        .ask("HEAD / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n");
    assert_eq!((head.status, head.field("etag"), head.body.len()), (200, page.field("etag"), 0));
}

/// No script or style of the document's own, nothing from elsewhere, and no frame around it.
#[test]
fn the_policy_is_strict() {
    let server = start(LOCAL);
    for path in ["/", "/page/main.js", "/page/page.css", "/page/icon.svg"] {
        let response = ask(&server, path, "");
        let policy = response.field("content-security-policy").expect("a policy").to_owned();
        let directives: Vec<&str> = policy.split("; ").collect();
        for wanted in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(directives.contains(&wanted), "{wanted}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(response.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.field("referrer-policy"), Some("no-referrer"));
        assert_eq!(response.field("cross-origin-opener-policy"), Some("same-origin"));
    }
}

#[test]
fn a_file_that_is_known_is_not_sent_again() {
    let server = start(LOCAL);
    let first = ask(&server, "/page/main.js", "");
    let tag = first.field("etag").expect("a tag").to_owned();
    for known in [tag.clone(), format!("\"other\", W/{tag}"), "*".to_owned()] {
        let again = ask(&server, "/page/main.js", &format!("If-None-Match: {known}\r\n"));
        assert_eq!((again.status, again.body.len()), (304, 0), "{known}");
        assert_eq!((again.field("etag"), again.field("cache-control")), (Some(&*tag), Some("no-cache")));
    }
    assert_eq!(ask(&server, "/page/main.js", "If-None-Match: \"other\"\r\n").status, 200);
    assert_ne!(ask(&server, "/", "").field("etag"), Some(&*tag));
}

/// Fetch Metadata: the page may be linked to. It may not be framed, nor its files be loaded by another site; data stays closed.
#[test]
fn a_link_elsewhere_leads_to_the_page_and_to_nothing_else() {
    let server = start(LOCAL);
    let from = |site: &str, mode: &str, dest: &str| {
        format!("Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\nSec-Fetch-Dest: {dest}\r\n")
    };
    for site in ["none", "same-origin", "same-site", "cross-site"] {
        assert_eq!(ask(&server, "/", &from(site, "navigate", "document")).status, 200, "{site}");
    }
    for (path, mode, dest) in [
        ("/", "navigate", "iframe"),
        ("/", "no-cors", "image"),
        ("/", "cors", "empty"),
        ("/page/main.js", "no-cors", "script"),
        ("/page/main.js", "cors", "script"),
        ("/status", "navigate", "document"),
        ("/events", "navigate", "document"),
        ("/metrics", "navigate", "document"),
    ] {
        let response = ask(&server, path, &from("cross-site", mode, dest));
        assert_eq!(response.status, 403, "{path} {mode} {dest}");
    }
    let origin = format!("{}Origin: http://evil.example\r\n", from("cross-site", "navigate", "document"));
    assert_eq!(ask(&server, "/", &origin).status, 403);
}

/// The same in a browser, which alone knows what it sends.
#[test]
fn a_browser_follows_a_link_and_gives_other_sites_nothing() {
    let server = start(LOCAL);
    // Another site than that of 127.0.0.1.
    let elsewhere = format!("http://localhost:{}/pong", server.address().port());
    let seen = visit(&server, "linked", &[&elsewhere]);
    assert_eq!(seen["framed"], json!([403]), "{seen:#}");
    let taken = json!({ "isReadable": false, "status": "failed", "opaque": 0, "reload": 0 });
    assert_eq!(seen["taken"], taken, "{seen:#}");
    assert_quiet(&seen);
    assert_eq!(admin::status(&server)["generation"], 1, "nothing was reloaded");
}

/// The page is what asks for the token, so it is served without one, and under any name.
#[test]
fn the_page_needs_no_token_and_its_data_do() {
    let (local, remote) = (start(LOCAL), with_token());
    for path in ["/", "/page/main.js"] {
        assert_eq!(ask(&local, path, "Host: evil.example\r\n").status, 403, "{path}");
        assert_eq!(ask(&remote, path, "").status, 200, "{path}");
        assert_eq!(ask(&remote, path, "Host: admin.example\r\n").status, 200, "{path}");
        let text = ask(&remote, path, "").text();
        assert!(!text.contains("kettle"), "{path} has data");
    }
    for path in ["/status", "/events", "/metrics"] {
        assert_eq!(ask(&remote, path, "").status, 401, "{path}");
        assert_eq!(ask(&remote, path, "Host: admin.example\r\n").status, 403, "{path}");
    }
    // The list of paths is not for a person who opens the page.
    let mut client = Client::connect(local_address(&remote).parse().expect("an address"));
    assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n").status, 401);
}

#[test]
fn the_verdict_and_all_lists_are_shown() {
    let server = start(LOCAL);
    let seen = visit(&server, "overview", &[]);
    assert_quiet(&seen);
    assert_eq!(seen["headers"]["content-type"], "text/html; charset=utf-8", "{seen:#}");
    assert_eq!(seen["verdict"], "healthy: nothing slows it down", "{seen:#}");
    assert_eq!((&seen["announcement"], &seen["title"]), (&json!("healthy"), &json!("Keepwarm")), "{seen:#}");
    let about = seen["about"].as_str().expect("a text");
    assert!(about.contains("ready") && about.contains(&format!("process {}", server.pid())), "{about}");
    let lists = seen["lists"].as_object().expect("an object");
    assert!(TITLES.iter().all(|title| lists.contains_key(*title)) && lists.len() == TITLES.len(), "{seen:#}");
    let cells = |list: &str, row: usize| lists[list]["rows"][row].as_array().expect("a row").clone();
    assert_eq!(cells("Apps", 0)[..2], [json!("kettle"), json!("2/2")], "{seen:#}");
    assert_eq!(cells("Workers", 1)[..2], [json!("kettle/2"), json!("ready")], "{seen:#}");
    let pids: Vec<String> = server.workers().iter().map(ToString::to_string).collect();
    assert!(pids.iter().any(|pid| json!(pid) == cells("Workers", 0)[8]), "{pids:?} {seen:#}");
    assert_eq!(cells("Listeners", 0)[0], "main", "{seen:#}");
    assert_eq!(cells("Listeners", 0)[5], format!("http://{}", server.address()), "{seen:#}");
    assert_eq!(lists["Requests"]["rows"], json!([]), "{seen:#}");
    assert_eq!(seen["apps"], json!(["all apps", "kettle"]), "{seen:#}");
    let charts = seen["charts"].as_array().expect("charts");
    assert!(charts.len() == 4 && charts[1].as_str().is_some_and(|text| text.contains("p99")), "{seen:#}");
    let resources = seen["resources"].as_array().expect("resources");
    assert!(resources.len() >= 10 && resources.iter().all(|own| *own == true), "all from here: {seen:#}");
}

#[test]
fn an_incident_is_named_with_the_requests_that_hold_the_workers() {
    let server = start_with(LOCAL, "[[listen.main.route]]\npath = \"/sleep\"\napp = \"kettle\"\n");
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(get("/sleep?ms=200000"));
    }
    let seen = visit(&server, "verdict", &[]);
    assert_quiet(&seen);
    let verdict = seen["verdict"].as_str().expect("a text");
    assert!(verdict.starts_with("WHY kettle for ") && verdict.contains("keepwarm explain "), "{seen:#}");
    assert_eq!((&seen["isOpen"], &seen["title"]), (&json!(true), &json!("(1) Keepwarm")), "{seen:#}");
    assert!(seen["announcement"].as_str().is_some_and(|text| text.starts_with("kettle: ")), "{seen:#}");
    let requests = seen["requests"].as_array().expect("rows");
    let (waiting, requests): (Vec<&Value>, Vec<&Value>) = requests.iter().partition(|row| row[2] == "queue");
    assert_eq!((requests.len(), waiting.len()), (2, 2), "one at each worker: {seen:#}");
    assert!(waiting.iter().all(|row| row[1] == "GET /sleep" && row[4] == "kettle"), "{seen:#}");
    assert!(requests.iter().all(|row| row[1] == "GET /sleep" && row[2] == "app"), "{seen:#}");
    for row in seen["later"].as_array().expect("rows") {
        assert_eq!(row[2], "GET /sleep", "{seen:#}");
    }
    let dialog = seen["dialog"].as_str().unwrap_or_else(|| panic!("it is open: {seen:#}"));
    let id = requests[0][0].as_str().expect("an id");
    let other = requests[1][0].as_str().expect("an id");
    assert!(
        dialog.contains("GET /sleep for ") && (dialog.contains(id) || dialog.contains(other)),
        "{dialog}"
    );
}

/// A line for each part of a request and for each call, which a screen reader reads as the bars show it.
#[test]
fn slow_and_failed_requests_are_shown_with_where_their_time_went() {
    let upstream = "[upstream.nobody]\nurl = \"http://127.0.0.1:1\"\n";
    let server = start_with(
        &format!("{LOCAL}\n{upstream}"),
        "[[listen.main.route]]\npath = \"/nobody/*\"\nupstream = \"nobody\"\n",
    );
    for (path, status) in [("/nobody/a?token=secret", 502), ("/raise", 500)] {
        assert_eq!(server.client().ask(get(path)).status, status);
    }
    let seen = visit(&server, "recent", &["2"]);
    assert_quiet(&seen);
    let cells = |row: usize| seen["rows"][row].as_array().expect("a row").clone();
    assert_eq!(cells(0)[..2], [json!("GET /raise"), json!("failed")], "the newest first: {seen:#}");
    assert_eq!(cells(1)[..2], [json!("GET /nobody/a"), json!("failed")], "{seen:#}");
    assert_eq!((&cells(0)[3], &cells(1)[3]), (&json!("500"), &json!("502")), "{seen:#}");
    assert!(!seen.to_string().contains("secret"), "{seen:#}");
    let [app, upstream] = &seen["dialogs"].as_array().expect("dialogs")[..] else { panic!("two: {seen:#}") };
    assert_eq!((&app["isOpen"], &app["focus"]), (&json!(true), &json!("GET /raise")), "{seen:#}");
    let names = |dialog: &Value| -> Vec<Value> {
        dialog["lines"].as_array().expect("lines").iter().map(|line| line[0].clone()).collect()
    };
    assert_eq!(names(app), ["read", "retry", "queue", "app", "body", "write"], "{seen:#}");
    assert_eq!(names(upstream), ["call to nobody"], "{seen:#}");
    let meaning = upstream["lines"][0][2].as_str().expect("a text");
    assert!(meaning.contains("127.0.0.1:1: ") && meaning.ends_with("; the call of its route"), "{meaning}");
    for bar in seen["dialogs"]
        .as_array()
        .expect("dialogs")
        .iter()
        .flat_map(|dialog| dialog["bars"].as_array().expect("bars"))
    {
        let (x, width) = (bar[1].as_f64().expect("a number"), bar[2].as_f64().expect("a number"));
        assert!(x >= 0.0 && width >= 3.0 && x + width <= 1000.1, "{bar}");
    }
    assert_eq!(seen["closed"], json!([false, "GET /nobody/a"]), "the focus is where it was: {seen:#}");
}

#[test]
fn a_slow_request_shows_where_it_was_in_the_code() {
    let server = Server::start(&format!(
        "[admin]\n{LOCAL}\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"kettle\"\n\
         [app.kettle]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\nslow_log = \"200ms\"\n"
    ))
    .warm("/pong");
    assert_eq!(server.client().ask(get("/sleep?ms=800")).status, 200);
    server.wait_for_log("where the slow request was", BOUND);
    let seen = visit(&server, "recent", &["1"]);
    assert_quiet(&seen);
    let facts = seen["dialogs"][0]["facts"].as_str().expect("a text");
    let (_, stacks) = facts.split_once("In the code").unwrap_or_else(|| panic!("{facts}"));
    assert!(stacks.contains(" waiting: ") && stacks.contains("sleep (wsgi_app.py:"), "{facts}");
}

#[test]
fn names_are_text_in_every_place() {
    let server = start(LOCAL);
    let seen = visit(&server, "hostile", &[]);
    assert_quiet(&seen);
    assert!(seen["strings"].as_u64().is_some_and(|strings| strings > 60), "{seen:#}");
    assert_eq!((&seen["attacked"], &seen["attributes"]), (&json!([]), &json!(0)), "{seen:#}");
    let elements = seen["elements"].as_array().expect("a list");
    assert!(elements.len() == 11 && elements.iter().all(|count| *count == 0), "{seen:#}");
    for shown in seen["shown"].as_array().expect("a list") {
        let shown = shown.as_str().expect("a text");
        assert!(shown.contains("<img src=x onerror=attacked.push(1)>"), "{shown}");
        assert!(shown.contains("</script>??[2J??\u{fffd}\"'&lt;"), "{shown}");
        let is_harmful = |letter: char| {
            letter.is_control() && !"\n\t".contains(letter) || "\u{202e}\u{2066}".contains(letter)
        };
        assert!(!shown.contains(is_harmful), "{shown:?}");
    }
    // An app is chosen by its real name.
    assert!(seen["chosen"].as_str().is_some_and(|name| name.contains('\u{1b}')), "{seen:#}");
    assert_eq!(seen["workers"], 2, "those of the chosen app: {seen:#}");
}

#[test]
fn the_page_asks_for_the_token_and_keeps_it_in_its_tab() {
    let server = with_token();
    let seen = visit(&server, "token", &[TOKEN]);
    assert_eq!(seen["first"]["focus"], "token-text", "{seen:#}");
    assert_eq!(seen["first"]["shown"], false, "{seen:#}");
    assert_eq!(seen["empty"], false, "{seen:#}");
    assert!(seen["odd"].as_str().is_some_and(|text| text.contains("ASCII")), "{seen:#}");
    assert!(seen["wrong"].as_str().is_some_and(|text| text.contains("not accepted")), "{seen:#}");
    assert_eq!((&seen["right"], &seen["reloaded"]["asked"]), (&json!(true), &json!(false)), "{seen:#}");
    assert_eq!(seen["other"], true, "{seen:#}");
    let reloaded = &seen["reloaded"];
    assert_eq!((&reloaded["local"], &reloaded["cookies"]), (&json!(0), &json!("")), "{seen:#}");
    for place in ["url", "html"] {
        assert!(!reloaded[place].as_str().expect("a text").contains(TOKEN), "{place}");
    }
    assert_eq!(seen["violations"], json!([]), "{seen:#}");
}

#[test]
fn a_click_shows_the_stack_of_a_worker() {
    let server = start(&format!("bind = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\""));
    let mut clients: Vec<_> = (0..2).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(get("/sleep?ms=200000"));
    }
    admin::wait_for_status(&server, "both workers are at work", |status| {
        let is_busy = |worker: &Value| worker["active_requests"][0]["route"] == "/*";
        status["workers"].as_array().is_some_and(|workers| workers.iter().all(is_busy))
    });
    let mark = server.mark();
    let seen = visit(&server, "stack", &[TOKEN]);
    let asked = json!({ "why": "Changes need it.", "dialog": false, "shown": true });
    assert_eq!(seen["asked"], asked, "{seen:#}");
    assert_eq!((&seen["wrong"], &seen["form"], &seen["again"]), (&json!(false), &json!(false), &json!(true)));
    let stack = seen["stack"].as_str().expect("a text");
    assert!(stack.contains("wsgi_app.py") && stack.lines().count() > 2, "{stack}");
    server.wait_for_log_after(mark, "wsgi_app.py", BOUND);
}

#[test]
fn a_worker_is_replaced_after_a_confirmation() {
    let server = start(&format!("bind = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\""));
    let seen = visit(&server, "recycle", &[TOKEN]);
    assert_eq!((&seen["asked"], &seen["refused"]), (&json!([true, "No"]), &json!([true, "Replace worker"])));
    let name = seen["worker"].as_str().expect("a name");
    let outcome = seen["outcome"].as_str().expect("a text");
    assert!(outcome.starts_with(&format!("worker {name} ")), "{seen:#}");
    assert_ne!(seen["before"], seen["after"], "{seen:#}");
    assert_eq!(admin::status(&server)["apps"][0]["recycles"]["operator"], 1);
}

#[test]
fn an_endpoint_is_drained_after_a_confirmation_and_put_back() {
    let server = start(&format!(
        "bind = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\"\n[upstream.search]\nbind = \"127.0.0.2:0\"\n\
         endpoints = [{{ url = \"http://127.0.0.1:9\" }}, {{ url = \"http://127.0.0.2:9\" }}]"
    ));
    let seen = visit(&server, "drain", &[TOKEN]);
    assert_eq!((&seen["asked"], &seen["refused"]), (&json!([true, "No"]), &json!([true, "Drain endpoint"])));
    let outcome = seen["outcome"].as_str().expect("a text");
    assert!(outcome.starts_with("endpoint 127.0.0.1:9 of upstream search gets no more calls"), "{seen:#}");
    assert_eq!(seen["drained"], json!(["drained", "Put back into use", "Endpoint 127.0.0.1:9 of search"]));
    let said = "endpoint 127.0.0.1:9 of upstream search gets calls again";
    assert_eq!(seen["ready"], json!(["up", "Drain endpoint", said]));
}

#[test]
fn a_reload_is_confirmed_and_its_outcome_shown() {
    let server = start(&format!("bind = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\""));
    let file = server.folder().join("keepwarm.toml");
    let seen = visit(&server, "reload", &[TOKEN, file.to_str().expect("UTF-8")]);
    assert_eq!(seen["first"], json!([true, "Close", 1]), "a key pressed by mistake closes it: {seen:#}");
    assert_eq!(seen["cancelled"], json!([false, 1]), "{seen:#}");
    assert_eq!(seen["asked"], json!([false, false]), "{seen:#}");
    assert!(seen["done"].as_str().is_some_and(|text| text.contains("generation 2")), "{seen:#}");
    assert_eq!(seen["after"], 2, "{seen:#}");
    let broken = seen["broken"].as_str().expect("a text");
    assert!(broken.starts_with("reload failed; the previous configuration stays active."), "{broken}");
    assert!(broken.lines().count() > 2 && broken.contains("keepwarm.toml:"), "{broken}");
    assert_eq!(seen["images"], 0, "{seen:#}");
}

#[test]
fn without_a_token_there_is_no_stack_in_a_browser() {
    let server = start(LOCAL);
    let seen = visit(&server, "refused", &[]);
    assert!(seen.as_str().is_some_and(|text| text.contains("admin.token")), "{seen:#}");
}

#[test]
fn a_telephone_needs_no_sideways_scrolling() {
    let server = start(LOCAL);
    let seen = visit(&server, "narrow", &[]);
    assert_quiet(&seen);
    assert_eq!(seen["width"], 360, "{seen:#}");
    for title in TITLES {
        let widths = &seen["widths"][title];
        assert!(
            widths.as_array().is_some_and(|all| all.iter().all(|width| width.as_u64() <= Some(360))),
            "{title}: {seen:#}"
        );
    }
    for dialog in ["help", "recent"] {
        let widths = &seen["widths"][dialog];
        assert!(widths[0] == 0 && widths[1].as_u64() <= Some(360), "{dialog}: {seen:#}");
    }
}

#[test]
fn a_screen_reader_is_given_tables_tabs_and_charts_in_words() {
    let server = start(LOCAL);
    let seen = visit(&server, "accessible", &[]);
    assert_eq!((&seen["unnamed"], &seen["sorted"]), (&json!([]), &json!("OWN")), "{seen:#}");
    for width in ["wide", "narrow"] {
        let of_role = |role: &str| -> Vec<&str> {
            let names = seen["trees"][width][role].as_array().map(Vec::as_slice).unwrap_or_default();
            names.iter().map(|name| name.as_str().expect("a text")).collect()
        };
        assert_eq!(of_role("tab"), TITLES, "{width}");
        assert_eq!(of_role("tabpanel"), ["Workers"], "{width}");
        assert_eq!(of_role("table"), ["Workers"], "{width}: {seen:#}");
        assert_eq!(of_role("rowheader").len(), 6, "{width}: {seen:#}");
        assert!(of_role("rowheader").contains(&"app0/1"), "{width}: {seen:#}");
        assert_eq!(of_role("cell").len() + of_role("gridcell").len(), 6 * 8, "{width}: {seen:#}");
        let charts: Vec<&str> = of_role("image").into_iter().chain(of_role("img")).collect();
        assert!(
            charts.len() == 4 && charts[1].starts_with("Duration: p50 10ms, p90 30ms"),
            "{width}: {charts:?}"
        );
        assert!(of_role("status").len() >= 2, "{width}: {seen:#}");
    }
    assert_eq!(seen["trees"]["wide"]["columnheader"].as_array().map(Vec::len), Some(9), "{seen:#}");
}

#[test]
fn everything_is_reached_by_keys() {
    let server = start(LOCAL);
    let seen = visit(&server, "keyboard", &[]);
    assert_quiet(&seen);
    let is = |what: &str, expected: Value| assert_eq!(seen[what], expected, "{what}: {seen:#}");
    is("second list", json!(["Workers", 50, "1 to 50 of 120", "#workers"]));
    is("next tab", json!(["Requests", "Requests"]));
    is("last tab", json!("Certificates"));
    is("filter has the focus", json!("filter"));
    let of_app: Vec<String> = (1..=10).map(|number| format!("app11/{number}")).collect();
    is("filtered", json!([of_app, "Workers"]));
    is("filter removed", json!(["", 50]));
    is("last page", json!(["101 to 120 of 120", 20, "next", "true"]));
    is("sorted", json!(["1119", "PID", "descending", "1 to 50 of 120"]));
    is("reversed", json!(["1000", "PID", "ascending", "1 to 50 of 120"]));
    is("as configured", json!(["1000", "PID", null, "1 to 50 of 120"]));
    is("closed", json!([false, true]));
    is("help", json!([true, true]));
    is("column explained", json!([true, "OWN", "resident memory of its own, which max_memory counts"]));
    is("chart explained", json!([true, "Queue", "requests that wait for a worker"]));
    is("number explained", json!([true, "AGE", "time since its start"]));
    is("title explained", json!([true, "Requests per second", "requests that ended, of the last 10 s"]));
    let moment = seen["a second before"][0].as_str().expect("a text");
    let value = seen["a second before"][1].as_str().expect("a text");
    assert_eq!(moment, format!("1.0s ago: requests {value}"), "{seen:#}");
    assert_eq!(seen["now"][0], "", "{seen:#}");
    assert_ne!(seen["a second before"][1], seen["now"][1], "{seen:#}");
    assert_eq!(seen["worker"][0], true, "{seen:#}");
}

/// A process that stands still, an upgrade, and the end.
#[test]
fn a_lost_connection_is_said_and_made_again() {
    let server = start(LOCAL);
    let pid = server.pid();
    let seen = visit(&server, "lost", &[&pid.to_string()]);
    for (when, sentence) in
        [("silent", "the process does not respond"), ("gone", "no connection to the process")]
    {
        assert!(seen[when][0].as_str().is_some_and(|text| text.starts_with("NO SNAPSHOT")), "{seen:#}");
        assert_eq!(seen[when][1], format!("No snapshot: {sentence}"), "{seen:#}");
    }
    assert!(seen["awake"].as_str().is_some_and(|text| text.contains(&format!("process {pid} "))), "{seen:#}");
}

/// There is a second for each snapshot.
#[test]
fn many_rows_are_drawn_in_time() {
    let server = start(LOCAL);
    let seen = visit(&server, "many", &["200", "2000", "5000", "0"]);
    assert_quiet(&seen);
    assert!(seen["bytes"].as_u64() > Some(2_000_000), "{seen:#}");
    for (name, total) in
        [("apps", 200), ("workers", 2000), ("requests", 700), ("routes", 200), ("upstreams", 5000)]
    {
        let drawn = &seen["drawn"][name];
        assert_eq!(
            (&drawn["rows"], &drawn["count"]),
            (&json!(50), &json!(format!("1 to 50 of {total}"))),
            "{seen:#}"
        );
        assert!(drawn["milliseconds"].as_f64() < Some(1000.0), "{seen:#}");
    }
}

#[test]
fn snapshots_leave_nothing_behind() {
    let server = start(LOCAL);
    let seen = visit(&server, "many", &["20", "60", "100", "320"]);
    assert_quiet(&seen);
    let grown = |what: &str| {
        let value = |when: &str| seen[when][what].as_f64().expect("a number");
        value("after") / value("before")
    };
    for what in ["heap", "nodes", "listeners"] {
        assert!(grown(what) < 1.2, "{what}: {seen:#}");
    }
}
