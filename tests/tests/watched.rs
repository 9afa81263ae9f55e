//! Reloads, kills and upgrades in a random order, under load, while everything is watched: no number is wrong. Counters of a process never fall, and what all processes have
//! counted is what the access log has and what clients got.
//!
//! `WATCHED_SEED` is another order, `WATCHED_STEPS` more steps.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use keepwarm_tests::events::Events;
use keepwarm_tests::load::{Load, Outcome, StopWhenDropped, tally};
use keepwarm_tests::otlp::Collector;
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::service::Service;
use keepwarm_tests::{admin, keepwarm, tools};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);
/// Between two looks: what is looked at needs the processors, too.
const PAUSE: Duration = Duration::from_millis(50);

fn config(collector: &Collector, workers: u32) -> String {
    format!(
        "[server]\npid_file = \"@DIR@/pid\"\nlog = {{ file = \"@DIR@/log\" }}\nshutdown_grace = \"20s\"\n[admin]\nbind = \"127.0.0.1:0\"\n\
         [listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = {{ format = \"json\", file = \"@DIR@/access\" }}\n\
         [[listen.main.route]]\npath = \"/extra/{workers}\"\nrespond = 204\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\nslow_log = \"5s\"\n\
         env = {{ COUNT_FILE = \"@DIR@/count\" }}\n\
         [upstream.collector]\nurl = \"http://{}\"\n[otlp]\nupstream = \"collector\"\n[otlp.metrics]\ninterval = \"100ms\"\n[otlp.traces]\nsample = \"0%\"\n",
        collector.address()
    )
}

/// Xorshift: enough for an order of steps.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// Counters by series, as far as they were seen, of each process.
#[derive(Default)]
struct Seen(BTreeMap<String, BTreeMap<String, f64>>);

impl Seen {
    /// Checks that none has fallen.
    fn add(&mut self, process: String, counters: impl IntoIterator<Item = (String, f64)>) {
        let before = self.0.entry(process).or_default();
        for (name, value) in counters {
            let last = before.insert(name.clone(), value).unwrap_or(0.0);
            assert!(value >= last, "{name} fell from {last} to {value}");
        }
    }
}

/// Scrapes `/metrics` until it is over.
fn scrape(service: &Service, over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        let metrics = admin::metrics(&service.server);
        let started = metrics["process_start_time_seconds"].to_string();
        let is_counter =
            |name: &str| ["_total", "_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end));
        let counters =
            metrics.into_iter().filter(|(name, _)| is_counter(name.split('{').next().unwrap_or_default()));
        seen.add(started, counters);
    }
    seen
}

/// Reads `/events` until it is over; a stream ends with its process.
fn read_events(service: &Service, over: &AtomicBool) -> usize {
    let (mut seen, mut count) = (Seen::default(), 0);
    while !over.load(Ordering::Relaxed) {
        let mut events = Events::open(&service.server);
        while !over.load(Ordering::Relaxed) {
            let Ok(snapshot) = events.try_snapshot() else { break };
            let pid = snapshot["status"]["pid"].to_string();
            let number =
                |path: &str| (path.to_owned(), snapshot.pointer(path).and_then(Value::as_f64).expect(path));
            seen.add(
                pid,
                ["/status/uptime_seconds", "/recent/slow_total", "/recent/failed_total"].map(number),
            );
            // A process that has just begun to serve knows no rate.
            let rate = snapshot["now"]["per_second"].as_f64().unwrap_or(0.0);
            assert!((0.0..1e6).contains(&rate), "{rate} requests a second");
            count += 1;
        }
    }
    count
}

/// Asks for a verdict until it is over. Between two processes there may be nobody to ask, which the command says.
fn ask_why(service: &Service, over: &AtomicBool) -> usize {
    let (mut verdicts, file) = (0, service.server.folder().join("pid"));
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        let mut command = Command::new(keepwarm());
        command.args(["why", "--json", "--pid-file"]).arg(&file);
        let output = tools::run(&mut command, LONG);
        let said = String::from_utf8_lossy(&output.stderr);
        match serde_json::from_slice::<Value>(&output.stdout) {
            Ok(verdict) => verdicts += usize::from(verdict.is_object()),
            Err(error) => assert!(said.starts_with("keepwarm: "), "{error}: {output:?}"),
        }
    }
    verdicts
}

/// Requests by the class of their status, as the access log has them.
fn logged(service: &Service) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(service.server.folder().join("access")).expect("an access log");
    let mut classes = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let class = line["status"].as_u64().map_or("none".to_owned(), |status| format!("{}xx", status / 100));
        *classes.entry(class).or_default() += 1;
    }
    classes
}

/// The same, as all processes have counted them: each has sent its last counters at its end.
fn counted(collector: &Collector) -> BTreeMap<String, u64> {
    let mut seen = Seen::default();
    for counter in collector.counters("keepwarm_requests") {
        let series = format!("{:?}", counter.attributes);
        seen.add(counter.resource["service.instance.id"].clone(), [(series, counter.value as f64)]);
    }
    let mut classes = BTreeMap::new();
    for (series, value) in seen.0.values().flatten().filter(|(_, value)| **value > 0.0) {
        let code =
            series.split("\"code\": \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a code");
        *classes.entry(code.to_owned()).or_default() += *value as u64;
    }
    classes
}

#[test]
fn no_number_is_wrong_whatever_happens() {
    let (seed, steps) = (setting("WATCHED_SEED", 18), setting("WATCHED_STEPS", 20));
    eprintln!("WATCHED_SEED={seed}");
    let collector = Collector::start();
    let service = Service::start(keepwarm(), &config(&collector, 2));
    let load = Load::new(service.server.address(), "GET").with_work_ms(10);
    let (over, upgrades) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let outcomes = load.while_doing(2, 2, || {
        std::thread::scope(|scope| {
            let scraper = scope.spawn(|| scrape(&service, &over));
            let reader = scope.spawn(|| read_events(&service, &over));
            let asker = scope.spawn(|| ask_why(&service, &over));
            let stop = StopWhenDropped(&over);
            for step in 0..steps {
                load.wait_for(30);
                match random.below(3) {
                    0 => {
                        service
                            .server
                            .configure(&config(&collector, 2 + u32::try_from(step % 2).expect("small")));
                        let mut command = Command::new(keepwarm());
                        command.args(["reload", "--pid-file"]).arg(service.server.folder().join("pid"));
                        tools::run_ok(&mut command, LONG);
                    }
                    1 => {
                        let workers = process::descendants(service.pid().expect("a process"));
                        let workers: Vec<u32> = workers
                            .into_iter()
                            .filter(|&pid| process::command(pid).contains("-m keepwarm"))
                            .collect();
                        let at = random.below(workers.len().max(1) as u64);
                        if let Some(&pid) = workers.get(usize::try_from(at).expect("small")) {
                            process::signal(pid, Signal::KILL);
                        }
                    }
                    _ => {
                        service.upgrade();
                        upgrades.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            load.wait_for(30);
            drop(stop);
            let processes = scraper.join().expect("a scraper").0.len() as u64;
            assert!(processes > upgrades.load(Ordering::Relaxed) / 2, "{processes} processes were scraped");
            assert!(reader.join().expect("a reader") > 0 && asker.join().expect("an asker") > 0);
        });
    });
    let last = service.pid().expect("a process");
    process::signal(last, Signal::TERM);
    wait_until("nothing is left", LONG, || service.processes().is_empty());
    let (logged, counted) = (logged(&service), counted(&collector));
    assert_eq!(logged, counted, "the access log and the counters; {}", tally(&outcomes));
    let mut responses = BTreeMap::new();
    for (_, outcome) in &outcomes {
        if let Outcome::Responded(status) = outcome {
            *responses.entry(format!("{}xx", status / 100)).or_default() += 1_u64;
        }
    }
    let complete: BTreeMap<String, u64> = logged.into_iter().filter(|(class, _)| class != "none").collect();
    assert_eq!(responses, complete, "what clients got and the access log; {}", tally(&outcomes));
    assert_eq!(load.refused(), 0, "connections that nobody took");
}
