//! What is certain about a request whose worker died. The test plays the worker at the other end of the socket, and reads nothing.

use std::os::unix::net::UnixStream;

use http::Method;
use keepwarm_net::DataPlane;
use keepwarm_telemetry::RequestId;
use keepwarm_wire::encode::encode_hello;
use keepwarm_wire::frame::{FromWorker, Hello, Strings};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use super::super::app::AppPolicy;
use super::*;

struct Bench {
    link: Arc<Link>,
    events: UnboundedReceiver<LinkEvent>,
    _app: Arc<App>,
    _worker: UnixStream,
    plane: Option<DataPlane>,
}

impl Bench {
    /// A worker that takes so many requests at once.
    fn new(streams: u32) -> Self {
        let app = App::new("shop", AppPolicy::of_one_worker());
        let (ours, worker) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (sender, events) = unbounded_channel();
        let plane = DataPlane::start(1).unwrap();
        let key = WorkerKey { app: "shop".into(), number: 1, generation: 1, pid: 1 };
        let link =
            Arc::new(Link::new(key, &app, plane.remotes()[0].clone(), Some(ours.into()), None, sender));
        let said = Hello {
            version: 1,
            streams,
            stream_credit: 65_536,
            connection_credit: 65_536,
            about: Strings::default(),
        };
        let mut bytes = Vec::new();
        encode_hello(&mut bytes, &said, std::iter::empty::<(&[u8], &[u8])>()).unwrap();
        let (hello, _) = FromWorker::decode(&bytes).unwrap().unwrap();
        let mut inner = link.lock();
        inner.session.handle_frame(hello).unwrap();
        inner.in_order = streams == 1;
        drop(inner);
        Self { link, events, _app: app, _worker: worker, plane: Some(plane) }
    }

    /// Gives it a request with so many bytes.
    fn give(&self, length: usize) -> Arc<Call> {
        let about = About { id: RequestId::new(1), method: Method::GET, route: Some("/*".into()) };
        let call = Call::new(about);
        let frame = vec![0; HEADER_LEN + length];
        let job = Job {
            call: Arc::clone(&call),
            frame,
            websocket: false,
            thread: 0,
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
    let remains = bench.link.die(true);
    assert_eq!((remains.calls.len(), remains.unread), (3, Some(3)));
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

#[test]
fn the_first_reason_to_kill_it_counts_and_names_the_culprit() {
    let mut bench = Bench::new(2);
    let call = bench.give(100);
    bench.link.give_up(Some(&call.about), "hangs");
    bench.link.condemn(Verdict::Memory);
    assert!(matches!(bench.events.try_recv(), Ok(LinkEvent::Stuck { .. })));
    let condemned = bench.link.die(false).condemned.unwrap();
    assert_eq!(condemned.verdict, Verdict::TimedOut);
    assert_eq!(condemned.culprit.unwrap().to_string(), "GET /*");
}

#[test]
fn activity_tells_what_it_works_on_and_what_waits_there() {
    let bench = Bench::new(1);
    assert_eq!(bench.link.activity().taken, 0);
    let call = bench.give(100);
    let activity = bench.link.activity();
    assert_eq!((activity.taken, activity.in_hand.len()), (1, 1));
    assert!(activity.in_hand[0].age.is_some());
    assert_eq!(activity.in_hand[0].about.to_string(), "GET /*");
    drop(call);
}

#[test]
fn a_worker_that_was_made_to_end_has_nobody_to_blame() {
    let bench = Bench::new(2);
    let _call = bench.give(100);
    bench.link.say_goodbye();
    assert!(bench.link.die(false).planned);
}
