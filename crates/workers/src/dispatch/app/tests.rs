//! An app and its workers without sockets: a test is the supervisor, the clients and the workers.

use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, Waker};

use keepwarm_net::DataPlane;
use keepwarm_telemetry::RequestId;
use keepwarm_wire::encode::{ResponseWriter, encode_drain};
use keepwarm_wire::frame::{FromWorker, flags, frame_flags};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use super::*;
use crate::dispatch::driver::hear;
use crate::dispatch::kind::{LinkKind, RequestKind};
use crate::dispatch::tests::{hello, request};
use crate::supervisor::{LinkEvent, WorkerKey, WorkerLink};

mod random;

struct Bench {
    app: Arc<App>,
    /// Of its own, if it has one.
    plane: Option<DataPlane>,
    remotes: Vec<Remote>,
    next_pid: u32,
    events: UnboundedReceiver<LinkEvent>,
    sender: tokio::sync::mpsc::UnboundedSender<LinkEvent>,
}

impl Bench {
    fn new() -> Self {
        let plane = DataPlane::start(2).unwrap();
        let mut bench = Self::on(plane.remotes().to_vec());
        bench.plane = Some(plane);
        bench
    }

    fn on(remotes: Vec<Remote>) -> Self {
        let app = App::new("shop", AppPolicy::of_one_worker());
        let (sender, events) = unbounded_channel();
        Self { app, plane: None, remotes, next_pid: 1, events, sender }
    }

    /// A worker of this generation that has said nothing yet.
    fn adopt(&mut self, generation: u64) -> Arc<Link> {
        let pid = self.next_pid;
        self.next_pid += 1;
        let key = WorkerKey { app: "shop".into(), number: pid, generation, pid };
        let remote = self.remotes[pid as usize % self.remotes.len()].clone();
        // Nobody reads at the other end: what is written is lost.
        let (ours, _) = UnixStream::pair().unwrap();
        Arc::new(Link::new(key, &self.app, remote, LinkKind::Wire(ours.into()), self.sender.clone()))
    }

    /// Sends HELLO with `streams` concurrent requests.
    fn hello(&self, link: &Arc<Link>, streams: u32) {
        self.hello_as(link, streams, "wsgi");
    }

    fn hello_as(&self, link: &Arc<Link>, streams: u32, kind: &str) {
        self.hello_with(link, streams, kind, "0");
    }

    /// Up to `ahead` requests may wait at the worker behind the active one.
    fn hello_with(&self, link: &Arc<Link>, streams: u32, kind: &str, ahead: &str) {
        let [first, second] = match kind {
            "asgi" => ["websocket", "half_close"],
            _ => ["blocking", "cgi_names"],
        };
        let about = [("kind", kind), (first, "1"), (second, "1"), ("ahead", ahead)];
        hear(link, &self.app, &hello(streams, &about));
    }

    /// A worker that is ready.
    fn worker(&mut self, generation: u64, streams: u32) -> Arc<Link> {
        let link = self.adopt(generation);
        self.hello(&link, streams);
        link
    }

    /// A request of a client. `Err`: it was refused.
    fn request(&self) -> Result<Arc<Call>, SubmitError> {
        let call = new_call();
        self.submit(&call, request(0, 100), 0, false)?;
        Ok(call)
    }

    fn submit(
        &self,
        call: &Arc<Call>,
        frame: Vec<u8>,
        thread: usize,
        again: bool,
    ) -> Result<(), SubmitError> {
        let call = Arc::clone(call);
        let job = QueuedRequest {
            call,
            kind: RequestKind::Wire(frame),
            thread,
            session: None,
            avoid: None,
            since: Instant::now(),
        };
        self.app.submit(job, again)
    }

    /// The worker sends the whole response to its oldest request.
    fn respond(&self, link: &Arc<Link>) {
        let stream = *link.lock().calls.keys().min().expect("a request");
        respond(link, &self.app, stream);
    }

    fn drain_of_its_own(&self, link: &Arc<Link>) {
        let mut bytes = Vec::new();
        encode_drain(&mut bytes);
        hear(link, &self.app, &bytes);
    }

    /// A reload that has succeeded: as the supervisor does it.
    fn reload(&self, generation: u64, old: &[&Arc<Link>]) {
        self.app.promote(generation);
        old.iter().for_each(|link| link.retire());
    }
}

fn new_call() -> Arc<Call> {
    let summary = RequestSummary {
        id: RequestId::new(1),
        method: http::Method::POST,
        route: Some("/*".into()),
        path: 0,
    };
    Call::new(summary)
}

fn respond(link: &Arc<Link>, app: &Arc<App>, stream: u32) {
    let mut bytes = Vec::new();
    ResponseWriter::begin(&mut bytes, stream, 200).finish(flags::END).unwrap();
    hear(link, app, &bytes);
}

/// DRAIN was sent to it.
fn drained(link: &Arc<Link>) -> bool {
    link.lock().session.is_draining()
}

fn holder(call: &Arc<Call>) -> Option<u32> {
    call.given().map(|(link, _)| link.key.pid)
}

fn item(call: &Arc<Call>) -> Option<Item> {
    match call.poll_item(&Context::from_waker(Waker::noop())) {
        Poll::Ready(item) => Some(item),
        Poll::Pending => None,
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.plane.take().into_iter().for_each(DataPlane::stop);
    }
}

#[test]
fn a_reload_soon_after_a_failed_one_gives_nothing_to_workers_of_the_failed() {
    let mut bench = Bench::new();
    let old = bench.worker(1, 1);
    let failed = bench.worker(2, 1);
    // Another one of that generation did not start: this one is told to go, and has not gone yet.
    failed.retire();
    assert!(drained(&failed));
    let new = bench.worker(3, 1);
    bench.reload(3, &[&old]);
    let (first, second) = (bench.request().unwrap(), bench.request().unwrap());
    assert_eq!((holder(&first), holder(&second)), (Some(new.key.pid), None));
    assert_eq!(bench.app.activity().iter().filter(|it| it.worker.generation == 2).count(), 0);
}

#[test]
fn a_worker_that_becomes_ready_after_it_was_told_to_go_gets_nothing() {
    let mut bench = Bench::new();
    let old = bench.worker(1, 1);
    let (late, later) = (bench.adopt(1), bench.adopt(2));
    // A replacement that starts while a reload ends its generation, and one of a reload that failed.
    [&late, &later].into_iter().for_each(|link| link.retire());
    assert!(!drained(&late), "DRAIN does not come before HELLO");
    [&late, &later].into_iter().for_each(|link| bench.hello(link, 1));
    let new = bench.worker(3, 1);
    bench.reload(3, &[&old]);
    let calls = [0; 3].map(|_| holder(&bench.request().unwrap()));
    assert_eq!(calls, [Some(new.key.pid), None, None]);
    assert!(drained(&late) && drained(&later));
}

#[test]
fn a_worker_that_asks_to_go_before_its_generation_serves_is_not_given_a_request() {
    let mut bench = Bench::new();
    let old = bench.worker(1, 1);
    let asks = bench.worker(2, 1);
    bench.drain_of_its_own(&asks);
    let condemned = bench.worker(2, 1);
    condemned.expect_kill(crate::supervisor::KillReason::Memory);
    let new = bench.worker(2, 1);
    bench.reload(2, &[&old]);
    assert_eq!(holder(&bench.request().unwrap()), Some(new.key.pid));
    assert_eq!(holder(&bench.request().unwrap()), None);
}

#[test]
fn what_workers_of_a_failed_reload_say_about_themselves_is_not_the_apps() {
    let mut bench = Bench::new();
    bench.worker(1, 1);
    let failed = bench.adopt(2);
    bench.hello_as(&failed, 100, "asgi");
    failed.retire();
    assert!(bench.app.is_blocking() && bench.app.builds_cgi_names());
    assert_eq!(bench.app.description().as_deref(), Some("WSGI, unknown"));
}

#[test]
fn a_place_is_given_back_when_drain_comes_between_taking_it_and_the_request() {
    let mut bench = Bench::new();
    let asks = bench.worker(1, 2);
    let held = bench.request().unwrap();
    // The session knows of it, the queue does not yet.
    let mut bytes = Vec::new();
    encode_drain(&mut bytes);
    let (frame, _) = FromWorker::decode(&bytes).unwrap().unwrap();
    asks.lock().session.handle_frame(frame).unwrap();
    let refused = bench.request().unwrap();
    assert!(matches!(item(&refused), Some(Item::Lost { unprocessed: true, kill_reason: None })));
    // It is the other one's worker still, and is done with that.
    assert_eq!(bench.app.state().queue.in_work(), 1);
    bench.respond(&asks);
    assert_eq!((bench.app.state().queue.in_work(), holder(&held)), (0, Some(asks.key.pid)));
    let events: Vec<LinkEvent> = std::iter::from_fn(|| bench.events.try_recv().ok()).collect();
    assert!(events.iter().any(|event| matches!(event, LinkEvent::WantsDrain { .. })), "{events:?}");
}

/// It arrived before the first HELLO said what the app speaks.
#[test]
fn an_opening_that_waits_for_the_first_worker_is_a_websocket_where_that_is_asgi() {
    for (kind, streams, accepts) in [("asgi", 100, true), ("wsgi", 4, false)] {
        let mut bench = Bench::new();
        let link = bench.adopt(1);
        let call = new_call();
        let frame = request(flags::END | flags::WEBSOCKET, 100);
        let job = QueuedRequest {
            call: Arc::clone(&call),
            kind: RequestKind::Wire(frame),
            thread: 0,
            session: None,
            avoid: None,
            since: Instant::now(),
        };
        bench.app.submit(job, false).unwrap();
        bench.app.promote(1);
        bench.hello_as(&link, streams, kind);
        let (_, stream) = call.given().unwrap();
        let mut bytes = Vec::new();
        ResponseWriter::begin(&mut bytes, stream, 101).finish(0).unwrap();
        let (response, _) = FromWorker::decode(&bytes).unwrap().unwrap();
        assert_eq!(link.lock().session.handle_frame(response).is_ok(), accepts, "{kind}");
        let frame = call.take_frame();
        assert_eq!(frame_flags(&frame) & flags::WEBSOCKET != 0, accepts, "{kind}");
    }
}
