//! One generation of one app, sans-IO: events of its workers come in with `now`, actions come out.
//!
//! This module decides when a worker starts, is recycled, is retired, is signalled, how many there are, and when the app is
//! given up. It contains no processes, sockets, clocks or logs. `loss`: a worker that should not have ended. `recycle`: a healthy worker that should be
//! replaced. `size`: more and fewer workers. `stop`: signals. `view`: the snapshot of all of it.
//!
//! The app has *places*, numbered from 1. A place is served by one worker at a time, except while a worker that is
//! leaving waits for its replacement. Order of calls: any `handle_*` or command, then
//! [`poll_action`](Generation::poll_action) until it gives none, then wait until [`poll_timeout`](Generation::poll_timeout).

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

mod loss;
mod recycle;
mod size;
mod stop;
mod view;
mod worker;

use keepwarm_policy::Jitter;

pub(super) use self::recycle::mib;
pub(super) use self::view::Tally;
pub(super) use self::worker::SLOW_BOOT;
use self::worker::{EndReason, Worker, WorkerSlot};
use super::{AppSpec, Death, Exit, KILL_AFTER, RecycleReason, Recycling, WorkerState, priority};

/// From the end of the wire to SIGKILL, for a worker that does not end by itself. It may still print why it ends.
const CLOSED_KILL_AFTER: Duration = Duration::from_secs(2);
/// From SIGKILL until its place is given to another, or it is not waited for any longer, should the kernel not let it end: it waits for a disk or a file server that
/// does not respond.
const UNKILLABLE_AFTER: Duration = Duration::from_secs(5);

/// Names a worker within its generation; never used again.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct WorkerId(u64);

/// What the supervisor must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Start a process for this place. `quiet`: it must not disturb others, which serve meanwhile.
    Spawn { id: WorkerId, number: u32, quiet: bool },
    /// Replace this worker; it keeps serving until then.
    Recycle { id: WorkerId, why: RecycleReason, detail: String },
    /// It should be replaced for its memory, but there is none for the replacement.
    NoRoom { id: WorkerId, own: u64, available: u64 },
    /// Its replacements cannot be started: it keeps running, and is replaced later.
    Keep { id: WorkerId, number: u32, reason: String },
    /// No new requests to this worker; DRAIN when it has finished.
    Retire { id: WorkerId },
    /// Stop this worker.
    Signal { id: WorkerId, signal: StopSignal, why: String },
    /// It was killed and does not end, and nothing follows it: it is not waited for any longer.
    Abandon { id: WorkerId },
    /// A worker ended that should not have; another is started after `wait`.
    Restart { id: WorkerId, number: u32, reason: String, wait: Duration },
    /// A worker ended that should not have; its place is served already.
    Lost { id: WorkerId, number: u32, reason: String },
    /// It starts slowly: log this, with its stack.
    SlowBoot { id: WorkerId, number: u32 },
    /// This place is not tried again; others of the app serve, or are still tried.
    GiveUpSlot { id: WorkerId, number: u32, reason: String },
    /// The app is not tried again. This worker was the last straw. `trial`: an older generation serves on.
    GiveUp { id: WorkerId, number: u32, reason: String, exit: Option<Exit>, trial: bool },
}

/// The ways to end a worker from outside.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum StopSignal {
    /// SIGQUIT, at which adapters print the stack of what they are doing.
    Quit,
    /// SIGQUIT, at which it finishes what it works on, and ends ([`AppSpec::ends_at_quit`]).
    Finish,
    /// SIGTERM.
    Term,
    /// SIGKILL, to the whole process group.
    Kill,
}

/// How a worker ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WorkerEnd {
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
    recycling: Recycling,
    hang_timeout: Option<Duration>,
    ends_at_quit: bool,
    /// How many start concurrently beside a generation that serves.
    quiet_starts: usize,
    /// Later starts beside a generation that serves are no longer quiet.
    quiet_until: Instant,
    /// Its files have changed: a worker started now would run other code.
    gives_way: bool,
    /// The number of ready workers that may replace the generation that serves.
    enough: usize,
    /// A worker was given requests: from now on the app is not given up.
    has_served: bool,
    jitter: Jitter,
    slots: Vec<WorkerSlot>,
    workers: BTreeMap<WorkerId, Worker>,
    next_id: u64,
    actions: VecDeque<Action>,
    tally: Tally,
}

/// What a generation knows of the machine and of the reload that started it.
#[derive(Copy, Clone, Debug)]
pub(super) struct GenerationContext {
    /// For the limits that each worker draws.
    pub(super) seed: u64,
    /// Processors of the machine.
    pub(super) cores: usize,
    /// Somebody has changed a file and waits to see what comes of it: nothing is quiet, and the first worker that is ready is enough.
    pub(super) hurry: bool,
}

impl Generation {
    /// Begins to start all workers. `phase` is [`Phase::First`], [`Phase::Trial`].
    pub(super) fn new(spec: &AppSpec, phase: Phase, around: GenerationContext, now: Instant) -> Self {
        let slots = u32::try_from(spec.workers.max(1)).unwrap_or(u32::MAX);
        let mut generation = Self {
            phase,
            boot_timeout: spec.boot_timeout,
            drain_timeout: spec.drain_timeout,
            start_retries: spec.start_retries,
            recycling: spec.recycling,
            hang_timeout: spec.hang_timeout,
            ends_at_quit: spec.ends_at_quit,
            // Half of the processors stay with those that serve.
            quiet_starts: if around.hurry { 1 } else { (around.cores / 2).max(1) },
            quiet_until: if around.hurry { now } else { now + priority::LONGEST },
            gives_way: false,
            enough: if around.hurry { 1 } else { usize::MAX },
            has_served: false,
            jitter: Jitter::new(around.seed),
            slots: (1..=slots).map(|number| WorkerSlot::new(number, now)).collect(),
            workers: BTreeMap::new(),
            next_id: 0,
            actions: VecDeque::new(),
            tally: Tally::default(),
        };
        generation.handle_timeout(now);
        generation
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Every place has a worker that is ready.
    pub(super) fn all_ready(&self) -> bool {
        self.slots.iter().all(|slot| self.workers.values().any(|worker| worker.serves(slot.number)))
    }

    /// It may take the place of the generation that serves.
    pub(super) fn may_take_over(&self) -> bool {
        self.all_ready() || self.workers.values().filter(|worker| worker.is_ready()).count() >= self.enough
    }

    /// Every place has a worker that is ready, or was given up. Ready is also one that is being replaced: with several of them that may never stop.
    pub(super) fn is_settled(&self) -> bool {
        let has_ready = |slot: &WorkerSlot| {
            self.workers.values().any(|worker| worker.number == slot.number && worker.is_ready())
        };
        self.slots.iter().all(|slot| slot.given_up || has_ready(slot))
    }

    /// No process is left and none will be started.
    pub(super) fn is_over(&self) -> bool {
        self.workers.is_empty() && matches!(self.phase, Phase::Failed(_) | Phase::Retiring)
    }

    /// The number of a worker that keeps [`all_ready`](Self::all_ready) from being true.
    pub(super) fn awaited(&self) -> Option<u32> {
        let awaited = |slot: &&WorkerSlot| !self.workers.values().any(|worker| worker.serves(slot.number));
        self.slots.iter().find(awaited).map(|slot| slot.number)
    }

    /// It was sent SIGKILL.
    pub(super) fn was_killed(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|worker| worker.killed)
    }

    pub(super) fn state(&self, id: WorkerId) -> WorkerState {
        self.workers.get(&id).map_or(WorkerState::Dead, |worker| worker.state)
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
        let age = self.recycling.max_age.map(|age| self.jitter.lower_duration(age));
        worker.due = age.and_then(|age| Some((now.checked_add(age)?, RecycleReason::Age)));
        let number = worker.number;
        if self.phase == Phase::First {
            self.phase = Phase::Serving;
        }
        self.retire_leaving(number, now);
        // Others may have waited for this start, or for this replacement.
        self.handle_timeout(now);
    }

    /// It was given a request, as has to be said before [`handle_end`](Self::handle_end).
    pub(super) fn handle_request_given(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.has_served = true;
            self.has_served = true;
        }
    }

    /// The wire has ended.
    pub(super) fn handle_closed(&mut self, id: WorkerId, reason: &str, now: Instant) {
        if let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.is_wanted()) {
            worker.end_reason = EndReason::Closed(reason.to_owned());
            worker.enter(WorkerState::Stopping, Some(now + CLOSED_KILL_AFTER), now);
        }
    }

    /// The process has ended and was reaped. `random` is the jitter of the back-off.
    pub(super) fn handle_end(&mut self, id: WorkerId, end: &WorkerEnd, now: Instant, random: u64) {
        let Some(worker) = self.workers.remove(&id) else { return };
        if let Some(slot) = self.slot(worker.number) {
            slot.empty_since = now;
        }
        let exit = end.exit();
        let reason = worker.reason(end);
        if let Some(death) = worker.death(end) {
            self.tally.add_death(worker.number, death, &reason, now);
        }
        match self.phase {
            Phase::Failed(_) | Phase::Retiring => {}
            _ if worker.end_reason == EndReason::Planned => {}
            _ if worker.left_as_asked(end) => self.tally.recycles.add(RecycleReason::Requested),
            Phase::Trial => self.give_up(id, worker.number, reason, exit, now),
            Phase::First if exit.is_some_and(Exit::is_fatal_at_boot) => {
                self.give_up(id, worker.number, reason, exit, now);
            }
            Phase::First | Phase::Serving => self.handle_loss(id, &worker, reason, exit, now, random),
        }
        self.handle_timeout(now);
    }

    /// To be called when [`poll_timeout`](Self::poll_timeout) says so.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.check_slow_boots(now);
        self.check_deadlines(now);
        self.recycle_due(now);
        self.start_due(now);
    }

    // Commands.

    /// The trial has succeeded.
    pub(super) fn commit(&mut self, now: Instant) {
        if self.phase == Phase::Trial {
            self.phase = Phase::Serving;
            self.handle_timeout(now);
        }
    }

    /// Another generation is tried, since files have changed. Those that serve go on; none is started, as long as there is one.
    pub(super) fn give_way(&mut self, now: Instant) {
        self.gives_way = true;
        if self.phase == Phase::Serving && self.workers.values().any(Worker::is_ready) {
            let starts = |worker: &Worker| worker.state == WorkerState::Starting;
            let numbers: Vec<u32> =
                self.workers.values().filter(|worker| starts(worker)).map(|worker| worker.number).collect();
            self.retire_where(starts, now, |_| None, now);
            // Should nobody serve any more.
            let empty = self.slots.iter_mut().filter(|slot| numbers.contains(&slot.number));
            empty.for_each(|slot| slot.spawn_at = Some(now));
        }
    }

    /// Ends the generation: workers that serve finish, for at most `drain` (or `drain_timeout`, if that is shorter), others are
    /// ended. With a `drain` of zero all are killed. Calling it again can only shorten the time. `why`: others take their places for this reason.
    pub(super) fn retire(&mut self, drain: Duration, why: Option<RecycleReason>, now: Instant) {
        if !matches!(self.phase, Phase::Failed(_)) {
            self.phase = Phase::Retiring;
        }
        for slot in &mut self.slots {
            slot.spawn_at = None;
        }
        if drain.is_zero() {
            return self.kill_all(now);
        }
        let deadline = now + drain.min(self.drain_timeout);
        self.retire_where(|_| true, deadline, |_| why, now);
    }

    // Output.

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let deadlines =
            self.workers.values().flat_map(|worker| [worker.deadline, worker.slow_boot_at]).flatten();
        let starts = self.slots.iter().filter_map(|slot| slot.spawn_at).filter(|_| self.may_start());
        deadlines.chain(starts).chain(self.next_recycle()).min()
    }

    // Decisions.

    fn start_due(&mut self, now: Instant) {
        while self.may_start() {
            let due = |slot: &&mut WorkerSlot| slot.spawn_at.is_some_and(|at| at <= now);
            let Some(slot) = self.slots.iter_mut().find(due) else { return };
            slot.spawn_at = None;
            slot.starts = slot.starts.saturating_add(1);
            let number = slot.number;
            let id = WorkerId(self.next_id);
            self.next_id += 1;
            let quiet = match self.phase {
                Phase::Trial => now < self.quiet_until,
                _ => self.workers.values().any(Worker::is_ready),
            };
            let requests = self.recycling.max_requests.map(|most| self.jitter.lower(most));
            self.workers.insert(id, Worker::new(number, requests, now, self.boot_timeout));
            self.actions.push_back(Action::Spawn { id, number, quiet });
        }
    }

    /// Beside a generation that serves only some are started at a time.
    fn may_start(&self) -> bool {
        if self.gives_way && self.workers.values().any(Worker::is_ready) {
            return false;
        }
        // One whose wire has ended may be about to say why, and the others would say the same.
        let starting =
            |worker: &&Worker| matches!(worker.state, WorkerState::Starting | WorkerState::Stopping);
        self.phase != Phase::Trial || self.workers.values().filter(starting).count() < self.quiet_starts
    }

    /// Workers that serve finish, others are ended.
    fn retire_where(
        &mut self,
        which: impl Fn(&Worker) -> bool,
        deadline: Instant,
        why: impl Fn(&Worker) -> Option<RecycleReason>,
        now: Instant,
    ) {
        for (&id, worker) in self.workers.iter_mut().filter(|(_, worker)| which(worker)) {
            let why = why(worker).filter(|_| worker.is_ready());
            worker.retire(id, deadline, now, &mut self.actions);
            why.into_iter().for_each(|why| self.tally.recycles.add(why));
        }
    }

    /// Somebody serves this place and stays, or is about to.
    fn is_served(&self, number: u32) -> bool {
        self.workers
            .values()
            .any(|worker| worker.number == number && worker.is_wanted() && worker.leaving.is_none())
    }

    fn slot(&mut self, number: u32) -> Option<&mut WorkerSlot> {
        self.slots.iter_mut().find(|slot| slot.number == number)
    }
}

impl WorkerEnd {
    fn exit(&self) -> Option<Exit> {
        match self {
            Self::Exited(exit) => Some(*exit),
            Self::NotSpawned(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
