//! A reload that cannot be done, whatever of it fails: the configuration before it stays active as a whole.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use keepwarm_tests::origin::Origin;
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::free_port;
use keepwarm_tests::{Client, Server, get_local as get};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

const LONG: Duration = Duration::from_secs(60);

/// Two configurations that differ in everything a reload changes.
struct Bench {
    server: Server,
    ports: [u16; 9],
    origins: [Origin; 2],
    workers: Vec<u32>,
}

const MAIN: usize = 0;

impl Bench {
    fn start() -> Self {
        let ports = std::array::from_fn(|_| free_port());
        let origins = [Origin::fixed("origin a"), Origin::fixed("origin b")];
        let server = Server::start(&before(&ports, &origins));
        server.wait_for_log("admin on", LONG);
        let bench = Self { workers: server.workers(), server, ports, origins };
        // Usage of a limit is kept.
        assert_eq!(bench.status(MAIN, "/limited"), 200);
        bench
    }

    fn client(&self, port: usize) -> Client {
        Client::connect(self.at(port)).patient(LONG)
    }

    fn at(&self, port: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[port]))
    }

    fn text(&self, port: usize, path: &str) -> String {
        self.client(port).ask(get(path)).text()
    }

    fn status(&self, port: usize, path: &str) -> u16 {
        self.client(port).ask(get(path)).status
    }

    fn after(&self) -> String {
        after(&self.ports, &self.origins)
    }

    /// Asks for a reload, and says whether it was done.
    fn reload(&self) -> Result<(), String> {
        let is_outcome = |line: &str| line.contains("reloaded") || line.contains("reload failed");
        let mark = self.server.mark();
        self.server.signal(Signal::HUP);
        let said = || self.server.log().lines().skip(mark).find(|line| is_outcome(line)).map(str::to_owned);
        wait_until("the reload is over", LONG, || said().is_some());
        let line = said().unwrap_or_default();
        match line.contains("reload failed") {
            true => Err(line),
            false => {
                self.server.wait_for_log_after(mark, "reloaded in", LONG);
                Ok(())
            }
        }
    }

    /// Routes, listeners, admin, logs, upstreams, apps and limits are those of `before`.
    #[track_caller]
    fn is_as_before(&self, why: &str) {
        assert_eq!(self.text(MAIN, "/fixed"), "a", "{why}: a route");
        assert_eq!(self.status(MAIN, "/limited"), 429, "{why}: a limit that was used up");
        assert_eq!(self.text(1, "/"), "other a", "{why}: a listener");
        assert_eq!(self.status(2, "/livez"), 200, "{why}: admin");
        assert_eq!(self.text(3, "/"), "origin a", "{why}: the door");
        assert_eq!(self.text(MAIN, "/search"), "origin a", "{why}: the route to the upstream");
        let who = self.client(MAIN).ask(get("/who")).json();
        assert_eq!(who["generation"], "a", "{why}: the app");
        for port in 4..8 {
            assert!(TcpStream::connect(self.at(port)).is_err(), "{why}: port {port} is of the other one");
        }
        wait_until("the workers of before, and no others", LONG, || self.server.workers() == self.workers);
        let log = |name: &str| std::fs::read_to_string(self.server.folder().join(name)).unwrap_or_default();
        let lines = || log("a.log").matches("/fixed").count();
        let had = lines();
        assert_eq!(self.text(MAIN, "/fixed"), "a");
        wait_until("the access log grows", LONG, || lines() > had);
        assert_eq!((log("b.log"), log("calls-b.log")), (String::new(), String::new()), "{why}: logs");
        assert!(!self.server.folder().join("b.sock").exists(), "{why}: a socket");
    }

    #[track_caller]
    fn is_as_after(&self) {
        assert_eq!(self.text(MAIN, "/fixed"), "b");
        assert_eq!((self.text(4, "/"), self.status(5, "/livez")), ("other b".to_owned(), 200));
        assert_eq!((self.text(6, "/"), self.text(7, "/")), ("origin b".to_owned(), "origin b".to_owned()));
        assert_eq!(self.client(MAIN).ask(get("/who")).json()["generation"], "b");
        for port in 1..3 {
            wait_until("a port of before is closed", LONG, || TcpStream::connect(self.at(port)).is_err());
        }
    }
}

fn app(generation: &str) -> String {
    format!(
        "[app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         env = {{ GENERATION = \"{generation}\" }}\n"
    )
}

fn listener(main: u16, letter: char, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:{main}\"\naccess_log = {{ file = \"@DIR@/{letter}.log\" }}\n{more}\n\
         [[listen.main.route]]\npath = \"/fixed\"\nrespond = {{ status = 200, body = \"{letter}\" }}\n\
         [[listen.main.route]]\npath = \"/limited\"\nupstream = \"search\"\nrate_limit = \"few\"\n\
         [[listen.main.route]]\npath = \"/search\"\nupstream = \"search\"\n\
         [[listen.main.route]]\napp = \"app\"\n"
    )
}

fn before(ports: &[u16; 9], origins: &[Origin; 2]) -> String {
    let [main, other, admin, door, ..] = ports;
    format!(
        "[server]\nthreads = 1\n[admin]\nbind = \"127.0.0.1:{admin}\"\n{}{}\
         [listen.other]\nbind = \"127.0.0.1:{other}\"\n[[listen.other.route]]\nrespond = {{ status = 200, body = \"other a\" }}\n\
         [upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:{door}\"\naccess_log = {{ file = \"@DIR@/calls-a.log\" }}\n\
         [rate_limit.few]\nrate = \"1/h\"\nkey = \"all\"\n",
        listener(*main, 'a', ""),
        app("a"),
        origins[0].address()
    )
}

fn after(ports: &[u16; 9], origins: &[Origin; 2]) -> String {
    let [main, _, _, _, other, admin, door, more, _] = ports;
    format!(
        "[server]\nthreads = 1\n[admin]\nbind = \"127.0.0.1:{admin}\"\n{}{}\
         [listen.other]\nbind = [\"127.0.0.1:{other}\", \"unix:@DIR@/b.sock\"]\n[[listen.other.route]]\nrespond = {{ status = 200, body = \"other b\" }}\n\
         [upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:{door}\"\naccess_log = {{ file = \"@DIR@/calls-b.log\" }}\n\
         [upstream.more]\nurl = \"http://{}\"\nbind = \"127.0.0.1:{more}\"\n\
         [rate_limit.few]\nrate = \"1000/s\"\nkey = \"all\"\n",
        listener(*main, 'b', "limits = { idle_timeout = \"50s\" }"),
        app("b"),
        origins[1].address(),
        origins[1].address()
    )
}

#[test]
fn a_failed_reload_keeps_the_whole_previous_configuration() {
    let bench = Bench::start();
    bench.is_as_before("at the start");
    let taken = TcpListener::bind(bench.at(8)).expect("a port");
    // Leads to where no user can create a file.
    let link = bench.server.folder().join("link");
    std::os::unix::fs::symlink("/nowhere/at/all", link).expect("a link");
    let port = |index: usize| format!("127.0.0.1:{}", bench.ports[index]);
    let faults = [
        ("the call log", "@DIR@/calls-b.log".to_owned(), "@DIR@/link".to_owned()),
        ("the access log", "@DIR@/b.log".to_owned(), "@DIR@/link".to_owned()),
        ("admin's address", port(5), port(8)),
        ("a listener's address", port(4), port(8)),
        ("a door's address", port(7), port(8)),
        ("a Unix socket", "@DIR@/b.sock".to_owned(), "@DIR@/nowhere/b.sock".to_owned()),
        ("the app", "wsgi_app:application".to_owned(), "broken_app:application".to_owned()),
    ];
    for (what, from, to) in faults {
        let config = bench.after();
        assert!(config.contains(&from), "{what}");
        bench.server.configure(&config.replace(&from, &to));
        bench.reload().expect_err(what);
        bench.is_as_before(what);
    }
    drop(taken);
    bench.server.configure(&bench.after());
    bench.reload().expect("nothing is wrong with this one");
    bench.is_as_after();
}

/// Each step needs descriptors: with one more at each try, the next step is the one that fails.
#[test]
fn at_whichever_step_descriptors_run_out_the_configuration_before_it_stays_active() {
    let bench = Bench::start();
    bench.server.configure(&bench.after());
    let process = Pid::from_raw(bench.server.pid().cast_signed());
    let descriptors = format!("/proc/{}/fd", bench.server.pid());
    let used = || std::fs::read_dir(&descriptors).expect("its descriptors").count() as u64;
    let hard = std::fs::read_to_string(format!("/proc/{}/limits", bench.server.pid())).expect("its limits");
    let hard = hard.lines().find(|line| line.starts_with("Max open files")).expect("this one");
    let hard: u64 = hard.split_whitespace().nth(4).and_then(|hard| hard.parse().ok()).expect("a number");
    let mut failed = 0;
    for more in 0.. {
        assert!(more < 100, "with 100 descriptors more it still fails");
        bench.is_as_before(&format!("before the try with {more} descriptors more"));
        // Those of the connections that have just been closed.
        let mut open = used();
        wait_until("its descriptors are as before", LONG, || std::mem::replace(&mut open, used()) == used());
        let whole =
            prlimit(process, Resource::Nofile, Rlimit { current: Some(open + more), maximum: Some(hard) })
                .expect("a limit");
        let reloaded = bench.reload();
        prlimit(process, Resource::Nofile, whole).expect("the limit as it was");
        match reloaded {
            Ok(()) => break,
            Err(_) => failed += 1,
        }
    }
    assert!(failed > 10, "only {failed} steps failed");
    bench.is_as_after();
}
