//! A worker that a test plays is measured.

use std::io::Read;
use std::os::unix::net::UnixStream;

use http::Method;
use keepwarm_net::DataPlane;
use keepwarm_telemetry::RequestId;
use keepwarm_wire::encode::{ResponseWriter, encode_busy, encode_growth, encode_trailers};
use keepwarm_wire::frame::{FromWorker, ResetCode, ToWorker, flags};
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::app::AppPolicy;
use super::super::driver::hear;
use super::super::kind::RequestKind;
use super::super::queue::QueuedRequest;
use super::super::tests::{hello, request};
use super::*;
use crate::supervisor::{LinkEvent, WorkerLink};

struct Bench {
    app: Arc<App>,
    plane: Option<DataPlane>,
    pids: u32,
}

struct Worker {
    link: Arc<Link>,
    socket: UnixStream,
    _events: UnboundedReceiver<LinkEvent>,
}

impl Bench {
    fn new() -> Self {
        let plane = Some(DataPlane::start(1).unwrap());
        Self { app: App::new("shop", AppPolicy::of_one_worker()), plane, pids: 0 }
    }

    /// A worker that takes `streams` requests at once, and measures.
    fn worker(&mut self, streams: u32) -> Worker {
        self.worker_with(streams, &[("leaks", "1"), ("websocket", "1"), ("ahead", "3")])
    }

    fn worker_with(&mut self, streams: u32, about: &[(&str, &str)]) -> Worker {
        self.pids += 1;
        let key = WorkerKey { app: "shop".into(), number: self.pids, generation: 1, pid: self.pids };
        let (ours, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let (sender, events) = unbounded_channel();
        let remote = self.plane.as_ref().unwrap().remotes()[0].clone();
        let link = Arc::new(Link::new(key, &self.app, remote, LinkKind::Wire(ours.into()), sender));
        hear(&link, &self.app, &hello(streams, about));
        Worker { link, socket, _events: events }
    }

    /// A request of a client; it may have to wait.
    fn ask(&self, flags: u8) -> Arc<Call> {
        let job = self.job(flags);
        let call = Arc::clone(&job.call);
        self.app.submit(job, false).unwrap();
        call
    }

    fn job(&self, flags: u8) -> QueuedRequest {
        let summary = RequestSummary {
            id: RequestId::new(1),
            method: Method::GET,
            route: Some("/cart".into()),
            path: 0,
        };
        QueuedRequest {
            call: Call::new(summary),
            kind: RequestKind::Wire(request(flags, 100)),
            thread: 0,
            session: None,
            avoid: None,
            since: Instant::now(),
        }
    }

    fn respond(&self, worker: &Worker, stream: u32) {
        let mut bytes = Vec::new();
        ResponseWriter::begin(&mut bytes, stream, 200).finish(flags::END).unwrap();
        hear(&worker.link, &self.app, &bytes);
    }

    fn busy(&self, worker: &Worker, end: bool) {
        let mut bytes = Vec::new();
        encode_busy(&mut bytes, end);
        hear(&worker.link, &self.app, &bytes);
    }

    fn grow(&self, worker: &Worker, request: u32, changes: &[(&str, &str)]) {
        let mut block = Vec::new();
        let pairs = changes.iter().map(|(name, change)| (name.as_bytes(), change.as_bytes()));
        encode_trailers(&mut block, 1, pairs).unwrap();
        let Ok(Some((FromWorker::Trailers { fields: changes, .. }, _))) = FromWorker::decode(&block) else {
            panic!()
        };
        let mut bytes = Vec::new();
        encode_growth(&mut bytes, &Growth { request, microseconds: 1500, changes }).unwrap();
        hear(&worker.link, &self.app, &bytes);
    }

    /// Begins to measure a worker, which has counted what it holds.
    fn measure(&self, search: &LeakSearch, worker: &Worker) -> Measuring {
        let measuring = search.measure(worker.link.key.pid).unwrap();
        assert_eq!(measuring.state().0, MeasuringState::Counting);
        self.grow(worker, 0, &[]);
        measuring
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.plane.take().into_iter().for_each(DataPlane::stop);
    }
}

impl Worker {
    /// The frames that were written to it since this was asked last.
    fn heard(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        let _ = self.socket.read_to_end(&mut bytes);
        let (mut rest, mut heard) = (&bytes[..], Vec::new());
        while let Some((&[l0, l1, l2, l3, kind, _, s0, s1, s2, s3], _)) = rest.split_first_chunk::<10>() {
            let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
            heard.push(match kind {
                // The test's requests have no strings.
                0x10 => format!("request {}", u32::from_be_bytes([s0, s1, s2, s3])),
                _ => format!("{:?}", ToWorker::decode(rest).unwrap().unwrap().0),
            });
            rest = &rest[10 + length..];
        }
        heard
    }
}

const BEGIN: &str = "Leaks { end: false }";
const END: &str = "Leaks { end: true }";

fn now(measuring: &mut Measuring) -> Option<Measurement> {
    measuring.measurements.try_recv().ok()
}

#[test]
fn a_worker_that_is_measured_gets_its_next_request_after_its_growth() {
    let mut bench = Bench::new();
    let mut worker = bench.worker(10);
    let search = bench.app.begin_leak_search().unwrap();
    let mut measuring = search.measure(1).unwrap();
    let _calls = [bench.ask(0), bench.ask(0), bench.ask(0)];
    assert_eq!(worker.heard(), [BEGIN]);
    bench.grow(&worker, 0, &[]);
    assert_eq!(
        (worker.heard(), measuring.state().0),
        (vec!["request 1".to_owned()], MeasuringState::Serving)
    );
    bench.respond(&worker, 1);
    assert_eq!((worker.heard().len(), measuring.state().0), (0, MeasuringState::Measuring));
    bench.grow(&worker, 1, &[("object;shop.Item", "1"), ("memory", "-12"), ("held;x", "many")]);
    let changes = vec![("object;shop.Item".to_owned(), 1), ("memory".to_owned(), -12)];
    let time = Duration::from_micros(1500);
    assert_eq!(now(&mut measuring), Some(Measurement { route: "GET /cart".to_owned(), time, changes }));
    assert_eq!(worker.heard(), ["request 2"]);
    drop(measuring);
    assert_eq!(worker.heard(), [END, "request 3"], "one that is not measured takes many");
}

#[test]
fn one_that_is_at_work_finishes_first() {
    for streams in [1, 10] {
        let mut bench = Bench::new();
        let mut worker = bench.worker(streams);
        let _before = [bench.ask(0), bench.ask(0)];
        let given = worker.heard().len();
        let search = bench.app.begin_leak_search().unwrap();
        let measuring = search.measure(1).unwrap();
        assert_eq!(measuring.state().0, MeasuringState::Finishing);
        let _later = bench.ask(0);
        for stream in 1..=given as u32 {
            assert_eq!(worker.heard(), Vec::<String>::new());
            bench.respond(&worker, stream);
        }
        assert_eq!((worker.heard(), measuring.state().0), (vec![BEGIN.to_owned()], MeasuringState::Counting));
    }
}

/// Its place was taken before, and it is written after: the worker never began to count, and got nothing more until the search was over.
#[test]
fn a_request_that_is_on_its_way_when_the_search_begins_finishes_first() {
    let mut bench = Bench::new();
    let mut worker = bench.worker(1);
    let search = bench.app.begin_leak_search().unwrap();
    let job = bench.job(0);
    let link = bench.app.state().queue.take_slot(&job).unwrap();
    let measuring = search.measure(1).unwrap();
    link.give(job);
    assert_eq!(
        (worker.heard(), measuring.state().0),
        (vec!["request 1".to_owned()], MeasuringState::Finishing)
    );
    bench.respond(&worker, 1);
    assert_eq!((worker.heard(), measuring.state().0), (vec![BEGIN.to_owned()], MeasuringState::Counting));
}

#[test]
fn other_workers_serve_meanwhile_and_the_measured_one_is_chosen_first() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (bench.worker(1), bench.worker(1));
    let search = bench.app.begin_leak_search().unwrap();
    let _measuring = bench.measure(&search, &other);
    let _calls = [bench.ask(0), bench.ask(0), bench.ask(0)];
    assert_eq!(other.heard(), [BEGIN, "request 1"]);
    assert_eq!(one.heard(), ["request 1"]);
    bench.respond(&other, 1);
    bench.respond(&one, 1);
    assert_eq!((one.heard(), other.heard()), (vec!["request 2".to_owned()], Vec::new()));
}

/// What it does after its response comes before its GROWTH, and the slot waits for both.
#[test]
fn work_after_a_response_is_measured_too() {
    let mut bench = Bench::new();
    let mut worker = bench.worker(1);
    let search = bench.app.begin_leak_search().unwrap();
    let mut measuring = bench.measure(&search, &worker);
    let _calls = [bench.ask(0), bench.ask(0)];
    bench.busy(&worker, false);
    bench.respond(&worker, 1);
    bench.busy(&worker, true);
    assert_eq!(worker.heard(), [BEGIN, "request 1"]);
    bench.grow(&worker, 1, &[]);
    assert!(now(&mut measuring).is_some());
    assert_eq!(worker.heard(), ["request 2"]);
}

#[test]
fn a_request_whose_client_has_left_is_not_reported() {
    let mut bench = Bench::new();
    let mut worker = bench.worker(10);
    let search = bench.app.begin_leak_search().unwrap();
    let mut measuring = bench.measure(&search, &worker);
    let _calls = [bench.ask(0), bench.ask(0)];
    worker.link.reset(1, ResetCode::CANCELLED, "");
    bench.respond(&worker, 1);
    bench.grow(&worker, 1, &[("memory", "1000")]);
    assert_eq!(now(&mut measuring), None);
    assert_eq!(worker.heard().last().unwrap(), "request 2");
}

#[test]
fn a_measurement_that_never_comes_is_not_waited_for_once_measuring_has_ended() {
    let mut bench = Bench::new();
    let mut worker = bench.worker(1);
    let search = bench.app.begin_leak_search().unwrap();
    let measuring = bench.measure(&search, &worker);
    let _calls = [bench.ask(0), bench.ask(0)];
    bench.respond(&worker, 1);
    worker.heard();
    assert!(!worker.link.is_silent());
    drop(measuring);
    assert_eq!(worker.heard(), [END, "request 2"]);
    // It comes after all, and belongs to nothing.
    bench.grow(&worker, 1, &[("memory", "1000")]);
}

/// What has crossed the end of one measurement is not the first of the next.
#[test]
fn growth_of_an_earlier_measurement_is_ignored() {
    let mut bench = Bench::new();
    let worker = bench.worker(1);
    let search = bench.app.begin_leak_search().unwrap();
    let first = bench.measure(&search, &worker);
    let _call = bench.ask(0);
    bench.respond(&worker, 1);
    drop(first);
    let mut second = search.measure(1).unwrap();
    bench.grow(&worker, 1, &[("memory", "1000")]);
    assert_eq!((now(&mut second), second.state().0), (None, MeasuringState::Counting));
}

#[test]
fn a_websocket_ends_it() {
    let mut bench = Bench::new();
    let mut worker = bench.worker(10);
    let search = bench.app.begin_leak_search().unwrap();
    let mut measuring = bench.measure(&search, &worker);
    let _socket = bench.ask(flags::END | flags::WEBSOCKET);
    assert_eq!(worker.heard(), [BEGIN, END, "request 1"]);
    assert_eq!(measuring.state().0, MeasuringState::Over);
    assert!(measuring.measurements.blocking_recv().is_none());
    drop(measuring);
    let _call = bench.ask(0);
    assert_eq!(worker.heard(), ["request 2"]);
}

#[test]
fn a_worker_that_is_retired_leaves_when_it_is_measured_no_more() {
    let mut bench = Bench::new();
    let mut worker = bench.worker(1);
    let search = bench.app.begin_leak_search().unwrap();
    let measuring = bench.measure(&search, &worker);
    let _call = bench.ask(0);
    WorkerLink::retire(&*worker.link);
    assert_eq!(measuring.state().0, MeasuringState::Over);
    bench.respond(&worker, 1);
    drop(measuring);
    assert_eq!(worker.heard(), [BEGIN, "request 1", END, "Drain"]);
    assert!(search.measure(1).is_none());
}

#[test]
fn a_worker_that_dies_ends_it() {
    let mut bench = Bench::new();
    let worker = bench.worker(1);
    let search = bench.app.begin_leak_search().unwrap();
    let mut measuring = bench.measure(&search, &worker);
    bench.app.remove(&worker.link);
    worker.link.die(false);
    assert!(measuring.measurements.blocking_recv().is_none());
    drop(measuring);
}

#[test]
fn there_is_one_search_of_an_app_at_a_time() {
    let mut bench = Bench::new();
    let worker = bench.worker_with(1, &[("adapter", "python/0.1.0")]);
    let search = bench.app.begin_leak_search().unwrap();
    assert!(bench.app.begin_leak_search().is_none());
    drop(search);
    assert!(bench.app.begin_leak_search().is_some());
    let workers = bench.app.leaks_workers();
    assert_eq!((workers.len(), workers[0].measures, &workers[0].key), (1, false, &worker.link.key));
    assert_eq!(workers[0].adapter.as_deref(), Some("python/0.1.0"));
}

#[test]
fn names_are_one_line_and_bounded() {
    let mut bench = Bench::new();
    let worker = bench.worker(1);
    let search = bench.app.begin_leak_search().unwrap();
    let mut measuring = bench.measure(&search, &worker);
    let _call = bench.ask(0);
    bench.respond(&worker, 1);
    let (long, hostile) = (format!("object;{}", "x".repeat(60_000)), "held;a\x1b[2J\nb");
    let mut changes = vec![(long.as_str(), "1"), (hostile, "2")];
    changes.extend(std::iter::repeat_n(("memory", "3"), 2_000));
    bench.grow(&worker, 1, &changes);
    let changes = now(&mut measuring).unwrap().changes;
    assert_eq!((changes.len(), changes[0].0.len()), (CHANGES, LONGEST));
    assert_eq!(changes[1], ("held;a [2J b".to_owned(), 2));
}
