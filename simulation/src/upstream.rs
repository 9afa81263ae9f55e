//! The back door as world `door` has it, to an upstream that speaks HTTP/2, or under TLS.

use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::Protocol;
use keepwarm_net::simulation::{Rng, Settings};

use crate::client::BodyPlan;
use crate::door::{Door, OriginTransport};
use crate::frames::FramePlan;
use crate::http2_origin::{Goaway, Http2Plan};
use crate::origin::{Framing, OriginPlan};
use crate::pipe::{Cut, PipePlan};
use crate::plan::Smaller;
use crate::response::Pace;
use crate::run::Scenario;
use crate::sizes::near_boundary;
use crate::tls::{Ending, TlsPlan};
use crate::worker::Fault;

/// A back door with its clients and its origin.
#[derive(Debug, Clone)]
pub(crate) struct Upstream(Door);

impl Scenario for Upstream {
    fn generate(seed: u64) -> Self {
        let mut door = Door::generate(seed);
        // Other draws than the door's.
        let mut rng = Rng::new(!seed);
        let http2 = rng.chance(600);
        let tls = (!http2 || rng.chance(400)).then(|| TlsPlan::draw(&mut rng, door.clean));
        let protocol = match (http2, tls.is_some()) {
            (true, true) => *rng.pick(&[Protocol::Http2, Protocol::Auto]),
            (true, false) => Protocol::Http2,
            (false, _) => *rng.pick(&[Protocol::Http1, Protocol::Auto]),
        };
        let alpn = http2 || rng.chance(700);
        door.transport = OriginTransport { protocol, alpn, tls, http2: None, connections: None };
        if http2 {
            let responses = door.clients.iter_mut().flat_map(|(_, responses)| responses);
            responses.for_each(|response| speak_http2(&mut rng, door.clean, response));
            for (client, responses) in &mut door.clients {
                client.requests.iter_mut().for_each(|request| request.tunnel = None);
                responses.iter_mut().for_each(|response| response.tunnel = None);
            }
            let waits = rng.chance(200) && (!door.clean || is_small_talk(&mut door));
            let mut plan = plan(&mut rng, door.clean, sizes(&door));
            if waits {
                plan.waits = true;
                // What the client owes a response to keeps it from reading while it cannot write: both would wait for each other.
                plan.frames.strays = if door.clean { 0 } else { plan.frames.strays };
            }
            door.transport.http2 = Some(plan);
            door.transport.connections = *rng.pick(&[None, Some(1), Some(2)]);
        } else if let Some(tls) =
            door.transport.tls.as_mut().filter(|tls| tls.ending == Ending::Cuts && door.clean)
        {
            let mut framings = door.clients.iter().flat_map(|(_, responses)| responses);
            if framings.any(|response| response.framing == Framing::Close) {
                tls.ending = Ending::Whole;
            }
        }
        Self(door)
    }

    fn settings(&self) -> Settings {
        self.0.settings()
    }

    fn bound(&self) -> Duration {
        self.0.bound()
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }

    async fn play(self: Rc<Self>) {
        Rc::new(self.0.clone()).play().await;
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        smaller.plans.extend(self.0.smaller().into_iter().map(Self));
        smaller.with(|plan| plan.0.transport.connections.take().is_some());
        Http2Plan::smaller(&mut smaller, |plan| plan.0.transport.http2.as_mut());
        TlsPlan::smaller(&mut smaller, |plan| plan.0.transport.tls.as_mut());
        smaller.plans
    }
}

/// Requests become so small that the client's library takes them whole, whatever their result: it keeps reading. With larger ones, the two could wait for each other
/// until a timeout frees them, since it reads nothing while it owes a response to a PING or SETTINGS and a DATA frame has not left, nor before its preface has.
/// `false`: they do not, or a pipe does not hold that.
fn is_small_talk(door: &mut Door) -> bool {
    const SMALL: usize = 200;
    const PREFACE: usize = 512;
    let mut requests = door.clients.iter().flat_map(|(client, _)| &client.requests);
    if door.settings().capacity.0 < PREFACE || requests.any(|request| request.is_broken()) {
        return false;
    }
    let requests = door.clients.iter_mut().flat_map(|(client, _)| &mut client.requests);
    requests.for_each(|request| match &mut request.body {
        BodyPlan::Length(size) | BodyPlan::Chunked { size, .. } => *size = (*size).min(SMALL),
        BodyPlan::None | BodyPlan::Broken { .. } => {}
    });
    true
}

/// An HTTP/2 origin's plan for a request.
pub(crate) fn speak_http2(rng: &mut Rng, clean: bool, response: &mut OriginPlan) {
    response.noise = None;
    response.closes = None;
    if !clean && rng.chance(100) {
        response.fault = *rng.pick(&[Fault::Refuses, Fault::Resets]);
    }
}

/// Bytes that an origin sends and gets, roughly.
fn sizes(door: &Door) -> (usize, usize) {
    let responses = door.clients.iter().flat_map(|(_, responses)| responses);
    let requests = door.clients.iter().flat_map(|(client, _)| &client.requests);
    (
        responses.map(|response| 200 + response.body).sum(),
        requests.map(|request| 200 + request.body.size()).sum(),
    )
}

/// The plan of an origin that sends and gets these many bytes.
pub(crate) fn plan(rng: &mut Rng, clean: bool, (sent, got): (usize, usize)) -> Http2Plan {
    // Each window update takes its time.
    let window = |rng: &mut Rng| (*rng.pick(&[1, 100, 65_535, 65_535, 1 << 20])).max((got / 100) as u32);
    let later = Duration::from_millis(*rng.pick(&[0, 1, 50, 500]));
    let (streams, becomes) = match rng.below(6) {
        0 => (Some(1), None),
        1 => (Some(100), Some((later, 1))),
        2 => (Some(0), Some((later, 1))),
        3 => (None, Some((later, *rng.pick(&[1, 3])))),
        4 if !clean => (Some(*rng.pick(&[0, 1])), Some((later, 0))),
        _ => (None, None),
    };
    let goes = Duration::from_millis(rng.size(1000) as u64);
    // A call that meets it on each connection is given up.
    let first = if clean { 1 } else { *rng.pick(&[1, 2, usize::MAX]) };
    let goaway = match rng.below(if clean { 10 } else { 5 }) {
        0 => Some((first, goes, Goaway::Gently)),
        1 if !clean => Some((first, goes, Goaway::Abruptly)),
        _ => None,
    };
    let cuts = [Cut::Closes, Cut::Resets, Cut::HalfCloses, Cut::Stops];
    let points = [rng.below(26), rng.below(300), rng.below(sent)];
    let cut = (*rng.pick(&points), *rng.pick(&cuts));
    let longest = if clean { 500 } else { 100_000 };
    Http2Plan {
        streams,
        becomes,
        window: (window(rng), window(rng)),
        connection_window: *rng.pick(&[65_535, 65_535, 1 << 20]),
        goaway,
        refuses: if clean { 0 } else { *rng.pick(&[0, 0, 0, 1, 2]) },
        frames: frames(rng, clean, sent),
        pipe: PipePlan {
            reads: Pace::draw(rng, got),
            writes: Pace::draw(rng, sent),
            cut: (!clean && rng.chance(300)).then_some(cut),
            stall: rng
                .chance(100)
                .then(|| (near_boundary(rng, got), Duration::from_millis(rng.between(1, longest) as u64))),
        },
        waits: false,
    }
}

fn frames(rng: &mut Rng, clean: bool, sent: usize) -> FramePlan {
    if rng.chance(400) {
        return FramePlan::PLAIN;
    }
    FramePlan {
        heads: *rng.pick(&[1, 2, 5]),
        pads: rng.chance(500),
        // The `h2` crate ends a connection with too many small frames that are still unread.
        data: (*rng.pick(&[100, 4000, usize::MAX])).max(sent / 1000),
        strays: *rng.pick(&[0, 100, 500]),
        late: Duration::from_millis(*rng.pick(&[0, 0, 1, 20])),
        goaway: None,
        wrong: if !clean && rng.chance(200) { 30 } else { 0 },
    }
}
