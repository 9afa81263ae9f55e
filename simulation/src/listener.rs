//! The front door as worlds `front` and `http2` have it, over TLS, behind a proxy that sends PROXY headers, and with strangers among the clients.

use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{Rng, Settings};

use crate::front::Front;
use crate::http2::Http2;
use crate::plan::Smaller;
use crate::run::Scenario;
use crate::transport::TransportPlan;

/// A front door with its clients and workers.
#[derive(Debug, Clone)]
pub(crate) enum Listener {
    Front(Box<Front>),
    Http2(Box<Http2>),
}

impl Scenario for Listener {
    fn generate(seed: u64) -> Self {
        // Other draws than the world's below.
        let mut rng = Rng::new(!seed);
        if rng.chance(600) {
            let mut front = Front::generate(seed);
            front.transport = TransportPlan::draw(&mut rng, front.clean, front.is_limited());
            front.speaks_over_tls();
            Self::Front(Box::new(front))
        } else {
            let mut http2 = Http2::generate(seed);
            http2.transport = TransportPlan::draw(&mut rng, http2.clean, http2.is_limited());
            http2.speaks_over_tls();
            Self::Http2(Box::new(http2))
        }
    }

    fn settings(&self) -> Settings {
        match self {
            Self::Front(front) => front.settings(),
            Self::Http2(http2) => http2.settings(),
        }
    }

    fn bound(&self) -> Duration {
        match self {
            Self::Front(front) => front.bound(),
            Self::Http2(http2) => http2.bound(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Front(front) => front.memory(),
            Self::Http2(http2) => http2.memory(),
        }
    }

    async fn play(self: Rc<Self>) {
        match &*self {
            Self::Front(front) => Rc::new(Front::clone(front)).play().await,
            Self::Http2(http2) => Rc::new(Http2::clone(http2)).play().await,
        }
    }

    fn smaller(&self) -> Vec<Self> {
        match self {
            Self::Front(front) => {
                let mut smaller = Smaller::than(&**front);
                smaller.plans.extend(front.smaller());
                TransportPlan::smaller(&mut smaller, |plan| &mut plan.transport);
                smaller.plans.into_iter().map(|plan| Self::Front(Box::new(plan))).collect()
            }
            Self::Http2(http2) => {
                let mut smaller = Smaller::than(&**http2);
                smaller.plans.extend(http2.smaller());
                TransportPlan::smaller(&mut smaller, |plan| &mut plan.transport);
                smaller.plans.into_iter().map(|plan| Self::Http2(Box::new(plan))).collect()
            }
        }
    }
}
