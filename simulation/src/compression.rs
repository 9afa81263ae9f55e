//! The front door as world `front` has it, on a route that compresses responses, with clients that decode them.

use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{Rng, Settings};

use crate::client::ClientPlan;
use crate::front::Front;
use crate::plan::Smaller;
use crate::run::Scenario;
use crate::worker::{ResponseKind, ResponsePlan};

/// A front door with its clients and workers.
#[derive(Debug, Clone)]
pub(crate) struct Compression(Front);

/// What an encoder takes, and a decoder.
const MEMORY: usize = 8 << 20;

impl Scenario for Compression {
    fn generate(seed: u64) -> Self {
        let mut front = Front::generate(seed);
        // Other draws than the world's below.
        let mut rng = Rng::new(!seed);
        for (client, responses) in &mut front.clients {
            compress(&mut rng, client, responses);
        }
        front.compresses = true;
        Self(front)
    }

    fn settings(&self) -> Settings {
        self.0.settings()
    }

    fn bound(&self) -> Duration {
        self.0.bound()
    }

    fn memory(&self) -> usize {
        self.0.memory() + self.0.clients.len() * MEMORY
    }

    async fn play(self: Rc<Self>) {
        Rc::new(self.0.clone()).play().await;
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        smaller.plans.extend(self.0.smaller().into_iter().map(Self));
        for at in 0..self.0.clients.len() {
            smaller.with(|plan| plan.0.clients[at].0.accepts.take().is_some());
        }
        smaller.plans
    }
}

/// Responses of a type that is compressed, to a client that accepts that. The app sends the next part of some only once the client has decoded the part before.
fn compress(rng: &mut Rng, client: &mut ClientPlan, responses: &mut [ResponsePlan]) {
    client.accepts = Some(*rng.pick(&["gzip", "zstd"]));
    for (request, response) in client.requests.iter().zip(responses) {
        let has_body = request.method != "HEAD" && response.status == 200 && !request.is_broken();
        let lockstep = has_body && !client.pipelines && rng.chance(500);
        response.kind = ResponseKind::Text { lockstep };
        if lockstep {
            response.frames = Some((response.body / 10).max(1 + rng.size(1000)));
        }
    }
}
