//! The command line: a target without a file, the detection of its kind, and errors that end a run before it starts.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use keepwarm_tests::{Server, apps, get, keepwarm, tools};

const BOUND: Duration = Duration::from_secs(20);

/// A directory of its own for a test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("keepwarm-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("a file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&str], folder: &std::path::Path) -> Output {
    tools::run(Command::new(keepwarm()).args(arguments).current_dir(folder), BOUND)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_target_is_served_without_a_file() {
    let bind = ["--bind", "127.0.0.1:0", "--workers", "2"];
    for target in
        ["wsgi_app:application", "asgi_app:application", "wsgi_app", "wsgi_app.py", "wsgi_app.py:application"]
    {
        let mut arguments = vec![target];
        arguments.extend(bind);
        let server = Server::run(&arguments, &apps()).warm("/pong");
        assert_eq!(server.ask(get("/list")).text(), "pong", "{target}");
        keepwarm_tests::process::wait_until("two workers", BOUND, || server.workers().len() == 2);
    }
}

/// As people know it from uvicorn, gunicorn, Puma and platforms.
#[test]
fn usual_options_and_variables_say_where_to_listen() {
    let start = |arguments: &[&str], env: &[(&str, &str)]| {
        let server = Server::spawn("", |command| {
            *command = Command::new(keepwarm());
            command.arg("run").arg("wsgi_app:application").args(arguments).current_dir(apps());
            command.env_remove("PORT").env_remove("WEB_CONCURRENCY").envs(env.iter().copied());
        });
        let server = server.listening();
        assert_eq!(server.ask(get("/list")).text(), "pong", "{arguments:?} {env:?}");
        server
    };
    let (one, two) = (tools::free_port().to_string(), tools::free_port().to_string());
    let server = start(&["--workers", "1"], &[("PORT", &one)]);
    server.wait_for_log(&format!("listening on http://0.0.0.0:{one}"), BOUND);
    let server = start(&["--port", &two, "--workers", "1"], &[("PORT", &one)]);
    server.wait_for_log(&format!("listening on http://127.0.0.1:{two}"), BOUND);
    let server = start(&["--host", "0.0.0.0", "-p", "0", "--reload"], &[("WEB_CONCURRENCY", "3")]);
    keepwarm_tests::process::wait_until("three workers", BOUND, || server.workers().len() == 3);
    // What says it more precisely comes first.
    let settings = [
        ("PORT", one.as_str()),
        ("KEEPWARM_LISTEN__MAIN__BIND", "127.0.0.1:0"),
        ("WEB_CONCURRENCY", "3"),
        ("KEEPWARM_APP__WSGI_APP__WORKERS", "1"),
    ];
    let server = start(&[], &settings);
    assert!(!server.log().contains(&format!(":{one}")), "{}", server.log());
    assert_eq!(server.workers().len(), 1);
    for (variable, message) in [
        (
            ("PORT", "eighty"),
            "PORT=eighty is not a port number; set it to one from 0 to 65535, unset it, or use --port",
        ),
        (
            ("WEB_CONCURRENCY", "0"),
            "WEB_CONCURRENCY=0 is not a number of workers; set it to one from 1 to 1024",
        ),
    ] {
        let mut command = Command::new(keepwarm());
        command.args(["run", "wsgi_app:application"]).current_dir(apps()).envs([variable]);
        let output = tools::run(&mut command, BOUND);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(message), "{}", said(&output));
    }
}

/// Installed by pip into an environment that is not active: its Python has the app's packages.
#[test]
fn the_python_beside_the_program_runs_the_app() {
    let folder = Folder::new("beside");
    let bin = folder.0.join("venv/bin");
    let mut make = Command::new("python3");
    tools::run_ok(make.args(["-m", "venv", "--without-pip"]).arg(folder.0.join("venv")), BOUND);
    tools::copy_executable(keepwarm(), &bin.join("keepwarm"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let own = format!("by {}/python)", bin.display());
    for (program, expected) in
        [(bin.join("keepwarm"), true), ("keepwarm".into(), true), (keepwarm().to_path_buf(), false)]
    {
        let server = Server::spawn("", |command| {
            *command = Command::new(&program);
            command
                .args(["run", "wsgi_app:application", "--port", "0", "--workers", "1"])
                .current_dir(apps());
            command.env_remove("VIRTUAL_ENV").env("PATH", &path);
        });
        let server = server.listening();
        server.wait_for_log("serving ", BOUND);
        assert_eq!(server.log().contains(&own), expected, "{}\n{}", program.display(), server.log());
    }
    // An environment of `uv tool install` belongs to the tool.
    folder.write("venv/uv-receipt.toml", "[tool]\n");
    let server = Server::spawn("", |command| {
        *command = Command::new(bin.join("keepwarm"));
        command.args(["run", "wsgi_app:application", "--port", "0", "--workers", "1"]).current_dir(apps());
        command.env_remove("VIRTUAL_ENV");
    });
    let server = server.listening();
    server.wait_for_log("serving ", BOUND);
    assert!(!server.log().contains(&own), "{}", server.log());
}

/// A wrong target is reported with the right one.
#[test]
fn a_wrong_target_has_the_nearest_right_one() {
    let folder = Folder::new("nearest");
    folder.write(
        "app.py",
        "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'']\n",
    );
    folder.write("index.php", "<?php echo 1;");
    for (target, nearest) in [
        ("ap:application", "did you mean `app:application`?"),
        ("app:aplication", "did you mean `app:application`?"),
        ("idnex.php", "did you mean `index.php`?"),
    ] {
        let output = run(&["run", target, "--bind", "127.0.0.1:0", "--workers", "1"], &folder.0);
        assert_eq!(output.status.code(), Some(1), "{target}: {}", said(&output));
        assert!(said(&output).contains(nearest), "{target}: {}", said(&output));
    }
    let output = run(&["run", "--dry-run", "idnex.php"], &folder.0);
    assert!(said(&output).contains("did you mean `index.php`?"), "{}", said(&output));
    // The target is right, and something else is missing: no suggestion.
    folder.write(
        "app.py",
        "import no_such_module_anywhere\ndef application(environ, start_response):\n    pass\n",
    );
    let output = run(&["run", "app:application", "--bind", "127.0.0.1:0", "--workers", "1"], &folder.0);
    assert!(output.status.code() == Some(1) && !said(&output).contains("did you mean"), "{}", said(&output));
}

#[test]
fn a_target_that_is_a_server_of_its_own_takes_a_command() {
    let folder = Folder::new("server");
    folder.write("server.js", "");
    let output = run(&["run", "server.js"], &folder.0);
    assert_eq!(output.status.code(), Some(2));
    let said = said(&output);
    assert!(
        said.contains("is a server (kind \"http\")") && said.contains("\"node\", \"server.js\""),
        "{said}"
    );
}

#[test]
fn a_wrong_target_ends_with_1() {
    for target in ["no_such_module:app", "wsgi_app:nothing_there"] {
        let output = run(&["run", target, "--bind", "127.0.0.1:0"], &apps());
        assert_eq!(output.status.code(), Some(1), "{target}: {}", said(&output));
    }
    let output = run(&["run", "broken_app:application", "--bind", "127.0.0.1:0"], &apps());
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("Traceback (most recent call last)"), "{}", said(&output));
}

#[test]
fn an_address_in_use_is_an_error_with_its_name() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let output = run(&["run", "wsgi_app:application", "--bind", &address], &apps());
    assert!(!output.status.success());
    assert!(said(&output).contains(&address), "{}", said(&output));
}

#[test]
fn a_faulty_file_is_refused_with_line_and_column() {
    let folder = Folder::new("faulty");
    folder.write(
        "keepwarm.toml",
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"shop\"\n[app.shop]\nentry = \"a:b\"\nwrokers = 4\n",
    );
    for arguments in
        [["run", "--config", "keepwarm.toml"].as_slice(), &["run", "--config", "keepwarm.toml", "--dry-run"]]
    {
        let output = run(arguments, &folder.0);
        assert!(!output.status.success(), "{arguments:?}");
        let said = said(&output);
        for part in ["keepwarm.toml:7:1", "wrokers", "workers"] {
            assert!(said.contains(part), "{arguments:?}: no {part} in\n{said}");
        }
    }
    let output = run(&["run", "--config", "no-such-file.toml"], &folder.0);
    assert!(!output.status.success() && said(&output).contains("no-such-file.toml"), "{}", said(&output));
}

#[test]
fn a_dry_run_checks_and_starts_nothing() {
    let folder = Folder::new("dry");
    folder.write("keepwarm.toml", "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\nrespond = { status = 200, body = \"x\" }\n");
    let output = run(&["run", "--config", "keepwarm.toml", "--dry-run"], &folder.0);
    assert!(output.status.success(), "{}", said(&output));
}

/// It does not run the app, and reports that.
#[test]
fn a_dry_run_reports_a_missing_entry() {
    let folder = Folder::new("dry-apps");
    folder.write("there.py", "");
    for (target, missing) in [
        (&["gone.py:app"][..], Some("gone.py")),
        (&["public/index.php"], Some("public/index.php")),
        (&["config.ru"], Some("config.ru")),
        (&["--", "./no-such-program", "-x"], Some("no-such-program")),
        (&["--", "no-such-program"], Some("no-such-program")),
        (&["there.py:app"], None),
        (&["a.module:app"], None),
        (&["--", "sh"], None),
    ] {
        let output = run(&[&["run", "--dry-run"], target].concat(), &folder.0);
        let text = said(&output);
        assert_eq!(output.status.success(), missing.is_none(), "{target:?}: {text}");
        assert!(text.contains(missing.unwrap_or("not checked: whether the apps load")), "{target:?}: {text}");
    }
}

#[test]
fn a_dry_run_looks_into_certificates() {
    let folder = Folder::new("dry-certificates");
    let broken = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
    folder.write("ca.pem", broken);
    folder.write(
        "keepwarm.toml",
        "[upstream.search]\nurl = \"https://localhost:1\"\nbind = \"127.0.0.1:0\"\nca = \"ca.pem\"\n",
    );
    let output = run(&["run", "--config", "keepwarm.toml", "--dry-run"], &folder.0);
    assert!(!output.status.success() && said(&output).contains("ca.pem"), "{}", said(&output));
}

#[test]
fn a_dry_run_looks_at_log_files_and_makes_none() {
    let folder = Folder::new("dry-logs");
    let config = |file: &str| {
        format!(
            "[listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = {{ file = \"{file}\" }}\n[[listen.main.route]]\nrespond = {{ status = 200, body = \"x\" }}\n"
        )
    };
    folder.write("keepwarm.toml", &config("."));
    let output = run(&["run", "--config", "keepwarm.toml", "--dry-run"], &folder.0);
    let text = said(&output);
    assert!(!output.status.success() && text.contains("listen.main.access_log"), "{text}");
    folder.write("keepwarm.toml", &config("access.log"));
    let output = run(&["run", "--config", "keepwarm.toml", "--dry-run"], &folder.0);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!folder.0.join("access.log").exists());
}

#[test]
fn a_key_is_explained() {
    for (key, part) in
        [("app.workers", "worker"), ("listen.limits.head_timeout", "10s"), ("app.queue_timeout", "5s")]
    {
        let output = run(&["explain", key], &apps());
        assert!(output.status.success() && said(&output).contains(part), "{key}: {}", said(&output));
    }
    let output = run(&["explain", "app.shop.wrokers"], &apps());
    assert!(!output.status.success() && said(&output).contains("workers"), "{}", said(&output));
}

/// A reason, an event of the log, a finding, a verdict; and what has two meanings has both.
#[test]
fn what_the_product_says_is_explained() {
    for (name, parts) in [
        ("body_too_slow", ["status 408", "response:"]),
        ("slow_request", ["an event of the log", "level:"]),
        ("expect.continue", ["a finding of `keepwarm check`", "curl"]),
        ("too_few_workers", ["a verdict of `keepwarm why`", "do:"]),
        ("drain_timeout", ["app.NAME.drain_timeout", "an event of the log"]),
    ] {
        let output = run(&["explain", name], &apps());
        let text = said(&output);
        assert!(output.status.success() && parts.iter().all(|part| text.contains(part)), "{name}: {text}");
    }
    let output = run(&["explain", "expect.contineu"], &apps());
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("did you mean `expect.continue`"), "{}", said(&output));
}

#[test]
fn a_unix_socket_is_served() {
    use std::io::{Read, Write};
    let config = "[listen.main]\nbind = [\"127.0.0.1:0\", \"unix:@DIR@/front.sock\"]\n[[listen.main.route]]\napp = \"app\"\n\
                  [app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n";
    let server = Server::start(config).warm("/pong");
    let mut peer = std::os::unix::net::UnixStream::connect(server.folder().join("front.sock"))
        .expect("the socket is there");
    peer.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    peer.write_all(b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
    let mut response = String::new();
    peer.read_to_string(&mut response).expect("a response and an end");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let path = server.folder().join("front.sock");
    server.signal(rustix::process::Signal::TERM);
    server.wait_for_exit(BOUND);
    assert!(!path.exists(), "the socket is removed");
}

#[test]
fn a_socket_left_behind_by_a_crash_is_no_obstacle() {
    let config = "[listen.main]\nbind = [\"127.0.0.1:0\", \"unix:@DIR@/front.sock\"]\n[[listen.main.route]]\nrespond = { status = 200, body = \"x\" }\n";
    let folder = Folder::new("stale");
    let config = config.replace("@DIR@", folder.0.to_str().expect("UTF-8"));
    // No process listens at it any more; a Keepwarm that is killed removes its own (`killed.rs`).
    drop(std::os::unix::net::UnixListener::bind(folder.0.join("front.sock")).expect("a socket"));
    let server = Server::start(&config);
    assert!(std::os::unix::net::UnixStream::connect(folder.0.join("front.sock")).is_ok());
    drop(server);
}

#[test]
fn watch_recycles_on_a_change() {
    let folder = Folder::new("watch");
    let app = |text: &str| {
        format!(
            "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'{text}']\n"
        )
    };
    folder.write("live.py", &app("old"));
    let server =
        Server::run(&["live:application", "--bind", "127.0.0.1:0", "--workers", "1", "--watch"], &folder.0)
            .warm("/");
    assert_eq!(server.ask(get("/")).text(), "old");
    // Another size: Python's cache of compiled modules looks at time and size.
    folder.write("live.py", &app("newer"));
    keepwarm_tests::process::wait_until("the new code serves", BOUND, || {
        server.ask(get("/")).text() == "newer"
    });
    // A broken change leaves the old one serving.
    folder.write("live.py", "def application(:\n");
    server.wait_for_log("SyntaxError", BOUND);
    assert_eq!(server.ask(get("/")).text(), "newer");
    folder.write("live.py", &app("mended"));
    keepwarm_tests::process::wait_until("the mended code serves", BOUND, || {
        server.ask(get("/")).text() == "mended"
    });
}

/// `eprintln!` panics there, which ended the process by SIGABRT.
#[test]
fn an_error_to_a_closed_pipe_keeps_its_exit_status() {
    let folder = Folder::new("unread");
    folder.write("keepwarm.toml", "[server]\nthreads = 'many'\nlog = 5\n[nonsense]\n");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = Command::new(keepwarm()).arg("run").current_dir(&folder.0).stderr(writer).status();
    assert_eq!(status.expect("it starts").code(), Some(2));
}

#[test]
fn a_file_that_is_not_used_is_named() {
    let folder = Folder::new("unused");
    folder.write("keepwarm.toml", "");
    folder.write("app.py", "def application(environ, start_response): ...\n");
    let unused = "keepwarm.toml in this directory is ignored";
    let output = run(&["run", "app.py", "--dry-run"], &folder.0);
    assert!(said(&output).contains(unused), "{}", said(&output));
    let output = run(&["run", "--dry-run"], &folder.0);
    assert!(!said(&output).contains(unused), "{}", said(&output));
}

#[test]
fn a_file_given_as_the_target_is_not_taken_for_an_app() {
    let folder = Folder::new("target");
    folder.write("shop.toml", "[listen.a]\nbind = '127.0.0.1:0'\n");
    for arguments in [&["run", "shop.toml"][..], &["run", "--dry-run", "shop.toml"]] {
        let output = run(arguments, &folder.0);
        assert_eq!(output.status.code(), Some(2));
        let said = said(&output);
        assert!(
            said.contains(
                "`shop.toml` is a configuration file, not an app: start `keepwarm run --config shop.toml`"
            ),
            "{said}"
        );
    }
}

/// Packages of an environment that was moved or removed are missing, and no error says where they were looked for.
#[test]
fn an_environment_that_is_gone_and_the_interpreter_in_its_place_are_named() {
    let folder = Folder::new("environment");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(keepwarm());
        command.args(arguments).current_dir(&folder.0).env("VIRTUAL_ENV", "/nonexistent/venv");
        said(&tools::run(&mut command, BOUND))
    };
    let text = run(&["run", "nothing:app", "--bind", "127.0.0.1:0", "--workers", "1"]);
    assert!(text.contains("VIRTUAL_ENV=/nonexistent/venv is ignored: it has no bin/python"), "{text}");
    let failure = text.lines().find(|line| line.contains("could not be started")).unwrap_or_default();
    assert!(failure.contains("its interpreter is /") && failure.contains("python3, because"), "{text}");
}
