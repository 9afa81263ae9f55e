//! A site of Rails 6.1 from Debian's packages, with Active Record, Active Storage, streams and Action Cable, visited as its users would, and compared with what
//! it returns behind Puma.

mod puma_config;
mod redmine;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::process::{signal, wait_until};
use keepwarm_tests::{Client, Server, apps, get, python, tools, websocket};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A Rails start reads a thousand files, on a machine that runs the other tests too.
const BOUND: Duration = Duration::from_secs(120);

fn config(more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"rails\"\nvia = false\n\
         [app.rails]\nentry = \"config.ru\"\ndirectory = \"@DIR@/site\"\nworkers = 1\nuser = \"root\"\n{more}\n"
    )
}

/// A copy of the site, for one server.
fn lay_out(site: &Path) {
    tools::run_ok(Command::new("cp").arg("-r").arg(apps().join("rails_site")).arg(site), BOUND);
    for folder in ["tmp", "log", "storage"] {
        std::fs::create_dir_all(site.join(folder)).expect("a folder");
    }
}

fn start(more: &str) -> Server {
    let lay = |command: &mut Command| lay_out(&command.get_current_dir().expect("a folder").join("site"));
    Server::spawn(&config(more), lay).listening().warm("/greeting")
}

/// Puma with a copy of its own; ends with its test, however that ends.
struct Puma(Child, u16);

impl Puma {
    fn start(site: &Path) -> Self {
        lay_out(site);
        Self::serve(site, &[("RAILS_ENV", "production"), ("RACK_ENV", "production")])
    }

    fn serve(site: &Path, env: &[(&str, &str)]) -> Self {
        let port = tools::free_port();
        let bind = format!("tcp://127.0.0.1:{port}");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "puma", "-q", "-t", "3:3", "-b", &bind, "config.ru"])
            .envs(env.iter().copied())
            .current_dir(site)
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("setpriv starts");
        wait_until("Puma listens", BOUND, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self(child, port)
    }
}

impl Drop for Puma {
    fn drop(&mut self) {
        signal(self.0.id(), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// The user's view: method, path, status, headers and page of each request.
fn visit(app: &str, address: &str, part: &str, cookies: &Path) -> Vec<Value> {
    let mut command = Command::new(python());
    command.arg(apps().join(app).join("visit.py")).args([&format!("http://{address}"), part]).arg(cookies);
    serde_json::from_str(&tools::run_ok(&mut command, BOUND)).expect("JSON")
}

#[test]
fn rails_serves_the_same_site_as_puma() {
    let server = start("threads = 3");
    let puma = Puma::start(&server.folder().join("puma"));
    for part in ["before", "after"] {
        let ours = visit("rails_site", &server.address().to_string(), part, &server.folder().join("cookies"));
        let theirs = visit(
            "rails_site",
            &format!("127.0.0.1:{}", puma.1),
            part,
            &server.folder().join("puma-cookies"),
        );
        assert_eq!(ours.len(), theirs.len(), "{part}");
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(our, their, "{part}");
        }
        server.reload();
    }
    server.wait_for_log("broken on demand", BOUND);
}

/// A client of Action Cable.
struct Cable(Client);

impl Cable {
    fn open(server: &Server, cookie: &str) -> Self {
        let mut client = server.client().patient(BOUND);
        let more = format!(
            "Cookie: {cookie}\r\nSec-WebSocket-Protocol: actioncable-v1-json, actioncable-unsupported\r\n"
        );
        websocket::open(&mut client, "/cable", &more);
        let mut cable = Self(client);
        assert_eq!(cable.next()["type"], "welcome");
        cable.say(&json!({"command": "subscribe", "identifier": CHANNEL}));
        assert_eq!(cable.next()["type"], "confirm_subscription");
        cable
    }

    fn say(&mut self, message: &Value) {
        self.0.send(websocket::frame(0x81, message.to_string().as_bytes()));
    }

    /// The next message that is not a ping.
    fn next(&mut self) -> Value {
        loop {
            let (_, text) = websocket::message(&mut self.0);
            let message: Value = serde_json::from_slice(&text).expect("JSON");
            if message["type"] != "ping" {
                return message;
            }
        }
    }

    fn echo(&mut self, text: &str) -> Value {
        let data = json!({"action": "echo", "text": text}).to_string();
        self.say(&json!({"command": "message", "identifier": CHANNEL, "data": data}));
        self.next()["message"].clone()
    }
}

const CHANNEL: &str = r#"{"channel":"NotesChannel"}"#;

/// Logs in with curl; returns the session.
fn log_in(server: &Server) -> String {
    let jar = server.folder().join("jar");
    let curl = |arguments: &[&str], path: &str| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60"]).arg("-b").arg(&jar).arg("-c").arg(&jar);
        tools::run_ok(command.args(arguments).arg(server.url(path)), BOUND)
    };
    let page = curl(&[], "/");
    let token = page
        .split("name=\"authenticity_token\" value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("a token");
    let token = format!("authenticity_token={token}");
    curl(&["--data-urlencode", &token, "-d", "name=ann", "-d", "password=sesame"], "/login");
    // The new session has a token once a page was requested.
    curl(&[], "/");
    let jar = std::fs::read_to_string(jar).expect("cookies");
    let cookie = jar.lines().find(|line| line.contains("_notebook_session")).expect("a session");
    format!("_notebook_session={}", cookie.split('\t').next_back().expect("a value"))
}

#[test]
fn action_cable_runs_beside_the_pages_of_its_worker() {
    for threads in ["", "threads = 3"] {
        let server = start(threads);
        // The application refuses a client that is not logged in.
        let mut stranger = server.client().patient(BOUND);
        stranger.send(websocket::opening("/cable", "Sec-WebSocket-Protocol: actioncable-v1-json\r\n"));
        assert_eq!(stranger.head("GET").0, 101);
        let (_, text) = websocket::message(&mut stranger);
        assert!(String::from_utf8_lossy(&text).contains("disconnect"), "{stranger}");

        let cookie = log_in(&server);
        let mut cables: Vec<Cable> = (0..5).map(|_| Cable::open(&server, &cookie)).collect();
        for (number, cable) in cables.iter_mut().enumerate() {
            let text = format!("{number} {}", "long ".repeat(5_000));
            let message = cable.echo(&text);
            assert_eq!((&message["echo"], &message["visitor"]), (&json!(text), &json!("ann")));
        }
        // A page tells all of them.
        let page = server.ask(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n")).text();
        assert!(page.contains("Visitor: ann"), "{page}");
        let token = page
            .split("action=\"/notes\"")
            .nth(1)
            .and_then(|form| form.split("value=\"").nth(1))
            .and_then(|rest| rest.split('"').next());
        let mut post = Command::new("curl");
        post.args([
            "-sS",
            "--max-time",
            "60",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-H",
            &format!("Cookie: {cookie}"),
            "-d",
            "title=Stalls",
        ]);
        post.args(["--data-urlencode", &format!("authenticity_token={}", token.expect("a token"))]);
        assert_eq!(tools::run_ok(post.arg(server.url("/notes")), BOUND), "302");
        for cable in &mut cables {
            assert_eq!(cable.next()["message"], json!({"title": "Stalls", "author": "ann"}));
        }
        assert_eq!(cables[0].echo("still")["echo"], "still");
    }
}

/// As Rails people expect it: no `--watch`, and no new process.
#[test]
fn in_development_a_changed_file_counts_at_the_next_request() {
    let server = start("env = { RAILS_ENV = \"development\" }");
    assert_eq!(server.ask(get("/greeting")).text(), "first greeting\n");
    let process = server.ask(get("/process")).json();
    assert_eq!(process["env"], "development");
    let file = server.folder().join("site/app/controllers/pages_controller.rb");
    let text = std::fs::read_to_string(&file).expect("the controller");
    std::fs::write(&file, text.replace("first greeting", "second greeting")).expect("changed");
    wait_until("the change is there", BOUND, || server.ask(get("/greeting")).text() == "second greeting\n");
    assert_eq!(server.ask(get("/process")).json()["pid"], process["pid"]);
    // The error page is Rails' own.
    assert!(server.ask(get("/broken")).text().contains("broken on demand"));
}

/// Code is loaded at its first use, by whichever thread comes, and again after a change, while others are at work: Rails' interlock holds them apart.
#[test]
fn in_development_threads_load_code_side_by_side() {
    let server = start("threads = 4\nqueue_timeout = \"120s\"\nenv = { RAILS_ENV = \"development\" }");
    let file = server.folder().join("site/app/controllers/pages_controller.rb");
    let text = std::fs::read_to_string(&file).expect("the controller");
    for round in 1..=3 {
        let greeting = format!("greeting {round}\n");
        std::fs::write(&file, text.replace("first greeting\\n", &format!("greeting {round}\\n")))
            .expect("changed");
        let mut clients: Vec<Client> = (0..8).map(|_| server.client().patient(BOUND)).collect();
        // Not `/live`: Rails 6.1 deadlocks when its action starts while another thread is about to reload, behind Puma too (docs/guide/rails.md).
        let paths = ["/greeting", "/", "/parts"];
        for (client, path) in clients.iter_mut().zip(paths.iter().cycle()) {
            client.send(get(path));
        }
        for client in &mut clients {
            assert_eq!(client.response("GET").status, 200, "{client}");
        }
        wait_until("the change is there", BOUND, || server.ask(get("/greeting")).text() == greeting);
    }
}

/// As in `docs/guide/rails.md`: no worker gets a request for what `rails assets:precompile` has made.
#[test]
fn precompiled_assets_leave_compressed_and_are_kept_by_browsers() {
    let config = "[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\npath = \"/assets/*\"\nfiles = \"@DIR@/site/public/assets\"\n\
         headers = { set = { Cache-Control = \"public, max-age=31536000, immutable\" } }\n\
         [[listen.main.route]]\napp = \"rails\"\ntry_files = \"@DIR@/site/public\"\n\
         [app.rails]\nentry = \"config.ru\"\ndirectory = \"@DIR@/site\"\nworkers = 1\nuser = \"root\"\n";
    let lay = |command: &mut Command| {
        let site = command.get_current_dir().expect("a folder").join("site");
        lay_out(&site);
        std::fs::write(
            site.join("app/assets/stylesheets/application.css"),
            "p { color: green; }\n".repeat(200),
        )
        .expect("written");
        let task = "require './config/environment'; Rails.application.load_tasks; Rake::Task['assets:precompile'].invoke";
        let mut precompile = Command::new("ruby");
        precompile.args(["-e", task]).env("RAILS_ENV", "production").current_dir(&site);
        tools::run_ok(&mut precompile, BOUND);
    };
    let server = Server::spawn(config, lay).listening();
    let made = std::fs::read_dir(server.folder().join("site/public/assets")).expect("assets");
    let mut names = made.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let name = names.find(|name| name.ends_with(".css")).expect("a style sheet");
    let page = server.ask(get("/")).text();
    assert!(page.contains(&format!("/assets/{name}")), "{page}");

    let ask = |coding: &str| {
        server.ask(format!("GET /assets/{name} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"))
    };
    let (plain, packed) = (ask("identity"), ask("gzip"));
    for response in [&plain, &packed] {
        assert_eq!(response.status, 200);
        assert_eq!(response.field("cache-control"), Some("public, max-age=31536000, immutable"));
        assert_eq!(response.field("content-type"), Some("text/css; charset=utf-8"));
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
    }
    assert_eq!((plain.field("content-encoding"), packed.field("content-encoding")), (None, Some("gzip")));
    let gz = std::fs::read(server.folder().join(format!("site/public/assets/{name}.gz"))).expect("the .gz");
    assert!(packed.body == gz && plain.body.len() > gz.len());
    // A path without a digest belongs to the application: it has no such file.
    assert_eq!(server.ask(get("/assets/application.css")).status, 404);
    assert!(server.ask(get("/robots.txt")).text().contains("User-agent"));
}

#[test]
fn it_is_loaded_once_for_all_workers() {
    let server = Server::spawn(&config("preload = true").replace("workers = 1", "workers = 3"), |command| {
        lay_out(&command.get_current_dir().expect("a folder").join("site"));
    });
    let server = server.listening().warm("/greeting");
    let cookie = log_in(&server);
    assert_eq!(Cable::open(&server, &cookie).echo("forked")["echo"], "forked");
    assert_eq!(server.ask(get("/live")).text().matches("event: tick").count(), 2);
}
