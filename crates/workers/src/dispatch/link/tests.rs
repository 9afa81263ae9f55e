//! What is certain about a request whose worker died. The test plays the worker at the other end of the socket, and reads nothing.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake};
use std::time::Duration;

use http::Method;
use keepwarm_net::DataPlane;
use keepwarm_telemetry::RequestId;
use keepwarm_wire::encode::{
    ResponseWriter, encode_credit, encode_data, encode_drain, encode_inform, encode_pong,
};
use keepwarm_wire::frame::{FromWorker, HEADER_LEN, flags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use super::super::activity::RequestSummary;
use super::super::app::{AppPolicy, WorkerCapabilities};
use super::super::call::Item;
use super::super::driver::drive;
use super::super::kind::RequestKind;
use super::super::queue::QueuedRequest;
use super::super::tests::{hello, request};
use super::ping::LISTEN;
use super::*;
use crate::supervisor::{KillReason, WorkerLink};

struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(in crate::dispatch) struct Bench {
    pub(in crate::dispatch) link: Arc<Link>,
    events: UnboundedReceiver<LinkEvent>,
    _app: Arc<App>,
    pub(in crate::dispatch) worker: UnixStream,
    plane: Option<DataPlane>,
}

impl Bench {
    /// A worker that takes `streams` concurrent requests.
    pub(in crate::dispatch) fn new(streams: u32) -> Self {
        let app = App::new("shop", AppPolicy::of_one_worker());
        let (ours, worker) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (sender, events) = unbounded_channel();
        let plane = DataPlane::start(1).unwrap();
        let key = WorkerKey { app: "shop".into(), number: 1, generation: 1, pid: 1 };
        let link =
            Arc::new(Link::new(key, &app, plane.remotes()[0].clone(), LinkKind::Wire(ours.into()), sender));
        let bytes = hello(streams, &[]);
        let (hello, _) = FromWorker::decode(&bytes).unwrap().unwrap();
        let mut inner = link.lock();
        inner.session.handle_frame(hello).unwrap();
        inner.in_order = streams == 1;
        drop(inner);
        Self { link, events, _app: app, worker, plane: Some(plane) }
    }

    /// Gives it a request of `length` bytes.
    pub(in crate::dispatch) fn give(&self, length: usize) -> Arc<Call> {
        let summary =
            RequestSummary { id: RequestId::new(1), method: Method::GET, route: Some("/*".into()), path: 0 };
        let call = Call::new(summary);
        let frame = request(0, length);
        let job = QueuedRequest {
            call: Arc::clone(&call),
            kind: RequestKind::Wire(frame),
            thread: 0,
            session: None,
            avoid: None,
            since: Instant::now(),
        };
        self.link.give(job);
        call
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.plane.take().into_iter().for_each(DataPlane::stop);
    }
}

#[test]
fn of_several_requests_only_the_last_can_be_known_to_be_unread() {
    let bench = Bench::new(3);
    (0..3).for_each(|_| drop(bench.give(100)));
    let orphans = bench.link.die(true);
    assert_eq!((orphans.calls.len(), orphans.unread), (3, Some(3)));
}

#[test]
fn a_worker_that_had_read_everything_may_have_begun_everything() {
    let bench = Bench::new(3);
    (0..3).for_each(|_| drop(bench.give(100)));
    assert_eq!(bench.link.die(false).unread, None);
}

/// A POST would be given twice: what the worker had not read was a PING, and not the request.
#[test]
fn unread_bytes_that_came_behind_a_request_say_nothing_about_it() {
    let bench = Bench::new(3);
    let _call = bench.give(100);
    bench.link.ping();
    assert_eq!(bench.link.die(true).unread, None);
}

#[test]
fn what_was_never_written_was_never_read() {
    let bench = Bench::new(3);
    let _large = bench.give(1 << 20);
    let _behind = bench.give(100);
    assert_eq!(bench.link.die(false).unread, Some(2));
}

/// Without credit because others have filled the socket, a request hears of no frame that says otherwise.
#[test]
fn who_had_no_credit_while_the_socket_was_full_is_woken_when_it_is_not() {
    let mut bench = Bench::new(3);
    let call = bench.give(100);
    let woken = Arc::new(WakeFlag(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    call.wake_on_item(&Context::from_waker(&waker));
    let _large = bench.give(2 << 20);
    assert_eq!(bench.link.send_credit(1), 0);
    bench.worker.set_nonblocking(true).unwrap();
    let mut block = vec![0; 1 << 16];
    while bench.link.flush(Waker::noop()) != FlushResult::Nothing {
        assert_eq!(bench.link.send_credit(1) > 0, woken.0.load(Ordering::SeqCst));
        while bench.worker.read(&mut block).is_ok() {}
    }
    assert!(woken.0.load(Ordering::SeqCst) && bench.link.send_credit(1) > 0);
}

#[test]
fn the_first_reason_to_kill_it_counts_and_names_the_culprit() {
    let mut bench = Bench::new(2);
    let call = bench.give(100);
    bench.link.give_up(Some(&call.summary), "hangs");
    bench.link.expect_kill(KillReason::Memory);
    assert!(matches!(bench.events.try_recv(), Ok(LinkEvent::Stuck { .. })));
    let kill_cause = bench.link.die(false).kill_cause.unwrap();
    assert_eq!(kill_cause.kill_reason, KillReason::TimedOut);
    assert_eq!(kill_cause.culprit.unwrap().to_string(), "GET /*");
}

#[test]
fn activity_tells_what_it_works_on_and_what_waits_there() {
    let bench = Bench::new(1);
    assert_eq!(bench.link.activity().taken, 0);
    let call = bench.give(100);
    let activity = bench.link.activity();
    assert_eq!((activity.taken, activity.active_requests.len()), (1, 1));
    assert!(activity.active_requests[0].age.is_some());
    assert_eq!(activity.active_requests[0].summary.to_string(), "GET /*");
    drop(call);
}

#[test]
fn a_worker_that_was_made_to_end_has_nobody_to_blame() {
    let bench = Bench::new(2);
    let _call = bench.give(100);
    bench.link.say_goodbye();
    assert!(bench.link.die(false).planned);
}

#[test]
fn requests_that_are_given_together_leave_in_one_write() {
    let mut bench = Bench::new(3);
    bench.worker.set_nonblocking(true).unwrap();
    let mut seen = [0; 4096];
    // While no driver waits to be woken, nothing is left for it.
    let _first = keepwarm_net::corked(|| bench.give(10));
    assert_ne!(bench.worker.read(&mut seen).unwrap(), 0);
    let woken = Arc::new(WakeFlag(false.into()));
    assert_eq!(bench.link.flush(&Waker::from(Arc::clone(&woken))), FlushResult::Nothing);
    let _others = keepwarm_net::corked(|| [bench.give(10), bench.give(10)]);
    assert!(woken.0.load(Ordering::Relaxed), "the driver knows");
    assert_eq!(bench.worker.read(&mut seen).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(bench.link.flush(Waker::noop()), FlushResult::Nothing);
    let got = bench.worker.read(&mut seen).unwrap();
    let frames = std::iter::successors(Some(0), |at| {
        let length = seen[*at..at + 4].try_into().map(u32::from_be_bytes).unwrap();
        Some(at + HEADER_LEN + usize::try_from(length).unwrap()).filter(|next| *next <= got)
    });
    assert_eq!(frames.count(), 3, "two frames, and the end of the second");
}

/// Requests whose worker dies before they have left are certain not to have begun, as far as that is known of one that was written.
#[test]
fn a_request_that_waits_for_the_others_of_its_turn_is_unread() {
    let bench = Bench::new(3);
    assert_eq!(bench.link.flush(Waker::noop()), FlushResult::Nothing);
    let _call = keepwarm_net::corked(|| bench.give(10));
    assert!(bench.link.die(false).unread.is_some());
}

/// A waker that was registered only once the lock had been given up missed the write that came in between: the rest of a frame lay there until the worker said something.
#[test]
fn a_write_that_the_socket_does_not_take_whole_wakes_the_driver_at_once() {
    let bench = Bench::new(3);
    let woken = Arc::new(WakeFlag(false.into()));
    assert_eq!(bench.link.flush(&Waker::from(Arc::clone(&woken))), FlushResult::Nothing);
    let _small = bench.give(100);
    assert!(!woken.0.load(Ordering::Relaxed), "it was taken");
    let _large = bench.give(1 << 20);
    assert!(woken.0.swap(false, Ordering::Relaxed));
    assert_eq!(bench.link.flush(&Waker::from(Arc::clone(&woken))), FlushResult::ForRoom);
    assert!(!woken.0.load(Ordering::Relaxed), "it knows");
}

/// The driver's registration for room wants a descriptor (`EMFILE`), and what it had not written lay there until the worker said something. In a process of its own,
/// because the limit is the process's.
#[test]
fn the_rest_of_a_request_reaches_a_worker_where_no_descriptor_is_free() {
    const ALONE: &str = "KEEPWARM_TEST_ALONE";
    const NAME: &str = "the_rest_of_a_request_reaches_a_worker_where_no_descriptor_is_free";
    const LENGTH: usize = 1 << 20;
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let run = alone.arg(NAME).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let mut bench = Bench::new(1);
    let (link, socket) = (Arc::clone(&bench.link), bench.link.kind.socket().unwrap().try_clone().unwrap());
    let remote = bench.plane.as_ref().unwrap().remotes()[0].clone();
    remote.spawn(move || drive(link, socket));
    assert_ne!(bench.worker.read(&mut [0; 4096]).unwrap(), 0, "WELCOME");
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(4), maximum }).unwrap();
    let refused = bench.worker.try_clone().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));

    let _call = bench.give(LENGTH);
    // The driver has been woken before this, and waits for room.
    let (turned, turn) = std::sync::mpsc::channel();
    remote.spawn(move || async move { turned.send(()).unwrap() });
    turn.recv().unwrap();
    assert!(!bench.link.lock().unsent.is_empty());
    bench.worker.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    bench.worker.read_exact(&mut vec![0; HEADER_LEN + LENGTH]).expect("all of the request");
}

#[test]
fn a_worker_that_nobody_reads_from_is_replaced_and_its_requests_are_lost() {
    let mut bench = Bench::new(1);
    let held = bench.give(100);
    bench.link.abandon();
    let waiting = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(
        held.poll_item(&waiting),
        std::task::Poll::Ready(Item::Lost { unprocessed: false, .. })
    ));
    assert_eq!(kills(&mut bench.events), 1);
    let late = bench.give(100);
    assert!(matches!(late.poll_item(&waiting), std::task::Poll::Ready(Item::Lost { unprocessed: true, .. })));
}

/// What was sent to the supervisor.
fn kills(events: &mut UnboundedReceiver<LinkEvent>) -> usize {
    std::iter::from_fn(|| events.try_recv().ok())
        .filter(|event| matches!(event, LinkEvent::Kill { .. }))
        .count()
}

#[test]
fn a_panic_in_the_middle_of_a_change_has_the_worker_replaced() {
    let mut bench = Bench::new(3);
    let held = bench.give(100);
    let link = Arc::clone(&bench.link);
    let _ = keepwarm_telemetry::panics::catch(|| {
        let _inner = link.lock();
        panic!("while the link is locked");
    })
    .unwrap_err();
    // A later call, from any thread, has no effect and does no harm.
    let late = bench.give(100);
    let waiting = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(late.poll_item(&waiting), std::task::Poll::Ready(Item::Lost { unprocessed: true, .. })));
    assert!(bench.link.lock().dead);
    assert_eq!(kills(&mut bench.events), 1);
    // Its end takes what it held.
    let orphans = bench.link.die(false);
    assert!(orphans.calls.iter().any(|(_, call)| Arc::ptr_eq(call, &held)));
}

#[test]
fn a_panic_in_the_middle_of_a_change_of_the_queue_begins_the_app_anew() {
    let mut bench = Bench::new(1);
    let app = Arc::clone(&bench._app);
    app.welcome_worker(&bench.link, WorkerCapabilities::of_server(0, "wsgi", "CPython"));
    let summary = RequestSummary { id: RequestId::new(2), method: Method::GET, route: None, path: 0 };
    let call = Call::new(summary);
    let job = QueuedRequest {
        call: Arc::clone(&call),
        kind: RequestKind::Wire(request(0, 0)),
        thread: 0,
        session: None,
        avoid: None,
        since: Instant::now(),
    };
    app.submit(job, false).unwrap();
    assert_eq!(app.waiting(), 1);
    let _ = keepwarm_telemetry::panics::catch(|| {
        let _state = app.state();
        panic!("while the queue is locked");
    })
    .unwrap_err();
    assert_eq!(app.waiting(), 0);
    let waiting = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(call.poll_item(&waiting), std::task::Poll::Ready(Item::Refused(_))));
    assert_eq!(kills(&mut bench.events), 1);
    assert_eq!(app.state().queue.workers(), 0);
}

/// A request that kept a thread busy for seconds had idle workers killed: their PONG lay in its sockets.
#[test]
fn a_worker_is_not_silent_while_the_thread_that_reads_from_it_does_not_turn() {
    let bench = Bench::new(1);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = std::sync::mpsc::channel();
    bench.plane.as_ref().unwrap().remotes()[0].spawn(move || async move {
        begin.send(()).unwrap();
        let _ = held.recv();
    });
    begun.recv().unwrap();
    WorkerLink::ping(&*bench.link);
    // Far longer than its thread would have needed; a response would lie in the socket all that time.
    std::thread::sleep(3 * LISTEN);
    assert!(!bench.link.is_silent());
    drop(release);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !bench.link.is_silent() {
        assert!(std::time::Instant::now() < deadline, "it never responds");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All that one read brings is handled under one lock of the link, up to a frame that is about the connection and past it.
#[test]
fn frames_that_come_together_reach_their_requests() {
    let mut bench = Bench::new(3);
    let (link, socket) = (Arc::clone(&bench.link), bench.link.kind.socket().unwrap().try_clone().unwrap());
    let calls: Vec<Arc<Call>> = (0..3).map(|_| bench.give(100)).collect();
    let streams: Vec<u32> = calls.iter().map(|call| call.given().unwrap().1).collect();
    let (sender, mut alive) = tokio::sync::mpsc::channel(1);
    bench.link.ask(sender);
    let mut frames = Vec::new();
    let responds = |frames: &mut Vec<u8>, stream: u32| {
        let mut head = ResponseWriter::begin(frames, stream, 200);
        head.field(b"x-stream", stream.to_string().as_bytes());
        head.finish(flags::END).unwrap();
    };
    responds(&mut frames, streams[0]);
    encode_pong(&mut frames, *b"keepwarm");
    responds(&mut frames, streams[1]);
    encode_drain(&mut frames);
    responds(&mut frames, streams[2]);
    // Not before all of it lies in the socket.
    bench.worker.write_all(&frames).unwrap();
    bench.plane.as_ref().unwrap().remotes()[0].spawn(move || drive(link, socket));
    let event = bench.events.blocking_recv().unwrap();
    assert!(matches!(event, LinkEvent::WantsDrain { .. }), "{event:?}");
    assert!(alive.try_recv().is_ok(), "the PONG counts");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (call, stream) in calls.iter().zip(streams) {
        // The last may still be on its way from the driver's thread.
        let item = runtime.block_on(poll_fn(|cx| call.poll_item(cx)));
        let Item::Response { status: 200, end: true, fields, .. } = item else {
            panic!("{stream}: {item:?}")
        };
        let name: Vec<_> = fields.strings().pairs().collect();
        assert_eq!(name, [(&b"x-stream"[..], stream.to_string().as_bytes())]);
    }
}

/// A client that reads nothing has its task look at none of it.
#[test]
fn what_costs_a_worker_no_credit_is_not_kept_without_bound() {
    let bench = Bench::new(3);
    let call = bench.give(100);
    let stream = call.given().unwrap().1;
    let hear = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = Vec::new();
        write(&mut frame);
        super::super::driver::hear(&bench.link, &bench._app, &frame);
    };
    for _ in 0..1000 {
        hear(&|out| encode_inform(out, stream, 103, [(&b"link"[..], &b"</a.css>"[..])]).unwrap());
        hear(&|out| encode_credit(out, stream, 1).unwrap());
        hear(&|out| encode_credit(out, 0, 1).unwrap());
    }
    hear(&|out| ResponseWriter::begin(out, stream, 200).finish(0).unwrap());
    for _ in 0..1000 {
        hear(&|out| encode_data(out, stream, b"", false).unwrap());
    }
    hear(&|out| encode_data(out, stream, b"", true).unwrap());
    let waiting = std::task::Context::from_waker(Waker::noop());
    let items: Vec<Item> = std::iter::from_fn(|| match call.poll_item(&waiting) {
        std::task::Poll::Ready(item) => Some(item),
        std::task::Poll::Pending => None,
    })
    .collect();
    assert!(items.len() < 100, "{} items", items.len());
    assert!(matches!(items.last(), Some(Item::Data { over: true, .. })), "the end is kept");
}
