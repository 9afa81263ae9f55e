//! Conversations that are named, where a world would meet them too rarely.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::Endpoint;
use keepwarm_net::simulation::{self, Settings};
use keepwarm_serve::{ConnectionLimits, StopListening};

use crate::client::{self, BodyPlan, ClientPlan, Disconnect, RequestPlan};
use crate::response::Pace;
use crate::run::{self, Scenario};
use crate::worker::{self, BodyRead, Fault, Observations, ResponsePlan, Responses, WorkerPlan};
use crate::{plan, site};

/// A request that is larger than its worker's socket buffer, while the reactor refuses this many registrations: the one that reports room, the one before it, and
/// again.
#[derive(Debug, Clone)]
struct Refused(u32);

const ADDRESS: &str = "192.0.2.10:80";
const LENGTH: usize = 10_000;

impl Scenario for Refused {
    fn generate(seed: u64) -> Self {
        Self(seed as u32)
    }

    fn settings(&self) -> Settings {
        Settings { capacity: (512, 512), ..Settings::default() }
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
        let (open, stops) = site::listen(&remotes, ADDRESS, edge, ConnectionLimits::default(), 100);
        // The worker has said hello by then.
        tokio::time::sleep(Duration::from_millis(10)).await;
        simulation::refuse_watches(self.0);
        let endpoint = Endpoint::Tcp(ADDRESS.parse().expect("an address"));
        let plan = client();
        let broken = client::run(
            &plan,
            async move { simulation::connect(&endpoint).ok() },
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
    }
}

#[test]
fn a_worker_gets_its_request_though_the_reactor_refuses_watches_for_a_while() {
    keepwarm_telemetry::per_thread::set_threads(3);
    run::catch_panics();
    for refused in 0..=12 {
        if let Err(failure) = run::play(0, &Refused(refused)) {
            panic!("where {refused} are refused: {failure}");
        }
    }
}
