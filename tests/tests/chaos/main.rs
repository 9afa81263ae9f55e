//! Chaos test: clients of all kinds, while workers are killed, hang, leak, print and die of requests, and while Keepwarm is
//! reloaded, upgraded and scaled. An oracle then compares the outcomes at the clients, the application's own record and the logs: no request may be
//! lost, doubled, or get the response of another, except as `docs/operate/requests.md` allows, each with its reason in the log.
//!
//! Everything follows from a seed; a failure prints the command that repeats it. `CHAOS_SECONDS` makes it longer.
//! Durations are not judged: a slow machine sees fewer requests and more refusals, each of which needs its record as well.

mod clients;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keepwarm_tests::oracle::{Evidence, ObservedRequest, Random, Rules};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Client, Server, get, tools};
use rustix::process::Signal;

use clients::KINDS;

const LONG: Duration = Duration::from_secs(120);
const SEED: u64 = 20_260_101;
const SECONDS: u64 = 15;

/// Three apps: one request at a time, threads, and many at once.
const APPS: [&str; 3] = ["one", "threads", "many"];

const CONFIG: &str = r#"
[server]
pid_file = "@DIR@/pid"
log = { file = "@DIR@/log" }
shutdown_grace = "30s"
[listen.main]
bind = "127.0.0.1:0"
access_log = { file = "@DIR@/access" }
[[listen.main.route]]
path = "/one/*"
strip_prefix = true
app = "one"
[[listen.main.route]]
path = "/threads/*"
strip_prefix = true
app = "threads"
[[listen.main.route]]
path = "/many/*"
strip_prefix = true
app = "many"
[app.one]
entry = "trouble_app:application"
workers = { min = 1, max = 3 }
@COMMON@
[app.threads]
entry = "trouble_app:application"
workers = 2
threads = 4
@COMMON@
[app.many]
entry = "trouble_app:asgi"
workers = 2
@COMMON@
"#;

const COMMON: &str = r#"directory = "@APPS@"
interpreter = "@PYTHON@"
env = { DIR = "@DIR@" }
request_timeout = "2s"
queue_timeout = "20s"
drain_timeout = "10s"
start_retries = 1000
max_requests = 300
max_memory = "100MiB"
kill_memory = "200MiB"
"#;

#[test]
fn nothing_is_lost_and_nothing_is_doubled() {
    let seed = number("CHAOS_SEED", SEED);
    let seconds = number("CHAOS_SECONDS", SECONDS);
    println!("CHAOS_SEED={seed} CHAOS_SECONDS={seconds} cargo test -p keepwarm-tests --test chaos");
    let service = Service::start();
    let seen = run_chaos(&service, seed, Duration::from_secs(seconds));
    service.all_apps_serve();
    service.end();
    let verdict = Evidence::read(service.folder(), seen, Rules::WIRE).judge();
    println!("{}", verdict.summary);
    if !verdict.faults.is_empty() {
        let kept = keep(service.folder());
        panic!("{}\n{}\nwhat was read is in {}", verdict.faults.join("\n"), verdict.summary, kept.display());
    }
    assert!(verdict.responded > 0, "nothing was served\n{}", verdict.summary);
}

/// A copy of the logs and books, which outlives the test: a fault that comes once in an hour is understood from them or never.
fn keep(folder: &Path) -> PathBuf {
    let kept = std::env::temp_dir().join(format!("keepwarm-chaos-{}", std::process::id()));
    std::fs::create_dir_all(&kept).expect("a folder for what is kept");
    let files = std::fs::read_dir(folder).expect("the server's folder").flatten();
    for file in files
        .filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()) && file.file_name() != "keepwarm")
    {
        std::fs::copy(file.path(), kept.join(file.file_name())).expect("a copy");
    }
    kept
}

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}: a whole number, not {text:?}")),
        Err(_) => default,
    }
}

/// Runs clients and injects faults until the time is over; returns the outcomes of all requests.
fn run_chaos(service: &Service, seed: u64, time: Duration) -> Vec<ObservedRequest> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = KINDS
            .iter()
            .enumerate()
            .map(|(number, kind)| {
                let (address, stop) = (service.server.address(), &stop);
                scope.spawn(move || clients::run(*kind, address, number as u64, seed, stop))
            })
            .collect();
        let mut random = Random::new(seed, 1000);
        let mut done: BTreeMap<&str, u32> = BTreeMap::new();
        let mut under_way = None;
        let end = Instant::now() + time;
        while Instant::now() < end {
            *done.entry(service.inject_fault(&mut random, &mut under_way)).or_default() += 1;
            // The rate of faults, not a wait for anything.
            std::thread::sleep(Duration::from_millis(random.below(700)));
        }
        if let Some(change) = under_way {
            wait_until("the last change is over", LONG, || service.is_over(&change));
        }
        stop.store(true, Ordering::Relaxed);
        println!("faults: {done:?}");
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    })
}

/// A reload or an upgrade.
struct RunningFault {
    /// The process that was the service before.
    pid: u32,
    /// How many had ended before.
    ends: usize,
}

/// A Keepwarm whose process may be succeeded by another.
struct Service {
    server: Server,
    binary: PathBuf,
}

impl Service {
    fn start() -> Self {
        let mut binary = PathBuf::new();
        let server = Server::start_as(&CONFIG.replace("@COMMON@", COMMON), |folder| {
            binary = folder.join("keepwarm");
            tools::place_executable(keepwarm_tests::keepwarm(), &binary);
            binary.clone()
        });
        let service = Self { server, binary };
        wait_until("the pid file", LONG, || service.pid().is_some());
        service.all_apps_serve();
        service
    }

    fn folder(&self) -> &Path {
        self.server.folder()
    }

    /// The process that is the service now.
    fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.folder().join("pid")).ok()?.trim().parse().ok()
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder().join("log")).unwrap_or_default()).into_owned()
    }

    #[track_caller]
    fn all_apps_serve(&self) {
        for app in APPS {
            wait_until(&format!("{app} serves"), LONG, || {
                let mut client = Client::connect(self.server.address()).patient(LONG);
                client.ask(get(&format!("/{app}/work?id=0&ms=0"))).status == 200
            });
        }
    }

    /// Injects a fault; returns its name. A slow fault is not awaited, so that others happen during it.
    fn inject_fault(&self, random: &mut Random, under_way: &mut Option<RunningFault>) -> &'static str {
        let Some(pid) = self.pid() else { return "none" };
        let choice = random.below(20);
        if under_way.as_ref().is_some_and(|change| self.is_over(change)) {
            *under_way = None;
        }
        match choice {
            0..8 => {
                self.kill_a_worker(pid, random);
                "kill"
            }
            8..12 if under_way.is_none() => {
                *under_way = Some(self.begin(pid, Signal::HUP));
                "reload"
            }
            12..14 => {
                process::signal(pid, Signal::TTIN);
                "more"
            }
            14..16 => {
                process::signal(pid, Signal::TTOU);
                "fewer"
            }
            16..18 if under_way.is_none() => {
                *under_way = Some(self.begin(pid, Signal::USR2));
                "upgrade"
            }
            _ => "none",
        }
    }

    /// Makes it reload or upgrade.
    fn begin(&self, pid: u32, signal: Signal) -> RunningFault {
        let change = RunningFault { pid, ends: self.ends() };
        process::signal(pid, signal);
        change
    }

    /// Whether it has ended: it succeeded, or is reported as failed.
    fn is_over(&self, change: &RunningFault) -> bool {
        self.ends() > change.ends || self.pid().is_some_and(|pid| pid != change.pid)
    }

    fn ends(&self) -> usize {
        let log = self.log();
        ["reloaded", "reload failed", "upgrade failed"].iter().map(|word| log.matches(word).count()).sum()
    }

    fn kill_a_worker(&self, pid: u32, random: &mut Random) {
        let mut workers = process::descendants(pid);
        workers.retain(|&pid| process::command(pid).contains("-m keepwarm"));
        workers.sort_unstable();
        if let Some(&worker) = workers.get(random.below(workers.len().max(1) as u64) as usize) {
            process::signal(worker, Signal::KILL);
        }
    }

    /// Stops the service, and waits until nothing of it is left.
    fn end(&self) {
        if let Some(pid) = self.pid() {
            process::signal(pid, Signal::TERM);
        }
        wait_until("nothing is left", LONG, || processes(&self.binary).is_empty());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for pid in processes(&self.binary) {
            process::signal(pid, Signal::KILL);
        }
    }
}

/// Every process that runs this binary.
fn processes(binary: &Path) -> Vec<u32> {
    let name = binary.to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let runs_it = |pid: &u32| {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        exe.to_string_lossy().starts_with(&name) && process::alive(*pid)
    };
    all.filter(runs_it).collect()
}
