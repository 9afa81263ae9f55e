//! A worker that a test plays sends samples of requests whose routes only Keepwarm knows.

use std::os::unix::net::UnixStream;

use http::Method;
use keepwarm_net::DataPlane;
use keepwarm_telemetry::RequestId;
use keepwarm_wire::encode::{ResponseWriter, encode_samples};
use keepwarm_wire::frame::{FromWorker, ResetCode, Strings, flags};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use super::super::app::AppPolicy;
use super::super::call::Call;
use super::super::driver::hear;
use super::super::kind::RequestKind;
use super::super::queue::QueuedRequest;
use super::super::tests::{hello, request};
use super::*;

struct Bench {
    app: Arc<App>,
    plane: DataPlane,
    pids: u32,
}

impl Bench {
    fn new() -> Self {
        Self {
            app: App::new("shop", AppPolicy::of_one_worker()),
            plane: DataPlane::start(1).unwrap(),
            pids: 0,
        }
    }

    /// A worker with this adapter that takes ten requests at once.
    fn worker(&mut self, about: &[(&str, &str)]) -> Arc<Link> {
        self.pids += 1;
        let key = WorkerKey { app: "shop".into(), number: self.pids, generation: 1, pid: self.pids };
        let (ours, _) = UnixStream::pair().unwrap();
        let (events, _) = unbounded_channel();
        let remote = self.plane.remotes()[0].clone();
        let link = Arc::new(Link::new(key, &self.app, remote, LinkKind::Wire(ours.into()), events));
        hear(&link, &self.app, &hello(10, about));
        link
    }

    fn new_worker(&mut self) -> Arc<Link> {
        self.worker(&[("adapter", "python/0.1.0"), ("profile", "1")])
    }

    fn give(&self, link: &Arc<Link>, route: &str) -> Arc<Call> {
        let summary =
            RequestSummary { id: RequestId::new(1), method: Method::GET, route: Some(route.into()), path: 0 };
        let call = Call::new(summary);
        link.give(QueuedRequest {
            call: Arc::clone(&call),
            kind: RequestKind::Wire(request(0, 100)),
            thread: 0,
            session: None,
            avoid: None,
            since: Instant::now(),
        });
        call
    }

    fn send(&self, link: &Arc<Link>, request: u32, dropped: u32, stacks: &[(&str, &str)]) {
        let pairs = stacks.iter().map(|(stack, time)| (stack.as_bytes(), time.as_bytes()));
        let mut block = Vec::new();
        keepwarm_wire::encode::encode_trailers(&mut block, 1, pairs).unwrap();
        let (frame, _) = FromWorker::decode(&block).unwrap().unwrap();
        let stacks = match frame {
            FromWorker::Trailers { fields, .. } => fields,
            _ => Strings::default(),
        };
        let mut bytes = Vec::new();
        encode_samples(&mut bytes, &Samples { request, dropped, stacks }).unwrap();
        hear(link, &self.app, &bytes);
    }

    fn respond(&self, link: &Arc<Link>, stream: u32) {
        let mut bytes = Vec::new();
        ResponseWriter::begin(&mut bytes, stream, 200).finish(flags::END).unwrap();
        hear(link, &self.app, &bytes);
    }
}

fn sorted(totals: &ProfileTotals) -> Vec<(&str, u64)> {
    let mut stacks: Vec<_> = totals.stacks.iter().map(|(stack, time)| (stack.as_str(), *time)).collect();
    stacks.sort_unstable();
    stacks
}

#[test]
fn samples_are_added_below_the_route_of_their_request() {
    let mut bench = Bench::new();
    let (one, other) = (bench.new_worker(), bench.new_worker());
    let profile = bench.app.begin_profile(None).unwrap();
    bench.give(&one, "/search");
    bench.give(&one, "/");
    bench.give(&other, "/search");
    bench.send(&one, 1, 2, &[("app;a;b", "10"), ("app;a", "1")]);
    bench.send(&one, 2, 0, &[("app;a;b", "100")]);
    bench.send(&other, 1, 1, &[("app;a;b", "1000")]);
    bench.send(&other, 0, 0, &[("app;beside", "5")]);
    let totals = profile.totals();
    let wanted = [
        ("(no request);app;beside", 5),
        ("GET /;app;a;b", 100),
        ("GET /search;app;a", 1),
        ("GET /search;app;a;b", 1010),
    ];
    assert_eq!(sorted(&totals), wanted);
    assert_eq!((totals.dropped, totals.senders.len()), (3, 2));
}

#[test]
fn requests_that_are_over_have_their_route() {
    let mut bench = Bench::new();
    let worker = bench.new_worker();
    bench.give(&worker, "/before");
    bench.respond(&worker, 1);
    let profile = bench.app.begin_profile(None).unwrap();
    bench.give(&worker, "/responded");
    bench.give(&worker, "/left");
    bench.respond(&worker, 2);
    worker.reset(3, ResetCode::CANCELLED, "the client has gone");
    for stream in 1..=3 {
        bench.send(&worker, stream, 0, &[("app", "1")]);
    }
    let wanted = [("(unknown request);app", 1), ("GET /left;app", 1), ("GET /responded;app", 1)];
    assert_eq!(sorted(&profile.totals()), wanted);
}

#[test]
fn a_route_leaves_all_others_out() {
    let mut bench = Bench::new();
    let worker = bench.new_worker();
    let profile = bench.app.begin_profile(Some("/search")).unwrap();
    bench.give(&worker, "/search");
    bench.give(&worker, "/");
    for request in 0..=2 {
        bench.send(&worker, request, 1, &[("app;a", "1")]);
    }
    let totals = profile.totals();
    assert_eq!(sorted(&totals), [("GET /search;app;a", 1)]);
    assert_eq!(totals.dropped, 3, "of which request they were is not known any more");
}

#[test]
fn one_profile_at_a_time_and_nothing_is_kept_without() {
    let mut bench = Bench::new();
    let worker = bench.new_worker();
    bench.give(&worker, "/");
    bench.send(&worker, 1, 0, &[("app;before", "1")]);
    let profile = bench.app.begin_profile(None).unwrap();
    assert!(bench.app.begin_profile(None).is_none());
    drop(profile);
    assert!(worker.lock().profile.is_none());
    bench.send(&worker, 1, 0, &[("app;between", "1")]);
    let profile = bench.app.begin_profile(None).unwrap();
    assert_eq!(sorted(&profile.totals()), []);
}

#[test]
fn a_worker_that_comes_later_takes_part() {
    let mut bench = Bench::new();
    let profile = bench.app.begin_profile(None).unwrap();
    let worker = bench.new_worker();
    bench.give(&worker, "/");
    bench.send(&worker, 1, 0, &[("app", "7")]);
    assert_eq!(sorted(&profile.totals()), [("GET /;app", 7)]);
}

#[test]
fn whatever_a_worker_sends_is_one_line_and_has_a_time() {
    let mut bench = Bench::new();
    let worker = bench.new_worker();
    let profile = bench.app.begin_profile(None).unwrap();
    bench.give(&worker, "/a;b");
    bench.send(
        &worker,
        1,
        0,
        &[("app;x\ny\u{1b}[2J", "18446744073709551615"), ("app;z", "-1"), ("app;z", "")],
    );
    bench.send(&worker, 1, 0, &[("app;x\ny\u{1b}[2J", "1")]);
    let long = format!("app;{}", "x".repeat(60_000));
    bench.send(&worker, 1, 0, &[(&long, "1")]);
    let totals = profile.totals();
    assert_eq!(totals.stacks["GET /a,b;app;x y [2J"], u64::MAX);
    assert_eq!(totals.dropped, 2);
    assert!(totals.stacks.keys().all(|stack| stack.len() <= LONGEST + 100));
}

#[test]
fn stacks_are_bounded() {
    let mut totals = ProfileTotals::default();
    for stack in 0..STACKS + 3 {
        totals.add(stack.to_string(), 1);
    }
    totals.add("0".to_owned(), 1);
    assert_eq!((totals.stacks.len(), totals.dropped, totals.stacks["0"]), (STACKS, 3, 2));
}

#[test]
fn older_adapters_are_named() {
    let mut bench = Bench::new();
    bench.new_worker();
    bench.worker(&[("adapter", "python/0.0.9")]);
    bench.worker(&[("adapter", "python/0.0.9")]);
    let workers = bench.app.profiled_workers();
    assert_eq!(workers.len(), 3);
    assert_eq!(too_old(&workers), BTreeMap::from([("python/0.0.9".into(), 2)]));
}
