//! WebSockets: clients of RFC 6455, the edge, an app whose workers speak messages over the wire.

mod client;
mod deflate;
mod frames;
mod plan;
mod worker;

use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{self, Faults, Rng, Settings};
use keepwarm_net::{Endpoint, Remote};
use keepwarm_serve::{ConnectionLimits, StopListening, WebSocketLimits};
use keepwarm_workers::dispatch::AppPolicy;

use crate::plan::Smaller;
use crate::response::{Broken, Pace};
use crate::run::Scenario;
use crate::site;
use client::Outcome;
use plan::{AppFault, ClientEnd, Closer, ConversationPlan, LONGEST, MessagePlan, Offer, ReadMode};
use worker::{Conversations, ObservationsById, WorkerPlan};

/// An app with its WebSockets.
#[derive(Debug, Clone)]
pub(crate) struct WebSocket {
    settings: Settings,
    /// Nothing fails, and workers keep to the rules.
    clean: bool,
    workers: usize,
    worker: WorkerPlan,
    /// How long a client may be silent. Short: pings come in between.
    idle: Duration,
    conversations: Vec<ConversationPlan>,
}

const ADDRESS: &str = "192.0.2.10:80";
/// One conversation ends by itself within this.
const TALK: Duration = Duration::from_secs(15);
const LONG_IDLE: Duration = Duration::from_secs(300);

impl Scenario for WebSocket {
    fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clean = rng.chance(600);
        let may_fail = Faults { no_buffers: 5, no_descriptor: 20, reset: 3, ..Faults::default() };
        let (mut settings, mut most) = crate::plan::settings(&mut rng, clean, &may_fail);
        // Pipes that take at once what Keepwarm holds at most for a client.
        let bulk = rng.chance(60);
        if bulk {
            (settings.capacity, most) = ((256 << 10, 512 << 10), 700 << 10);
        }
        let worker = WorkerPlan {
            // An app that takes a single stream cannot serve WebSockets.
            streams: *rng.pick(&[2, 2, 100]),
            stream_credit: *rng.pick(&[65_536, 65_536, 131_072]),
            connection_credit: *rng.pick(&[65_536, 262_144]),
            credit_step: *rng.pick(&[1, 64, 4096, 16 * 1024]),
        };
        let mut conversations: Vec<_> =
            (0..1 + rng.below(3)).map(|_| ConversationPlan::draw(&mut rng, clean, most)).collect();
        if bulk {
            conversations[0].send_bulk(&mut rng);
        }
        Self {
            settings,
            clean,
            workers: 1 + rng.below(2),
            worker,
            idle: if rng.chance(150) { Duration::from_secs(20) } else { LONG_IDLE },
            conversations,
        }
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn bound(&self) -> Duration {
        // One after the other, where a worker takes one at a time.
        let conversations = TALK * self.conversations.len() as u32;
        match self.clean {
            true => conversations + Duration::from_secs(10),
            // An app that hangs has the time of a client that is silent.
            false => conversations + LONG_IDLE * 2,
        }
    }

    fn memory(&self) -> usize {
        let held = |messages: &[MessagePlan]| messages.iter().map(|it| it.size).max().unwrap_or(0);
        let conversations = self.conversations.iter().map(|conversation| {
            let (up, down) = (held(&conversation.client.messages), held(&conversation.app.messages));
            // Each message has some copies, the scripts' among them; and the buffers of both sides.
            // With compression, the states of both sides, and a bomb.
            let deflate = if conversation.client.offer.is_good() { 3 << 20 } else { 0 };
            5 * (up + down) + 2 * self.settings.capacity.1 + (600 << 10) + deflate
        });
        (1 << 20) + conversations.sum::<usize>()
    }

    async fn play(self: Rc<Self>) {
        let remotes = vec![Remote::here(0)];
        let time = Duration::from_secs(120);
        let policy = AppPolicy { queue_timeout: time, request_timeout: time, ..site::policy(self.workers) };
        let plan = Rc::clone(&self);
        let conversations: Conversations = Rc::new(move |path| {
            let number = path.strip_prefix('/')?.parse::<usize>().ok()?;
            Some((number, plan.conversations.get(number)?.clone(), ids(number)))
        });
        let seen = ObservationsById::default();
        let (worker, heard) = (self.worker.clone(), Rc::clone(&seen));
        let app = site::app(&remotes, policy, self.clean, move |peer, kill| {
            worker::run(peer, worker.clone(), Rc::clone(&conversations), Rc::clone(&heard), kill)
        });
        let (open, stops) = site::listen(&remotes, ADDRESS, site::edge(&app, None), self.limits(), 100);
        let outcomes = site::visits(self.conversations.len(), |number| {
            let plan = Rc::clone(&self);
            async move { plan.visit(number).await }
        });
        let outcomes = outcomes.await;
        stops.iter().for_each(StopListening::hand_over);
        if self.clean {
            // The closing handshake has time, also where the client has left.
            site::until_closed(&open, TALK).await;
            assert_eq!(app.waiting(), 0, "requests that nobody waits for");
            for worker in app.activity() {
                assert!(
                    worker.active_requests.is_empty(),
                    "a worker has requests that nobody waits for: {worker:?}"
                );
            }
        }
        for (number, outcome) in outcomes.iter().enumerate() {
            self.judge(number, outcome.as_ref(), &seen);
        }
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        // Its index stays: paths contain it.
        smaller.with(|plan| plan.conversations.len() > 1 && plan.conversations.pop().is_some());
        for at in 0..self.conversations.len() {
            let messages: [fn(&mut ConversationPlan) -> &mut Vec<MessagePlan>; 2] = [
                |conversation| &mut conversation.client.messages,
                |conversation| &mut conversation.app.messages,
            ];
            for of in messages {
                smaller.with(|plan| {
                    let messages = of(&mut plan.conversations[at]);
                    messages.truncate(messages.len() / 2);
                    !messages.is_empty()
                });
                smaller.with(|plan| of(&mut plan.conversations[at]).pop().is_some());
                for message in 0..of(&mut self.conversations[at].clone()).len().min(10) {
                    smaller.half(|plan| &mut of(&mut plan.conversations[at])[message].size);
                    smaller.with(|plan| {
                        std::mem::replace(&mut of(&mut plan.conversations[at])[message].piece, usize::MAX)
                            != usize::MAX
                    });
                }
            }
            smaller.with(|plan| {
                std::mem::replace(&mut plan.conversations[at].client.offer, Offer::None) != Offer::None
            });
            smaller.half(|plan| &mut plan.conversations[at].client.flood);
            smaller.with(|plan| std::mem::take(&mut plan.conversations[at].client.pings.0) > 0);
            smaller.with(|plan| std::mem::take(&mut plan.conversations[at].client.eager));
            smaller.with(|plan| {
                std::mem::replace(&mut plan.conversations[at].client.reads, ReadMode::Beside)
                    != ReadMode::Beside
            });
            smaller.with(|plan| {
                let pace = std::mem::replace(&mut plan.conversations[at].client.pace, Pace::FAST);
                pace.piece < usize::MAX
            });
            smaller.without_time(|plan| &mut plan.conversations[at].client.start);
            smaller.without_time(|plan| &mut plan.conversations[at].client.pause);
            smaller.without_time(|plan| &mut plan.conversations[at].app.delay);
            smaller.without_time(|plan| &mut plan.conversations[at].app.pause);
            smaller.without_time(|plan| &mut plan.conversations[at].app.hold);
            smaller.without_time(|plan| &mut plan.conversations[at].app.rest);
        }
        smaller.with(|plan| std::mem::replace(&mut plan.workers, 1) > 1);
        smaller.with(|plan| std::mem::replace(&mut plan.worker.streams, 100) < 100);
        smaller.settings(|plan| &mut plan.settings);
        smaller.plans
    }
}

/// The ids of the client's messages, and of the app's.
fn ids(number: usize) -> (u64, u64) {
    let id = (number as u64 + 1) << 33;
    (id, id | 1 << 32)
}

impl WebSocket {
    fn limits(&self) -> ConnectionLimits {
        let websocket =
            WebSocketLimits { frame: LONGEST, message: LONGEST, idle: self.idle, compression: true };
        site::limits(self.clean, ConnectionLimits { websocket, ..ConnectionLimits::default() })
    }

    async fn visit(&self, number: usize) -> Option<Outcome> {
        let conversation = &self.conversations[number];
        tokio::time::sleep(conversation.client.start).await;
        let endpoint = Endpoint::Tcp(ADDRESS.parse().expect("an address"));
        let peer = simulation::connect(&endpoint).ok()?;
        let path = format!("/{number}");
        let talking = client::run(conversation, &path, ids(number), peer);
        match conversation.app.fault {
            // A client that responds to pings may wait for ever.
            AppFault::Hangs(_) => tokio::time::timeout(LONG_IDLE + TALK, talking).await.ok(),
            _ => Some(talking.await),
        }
    }

    /// Checks one conversation at its end.
    fn judge(&self, number: usize, outcome: Option<&Outcome>, seen: &ObservationsById) {
        let Some(outcome) = outcome else {
            return assert!(!self.clean, "client {number}: nobody listens");
        };
        if let Some(Broken::Wrong(wrong)) = &outcome.broken {
            panic!("client {number}: {wrong}");
        }
        let conversation = &self.conversations[number];
        if !self.clean || matches!(conversation.client.end, ClientEnd::Resets(_) | ClientEnd::Drops(_)) {
            return;
        }
        if let Some(status) = conversation.app.refuses {
            if conversation.client.end == ClientEnd::CloseHandshake {
                assert_eq!(outcome.status, status, "client {number}: not the app's refusal");
            }
            return;
        }
        let seen = seen.borrow();
        let app = seen.get(&number);
        let sees = |what: &str| format!("client {number}: {what}: {outcome:?}, the app {app:?}");
        match conversation.client.end {
            _ if conversation.client.reads == ReadMode::Never => {}
            ClientEnd::CloseHandshake => {
                self.judge_close(conversation, outcome, &sees);
                if conversation.whole_towards_client() {
                    assert_eq!(
                        outcome.received,
                        conversation.app.messages.len(),
                        "{}",
                        sees("messages are missing")
                    );
                }
                let app = app.unwrap_or_else(|| panic!("{}", sees("the app saw nothing")));
                if conversation.whole_towards_app() {
                    let all = conversation.client.messages.len();
                    assert_eq!(app.received, all, "{}", sees("messages are missing at the app"));
                }
                if conversation.closer == Closer::Client {
                    let reason = if conversation.client.code.is_some() { "the client's reason" } else { "" };
                    let close = (conversation.client.code.unwrap_or(1005), reason.to_owned());
                    assert_eq!(app.close, Some(close), "{}", sees("not the client's close at the app"));
                }
            }
            ClientEnd::Breaks(violation) if conversation.closer == Closer::Client => {
                let code = outcome.close.as_ref().map(|close| close.0);
                assert_eq!(
                    code,
                    Some(violation.code(conversation.client.offer.is_good())),
                    "{}",
                    sees("a breach has another code")
                );
            }
            _ => {}
        }
    }

    fn judge_close(
        &self,
        conversation: &ConversationPlan,
        outcome: &Outcome,
        sees: &impl Fn(&str) -> String,
    ) {
        let Some((code, reason)) = &outcome.close else { panic!("{}", sees("no close")) };
        let apps = *code == conversation.app.code && reason == "the app's reason";
        let own = *code == conversation.client.code.unwrap_or(1005);
        let right = match conversation.closer {
            Closer::Client => own,
            Closer::App => apps,
            Closer::Both => own || apps,
        };
        assert!(right, "{}", sees("the wrong close"));
        assert!(outcome.broken.is_none(), "{}", sees("broken"));
    }
}
