//! Random orders of reloads, failed reloads, deaths, DRAINs, measurements and signals to workers, between requests and responses, against what dispatch promises.
//!
//! The test is the supervisor, the workers and the clients. A failure names its seed; [`STEPS`] lowered is the way to make it short.

use keepwarm_net::Remote;
use keepwarm_wire::encode::{encode_busy, encode_growth};
use keepwarm_wire::frame::{Growth, Strings};

use super::*;
use crate::dispatch::leaks::{LeakSearch, Measuring, MeasuringState};
use crate::supervisor::KillReason;

const SEEDS: u64 = 600;
const STEPS: usize = 120;

struct Worker {
    link: Arc<Link>,
    streams: u32,
    ready: bool,
    /// It was retired, has asked to go, or is about to be killed.
    departure: Option<Departure>,
    dead: bool,
    busy: bool,
}

/// Why a worker is leaving.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Departure {
    Retired,
    Closed,
    Condemned,
}

struct Client {
    call: Arc<Call>,
    /// What has become of it, by name.
    outcome: Option<&'static str>,
    /// Where it was when it was last looked at.
    at: Option<(u32, u32)>,
}

struct World {
    measuring: Option<Measuring>,
    /// Requests that were measured.
    measured: u64,
    search: LeakSearch,
    bench: Bench,
    random: u64,
    workers: Vec<Worker>,
    clients: Vec<Client>,
    /// Whose workers take requests.
    promoted: u64,
    youngest: u64,
    trial: Option<u64>,
}

impl World {
    fn new(seed: u64, remotes: &[Remote]) -> Self {
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let bench = Bench::on(remotes.to_vec());
        let mut world = Self {
            measuring: None,
            measured: 0,
            search: bench.app.begin_leak_search().unwrap(),
            bench,
            random,
            workers: Vec::new(),
            clients: Vec::new(),
            promoted: 1,
            youngest: 1,
            trial: None,
        };
        world.adopt(1);
        world
    }

    fn next(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % bound as u64).unwrap()
    }

    fn adopt(&mut self, generation: u64) {
        let link = self.bench.adopt(generation);
        let streams = 1 + u32::try_from(self.next(3)).unwrap();
        self.workers.push(Worker { link, streams, ready: false, departure: None, dead: false, busy: false });
    }

    /// It takes requests, as far as it has room.
    fn serves(&self, worker: &Worker) -> bool {
        worker.ready
            && worker.departure.is_none()
            && !worker.dead
            && worker.link.key.generation <= self.promoted
    }

    /// One of those that `which` holds for.
    fn pick(&mut self, which: impl Fn(&Worker) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.workers.len()).filter(|&at| which(&self.workers[at])).collect();
        let at = self.next(fitting.len().max(1));
        fitting.get(at).copied()
    }

    fn step(&mut self) {
        match self.next(30) {
            0..=4 => self.request(),
            5..=8 => self.respond(),
            9 => self.adopt(self.promoted),
            10 | 11 => self.hello(),
            12 => self.drain_of_its_own(),
            13 => {
                if let Some(at) = self.pick(|worker| !worker.dead) {
                    self.retire(at);
                }
            }
            14 => {
                if let Some(at) = self.pick(|worker| !worker.dead) {
                    self.workers[at].departure = Some(Departure::Condemned);
                    self.workers[at].link.expect_kill(KillReason::Memory);
                }
            }
            15 => self.die(),
            16 => self.begin_reload(),
            17 => self.fail_reload(),
            18 => self.finish_reload(),
            19 => self.client_leaves(),
            20 => self.busy(),
            21..=23 => self.measure(),
            24..=28 => self.grow(),
            _ => self.give_up(),
        }
    }

    fn request(&mut self) {
        let call = new_call();
        // Whole: it may wait at a worker.
        let frame = request(if self.next(3) > 0 { flags::END } else { 0 }, 100);
        let thread = self.next(2);
        let outcome = self.bench.submit(&call, frame, thread, false).err().map(|_| "refused");
        self.clients.push(Client { call, outcome, at: None });
    }

    /// A worker ends one of its requests: of those that it works on, the oldest if it takes one after the other.
    fn respond(&mut self) {
        let Some(at) = self.pick(|worker| !worker.dead && !open(worker).is_empty()) else { return };
        let streams = open(&self.workers[at]);
        let chosen = if self.workers[at].streams == 1 { 0 } else { self.next(streams.len()) };
        respond(&self.workers[at].link, &self.bench.app, streams[chosen]);
    }

    fn hello(&mut self) {
        let Some(at) = self.pick(|worker| !worker.ready && !worker.dead) else { return };
        let worker = &mut self.workers[at];
        worker.ready = true;
        let (link, streams) = (Arc::clone(&worker.link), worker.streams);
        let ahead = self.next(3).to_string();
        self.bench.hello_with(&link, streams, "wsgi", &ahead);
    }

    fn drain_of_its_own(&mut self) {
        let Some(at) =
            self.pick(|worker| worker.ready && !worker.dead && worker.departure != Some(Departure::Closed))
        else {
            return;
        };
        // Once: twice would be a fault.
        if self.workers[at].departure != Some(Departure::Condemned) {
            self.workers[at].departure = Some(Departure::Closed);
            let link = Arc::clone(&self.workers[at].link);
            let mut bytes = Vec::new();
            encode_drain(&mut bytes);
            let (frame, _) = keepwarm_wire::frame::FromWorker::decode(&bytes).unwrap().unwrap();
            link.lock().session.handle_frame(frame).unwrap();
            // Requests of other threads may cross it.
            (0..self.next(3)).for_each(|_| self.request());
            if self.bench.app.close(&link) {
                link.drain();
            }
        }
    }

    fn retire(&mut self, at: usize) {
        self.workers[at].departure.get_or_insert(Departure::Retired);
        self.workers[at].link.retire();
    }

    /// As its driver does it.
    fn die(&mut self) {
        let Some(at) = self.pick(|worker| !worker.dead) else { return };
        let unread = self.next(2) == 0;
        self.workers[at].dead = true;
        let link = Arc::clone(&self.workers[at].link);
        self.bench.app.remove(&link);
        let orphans = link.die(unread);
        for (stream, call) in orphans.calls {
            let unprocessed = orphans.unread == Some(stream) || !call.is_in_work();
            call.put(Item::Lost { unprocessed, kill_reason: None });
        }
    }

    fn begin_reload(&mut self) {
        if self.trial.is_none() {
            self.youngest += 1;
            self.trial = Some(self.youngest);
            for _ in 0..=self.next(2) {
                self.adopt(self.youngest);
            }
        }
    }

    fn fail_reload(&mut self) {
        if let Some(generation) = self.trial.take() {
            (0..self.workers.len())
                .filter(|&at| self.workers[at].link.key.generation == generation && !self.workers[at].dead)
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|at| self.retire(at));
        }
    }

    /// Only if all of it is ready, as the supervisor sees to.
    fn finish_reload(&mut self) {
        let Some(generation) = self.trial else { return };
        let of_it = |worker: &&Worker| worker.link.key.generation == generation;
        let good = |worker: &Worker| worker.ready && !worker.dead && worker.departure.is_none();
        if !self.workers.iter().filter(of_it).all(good) {
            return self.fail_reload();
        }
        self.trial = None;
        self.promoted = generation;
        self.bench.app.promote(generation);
        let old = (0..self.workers.len())
            .filter(|&at| self.workers[at].link.key.generation < generation && !self.workers[at].dead);
        old.collect::<Vec<_>>().into_iter().for_each(|at| self.retire(at));
    }

    fn client_leaves(&mut self) {
        let waits: Vec<usize> =
            (0..self.clients.len()).filter(|&at| self.clients[at].outcome.is_none()).collect();
        let at = self.next(waits.len().max(1));
        let Some(client) = waits.get(at).map(|&at| &mut self.clients[at]) else { return };
        client.outcome = Some("left");
        use crate::dispatch::call::CallState;
        match client.call.abandon() {
            CallState::Given(link, stream) => {
                link.reset(stream, keepwarm_wire::frame::ResetCode::CANCELLED, "the client has gone");
            }
            CallState::Waiting => self.bench.app.forget(&client.call),
            CallState::Abandoned => {}
        }
    }

    /// A worker starts or finishes work after its response.
    fn busy(&mut self) {
        let Some(at) = self
            .pick(|worker| worker.streams == 1 && !worker.dead && (worker.busy || !open(worker).is_empty()))
        else {
            return;
        };
        let worker = &mut self.workers[at];
        let mut bytes = Vec::new();
        encode_busy(&mut bytes, worker.busy);
        worker.busy = !worker.busy;
        hear(&worker.link, &self.bench.app, &bytes);
    }

    /// Begins to measure a worker, or ends that.
    fn measure(&mut self) {
        let is_over =
            self.measuring.as_ref().is_none_or(|measuring| measuring.state().0 == MeasuringState::Over);
        if !is_over && self.next(8) != 0 {
            return;
        }
        self.measuring = None;
        if let Some(at) = self.pick(|worker| worker.ready && !worker.dead && worker.departure.is_none()) {
            self.measuring = self.search.measure(self.workers[at].link.key.pid);
        }
    }

    /// The worker that is measured has counted.
    fn grow(&mut self) {
        let Some(measuring) = &self.measuring else { return };
        let (state, pid) = (measuring.state().0, measuring.worker().pid);
        let worker = self.workers.iter().find(|worker| worker.link.key.pid == pid).expect("its worker");
        let last =
            (1..).find(|&stream| !worker.link.lock().session.is_over(stream)).expect("one not opened") - 1;
        let request = match state {
            MeasuringState::Counting => 0,
            // After its BUSY with END.
            MeasuringState::Measuring if !worker.busy => last,
            _ => return,
        };
        let mut bytes = Vec::new();
        encode_growth(&mut bytes, &Growth { request, microseconds: 1, changes: Strings::default() }).unwrap();
        hear(&worker.link, &self.bench.app, &bytes);
        self.measured += u64::from(request != 0);
    }

    /// The supervisor has no worker of the app, and tries no more.
    fn give_up(&mut self) {
        if !self.workers.iter().any(|worker| !worker.dead && worker.departure.is_none()) {
            self.bench.app.set_failed(Some("it does not start"));
        }
    }

    /// The clients' tasks: what has been said to them is done.
    fn settle(&mut self) {
        let mut more = true;
        while std::mem::take(&mut more) {
            for client in &mut self.clients {
                while let Some(item) = item(&client.call) {
                    more = true;
                    client.outcome = match item {
                        _ if client.outcome.is_some() => client.outcome,
                        Item::Response { .. } => Some("responded"),
                        Item::Refused(_) => Some("refused"),
                        Item::Lost { unprocessed: false, .. } => Some("lost"),
                        Item::Lost { .. } => {
                            let frame = client.call.take_frame();
                            self.bench.submit(&client.call, frame, 0, true).err().map(|_| "refused")
                        }
                        other => panic!("{other:?}"),
                    };
                }
            }
        }
    }

    #[track_caller]
    fn check(&mut self, served_before: &[u32], context: &str) {
        let served: Vec<u32> = self
            .workers
            .iter()
            .filter(|worker| self.serves(worker))
            .map(|worker| worker.link.key.pid)
            .collect();
        self.check_given(served_before, &served, context);
        let state = self.bench.app.state();
        let mut in_work = 0;
        for (link, taken, slots) in state.queue.slots() {
            let inner = link.lock();
            let held = inner.session.open_streams()
                + usize::from(inner.post_response.is_some())
                + usize::from(inner.holds_slot());
            assert_eq!(taken, held, "{context}: places of worker {}", link.key.pid);
            in_work += taken;
            let idle = taken < slots && served.contains(&link.key.pid);
            assert!(!idle || state.queue.waiting() == 0, "{context}: worker {} idles", link.key.pid);
        }
        assert_eq!(state.queue.in_work(), in_work, "{context}: places are lost");
        let seated: Vec<u32> = state.queue.serving().map(|link| link.key.pid).collect();
        assert!(served.iter().all(|pid| seated.contains(pid)), "{context}: {served:?} serve, of {seated:?}");
        assert_eq!(served.len(), seated.len(), "{context}: {served:?} serve, and not {seated:?}");
        for early in &state.pending {
            let key = &early.link.key;
            assert!(
                Some(key.generation) == self.trial && !early.link.is_retired(),
                "{context}: {key:?} remains"
            );
        }
        let waiting =
            self.clients.iter().filter(|client| client.outcome.is_none() && client.at.is_none()).count();
        assert_eq!(state.queue.waiting(), waiting, "{context}: who waits");
        drop(state);
        for worker in self.workers.iter().filter(|worker| worker.ready && !worker.dead) {
            let inner = worker.link.lock();
            let empty =
                inner.session.open_streams() == 0 && inner.post_response.is_none() && !inner.holds_slot();
            let draining = inner.session.is_draining();
            let done = matches!(worker.departure, Some(Departure::Retired | Departure::Closed)) && empty;
            assert!(!done || draining, "{context}: worker {} waits for DRAIN", worker.link.key.pid);
            assert!(
                worker.departure.is_some() || !draining,
                "{context}: DRAIN to worker {}",
                worker.link.key.pid
            );
        }
    }

    /// No request is with a worker that was told to go before it got it: but for those that were promised a response when nobody else is left.
    #[track_caller]
    fn check_given(&mut self, before: &[u32], now: &[u32], context: &str) {
        for client in &mut self.clients {
            let at = client.call.given().map(|(link, stream)| (link.key.pid, stream));
            if let Some((pid, _)) = at.filter(|at| client.at != Some(*at) && client.outcome.is_none()) {
                let worker =
                    self.workers.iter().find(|worker| worker.link.key.pid == pid).expect("its worker");
                assert!(!worker.dead, "{context}: given to a dead worker");
                let serves = before.contains(&pid) || now.contains(&pid);
                let last =
                    worker.departure == Some(Departure::Retired) && (before.is_empty() || now.is_empty());
                let promoted = worker.link.key.generation <= self.promoted;
                assert!(
                    serves || last && promoted,
                    "{context}: worker {pid} was told to go ({:?})",
                    worker.departure
                );
            }
            client.at = at;
        }
    }

    /// Whatever has happened: with one good worker every request gets a response.
    fn finish(&mut self, context: &str) {
        self.fail_reload();
        self.measuring = None;
        let (promoted, at) = (self.promoted, self.workers.len());
        self.adopt(promoted);
        self.workers[at].ready = true;
        let (link, streams) = (Arc::clone(&self.workers[at].link), self.workers[at].streams);
        self.bench.hello_with(&link, streams, "wsgi", "0");
        for _ in 0..10_000 {
            self.settle();
            for at in 0..self.workers.len() {
                if self.workers[at].busy && !self.workers[at].dead {
                    let mut bytes = Vec::new();
                    encode_busy(&mut bytes, true);
                    self.workers[at].busy = false;
                    hear(&self.workers[at].link, &self.bench.app, &bytes);
                }
                for stream in open(&self.workers[at]).into_iter().take(1).filter(|_| !self.workers[at].dead) {
                    respond(&self.workers[at].link, &self.bench.app, stream);
                }
            }
            if self.clients.iter().all(|client| client.outcome.is_some()) {
                return;
            }
        }
        panic!("{context}: a request waits for ever");
    }
}

/// The streams that it has not ended, those that nobody waits for included.
fn open(worker: &Worker) -> Vec<u32> {
    let inner = worker.link.lock();
    let all = (1..).filter(|&stream| !inner.session.is_over(stream));
    all.take(inner.session.open_streams()).collect()
}

#[tokio::test(start_paused = true)]
async fn no_order_of_events_breaks_a_promise() {
    let plane = DataPlane::start(2).unwrap();
    let mut measured = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed, plane.remotes());
        for step in 0..STEPS {
            let context = format!("seed {seed}, step {step}");
            let served = world.workers.iter().filter(|worker| world.serves(worker));
            let served: Vec<u32> = served.map(|worker| worker.link.key.pid).collect();
            world.step();
            world.settle();
            world.check(&served, &context);
            if world.next(4) == 0 {
                tokio::time::advance(Duration::from_millis(world.next(30) as u64)).await;
            }
        }
        world.finish(&format!("seed {seed}"));
        measured += world.measured;
    }
    assert!(measured > SEEDS / 6, "only {measured} requests were measured");
    plane.stop();
}
