//! A worker's process: user, group, umask, directory, environment, limits; and the settings refused before anything starts.
//!
//! These tests run as root, as the others that trace processes do: only root starts workers of other users.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Server, get, tools};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

const APP: &str = r#"
import grp, json, os, resource, subprocess, sys

def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/child":
        body = str(subprocess.Popen(["sleep", "1000"]).pid).encode()
    elif path == "/devices":
        with open("/dev/stderr", "w") as err:
            err.write("through the device\n")
        body = b"ok"
    else:
        name = os.path.join(os.environ.get("MADE", "/nowhere"), "made")
        if os.path.isdir(os.path.dirname(name)):
            open(name, "w").close()
        limits = {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("NOFILE", "AS", "NPROC", "CORE", "CPU")}
        mask = os.umask(0)
        os.umask(mask)
        body = json.dumps({
            "uid": os.getresuid(), "gid": os.getresgid(), "groups": sorted(os.getgroups()), "mask": mask, "directory": os.getcwd(),
            "limits": limits, "home": os.environ.get("HOME"), "user": os.environ.get("USER"), "a": os.environ.get("A"), "b": os.environ.get("B"),
            "flags": sys.flags.dev_mode, "executable": sys.executable, "watch": os.environ.get("KEEPWARM_WATCH"), "pid": os.getpid(), "ours": sorted(name for name in os.environ if name.startswith("KEEPWARM_")),
            "ignored": next(line for line in open("/proc/self/status") if line.startswith("SigIgn")).split()[1],
        }).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"#;

/// A configuration whose app lives in a directory that every user may enter; `app` are its keys.
fn config(server: &str, app: &str) -> String {
    format!(
        "[server]\n{server}\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"about:application\"\ndirectory = \"@DIR@/app\"\nworkers = 1\n{app}\n"
    )
}

fn prepare(command: &mut Command) {
    let folder = command.get_current_dir().expect("a folder").to_path_buf();
    let app = folder.join("app");
    std::fs::create_dir(&app).expect("a folder");
    std::fs::write(app.join("about.py"), APP).expect("the app");
    let made = folder.join("made");
    std::fs::create_dir(&made).expect("a folder");
    for (folder, mode) in [(&folder, 0o755), (&app, 0o755), (&made, 0o777)] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).expect("for everybody");
    }
}

#[track_caller]
fn start(server: &str, app: &str) -> Server {
    Server::start_with(&config(server, app), prepare).warm("/")
}

fn about(server: &Server) -> Value {
    server.client().patient(LONG).ask(get("/")).json()
}

fn id(of: &str, name: &str) -> u64 {
    let printed = tools::run_ok(Command::new("getent").args([of, name]), LONG);
    printed.split(':').nth(2).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn workers_run_as_their_user_with_its_groups_and_home() {
    let server = start("", "user = \"nobody\"");
    let about = about(&server);
    let (uid, gid) = (id("passwd", "nobody"), id("group", "nogroup"));
    assert_eq!(about["uid"], serde_json::json!([uid, uid, uid]));
    assert_eq!(about["gid"], serde_json::json!([gid, gid, gid]));
    assert_eq!(about["groups"], serde_json::json!([gid]));
    assert_eq!(about["user"], "nobody");
    assert_eq!(about["home"], "/nonexistent");
    assert_eq!(server.ask(get("/devices")).text(), "ok", "the pipes are the worker's own");
    server.wait_for_log("through the device", LONG);
}

#[test]
fn a_group_of_its_own_and_numbers() {
    let server = start(
        "",
        "user = \"12345\"\ngroup = \"daemon\"\numask = \"027\"\nenv = { MADE = \"@DIR@/made\", HOME = \"/srv\" }",
    );
    let about = about(&server);
    let daemon = id("group", "daemon");
    assert_eq!(about["uid"], serde_json::json!([12345, 12345, 12345]));
    assert_eq!(about["gid"], serde_json::json!([daemon, daemon, daemon]));
    assert_eq!(about["mask"], 0o027);
    assert_eq!(about["home"], "/srv", "what the app's environment says counts");
    let made = std::fs::metadata(server.folder().join("made/made")).expect("a file of the worker's");
    assert_eq!((made.uid(), u64::from(made.gid()), made.mode() & 0o777), (12345, daemon, 0o640));
}

#[test]
fn the_servers_user_is_that_of_workers_without_one() {
    let server = Server::start_with(&config("user = \"nobody\"\ngroup = \"daemon\"", ""), |command| {
        prepare(command);
        command.env_remove("KEEPWARM_SERVER__USER");
    })
    .warm("/");
    assert_eq!(about(&server)["uid"][0], id("passwd", "nobody"));
    assert_eq!(about(&server)["gid"][0], id("group", "daemon"));
    // Keepwarm itself keeps its user: a reload can switch workers to another.
    server.configure(&config("user = \"nobody\"", "user = \"daemon\""));
    server.signal(Signal::HUP);
    wait_until("another user", LONG, || about(&server)["uid"][0] == id("passwd", "daemon"));
    assert_eq!(about(&server)["gid"][0], id("group", "daemon"), "and its own group, not that of the server");
}

/// Started as root without a configured user; the app's directory is as `adjust` leaves it.
#[track_caller]
fn unconfigured(app: &str, adjust: impl FnOnce(&Path)) -> Server {
    let server = Server::start_with(&config("", app), |command| {
        prepare(command);
        // Everybody's interpreter, whichever root has.
        command.env_remove("KEEPWARM_SERVER__USER").env_remove("VIRTUAL_ENV").env("PATH", "/usr/bin:/bin");
        adjust(&command.get_current_dir().expect("a folder").join("app"));
    });
    server.warm("/")
}

#[test]
fn without_a_user_workers_of_root_run_as_nobody() {
    let server = unconfigured("", |_| {});
    assert_eq!(about(&server)["uid"][0], id("passwd", "nobody"));
    assert_eq!(about(&server)["home"], "/nonexistent");
    let line = server.wait_for_log("workers run as this user", LONG);
    assert!(line.contains("user=nobody"), "{line}");
}

#[test]
fn without_a_user_an_app_runs_as_the_owner_of_its_folder() {
    let server = unconfigured("", |app| {
        let own =
            |file: &Path| std::os::unix::fs::chown(file, Some(12345), Some(12345)).expect("another owner");
        own(app);
        own(&app.join("about.py"));
        std::fs::create_dir(app.join("var")).expect("a folder");
        own(&app.join("var"));
    });
    assert_eq!(about(&server)["uid"][0], 12345);
}

#[test]
fn apps_that_nobody_cannot_run_are_run_as_root_with_a_warning() {
    let closed =
        |app: &Path| std::fs::set_permissions(app, std::fs::Permissions::from_mode(0o700)).expect("closed");
    let var = |app: &Path| std::fs::create_dir(app.join("var")).expect("a folder");
    let database = |app: &Path| std::fs::write(app.join("shop.sqlite3"), "").expect("a file");
    type Case<'c> = (&'c str, &'c dyn Fn(&Path), &'c str);
    let cases: [Case<'_>; 4] = [
        ("", &closed, "cannot enter"),
        ("", &var, "cannot write to"),
        ("", &database, "cannot write to"),
        ("env = { STATE = \"@DIR@/state/of/the/shop\" }", &|_| {}, "cannot write to"),
    ];
    for (keys, adjust, told) in cases {
        let server = unconfigured(keys, |app| adjust(app));
        assert_eq!(about(&server)["uid"][0], 0, "{told}");
        let line = server.wait_for_log("workers run as root: no user is configured", LONG);
        assert!(line.contains(told) && line.contains("set app.app.user"), "{line}");
    }
}

/// Started without a user of the server's, by a script that ends as Keepwarm, `@KEEPWARM@ "$@"`.
#[track_caller]
fn spawn_by(script: &str, app: &str) -> Server {
    Server::spawn(&config("", app), |command| {
        prepare(command);
        let folder = command.get_current_dir().expect("a folder").to_path_buf();
        let script = script.replace("@KEEPWARM@", &keepwarm_tests::keepwarm().display().to_string());
        let file = folder.join("start");
        tools::script(&file, &format!("#!/bin/sh\nunset KEEPWARM_SERVER__USER VIRTUAL_ENV\n{script}\n"));
        *command = Command::new(file);
        command.arg("run").arg("--config").arg(folder.join("keepwarm.toml")).current_dir(folder);
    })
}

/// A user namespace with the number of root and no other, made by somebody without rights.
const OF_A_USER: &str = "exec unshare --user --map-root-user @KEEPWARM@ \"$@\"";
/// The same, made by root: in it groups may be set.
const OF_ROOT: &str = "
    mkfifo mapped
    (
        until [ \"$(readlink /proc/$$/ns/user)\" != \"$(readlink /proc/self/ns/user)\" ]; do :; done
        echo 0 0 1 >/proc/$$/uid_map
        echo 0 0 1 >/proc/$$/gid_map
        echo >mapped
    ) &
    exec unshare --user sh -c 'read line <mapped; exec @KEEPWARM@ \"$@\"' sh \"$@\"";

#[test]
fn in_a_user_namespace_of_root_alone_workers_run_as_root_with_a_warning() {
    for (script, told) in
        [(OF_A_USER, "its user namespace withholds them"), (OF_ROOT, "`nobody` has no number")]
    {
        let server = spawn_by(script, "").listening().warm("/");
        assert_eq!(about(&server)["uid"], serde_json::json!([0, 0, 0]), "root there, and nobody else here");
        let line = server.wait_for_log("workers run as root: no user is configured", LONG);
        assert!(line.contains(told), "{line}");
    }
}

#[test]
fn a_user_whom_the_user_namespace_does_not_have_is_told_as_such() {
    let server = spawn_by(OF_ROOT, "user = \"12345\"");
    assert!(!server.wait_for_exit(LONG).success());
    let told = server.log();
    assert!(told.contains("which the user namespace does not map"), "{told}");
}

#[test]
fn the_template_of_a_preloaded_app_runs_as_nobody_too() {
    let server = unconfigured("preload = true", |_| {});
    assert_eq!(about(&server)["uid"][0], id("passwd", "nobody"));
    let nobody = format!("Uid:\t{0}\t{0}\t{0}\t{0}", id("passwd", "nobody"));
    // The template and its worker.
    let all = server.workers();
    assert_eq!(all.len(), 2, "{all:?}");
    for pid in all {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
        assert!(status.contains(&nobody), "{}: {status}", process::command(pid));
    }
}

#[test]
fn http_and_php_fpm_processes_run_as_nobody_too() {
    const HTTP: &str = "import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(os.getuid()).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
";
    const PHP: &str = "<?php echo posix_getuid();";
    let fpm = keepwarm_tests::classic::php_fpm();
    let kinds = [
        ("kind = \"http\"\ncommand = [\"python3\", \"server.py\"]".to_owned(), "server.py", HTTP),
        (format!("kind = \"fastcgi\"\nentry = \"index.php\"\ninterpreter = \"{fpm}\""), "index.php", PHP),
    ];
    for (keys, file, text) in kinds {
        let config = config("", &keys).replace("entry = \"about:application\"\n", "");
        let server = Server::start_with(&config, |command| {
            prepare(command);
            command.env_remove("KEEPWARM_SERVER__USER").env("PATH", "/usr/bin:/bin");
            let folder = command.get_current_dir().expect("a folder");
            std::fs::write(folder.join("app").join(file), text).expect("the app");
        })
        .warm("/");
        let response = server.client().patient(LONG).ask(get("/")).text();
        assert_eq!(response, id("passwd", "nobody").to_string(), "{file}: {}", server.log());
        let line = server.wait_for_log("workers run as this user", LONG);
        assert!(line.contains("user=nobody"), "{line}");
    }
}

#[test]
fn configured_root_gets_no_warning() {
    let server = unconfigured("user = \"root\"", |_| {});
    assert_eq!(about(&server)["uid"][0], 0);
    assert!(!server.log().contains("workers run as"), "{}", server.log());
}

#[test]
fn limits_bind_the_worker() {
    let limits = "limits = { files = 200, memory = \"4GiB\", processes = 5000, core = 0, cpu = \"90s\" }";
    for user in ["", "user = \"nobody\"\n"] {
        let server = start("", &format!("{user}{limits}"));
        let limits = about(&server)["limits"].clone();
        assert_eq!(limits["NOFILE"], serde_json::json!([200, 200]));
        assert_eq!(limits["AS"], serde_json::json!([4_u64 << 30, 4_u64 << 30]));
        assert_eq!(limits["NPROC"], serde_json::json!([5000, 5000]));
        assert_eq!(limits["CORE"], serde_json::json!([0, 0]));
        assert_eq!(limits["CPU"], serde_json::json!([90, 90]));
    }
}

#[test]
fn settings_in_the_environment_are_not_the_workers() {
    let server = Server::start_with(&config("", "env = { B = \"1\" }"), |command| {
        prepare(command);
        command
            .env("KEEPWARM_ADMIN__BIND", "127.0.0.1:0")
            .env("KEEPWARM_ADMIN__TOKEN", "a-secret-of-the-operator")
            .env("KEEPWARM_APP__APP__ENV__A", "from the environment")
            .env("KEEPWARM_UPSTREAM_ELSEWHERE", "http://127.0.0.1:1");
    })
    .warm("/");
    let about = about(&server);
    assert_eq!(about["a"], "from the environment", "its own app's reach it as they are meant");
    let names = ["KEEPWARM_APP", "KEEPWARM_INSTANCE", "KEEPWARM_UPSTREAM_ELSEWHERE", "KEEPWARM_WORKER"];
    let ours: Vec<&str> = about["ours"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    let ours: Vec<&str> = ours.into_iter().filter(|name| *name != "KEEPWARM_ADAPTERS").collect();
    assert_eq!(ours, names);
}

/// Keepwarm as a shell script starts it, with these commands before.
fn started_by(script: &str) -> Server {
    Server::start_as(&config("", ""), |folder| {
        prepare(Command::new("true").current_dir(folder));
        let file = folder.join("start");
        let binary = keepwarm_tests::keepwarm().display();
        tools::script(&file, &format!("#!/bin/sh\n{script}\nexec {binary} \"$@\"\n"));
        file
    })
    .warm("/")
}

#[test]
fn workers_have_the_soft_limit_of_files_that_keepwarm_was_started_with() {
    let server = started_by("ulimit -S -n 300");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("limits");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let most = files.split_whitespace().nth(4).expect("the hard limit").parse::<u64>().expect("a number");
    assert!(files.split_whitespace().nth(3) == Some(&most.to_string()), "Keepwarm takes all: {files}");
    assert_eq!(about(&server)["limits"]["NOFILE"], serde_json::json!([300, most]));
}

#[test]
fn signals_that_were_ignored_around_keepwarm_are_not_ignored_in_workers() {
    let server = started_by("trap '' HUP INT QUIT USR1 USR2 TERM CHLD");
    let about = about(&server);
    let ignored = u64::from_str_radix(about["ignored"].as_str().expect("a mask"), 16).expect("a number");
    let those = [1, 2, 3, 10, 12, 15, 17];
    assert!(those.iter().all(|number| ignored >> (number - 1) & 1 == 0), "{ignored:x}");
}

#[test]
fn directory_environment_interpreter_and_options() {
    let server = Server::start_with(
        &config("", "env_file = \"@DIR@/env\"\nenv = { B = \"over\" }\ninterpreter = \"@DIR@/python\"\noptions = [\"-X\", \"dev\"]"),
        |command| {
            prepare(command);
            let folder = command.get_current_dir().expect("a folder").to_path_buf();
            std::fs::write(folder.join("env"), "A=from the file\nB=under\n").expect("a file");
            let python = tools::run_ok(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]), LONG);
            std::os::unix::fs::symlink(python.trim(), folder.join("python")).expect("a link");
        },
    )
    .warm("/");
    let about = about(&server);
    assert_eq!(about["directory"], server.folder().join("app").to_str().expect("UTF-8"));
    assert_eq!((about["a"].as_str(), about["b"].as_str()), (Some("from the file"), Some("over")));
    assert_eq!(about["flags"], true);
    assert_eq!(about["executable"], server.folder().join("python").to_str().expect("UTF-8"));
    assert_eq!(about["watch"], Value::Null);
}

#[test]
fn workers_of_another_user_end_with_keepwarm_however_it_ends() {
    let server = start("", "user = \"nobody\"");
    let child: u32 = server.ask(get("/child")).text().parse().expect("a pid");
    let worker = about(&server)["pid"].as_u64().expect("a pid") as u32;
    server.signal(Signal::KILL);
    server.wait_for_exit(LONG);
    wait_until("all have ended", LONG, || !process::alive(worker) && !process::alive(child));
}

/// Refused with status 2 by a start and by `--dry-run`, and by a reload of what runs.
#[track_caller]
fn refused(app: &str, told: &[&str]) {
    let config = config("", app);
    for dry in [false, true] {
        let server = Server::spawn(&config, |command| {
            prepare(command);
            command.args(dry.then_some("--dry-run"));
        });
        assert_eq!(server.wait_for_exit(LONG).code(), Some(2), "{}", server.log());
        for told in told {
            assert!(server.log().contains(told), "no {told:?} in\n{}", server.log());
        }
    }
}

#[test]
fn invalid_settings_are_refused_before_anything_starts() {
    refused(
        "user = \"no-such-user\"",
        &["keepwarm.toml:11:8", "`app.app.user` is `no-such-user`, but there is no such user"],
    );
    refused("group = \"no-such-group\"", &["keepwarm.toml:11:9", "but there is no such group"]);
    refused("umask = \"8\"", &["keepwarm.toml:11:9", "octal"]);
    let above = std::fs::read_to_string("/proc/sys/fs/nr_open")
        .expect("a limit")
        .trim()
        .parse::<u64>()
        .expect("a number")
        + 1;
    refused(&format!("limits = {{ files = {above} }}"), &["keepwarm.toml:11:20", "above the hard limit"]);
}

#[test]
fn a_directory_that_the_user_may_not_enter_is_refused() {
    let server = Server::spawn(&config("", "user = \"nobody\""), |command| {
        prepare(command);
        let app = command.get_current_dir().expect("a folder").join("app");
        std::fs::set_permissions(app, std::fs::Permissions::from_mode(0o700)).expect("closed");
    });
    assert_eq!(server.wait_for_exit(LONG).code(), Some(2));
    let log = server.log();
    assert!(
        log.contains("keepwarm.toml:9:13") && log.contains("`nobody` of `app.app` cannot enter"),
        "{log}"
    );
}

#[test]
fn under_sighup_an_invalid_setting_leaves_the_old_workers() {
    let server = start("", "");
    let before = about(&server)["pid"].clone();
    for (app, told) in [
        ("user = \"no-such-user\"", "there is no such user"),
        ("limits = { files = 1 }", "app.app.limits.files"),
    ] {
        let mark = server.mark();
        server.configure(&config("", app));
        server.signal(Signal::HUP);
        server.wait_for_log_after(mark, told, LONG);
        assert_eq!(about(&server)["pid"], before);
    }
}

/// Runs `keepwarm run --dry-run` as user `nobody`, with these limits of open files.
fn as_nobody(folder: &Path, config: &str) -> String {
    let file = folder.join("keepwarm.toml");
    std::fs::write(&file, config).expect("the configuration");
    let binary = folder.join("keepwarm");
    tools::place_executable(keepwarm_tests::keepwarm(), &binary);
    let script = format!(
        "ulimit -n 500; exec setpriv --reuid=nobody --regid=nogroup --clear-groups {} run --dry-run --config {}",
        binary.display(),
        file.display()
    );
    let output = tools::run(Command::new("bash").arg("-c").arg(script).current_dir(folder), LONG);
    format!(
        "{}{}{:?}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code()
    )
}

#[test]
fn without_root_users_and_limits_cannot_be_changed() {
    let server = start("", "");
    let folder = server.folder().join("other");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("for everybody");
    let whole = |app: &str| config("", app).replace("@DIR@", server.folder().to_str().expect("UTF-8"));
    let told = as_nobody(&folder, &whole("user = \"daemon\""));
    assert!(
        told.contains("cannot run the workers of `app.app` as `daemon`: this requires root")
            && told.ends_with("Some(2)"),
        "{told}"
    );
    let told = as_nobody(&folder, &whole("limits = { files = 501 }"));
    assert!(told.contains("above the hard limit of this process, which is 500"), "{told}");
    // Its own user is not a change.
    let told = as_nobody(&folder, &whole("user = \"nobody\"\nlimits = { files = 500 }"));
    assert!(told.ends_with("Some(0)"), "{told}");
}
