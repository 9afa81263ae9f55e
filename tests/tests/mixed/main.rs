//! Requests of every sort to one application of each kind: right ones, exceptions, `exit`, deaths, forms, uploads, streams, and clients that leave. No
//! wrong response, no response of one request in another, and nothing left behind: no process, no descriptor, no temporary file.
//!
//! The requests follow from a seed; a failure prints the command that repeats it. `MIXED_REQUESTS` sets how many each kind gets (100000 takes
//! minutes); a third as many follow, among them some that exit, and `MIXED_DEATHS` that kill their process. Memory is reported, not judged.

mod kinds;
mod row;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keepwarm_tests::oracle::{Evidence, ObservedRequest};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::process_mark::{self, ProcessMark};
use keepwarm_tests::{Server, get};
use rustix::process::Signal;

use kinds::Kind;
use row::{CONNECTIONS, Row};

const LONG: Duration = Duration::from_secs(90);
const CLIENTS: u64 = 6;

/// The settings from the environment.
#[derive(Debug, Clone, Copy)]
struct Settings {
    seed: u64,
    requests: u64,
    deaths: u64,
}

impl Settings {
    fn read() -> Self {
        let number = |name: &str, default| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}: a whole number, not {text:?}")),
            Err(_) => default,
        };
        Self {
            seed: number("MIXED_SEED", 20_260_102),
            requests: number("MIXED_REQUESTS", 800),
            deaths: number("MIXED_DEATHS", 2),
        }
    }
}

macro_rules! kinds {
    ($($name:ident)*) => { $(#[test] fn $name() { mixed(&kinds::$name()); })* }
}

kinds! { wsgi wsgi_with_threads asgi rack rack_with_threads php php_cgi php_fpm node }

fn mixed(kind: &Kind) {
    let settings = Settings::read();
    let Settings { seed, requests, deaths } = settings;
    println!(
        "MIXED_SEED={seed} MIXED_REQUESTS={requests} MIXED_DEATHS={deaths} cargo test -p keepwarm-tests --test mixed {}",
        kind.name
    );
    let site = Site::start(kind);
    let mut rows: Vec<Row> =
        (0..CLIENTS).map(|number| Row::new(kind, site.server.address(), seed, number)).collect();
    let began = Instant::now();
    let workers = site.workers();
    let mut request = 0;
    // First without ends of processes, so that all that is made at first use is there when it is counted, and memory is that of one process.
    for until in [requests / 100, requests / 10, requests] {
        ask(&mut rows, until - request, 0);
        request = until;
        site.print_memory(&rows);
    }
    assert_eq!(
        workers,
        site.workers(),
        "a worker has ended of requests that end none\n{}",
        site.server.log()
    );
    let before = Left::of(&site);
    ask(&mut rows, requests / 3, deaths);
    let took = began.elapsed();
    site.all_workers_serve();
    site.print_memory(&rows);
    before.wait_for_no_more(&site);
    let seen: Vec<ObservedRequest> = rows.into_iter().flat_map(|row| row.seen).collect();
    let seen_many = seen.len();
    site.end();
    let verdict = Evidence::read(site.server.folder(), seen, kind.rules).judge();
    println!(
        "{}: {:.0} requests a second\n{}",
        kind.name,
        seen_many as f64 / took.as_secs_f64(),
        verdict.summary
    );
    assert!(verdict.faults.is_empty(), "{}\n{}", verdict.faults.join("\n"), verdict.summary);
    assert!(verdict.responded > 0, "nothing was served\n{}", verdict.summary);
}

/// Makes the clients send this many requests together, about `deaths` of which kill a process.
fn ask(rows: &mut [Row], many: u64, deaths: u64) {
    let each = many / rows.len() as u64;
    let deaths = deaths * 1_000_000 / many;
    std::thread::scope(|scope| {
        for row in rows {
            scope.spawn(move || row.ask_many(each, deaths));
        }
    });
}

/// A Keepwarm with one application.
struct Site<'a> {
    kind: &'a Kind,
    server: Server,
    mark: ProcessMark,
}

impl<'a> Site<'a> {
    fn start(kind: &'a Kind) -> Self {
        let mark = ProcessMark::new();
        let server = Server::start_with(&kind.config(), |command| {
            mark.apply_to(command);
            let temporary = command.get_current_dir().expect("a folder").join("tmp");
            std::fs::create_dir(&temporary).expect("a folder");
            command.env("TMPDIR", temporary);
        })
        .warm("/work?id=0&n=0&ms=0");
        let site = Self { kind, server, mark };
        site.all_workers_serve();
        site
    }

    fn workers(&self) -> Vec<u32> {
        let mut found = process::descendants(self.server.pid());
        found.retain(|&pid| process::command(pid).contains(self.kind.process));
        found.retain(|&pid| !process::command(pid).contains("__"));
        found.sort_unstable();
        found
    }

    #[track_caller]
    fn all_workers_serve(&self) {
        wait_until("all workers are there", LONG, || self.workers().len() == self.kind.processes);
        let response = self.server.client().patient(LONG).ask(get("/work?id=0&n=0&ms=0"));
        assert_eq!(response.status, 200, "{}", self.server.log());
    }

    fn print_memory(&self, rows: &[Row]) {
        let requests: usize = rows.iter().map(|row| row.seen.len()).sum();
        let of = |pid| format!("{} ({})", process::anonymous_kib(pid), process::resident_kib(pid));
        let workers: Vec<String> =
            self.workers().into_iter().map(|pid| format!("{pid}: {}", of(pid))).collect();
        println!(
            "{} after {requests}: anonymous (resident) KiB: Keepwarm {}, workers {}",
            self.kind.name,
            of(self.server.pid()),
            workers.join(", ")
        );
    }

    /// Stops it, and waits until nothing of it is left.
    fn end(&self) {
        self.server.signal(Signal::TERM);
        assert!(self.server.wait_for_exit(LONG).success(), "{}", self.server.log());
        wait_until("all processes are gone", LONG, || self.mark.processes().is_empty());
        let files = process_mark::files(&self.server.folder().join("tmp"));
        assert!(files.is_empty(), "temporary files are left: {files:?}");
    }
}

/// The resources in use without a request: processes, temporary files and descriptors, by kind.
#[derive(Debug)]
struct Left(BTreeMap<String, usize>);

impl Left {
    fn of(site: &Site) -> Self {
        let mut all: BTreeMap<String, usize> = BTreeMap::new();
        for (to, count) in process_mark::descriptors(site.server.pid()) {
            all.insert(format!("descriptors of Keepwarm: {}", shape(&to)), count);
        }
        for pid in site.workers() {
            for (to, count) in process_mark::descriptors(pid) {
                let most = all.entry(format!("descriptors of a worker: {}", shape(&to))).or_default();
                *most = count.max(*most);
            }
        }
        for file in process_mark::files(&site.server.folder().join("tmp")) {
            *all.entry(format!("temporary files: {}", shape(&file))).or_default() += 1;
        }
        all.insert("processes".to_owned(), site.mark.processes().len());
        Self(all)
    }

    /// Waits until there is no more than this: what is released just after a response has time.
    #[track_caller]
    fn wait_for_no_more(&self, site: &Site) {
        let deadline = Instant::now() + LONG;
        loop {
            let more = self.more_in(&Self::of(site), site.kind);
            if more.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "left behind: {more:#?}\nbefore: {self:#?}\n{}",
                site.server.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn more_in(&self, now: &Self, kind: &Kind) -> BTreeMap<String, usize> {
        let allowed = |what: &String| {
            // Connections to servers are kept for the next request.
            let kept = if what.ends_with(": socket") { kind.kept_connections } else { 0 };
            self.0.get(what).copied().unwrap_or_default() + kept
        };
        now.0
            .iter()
            .filter(|(what, count)| **count > allowed(what))
            .map(|(what, &count)| (what.clone(), count))
            .collect()
    }
}

/// A path without its variable parts: everything after the first digit of its parts, and a deleted file's whole name.
fn shape(path: &str) -> String {
    if path.ends_with(" (deleted)") {
        return "a deleted file".to_owned();
    }
    let parts =
        path.split('/').map(|part| part.split(|byte: char| byte.is_ascii_digit()).next().unwrap_or_default());
    parts.collect::<Vec<_>>().join("/")
}

/// Connections that may be kept to the servers of an application: one for each request that was in work at once.
const KEPT: usize = CLIENTS as usize * (CONNECTIONS + 1);
