//! One generation of one app, sans-IO: what happened to its workers comes in with `now`, what to do comes out.
//!
//! What may live here: decisions about when a worker starts, is retired, is signalled, and when the app is given up. What may
//! not: processes, sockets, clocks, logs.
//!
//! The app has `workers` *places*, numbered from 1. A place is served by one worker at a time, except while a worker that is
//! leaving waits for its replacement. Order of calls: any `handle_*` or command, then
//! [`poll_action`](Generation::poll_action) until it gives none, then wait until [`poll_timeout`](Generation::poll_timeout).

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

mod worker;

use self::worker::{Fate, Place, Worker};
use super::{AppSpec, Exit, WorkerState};

/// From SIGTERM to SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(2);
/// What a stuck worker has for its stack: printing one takes a millisecond, and a busy machine some more.
const STACK_TIME: Duration = Duration::from_millis(250);
/// From the end of the wire to SIGKILL, for a worker that does not end by itself. It may still print why it ends.
const CLOSED_KILL_AFTER: Duration = Duration::from_secs(2);

/// Names a worker within its generation; never used again.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct WorkerId(u64);

/// What the supervisor is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Start a process for this place.
    Spawn { id: WorkerId, number: u32 },
    /// No new requests to this worker; DRAIN when it has finished.
    Retire { id: WorkerId },
    /// End this worker.
    Signal { id: WorkerId, signal: StopSignal, why: String },
    /// A worker ended that should not have; another is started after `wait`.
    Restart { id: WorkerId, number: u32, reason: String, wait: Duration },
    /// A worker ended that should not have; its place is served already.
    Lost { id: WorkerId, number: u32, reason: String },
    /// This place is not tried again; others of the app serve, or are still tried.
    GiveUpPlace { id: WorkerId, number: u32, reason: String },
    /// The app is not tried again. This worker was the last straw.
    GiveUp { id: WorkerId, number: u32, reason: String, exit: Option<Exit> },
}

/// The ways to end a worker from outside.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum StopSignal {
    /// SIGQUIT, at which adapters print the stack of what they are doing.
    Quit,
    /// SIGTERM.
    Term,
    /// SIGKILL, to the whole process group.
    Kill,
}

/// How a worker ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// As a process.
    Exited(Exit),
    /// It could not be started at all.
    NotSpawned(String),
}

/// Where a generation stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The first generation of all, before its first worker is ready.
    First,
    /// Beside an older generation that serves: any failure ends it.
    Trial,
    /// It is the app.
    Serving,
    /// Given up, for this reason.
    Failed(String),
    /// Its workers finish.
    Retiring,
}

/// One generation of one app.
pub(super) struct Generation {
    phase: Phase,
    boot_timeout: Duration,
    drain_timeout: Duration,
    start_retries: u32,
    places: Vec<Place>,
    workers: BTreeMap<WorkerId, Worker>,
    next_id: u64,
    actions: VecDeque<Action>,
}

/// One line of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct View {
    pub(super) id: Option<WorkerId>,
    pub(super) number: u32,
    pub(super) state: WorkerState,
    pub(super) since: Instant,
    pub(super) restarts: u64,
}

impl Generation {
    /// Begins to start all workers. `phase` is [`Phase::First`], [`Phase::Trial`].
    pub(super) fn new(spec: &AppSpec, phase: Phase, now: Instant) -> Self {
        let places = u32::try_from(spec.workers.max(1)).unwrap_or(u32::MAX);
        let mut generation = Self {
            phase,
            boot_timeout: spec.boot_timeout,
            drain_timeout: spec.drain_timeout,
            start_retries: spec.start_retries,
            places: (1..=places).map(|number| Place::new(number, now)).collect(),
            workers: BTreeMap::new(),
            next_id: 0,
            actions: VecDeque::new(),
        };
        generation.handle_timeout(now);
        generation
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Every place has a worker that is ready.
    pub(super) fn all_ready(&self) -> bool {
        self.places.iter().all(|place| self.workers.values().any(|worker| worker.serves(place.number)))
    }

    /// Every place has a worker that is ready, or was given up.
    pub(super) fn is_settled(&self) -> bool {
        self.places
            .iter()
            .all(|place| place.given_up || self.workers.values().any(|worker| worker.serves(place.number)))
    }

    /// No process is left and none will be started.
    pub(super) fn is_over(&self) -> bool {
        self.workers.is_empty() && matches!(self.phase, Phase::Failed(_) | Phase::Retiring)
    }

    /// The number of a worker that keeps [`all_ready`](Self::all_ready) from being true.
    pub(super) fn awaited(&self) -> Option<u32> {
        let awaited = |place: &&Place| !self.workers.values().any(|worker| worker.serves(place.number));
        self.places.iter().find(awaited).map(|place| place.number)
    }

    pub(super) fn state(&self, id: WorkerId) -> WorkerState {
        self.workers.get(&id).map_or(WorkerState::Dead, |worker| worker.state)
    }

    pub(super) fn view(&self) -> Vec<View> {
        let mut views = Vec::new();
        for place in &self.places {
            let restarts = place.starts.saturating_sub(1);
            let here = self.workers.iter().filter(|(_, worker)| worker.number == place.number);
            let before = views.len();
            views.extend(here.map(|(&id, worker)| View {
                id: Some(id),
                number: place.number,
                state: worker.state,
                since: worker.since,
                restarts,
            }));
            if views.len() == before && self.phase != Phase::Retiring {
                let since = place.empty_since;
                views.push(View {
                    id: None,
                    number: place.number,
                    state: WorkerState::Dead,
                    since,
                    restarts,
                });
            }
        }
        views
    }

    // Input.

    /// HELLO came.
    pub(super) fn handle_ready(&mut self, id: WorkerId, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.state == WorkerState::Starting)
        else {
            return;
        };
        worker.enter(WorkerState::Ready, None, now);
        worker.ready_at = Some(now);
        let number = worker.number;
        if self.phase == Phase::First {
            self.phase = Phase::Serving;
        }
        self.retire_leaving(number, now);
    }

    /// The wire has ended.
    pub(super) fn handle_closed(&mut self, id: WorkerId, reason: &str, now: Instant) {
        if let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.is_wanted()) {
            worker.fate = Fate::Closed(reason.to_owned());
            worker.enter(WorkerState::Stopping, Some(now + CLOSED_KILL_AFTER), now);
        }
    }

    /// The dispatching side wants it killed.
    pub(super) fn handle_kill(&mut self, id: WorkerId, reason: &str, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        match worker.state {
            WorkerState::Starting => worker.fate = Fate::Faulted(reason.to_owned()),
            WorkerState::Ready => worker.fate = Fate::Killed(reason.to_owned()),
            WorkerState::Draining | WorkerState::Stopping | WorkerState::Dead => {}
        }
        worker.enter(WorkerState::Stopping, None, now);
        self.actions.push_back(Action::Signal { id, signal: StopSignal::Kill, why: reason.to_owned() });
    }

    /// A request of it takes too long: its stack first, then the kill.
    pub(super) fn handle_stuck(&mut self, id: WorkerId, reason: &str, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.state == WorkerState::Ready {
            worker.fate = Fate::Killed(reason.to_owned());
        }
        worker.enter(WorkerState::Stopping, Some(now + STACK_TIME), now);
        self.actions.push_back(Action::Signal { id, signal: StopSignal::Quit, why: reason.to_owned() });
    }

    /// A retired worker has finished, and does not end by itself.
    pub(super) fn handle_drained(&mut self, id: WorkerId, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.state == WorkerState::Draining)
        else {
            return;
        };
        worker.enter(WorkerState::Stopping, Some(now + KILL_AFTER), now);
        let why = "has finished".to_owned();
        self.actions.push_back(Action::Signal { id, signal: StopSignal::Term, why });
    }

    /// The worker asked for a replacement.
    pub(super) fn handle_wants_drain(&mut self, id: WorkerId, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.state == WorkerState::Ready)
        else {
            return;
        };
        if worker.leaving {
            return;
        }
        worker.leaving = true;
        let number = worker.number;
        if self.is_served(number) {
            self.retire_leaving(number, now);
        } else if let Some(place) =
            self.place(number).filter(|place| place.spawn_at.is_none() && !place.given_up)
        {
            place.spawn_at = Some(now);
            self.handle_timeout(now);
        } else {
            self.retire_place_given_up(number, now);
        }
    }

    /// The process has ended and was reaped. `random` is the jitter of the back-off.
    pub(super) fn handle_end(&mut self, id: WorkerId, end: &End, now: Instant, random: u64) {
        let Some(worker) = self.workers.remove(&id) else { return };
        if let Some(place) = self.place(worker.number) {
            place.empty_since = now;
        }
        let exit = end.exit();
        let reason = worker.reason(end);
        match self.phase {
            Phase::Failed(_) | Phase::Retiring => {}
            _ if worker.fate == Fate::Planned => {}
            Phase::Trial => self.give_up(id, worker.number, reason, exit, now),
            Phase::First if exit.is_some_and(Exit::is_fatal_at_boot) => {
                self.give_up(id, worker.number, reason, exit, now);
            }
            Phase::First | Phase::Serving => self.handle_loss(id, &worker, reason, exit, now, random),
        }
    }

    /// To be called when [`poll_timeout`](Self::poll_timeout) says so.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.check_deadlines(now);
        self.start_due(now);
    }

    // Commands.

    /// The trial has succeeded.
    pub(super) fn commit(&mut self) {
        if self.phase == Phase::Trial {
            self.phase = Phase::Serving;
        }
    }

    /// Ends the generation: workers that serve finish, for at most `drain` (or `drain_timeout`, if that is shorter), others are
    /// ended. With a `drain` of zero all are killed. Calling it again can only shorten the time.
    pub(super) fn retire(&mut self, drain: Duration, now: Instant) {
        if !matches!(self.phase, Phase::Failed(_)) {
            self.phase = Phase::Retiring;
        }
        for place in &mut self.places {
            place.spawn_at = None;
        }
        if drain.is_zero() {
            return self.kill_all(now);
        }
        let deadline = now + drain.min(self.drain_timeout);
        for (&id, worker) in &mut self.workers {
            worker.retire(id, deadline, now, &mut self.actions);
        }
    }

    // Output.

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = self.workers.values().filter_map(|worker| worker.deadline);
        deadlines.chain(self.places.iter().filter_map(|place| place.spawn_at)).min()
    }

    // Decisions.

    fn handle_loss(
        &mut self,
        id: WorkerId,
        worker: &Worker,
        reason: String,
        exit: Option<Exit>,
        now: Instant,
        random: u64,
    ) {
        let number = worker.number;
        let start_retries = self.start_retries;
        let served = self.is_served(number);
        let Some(place) = self.place(number) else { return };
        if served {
            // Its replacement is ready or on its way; or it was the replacement of one that nobody waits for.
            return self.actions.push_back(Action::Lost { id, number, reason });
        }
        let healthy_for =
            worker.ready_at.map_or(Duration::ZERO, |ready_at| now.saturating_duration_since(ready_at));
        let wait = place.backoff.handle_end(healthy_for, random);
        if place.backoff.failures() == 0 {
            place.strikes = 0;
        } else if !matches!(worker.fate, Fate::Killed(_)) {
            // Our own kills wait too, but requests that take too long must not be able to take an app away for good.
            place.strikes = place.strikes.saturating_add(1);
        }
        if place.strikes <= start_retries {
            place.spawn_at = Some(now + wait);
            self.actions.push_back(Action::Restart { id, number, reason, wait });
            return self.start_due(now);
        }
        place.given_up = true;
        let first = self.phase == Phase::First;
        self.retire_place_given_up(number, now);
        let hope = self.places.iter().any(|place| place.spawn_at.is_some())
            || self.workers.values().any(Worker::is_wanted);
        if first || !hope {
            self.give_up(id, number, reason, exit, now);
        } else {
            self.actions.push_back(Action::GiveUpPlace { id, number, reason });
        }
    }

    /// The app is over: what serves finishes, what starts is ended.
    fn give_up(&mut self, id: WorkerId, number: u32, reason: String, exit: Option<Exit>, now: Instant) {
        self.retire(self.drain_timeout.max(Duration::from_nanos(1)), now);
        self.phase = Phase::Failed(format!("worker {number} {reason}"));
        self.actions.push_back(Action::GiveUp { id, number, reason, exit });
    }

    fn check_deadlines(&mut self, now: Instant) {
        for (&id, worker) in &mut self.workers {
            if worker.deadline.is_none_or(|deadline| deadline > now) {
                continue;
            }
            let (signal, why) = match worker.state {
                WorkerState::Starting => {
                    let why = format!("was not ready within {:?}", self.boot_timeout);
                    worker.fate = Fate::Faulted(why.clone());
                    (StopSignal::Term, why)
                }
                WorkerState::Draining => (StopSignal::Term, "did not finish in time".to_owned()),
                WorkerState::Ready | WorkerState::Stopping | WorkerState::Dead => {
                    if let Fate::Closed(reason) = &worker.fate {
                        worker.fate = Fate::Faulted(format!("{reason} and did not end"));
                    }
                    (StopSignal::Kill, "did not end in time".to_owned())
                }
            };
            let deadline = (signal == StopSignal::Term).then(|| now + KILL_AFTER);
            worker.enter(WorkerState::Stopping, deadline, now);
            self.actions.push_back(Action::Signal { id, signal, why });
        }
    }

    fn start_due(&mut self, now: Instant) {
        for place in &mut self.places {
            if place.spawn_at.is_none_or(|at| at > now) {
                continue;
            }
            place.spawn_at = None;
            place.starts = place.starts.saturating_add(1);
            let id = WorkerId(self.next_id);
            self.next_id += 1;
            self.workers.insert(id, Worker::new(place.number, now, self.boot_timeout));
            self.actions.push_back(Action::Spawn { id, number: place.number });
        }
    }

    /// Retires the workers of this place that wait for a replacement.
    fn retire_leaving(&mut self, number: u32, now: Instant) {
        if !self.workers.values().any(|worker| worker.serves(number)) {
            return;
        }
        let deadline = now + self.drain_timeout;
        for (&id, worker) in &mut self.workers {
            if worker.number == number && worker.leaving {
                worker.retire(id, deadline, now, &mut self.actions);
            }
        }
    }

    /// No replacement will come: a worker that takes no requests any more is of no use.
    fn retire_place_given_up(&mut self, number: u32, now: Instant) {
        let deadline = now + self.drain_timeout;
        for (&id, worker) in &mut self.workers {
            if worker.number == number
                && worker.leaving
                && self.places.iter().any(|p| p.number == number && p.given_up)
            {
                worker.retire(id, deadline, now, &mut self.actions);
            }
        }
    }

    fn kill_all(&mut self, now: Instant) {
        for (&id, worker) in &mut self.workers {
            worker.fate = Fate::Planned;
            worker.enter(WorkerState::Stopping, None, now);
            let why = "no time to finish".to_owned();
            self.actions.push_back(Action::Signal { id, signal: StopSignal::Kill, why });
        }
    }

    /// Somebody serves this place and stays, or is about to.
    fn is_served(&self, number: u32) -> bool {
        self.workers.values().any(|worker| worker.number == number && worker.is_wanted() && !worker.leaving)
    }

    fn place(&mut self, number: u32) -> Option<&mut Place> {
        self.places.iter_mut().find(|place| place.number == number)
    }
}

impl End {
    fn exit(&self) -> Option<Exit> {
        match self {
            Self::Exited(exit) => Some(*exit),
            Self::NotSpawned(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
