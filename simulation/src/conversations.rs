//! Conversations that are named, where a world would meet them too rarely: `tests/conversations.rs` has them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::Endpoint;
use keepwarm_net::simulation::{self, Settings};
use keepwarm_serve::{ConnectionLimits, StopListening};

use crate::client::{self, BodyPlan, ClientPlan, Disconnect, RequestPlan};
use crate::response::Pace;
use crate::run::{self, Scenario};
use crate::tls::TlsPlan;
use crate::transport::{Transport, TransportPlan};
use crate::worker::{self, BodyRead, Fault, Observations, ResponseKind, ResponsePlan, Responses, WorkerPlan};
use crate::{plan, site};

/// A request that is larger than the socket buffers.
#[derive(Debug, Clone)]
struct Upload {
    /// The reactor refuses this many registrations of its worker's socket: the one that reports room, the one before it, and again.
    refused: u32,
    /// It comes over TLS, and expects `100 Continue`.
    over_tls: bool,
}

const ADDRESS: &str = "192.0.2.10:80";
const LENGTH: usize = 10_000;

impl Scenario for Upload {
    fn generate(seed: u64) -> Self {
        Self { refused: seed as u32, over_tls: false }
    }

    fn settings(&self) -> Settings {
        let size = if self.over_tls { 4 } else { 512 };
        Settings { capacity: (size, size), ..Settings::default() }
    }

    fn bound(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn memory(&self) -> usize {
        8 << 20
    }

    async fn play(self: Rc<Self>) {
        let seen = Rc::new(RefCell::new(Observations::default()));
        let worker = WorkerPlan { blocking: true, streams: 1, ahead: 0, credit_step: 1 };
        let responses: Responses = Rc::new(|_| Some((0, response())));
        let remotes = plan::remotes(1);
        let app = {
            let seen = Rc::clone(&seen);
            site::app(&remotes, site::policy(1), true, move |peer, kill| {
                worker::run(peer, worker.clone(), Rc::clone(&responses), Rc::clone(&seen), kill)
            })
        };
        let edge = site::edge(&app, None);
        let tls = self.over_tls.then_some(TlsPlan::FAST);
        let transport = Transport::new(&TransportPlan { tls, ..TransportPlan::PLAIN }, ADDRESS, false);
        let (open, stops) = site::listen_over(&transport, &remotes, edge, ConnectionLimits::default(), 100);
        // The worker has said hello by then.
        tokio::time::sleep(Duration::from_millis(10)).await;
        simulation::refuse_watches(self.refused);
        let mut plan = client();
        plan.requests[0].expects = self.over_tls;
        let broken = client::run(
            &plan,
            transport.connect(0),
            0,
            |_| (0, "/".to_owned()),
            |_, outcome| assert_eq!(outcome.head.status, 200, "{outcome:?}"),
        )
        .await;
        plan::judge(0, &plan, broken, true, false);
        assert_eq!(seen.borrow().whole[&0], LENGTH);
        stops.iter().for_each(StopListening::hand_over);
        site::until_closed(&open, Duration::from_secs(5)).await;
    }

    fn smaller(&self) -> Vec<Self> {
        Vec::new()
    }
}

fn client() -> ClientPlan {
    let request = RequestPlan {
        method: "POST",
        body: BodyPlan::Length(LENGTH),
        expects: false,
        takes_trailers: false,
        tunnel: None,
    };
    ClientPlan {
        start: Duration::ZERO,
        piece: usize::MAX,
        every: usize::MAX,
        pause: Duration::ZERO,
        pipelines: false,
        pace: Pace::FAST,
        late: false,
        leave: Disconnect::Never,
        accepts: None,
        requests: vec![request],
    }
}

fn response() -> ResponsePlan {
    ResponsePlan {
        status: 200,
        informs: 0,
        delay: Duration::ZERO,
        reads: BodyRead::Before,
        body: 2,
        frames: None,
        pause: Duration::ZERO,
        declares: true,
        trailers: 0,
        close: false,
        fault: Fault::None,
        kind: ResponseKind::Plain,
    }
}

/// More handshakes than a thread may have begun (512) stand still when a client comes.
#[derive(Debug, Clone)]
struct Crowd;

const STRANGERS: usize = 600;
const AT_ONCE: usize = 512;

impl Scenario for Crowd {
    fn generate(_: u64) -> Self {
        Self
    }

    fn settings(&self) -> Settings {
        Settings { capacity: (4096, 4096), ..Settings::default() }
    }

    fn bound(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn memory(&self) -> usize {
        64 << 20
    }

    async fn play(self: Rc<Self>) {
        let remotes = plan::remotes(1);
        let responses: Responses = Rc::new(|_| Some((0, response())));
        let worker = WorkerPlan { blocking: true, streams: 1, ahead: 0, credit_step: 1 };
        let seen = Rc::new(RefCell::new(Observations::default()));
        let app = site::app(&remotes, site::policy(1), true, move |peer, kill| {
            worker::run(peer, worker.clone(), Rc::clone(&responses), Rc::clone(&seen), kill)
        });
        let over_tls = TransportPlan { tls: Some(TlsPlan::FAST), ..TransportPlan::PLAIN };
        let transport = Transport::new(&over_tls, ADDRESS, false);
        let edge = site::edge(&app, None);
        let (open, stops) = site::listen_over(&transport, &remotes, edge, ConnectionLimits::default(), 1000);
        let endpoint = Endpoint::Tcp(ADDRESS.parse().expect("an address"));
        let strangers: Vec<_> =
            (0..STRANGERS).map(|_| simulation::connect(&endpoint).expect("a listener")).collect();
        // The begin of a ClientHello.
        for stranger in &strangers {
            stranger.write(b"\x16\x03\x01").await.expect("room");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(open.count(), AT_ONCE, "the oldest are given up, and no others");
        let plan = client();
        let connect = transport.connect(0);
        let check = |_, outcome: &client::Outcome| assert_eq!(outcome.head.status, 200, "{outcome:?}");
        let broken = client::run(&plan, connect, 0, |_| (0, "/".to_owned()), check).await;
        plan::judge(0, &plan, broken, true, false);
        drop(strangers);
        stops.iter().for_each(StopListening::hand_over);
        site::until_closed(&open, Duration::from_secs(3)).await;
    }

    fn smaller(&self) -> Vec<Self> {
        Vec::new()
    }
}

/// See the test of this name.
///
/// # Errors
///
/// What did not hold.
pub fn handshakes_that_stand_still_keep_nobody_out() -> Result<(), String> {
    converse(&Crowd)
}

/// The same where the reactor refuses `refused` watches.
///
/// # Errors
///
/// What did not hold.
pub fn a_worker_gets_its_request(refused: u32) -> Result<(), String> {
    converse(&Upload { refused, over_tls: false })
}

/// What TLS has taken of a `100 Continue` and the socket has not was forgotten.
///
/// # Errors
///
/// What did not hold.
pub fn a_client_is_told_to_continue_over_tls() -> Result<(), String> {
    converse(&Upload { refused: 0, over_tls: true })
}

fn converse(scenario: &impl Scenario) -> Result<(), String> {
    run::prepare();
    run::play(0, scenario).map(drop)
}
