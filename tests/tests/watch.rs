//! `watch`: files that change recycle their app and no other, and broken code leaves the previous workers running.

use std::path::{Path, PathBuf};
use std::time::Duration;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Response, Server, get};

const LONG: Duration = Duration::from_secs(60);

/// Two apps, each in a directory of its own: `a` is watched and `b` is not.
const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/b/*"
app = "b"
[[listen.main.route]]
app = "a"
[app.a]
entry = "code:application"
directory = "@DIR@/a"
interpreter = "@PYTHON@"
workers = 1
watch = ["**/*.py"]
[app.b]
entry = "code:application"
directory = "@DIR@/b"
interpreter = "@PYTHON@"
workers = 1
"#;

/// An app that responds with `version`, its process and what it knows of the watch; it starts after `before` has run.
fn code(version: &str, before: &str) -> String {
    format!(
        "import os, json\n{before}\n\
         def application(environ, start_response):\n    \
             body = json.dumps({{'version': {version:?}, 'pid': os.getpid(), 'watch': os.environ.get('KEEPWARM_WATCH')}}).encode()\n    \
             start_response('200 OK', [('Content-Length', str(len(body)))])\n    return [body]\n"
    )
}

fn start() -> Server {
    let server = Server::start_with(CONFIG, |command| {
        let folder = command.get_current_dir().expect("a folder").to_path_buf();
        for app in ["a", "b"] {
            std::fs::create_dir(folder.join(app)).expect("a folder");
            std::fs::write(folder.join(app).join("code.py"), code("1", "")).expect("the app");
        }
    });
    server.warm("/").warm("/b/")
}

fn about(server: &Server, path: &str) -> serde_json::Value {
    server.client().patient(LONG).ask(get(path)).json()
}

/// As a browser asks.
fn page(server: &Server, for_what: &str) -> Response {
    let fields = format!("Host: a\r\nAccept: text/html,*/*;q=0.8\r\nSec-Fetch-Dest: {for_what}\r\n");
    server.client().patient(LONG).ask(format!("GET / HTTP/1.1\r\n{fields}\r\n"))
}

fn log_since(server: &Server, mark: usize) -> String {
    server.log().lines().skip(mark).collect::<Vec<_>>().join("\n")
}

fn file(server: &Server) -> PathBuf {
    server.folder().join("a/code.py")
}

#[track_caller]
fn wait_for_version(server: &Server, version: &str) {
    wait_until(version, LONG, || about(server, "/")["version"] == version);
}

/// As many editors save: beside its place, then moved there.
fn save_by_rename(file: &Path, text: &str) {
    let draft = file.with_extension("py.draft~");
    std::fs::write(&draft, text).expect("a draft");
    std::fs::rename(draft, file).expect("in its place");
}

#[test]
fn a_change_recycles_its_app_and_no_other() {
    let server = start();
    let other = about(&server, "/b/");
    assert_eq!(other["watch"], serde_json::Value::Null);
    assert_eq!(about(&server, "/")["watch"], "1");
    std::fs::write(file(&server), code("2", "")).expect("changed");
    wait_for_version(&server, "2");
    save_by_rename(&file(&server), &code("3", ""));
    wait_for_version(&server, "3");
    assert_eq!(about(&server, "/b/"), other, "the other app has the same worker");
    // An unwatched file is not a change.
    std::fs::write(server.folder().join("b/code.py"), code("2", "")).expect("changed");
    std::fs::write(server.folder().join("a/notes.txt"), "x").expect("written");
    std::fs::write(file(&server), code("4", "")).expect("changed");
    wait_for_version(&server, "4");
    assert_eq!(about(&server, "/b/"), other);
}

#[test]
fn a_broken_version_is_logged_and_the_old_one_serves() {
    let server = start();
    let before = about(&server, "/");
    let mark = server.mark();
    std::fs::write(file(&server), "this is no Python").expect("broken");
    server.wait_for_log_after(mark, "workers not replaced; the previous ones keep serving", LONG);
    server.wait_for_log_after(mark, "SyntaxError", LONG);
    assert_eq!(about(&server, "/"), before);
    // A person sees the error; scripts, pictures and calls go on.
    let shown = page(&server, "document");
    assert_eq!((shown.status, shown.field("content-type")), (500, Some("text/html; charset=utf-8")));
    for part in
        ["The application does not start with its current files", "this is no Python", "SyntaxError: "]
    {
        assert!(shown.text().contains(part), "{part}: {}", shown.text());
    }
    assert_eq!(page(&server, "script").status, 200);
    assert_eq!(page(&server, "document").status, 500);
    assert_eq!(log_since(&server, mark).matches("SyntaxError: ").count(), 1, "it is in the log once");
    // And once fixed it is loaded.
    save_by_rename(&file(&server), &code("2", ""));
    wait_for_version(&server, "2");
    assert_eq!(page(&server, "document").status, 200);
}

#[test]
fn an_app_that_fails_to_start_is_shown_and_starts_when_fixed() {
    let server = Server::start_with(&CONFIG.replace("\"@DIR@/b\"", "\"@DIR@/a\""), |command| {
        let folder = command.get_current_dir().expect("a folder").join("a");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("code.py"), "1/0\n").expect("the app");
    });
    server.wait_for_log("it responds with 503 until one of its files changes", LONG);
    assert_eq!(server.ask(get("/")).status, 503);
    let shown = page(&server, "document");
    assert!(shown.status == 500 && shown.text().contains("ZeroDivisionError"), "{}", shown.text());
    std::fs::write(file(&server), code("1", "")).expect("mended");
    wait_until("it serves", LONG, || server.ask(get("/")).status == 200);
    assert_eq!(page(&server, "document").status, 200);
}

#[test]
fn a_new_version_serves_as_soon_as_one_worker_has_it() {
    // The second worker waits in its start until the test lets it go on.
    let server = Server::start_with(&CONFIG.replacen("workers = 1", "workers = 2", 1), |command| {
        let folder = command.get_current_dir().expect("a folder").to_path_buf();
        for app in ["a", "b"] {
            std::fs::create_dir(folder.join(app)).expect("a folder");
            std::fs::write(folder.join(app).join("code.py"), code("1", "")).expect("the app");
        }
    });
    let server = server.warm("/").warm("/b/");
    let [first, second, go] = ["first", "second", "go"].map(|name| server.folder().join(name));
    let before = format!(
        "import time\ntry: os.mkdir({first:?})\nexcept FileExistsError:\n    open({second:?}, 'w').close()\n    while not os.path.exists({go:?}): time.sleep(0.01)\n"
    );
    std::fs::write(file(&server), code("2", &before)).expect("changed");
    wait_for_version(&server, "2");
    wait_until("the second worker has read this version", LONG, || second.exists());
    // The second worker does not start with the code that is broken by then.
    let mark = server.mark();
    std::fs::write(file(&server), "this is no Python").expect("broken");
    server.wait_for_log_after(mark, "workers not replaced; the previous ones keep serving", LONG);
    std::fs::write(&go, "").expect("go");
    std::fs::write(file(&server), code("3", "")).expect("mended");
    wait_for_version(&server, "3");
    assert_eq!(log_since(&server, mark).matches("SyntaxError: ").count(), 1);
}

#[test]
fn a_change_during_the_recycle_is_not_forgotten() {
    let server = start();
    let loading = server.folder().join("loading");
    let go = server.folder().join("go");
    // A version that, while it is loaded, waits until the test lets it go on.
    let before = format!(
        "import time\nopen({:?}, 'w').close()\nwhile not os.path.exists({:?}): time.sleep(0.01)\n",
        loading, go
    );
    std::fs::write(file(&server), code("2", &before)).expect("changed");
    wait_until("the new worker loads it", LONG, || loading.exists());
    std::fs::write(file(&server), code("3", "")).expect("changed once more");
    std::fs::write(&go, "").expect("go");
    wait_for_version(&server, "3");
}

#[test]
fn changes_in_a_new_folder_are_noticed() {
    let server = start();
    let mark = server.mark();
    // Made elsewhere and moved: all of it comes in one step.
    let elsewhere = server.folder().join("elsewhere/deep");
    std::fs::create_dir_all(&elsewhere).expect("a folder");
    std::fs::write(elsewhere.join("module.py"), "").expect("a module");
    std::fs::rename(server.folder().join("elsewhere"), server.folder().join("a/package")).expect("moved");
    server.wait_for_log_after(mark, "workers replaced: they run the changed files", LONG);
    // And what changes in it later.
    let mark = server.mark();
    std::fs::write(server.folder().join("a/package/deep/module.py"), "x = 1\n").expect("changed");
    server.wait_for_log_after(mark, "workers replaced: they run the changed files", LONG);
    // A directory made in its place, and filled at once.
    let mark = server.mark();
    let place = server.folder().join("a/made/deep");
    std::fs::create_dir_all(&place).expect("a folder");
    std::fs::write(place.join("module.py"), "").expect("a module");
    server.wait_for_log_after(mark, "workers replaced: they run the changed files", LONG);
}

#[test]
fn a_reload_keeps_watching() {
    let server = start();
    server.reload();
    std::fs::write(file(&server), code("2", "")).expect("changed");
    wait_for_version(&server, "2");
    // The other app is watched from a reload on.
    server.reload_with(&format!("{CONFIG}watch = [\"*.py\"]\n"));
    std::fs::write(server.folder().join("b/code.py"), code("5", "")).expect("changed");
    wait_until("the other app's version", LONG, || about(&server, "/b/")["version"] == "5");
}
