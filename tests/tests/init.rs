//! `keepwarm init`: what it finds in real applications, what it writes, and that the result serves them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use keepwarm_tests::{Server, apps, examples, get, keepwarm, root, tools};

const BOUND: Duration = Duration::from_secs(60);

/// A directory of its own for a test, gone afterwards.
struct Directory(PathBuf);

impl Directory {
    /// An empty one of its own: two tests may copy the same application.
    fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("keepwarm-init-{process}-{number}-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn with(name: &str, files: &[(&str, &str)]) -> Self {
        let directory = Self::new(name);
        for (file, text) in files {
            std::fs::write(directory.0.join(file), text).expect("a file");
        }
        directory
    }

    /// A copy of an application.
    fn copy(from: &Path) -> Self {
        let directory = Self::new(&from.file_name().expect("a name").to_string_lossy());
        tools::run_ok(Command::new("cp").arg("-r").arg(from.join(".")).arg(&directory.0), BOUND);
        directory
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(keepwarm());
        // The packages of the examples, as with an active environment; what init writes must not depend on the tests' own variables.
        command.env("VIRTUAL_ENV", root().join(".venv")).env_remove("PORT").env_remove("WEB_CONCURRENCY");
        tools::run(command.args(arguments).current_dir(&self.0), BOUND)
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const FLASK: &str = "from flask import Flask\n\napp = Flask(__name__)\n\n@app.route('/')\ndef index():\n    return 'kettle'\n";
const FASTAPI: &str = "from fastapi import FastAPI\n\napi = FastAPI()\n";

/// `init` in a copy of each application, then `run --dry-run`.
#[test]
fn real_applications_are_found_and_their_configuration_is_valid() {
    let (examples, apps) = (examples(), apps());
    for (directory, found, line) in [
        (examples.join("wsgi-flask"), "Flask", "shop/wsgi.py:5  application = create_app()"),
        (examples.join("asgi-starlette"), "Starlette", "chat/asgi.py:5  application = create_app()"),
        (examples.join("sinatra"), "Sinatra", "config.ru:13  run Shop"),
        (examples.join("slim"), "Slim", "public/index.php:7  use Slim\\App;"),
        (examples.join("symfony"), "Symfony", "composer.json:5  \"symfony/framework-bundle\""),
        (apps.join("django_site"), "Django", "manage.py:7  os.environ.setdefault(\"DJANGO_SETTINGS_MODULE\""),
        (
            apps.join("rails_site"),
            "Rails",
            "config/application.rb:12  class Application < Rails::Application",
        ),
        (apps.join("express_site"), "Express", "package.json:8  \"express\""),
        (apps.join("datasette_site"), "Datasette", "app.py:17  app = datasette.app()"),
        (apps.join("classic"), "PHP", "index.php"),
        (apps.join("puma_config"), "a Rack application", "config.ru"),
    ] {
        let copy = Directory::copy(&directory);
        let output = copy.run(&["init"]);
        let text = said(&output);
        assert!(output.status.success(), "{}: {text}", directory.display());
        for part in [&format!("Found {found} in "), line, "Wrote keepwarm.toml.", "\n  keepwarm run\n"] {
            assert!(text.contains(part), "{}: no {part:?} in\n{text}", directory.display());
        }
        let output = copy.run(&["run", "--dry-run"]);
        assert!(
            output.status.success(),
            "{}: {}\n{}",
            directory.display(),
            said(&output),
            copy.text("keepwarm.toml")
        );
    }
}

#[test]
fn a_go_program_is_built_by_the_printed_command() {
    let copy = Directory::copy(&apps().join("go_site"));
    let output = copy.run(&["init"]);
    let text = said(&output);
    assert!(output.status.success() && text.contains("\n  go build -o site . && keepwarm run\n"), "{text}");
    assert!(copy.text("keepwarm.toml").contains("command = [\"./site\"]"), "{}", copy.text("keepwarm.toml"));
    tools::script(&copy.0.join("site"), "#!/bin/sh\nexec sleep 1\n");
    assert!(copy.run(&["run", "--dry-run"]).status.success());
}

/// The page is served by the file that `init` wrote and nothing else.
#[test]
fn what_was_found_is_served() {
    for (directory, path, expected) in [
        (examples().join("wsgi-flask"), "/products", "kettle"),
        (examples().join("asgi-starlette"), "/products", "kettle"),
        (examples().join("sinatra"), "/products", "kettle"),
        (examples().join("slim"), "/products", "kettle"),
        (examples().join("symfony"), "/products", "kettle"),
        (apps().join("classic"), "/", ""),
    ] {
        let copy = Directory::copy(&directory);
        assert!(copy.run(&["init"]).status.success());
        let server = serve(&copy);
        let response = server.ask(get(path));
        assert_eq!(response.status, 200, "{}", directory.display());
        assert!(response.text().contains(expected), "{}: {}", directory.display(), response.text());
        // The configuration is in the directory, and may be in the one that is served.
        assert_ne!(server.ask(get("/keepwarm.toml")).text(), copy.text("keepwarm.toml"));
    }
}

fn serve(copy: &Directory) -> Server {
    let (folder, config) = (copy.0.clone(), copy.0.join("keepwarm.toml"));
    let server = Server::spawn("", move |command| {
        *command = Command::new(keepwarm());
        command.args(["run", "--config"]).arg(config).current_dir(folder);
        command.env("VIRTUAL_ENV", root().join(".venv")).env("PORT", "0").env("WEB_CONCURRENCY", "1");
        command.env("APP_ENV", "prod");
    });
    server.listening()
}

/// A command with variables runs in a shell, which is replaced by it.
#[test]
fn a_procfile_is_served() {
    let site = Directory::with(
        "procfile",
        &[("Procfile", "web: python3 -m http.server --bind 127.0.0.1 ${PORT:-1}\n"), ("x.txt", "kettle")],
    );
    let output = site.run(&["init"]);
    assert!(output.status.success(), "{}", said(&output));
    let server = serve(&site).warm("/x.txt");
    assert_eq!(server.ask(get("/x.txt")).text(), "kettle");
}

/// Each other line becomes a process, and `release` what runs before.
#[test]
fn the_other_lines_of_a_procfile_run_too() {
    let site = Directory::with(
        "procfile-processes",
        &[
            (
                "Procfile",
                "release: echo kettle > released && touch done\nweb: python3 -m http.server --bind 127.0.0.1 ${PORT:-1}\n\
                 worker: MOOD=warm python3 -c 'import os, time; print(os.environ[\"MOOD\"], \"worker\", flush=True); time.sleep(600)'\n\
                 clock: sleep 600\n",
            ),
            ("x.txt", "kettle"),
        ],
    );
    let output = site.run(&["init"]);
    assert!(output.status.success(), "{}", said(&output));
    let report = "It also runs `release` (Procfile:1), `worker` (Procfile:3) and `clock` (Procfile:4).";
    assert!(said(&output).contains(report), "{}", said(&output));
    let written = site.text("keepwarm.toml");
    assert!(written.contains("[process.clock]\ncommand = [\"sleep\", \"600\"]\n"), "{written}");
    let server = serve(&site).warm("/x.txt");
    assert_eq!(server.ask(get("/released")).text(), "kettle\n");
    assert_eq!(server.ask(get("/done")).status, 200);
    server.wait_for_log("warm worker", BOUND);
}

#[test]
fn a_static_site_is_served_without_what_is_not_for_visitors() {
    let site = Directory::with("static", &[("index.html", "<p>kettle"), (".env", "secret")]);
    let output = site.run(&["init"]);
    assert!(
        output.status.success() && said(&output).contains("Found a static site in index.html"),
        "{}",
        said(&output)
    );
    let server = serve(&site);
    assert_eq!(server.ask(get("/index.html")).text(), "<p>kettle");
    for path in ["/keepwarm.toml", "/.env", "/keepwarm%2Etoml"] {
        assert_eq!(server.ask(get(path)).status, 404, "{path}");
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_half_written() {
    let site = Directory::with("kept", &[("app.py", FLASK), ("kept.service", "mine")]);
    std::fs::rename(site.0.join("kept.service"), site.0.join(unit_name(&site))).expect("renamed");
    let before = site.names();
    let output = site.run(&["init", "--systemd"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains(&format!("{} exists already", unit_name(&site))), "{}", said(&output));
    assert_eq!(site.names(), before);
    assert!(site.run(&["init"]).status.success());
    let text = site.text("keepwarm.toml");
    let again = site.run(&["init", "--container"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("keepwarm.toml exists already"), "{}", said(&again));
    assert_eq!(site.text("keepwarm.toml"), text);
    assert_eq!(site.names().len(), before.len() + 1, "{:?}", site.names());
}

fn unit_name(site: &Directory) -> String {
    format!("{}.service", site.0.file_name().expect("a name").to_string_lossy())
}

#[test]
fn a_directory_that_cannot_be_written_stays_as_it_is() {
    let site = Directory::with("readonly", &[("app.py", FLASK)]);
    std::fs::set_permissions(&site.0, std::fs::Permissions::from_mode(0o555)).expect("a mode");
    // Root may write anywhere: as another user, if the tests run as root.
    let mut command = Command::new("setpriv");
    let as_nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    // A copy of the program where that user may run it.
    let program = std::env::temp_dir().join(format!("keepwarm-init-nobody-{}", std::process::id()));
    tools::copy_executable(keepwarm(), &program);
    let output = tools::run(command.args(as_nobody).arg(&program).arg("init").current_dir(&site.0), BOUND);
    let _ = std::fs::remove_file(&program);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = said(&output);
    assert!(text.contains("Permission denied") && text.contains("nothing was written"), "{text}");
    assert_eq!(site.names(), ["app.py"]);
}

#[test]
fn equals_are_listed_and_one_is_chosen_by_name() {
    let site = Directory::with("two", &[("app.py", FLASK), ("api.py", FASTAPI)]);
    let output = site.run(&["init"]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    for part in ["--app flask    Flask (app.py:1", "--app fastapi  FastAPI (api.py:1", "keepwarm init --app "]
    {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert_eq!(site.names(), ["api.py", "app.py"]);
    let wrong = site.run(&["init", "--app", "rails"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said(&wrong).contains("--app rails: no application here has that name"), "{}", said(&wrong));
    let chosen = site.run(&["init", "--app", "fastapi"]);
    assert!(chosen.status.success(), "{}", said(&chosen));
    assert!(said(&chosen).contains("Also here: Flask (app:app)"), "{}", said(&chosen));
    assert!(site.text("keepwarm.toml").contains("entry = \"api:api\""));
}

#[test]
fn an_empty_directory_says_what_was_looked_for() {
    let site = Directory::new("empty");
    let output = site.run(&["init", "--compose"]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    for part in [
        "nothing to serve was found in ",
        "manage.py",
        "config.ru",
        "package.json",
        "go.mod",
        "Procfile",
        "index.html",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert_eq!(site.names(), Vec::<String>::new());
    let gone = site.run(&["init", "gone"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(
        said(&gone).contains("cannot read the directory gone: No such file or directory"),
        "{}",
        said(&gone)
    );
}

#[test]
fn unit_container_and_compose_file_are_written_on_request() {
    let site = Directory::with(
        "more",
        &[("app.py", FLASK), ("requirements.txt", "flask\n"), (".python-version", "3.12\n")],
    );
    let output = site.run(&["init", "--systemd", "--compose"]);
    assert!(output.status.success(), "{}", said(&output));
    let unit = site.text(&unit_name(&site));
    let directory = std::fs::canonicalize(&site.0).expect("a directory");
    let directory = directory.display();
    for line in [
        format!("WorkingDirectory={directory}"),
        format!(
            "ExecStart={} run --config {directory}/keepwarm.toml",
            std::fs::canonicalize(keepwarm()).expect("a program").display()
        ),
        "Type=notify-reload".to_owned(),
        "KillMode=mixed".to_owned(),
    ] {
        assert!(unit.lines().any(|one| one == line), "no {line:?} in\n{unit}");
    }
    let container = site.text("Containerfile");
    for line in [
        "FROM docker.io/library/python:3.12-slim",
        "RUN pip install --no-cache-dir -r requirements.txt",
        "CMD [\"keepwarm\", \"run\"]",
    ] {
        assert!(container.lines().any(|one| one == line), "no {line:?} in\n{container}");
    }
    let compose = site.text("compose.yaml");
    assert!(compose.contains("dockerfile: Containerfile") && compose.contains("\"8080:8080\""), "{compose}");
    assert!(site.text(".dockerignore").lines().any(|line| line == ".venv"));
    // A Containerfile that is there is used.
    let other = Directory::with("own", &[("app.py", FLASK), ("Dockerfile", "FROM scratch\n")]);
    assert!(other.run(&["init", "--compose"]).status.success());
    assert!(other.text("compose.yaml").contains("dockerfile: Dockerfile"));
    assert!(!other.names().contains(&"Containerfile".to_owned()), "{:?}", other.names());
}

/// systemd reads the unit without a complaint of ours.
#[test]
fn systemd_accepts_the_unit() {
    let site = Directory::with("unit 100%", &[("app.py", FLASK)]);
    assert!(site.run(&["init", "--systemd"]).status.success());
    let name = site.names().into_iter().find(|name| name.ends_with(".service")).expect("a unit");
    let output = tools::run(Command::new("systemd-analyze").arg("verify").arg(site.0.join(&name)), BOUND);
    let complaints: Vec<String> = said(&output)
        .lines()
        // Older versions do not know the type, and other units of the machine are not ours.
        .filter(|line| line.contains(&name) && !line.contains("notify-reload"))
        .map(str::to_owned)
        .collect();
    assert_eq!(complaints, Vec::<String>::new());
}

#[test]
fn run_without_a_target_says_what_it_found() {
    for (files, expected) in [
        (&[("app.py", FLASK)][..], "found Flask in app.py: run `keepwarm run app:app`, or `keepwarm init`"),
        (
            &[("index.html", "")],
            "found a static site in index.html: run `keepwarm init`, then `keepwarm run`",
        ),
        (&[("app.py", FLASK), ("api.py", FASTAPI)], "found several applications:"),
        (&[("README", "")], "for example: keepwarm run shop.wsgi:application"),
    ] {
        let site = Directory::with("run", files);
        let output = site.run(&["run"]);
        assert_eq!(output.status.code(), Some(2));
        let text = said(&output);
        assert!(
            text.contains("there is no keepwarm.toml in this directory") && text.contains(expected),
            "{text}"
        );
    }
}

/// As its comment says: "use this route once the directory exists".
#[test]
fn the_commented_route_of_files_can_be_used_as_it_is() {
    let site = Directory::new("django");
    std::fs::create_dir_all(site.0.join("shop")).expect("a directory");
    for (file, text) in [
        ("manage.py", "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n"),
        ("shop/__init__.py", ""),
        (
            "shop/settings.py",
            "WSGI_APPLICATION = 'shop.wsgi.application'\nSTATIC_URL = 'static/'\nSTATIC_ROOT = BASE_DIR / 'assets'\n",
        ),
        (
            "shop/wsgi.py",
            "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'kettle']\n",
        ),
    ] {
        std::fs::write(site.0.join(file), text).expect("a file");
    }
    assert!(site.run(&["init"]).status.success());
    let before = site.text("keepwarm.toml");
    let after = before
        .replace("# [[listen.public.route]]\n", "[[listen.public.route]]\n")
        .replace("# path = ", "path = ")
        .replace("# files = ", "files = ");
    assert_ne!(before, after);
    std::fs::write(site.0.join("keepwarm.toml"), after).expect("written");
    std::fs::create_dir_all(site.0.join("assets")).expect("a directory");
    std::fs::write(site.0.join("assets/a.css"), "b{}").expect("a file");
    let server = serve(&site);
    assert_eq!(server.ask(get("/")).text(), "kettle");
    assert_eq!(server.ask(get("/static/a.css")).text(), "b{}");
}

/// The sessions of an MCP server are in the memory of the process that began them.
#[test]
fn what_keeps_its_sessions_in_memory_gets_one_worker() {
    let mcp = "from fastmcp import FastMCP\nmcp = FastMCP('x')\napp = mcp.http_app()\n";
    let site = Directory::with("mcp", &[("server.py", mcp)]);
    let output = site.run(&["init"]);
    assert!(said(&output).contains("Found an MCP server in server.py"), "{}", said(&output));
    assert!(site.text("keepwarm.toml").contains("\nworkers = 1\n"), "{}", site.text("keepwarm.toml"));
}

#[test]
fn another_directory_is_named() {
    let outer = Directory::new("outer");
    std::fs::create_dir_all(outer.0.join("backend")).expect("a directory");
    std::fs::write(outer.0.join("backend/main.py"), FLASK).expect("a file");
    let output = outer.run(&["init", "backend"]);
    assert!(
        output.status.success() && said(&output).contains("\n  cd backend && keepwarm run\n"),
        "{}",
        said(&output)
    );
    assert!(outer.0.join("backend/keepwarm.toml").exists());
    std::fs::remove_file(outer.0.join("backend/keepwarm.toml")).expect("removed");
    // From above, the application is one directory down.
    let output = outer.run(&["init"]);
    assert!(said(&output).contains("Found Flask in backend/main.py"), "{}", said(&output));
    assert!(outer.text("keepwarm.toml").contains("directory = \"backend\""));
    assert!(outer.run(&["run", "--dry-run"]).status.success());
    let server = serve(&outer);
    assert_eq!(server.ask(get("/")).text(), "kettle");
}
