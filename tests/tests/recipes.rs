//! The recipes of `docs/recipes`, as they stand there: their files, in a small application of their framework (`apps/recipes`), and their commands.
//! Those of sites that are Debian's packages are in `sites/recipes.rs`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Client, Server, apps, get, keepwarm, recipe, root, tools, websocket};

/// Frameworks start on a machine that runs the other tests too.
const BOUND: Duration = Duration::from_secs(120);

/// Where a recipe's lines go in a file that the application has; without it they follow its own.
const PLACE: &str = "# The recipe's lines.\n";

struct Redis(Child, u16);

impl Redis {
    fn start() -> Self {
        loop {
            let port = tools::free_port();
            let mut command = Command::new("redis-server");
            command.args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ]);
            let mut process =
                command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("redis-server");
            let mut listens = false;
            // It ends if another process takes the port meanwhile: then try another.
            wait_until("redis-server listens or ends", BOUND, || {
                listens = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
                listens || process.try_wait().expect("its status").is_some()
            });
            if listens && process.try_wait().expect("its status").is_none() {
                return Self(process, port);
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A recipe that runs.
struct Site {
    server: Server,
    _redis: Redis,
}

impl Site {
    /// The application with the files of the page, in the directory of the server.
    fn start(page: &str, application: &str) -> Self {
        let redis = Redis::start();
        let text = recipe::page(page)
            .replace("127.0.0.1:6379", &format!("127.0.0.1:{}", redis.1))
            .replace("127.0.0.1:8080", "127.0.0.1:0");
        let files = recipe::files(&text);
        let config = &recipe::file_of(&files, "keepwarm.toml");
        let server = Server::spawn(config, |command| {
            let folder = command.get_current_dir().expect("a folder").to_owned();
            lay_out(&folder, application, &files);
            let root = [("KEEPWARM_SERVER__USER", "root")];
            assert!(
                text.contains("\nkeepwarm run --dry-run --boot\nkeepwarm run\n"),
                "the commands of {page}"
            );
            let mut trial = Command::new(keepwarm());
            trial.args(["run", "--dry-run", "--boot", "--config"]).arg(folder.join("keepwarm.toml"));
            std::fs::write(folder.join("keepwarm.toml"), config).expect("written");
            tools::run_ok(trial.current_dir(&folder).envs(root), BOUND);
            command.envs(root);
        });
        Self { server: server.listening(), _redis: redis }
    }

    /// A page gives a job to the queue, and a process of the site does it.
    fn does_its_jobs(&self) {
        for name in ["first", "second"] {
            let mut client = self.server.client().patient(BOUND);
            client.send(get(&format!("/order/{name}")));
            let response = client.response("GET");
            assert_eq!(
                (response.status, response.text()),
                (200, format!("ordered {name}\n")),
                "{}",
                self.server.log()
            );
            let done = self.server.folder().join(format!("done-{name}"));
            wait_until("the job is done", BOUND, || done.exists());
        }
    }

    /// A style sheet, which no worker is asked for.
    fn serves_its_files(&self, path: &str) {
        let response = self.server.ask(get(path));
        assert_eq!((response.status, response.text().as_str()), (200, "p { color: green; }\n"));
    }
}

fn lay_out(folder: &Path, application: &str, files: &[(String, String)]) {
    let copied = apps().join("recipes").join(application).join(".");
    tools::run_ok(Command::new("cp").arg("-r").arg(copied).arg(folder), BOUND);
    for (name, lines) in files.iter().filter(|(name, _)| name != "keepwarm.toml") {
        let file = folder.join(name);
        let own = std::fs::read_to_string(&file).unwrap_or_default();
        let whole = match own.contains(PLACE) {
            true => own.replace(PLACE, lines),
            false => own + lines,
        };
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("created");
        std::fs::write(file, whole).expect("written");
    }
    let _ = std::os::unix::fs::symlink(root().join(".venv"), folder.join(".venv"));
}

#[test]
fn django_with_celery_and_websockets() {
    let site = Site::start("django-celery.md", "django");
    site.does_its_jobs();
    // The workers of clients in a room may be different processes.
    let mut clients: Vec<Client> = (0..4).map(|_| site.server.client().patient(BOUND)).collect();
    for client in &mut clients {
        websocket::open(client, "/ws/room", "");
    }
    clients[0].send(websocket::frame(0x81, b"hello"));
    for client in &mut clients {
        assert_eq!(websocket::message(client).1, b"hello");
    }
    wait_until("the scheduler keeps its state", BOUND, || {
        let mut files = std::fs::read_dir(site.server.folder()).expect("a folder").flatten();
        files.any(|file| file.file_name().as_encoded_bytes().starts_with(b"celerybeat-schedule"))
    });
    site.serves_its_files("/static/shop.css");
}

#[test]
fn rails_with_sidekiq() {
    let site = Site::start("rails-sidekiq.md", "rails");
    site.does_its_jobs();
    site.serves_its_files("/assets/shop.css");
}

#[test]
fn symfony_with_messenger() {
    Site::start("symfony-messenger.md", "symfony").does_its_jobs();
}
