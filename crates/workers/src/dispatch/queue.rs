//! Which worker gets which request: the places of an app's workers, and the requests that wait for one.
//!
//! A freed worker takes the oldest waiting request of any thread; a younger one of its own thread only while the oldest has waited for
//! less than [`LOCAL_FIRST`], since crossing threads costs two wake-ups. A worker never idles while a request waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_policy::WorkerLatency;
use keepwarm_policy::scaler::{AppLoad, LONG_WAIT};
use keepwarm_wire::frame::{flags, frame_flags};
use tokio::time::Instant;

use super::activity::WaitingRequest;
use super::call::Call;
use super::kind::{LinkKind, RequestKind};
use super::link::Link;
use crate::supervisor::WorkerKey;

/// How long the oldest request may be passed over for one of the freed worker's own thread.
const LOCAL_FIRST: Duration = Duration::from_millis(1);

/// The workers of an app and the requests that wait for them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: Vec<WorkerEntry>,
    waiting: VecDeque<QueuedRequest>,
    /// Requests that workers hold.
    in_work: usize,
    /// Since the last look.
    load: AppLoad,
    /// Goes up with every request.
    turn: u64,
}

/// A worker in the queue, with its slots.
#[derive(Debug)]
struct WorkerEntry {
    link: Arc<Link>,
    taken: usize,
    slots: usize,
    /// Requests that may wait at the worker, behind those that have a place.
    ahead: usize,
    latency: WorkerLatency,
    retired: bool,
    /// Its worker has announced that it takes no more requests.
    closed: bool,
    /// It is measured: its places and those behind them, as they were before.
    before: Option<(usize, usize)>,
    /// Higher than that of all others when it was chosen last.
    turn: u64,
}

/// A request on its way to a worker.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    pub(super) call: Arc<Call>,
    pub(super) kind: RequestKind,
    /// The thread of its client.
    pub(super) thread: usize,
    /// A hash of the session that should stay at one worker.
    pub(super) session: Option<u64>,
    /// The worker that has failed it, and that gets it again only if there is no other.
    pub(super) avoid: Option<Arc<Link>>,
    pub(super) since: Instant,
}

impl Queue {
    /// A worker is ready, with this many places.
    pub(super) fn enter(&mut self, link: Arc<Link>, slots: usize, ahead: usize) {
        self.entries.push(WorkerEntry {
            link,
            taken: 0,
            slots,
            ahead,
            latency: WorkerLatency::default(),
            retired: false,
            closed: false,
            before: None,
            turn: 0,
        });
    }

    /// A worker that serves will be measured: it gets nothing for now. Gives how many places it has had. `None`: it gets nothing more, or is measured
    /// already.
    pub(super) fn measure(&mut self, link: &Arc<Link>) -> Option<usize> {
        let entry = self.entry(link).filter(|entry| !entry.retired && entry.before.is_none())?;
        let before = (entry.slots, entry.ahead);
        (entry.before, entry.slots, entry.ahead) = (Some(before), 0, 0);
        Some(before.0)
    }

    /// It takes one request at a time.
    pub(super) fn begin_measured(&mut self, link: &Arc<Link>) {
        if let Some(entry) = self.entry(link).filter(|entry| entry.before.is_some()) {
            entry.slots = 1;
        }
    }

    /// It is measured no more.
    pub(super) fn end_measure(&mut self, link: &Arc<Link>) {
        if let Some(entry) = self.entry(link)
            && let Some(before) = entry.before.take()
        {
            (entry.slots, entry.ahead) = before;
        }
    }

    /// Whether a worker serves and has no request.
    pub(super) fn is_idle(&mut self, link: &Arc<Link>) -> bool {
        self.entry(link).is_some_and(|entry| !entry.retired && entry.taken == 0)
    }

    /// A worker is gone.
    pub(super) fn leave(&mut self, link: &Arc<Link>) {
        self.leave_where(|entry| Arc::ptr_eq(&entry.link, link));
    }

    /// A worker is as good as gone.
    pub(super) fn leave_key(&mut self, key: &WorkerKey) {
        self.leave_where(|entry| entry.link.key == *key);
    }

    fn leave_where(&mut self, leaves: impl Fn(&WorkerEntry) -> bool) {
        for entry in self.entries.extract_if(.., |entry| leaves(entry)) {
            self.in_work = self.in_work.saturating_sub(entry.taken);
        }
    }

    /// A worker gets no more requests. `true`: it has none, and can drain now.
    pub(super) fn retire(&mut self, key: &WorkerKey) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.link.key == *key) else { return true };
        entry.retired = true;
        entry.taken == 0
    }

    /// The same for one whose worker has asked for it.
    pub(super) fn close(&mut self, key: &WorkerKey) -> bool {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.link.key == *key) {
            entry.closed = true;
        }
        self.retire(key)
    }

    /// Takes a place for a request, if one is free: with the fewest requests first, then one of the same thread, or, of servers, to which every thread has
    /// connections of its own, the one whose turn it is. A patient request may also wait at the worker itself.
    pub(super) fn take_slot(&mut self, job: &QueuedRequest) -> Option<Arc<Link>> {
        // It comes this moment, or again after a failure: no look at the clock.
        let now = job.since.into_std();
        let free = |entry: &&mut WorkerEntry| !entry.retired && entry.taken < entry.slots;
        let own = job.session.and_then(|session| self.worker_of(session));
        let best = |entry: &&mut WorkerEntry| {
            let is_other = own.is_some_and(|own| own != entry.link.key.number);
            // One that is measured gets requests whenever it can: it has been chosen for them.
            let is_usual = entry.before.is_none();
            (job.avoids(&entry.link), is_other, is_usual, entry.taken, entry.rank(job.thread))
        };
        self.turn += 1;
        let turn = self.turn;
        let entry = match self.entries.iter_mut().filter(free).min_by_key(best) {
            Some(entry) => entry,
            None if job.may_wait_at_worker() && self.waiting.is_empty() => self.slot_ahead(now)?,
            None => return None,
        };
        entry.take(now);
        entry.turn = turn;
        let (link, slots) = (Arc::clone(&entry.link), entry.slots);
        self.count_begun(slots);
        Some(link)
    }

    /// The number of a session's worker, by rendezvous hashing: a worker that comes or goes moves its own sessions only, and a replacement has the number of the one it
    /// replaces.
    fn worker_of(&self, session: u64) -> Option<u32> {
        let numbers = self.entries.iter().filter(|entry| !entry.retired).map(|entry| entry.link.key.number);
        numbers.max_by_key(|number| mix(session ^ mix(u64::from(*number))))
    }

    /// A worker behind whose present request another may wait. Only where there is one worker: with several, it would have to be taken back when
    /// another becomes free first.
    fn slot_ahead(&mut self, now: std::time::Instant) -> Option<&mut WorkerEntry> {
        let [entry] = self.entries.as_mut_slice() else { return None };
        (!entry.retired && entry.taken < entry.slots + entry.ahead && entry.latency.is_low(now))
            .then_some(entry)
    }

    /// A place of `link` is free again. Gives the request that takes it, if one waits. `Err`: the worker is retired and has nothing left.
    pub(super) fn free_slot(&mut self, link: &Arc<Link>) -> Result<Option<QueuedRequest>, WorkerDrained> {
        let Some(entry) = self.entry(link) else { return Ok(None) };
        entry.taken = entry.taken.saturating_sub(1);
        entry.latency.handle_response(Instant::now().into_std(), entry.taken > 0);
        let (retired, closed, empty) = (entry.retired, entry.closed, entry.taken == 0);
        self.in_work = self.in_work.saturating_sub(1);
        if !retired {
            return Ok(self.fill(link));
        }
        // The last worker of an app that was taken out of the configuration: what waits has been promised a response.
        match self.workers() {
            0 if !closed => match self.next_job(link.thread()) {
                Some(job) => {
                    self.take(link, Instant::now().into_std());
                    Ok(Some(job))
                }
                None if empty => Err(WorkerDrained),
                None => Ok(None),
            },
            _ if empty => Err(WorkerDrained),
            _ => Ok(None),
        }
    }

    /// The request that takes a free place of `link`, which is then taken.
    pub(super) fn fill(&mut self, link: &Arc<Link>) -> Option<QueuedRequest> {
        let now = Instant::now().into_std();
        let entry = self.entry(link)?;
        if entry.retired {
            return None;
        }
        if entry.taken >= entry.slots {
            self.slot_ahead(now)?;
            // One that cannot wait at the worker holds up those behind it, which are younger.
            if !self.waiting.front().is_some_and(QueuedRequest::may_wait_at_worker) {
                return None;
            }
        }
        let job = self.next_job(link.thread())?;
        self.take(link, now);
        Some(job)
    }

    fn take(&mut self, link: &Arc<Link>, now: std::time::Instant) {
        let Some(entry) = self.entry(link) else { return };
        entry.take(now);
        let slots = entry.slots;
        self.count_begun(slots);
    }

    /// A worker with that many slots was given a request.
    fn count_begun(&mut self, slots: usize) {
        self.in_work += 1;
        self.load.begun += 1;
        self.load.needed = self.load.needed.max(self.in_work.div_ceil(slots.max(1)));
    }

    /// What requests have met since this was asked last.
    pub(super) fn load(&mut self) -> AppLoad {
        let slots = self.entries.iter().map(|entry| entry.slots).max().unwrap_or(1);
        let needed = self.in_work.div_ceil(slots.max(1));
        let oldest = self.waiting.iter().find(|job| !job.call.is_abandoned());
        let oldest = oldest.map_or(Duration::ZERO, |job| job.since.elapsed());
        AppLoad { oldest, ..std::mem::replace(&mut self.load, AppLoad { needed, ..AppLoad::default() }) }
    }

    fn next_job(&mut self, thread: usize) -> Option<QueuedRequest> {
        while self.waiting.front().is_some_and(|job| job.call.is_abandoned()) {
            self.waiting.pop_front();
        }
        let oldest = self.waiting.front()?;
        let waited = oldest.since.elapsed();
        if oldest.thread == thread || waited >= LOCAL_FIRST {
            self.load.late += u64::from(waited >= LONG_WAIT);
            return self.waiting.pop_front();
        }
        let local = self.waiting.iter().position(|job| job.thread == thread && !job.call.is_abandoned());
        self.waiting.remove(local.unwrap_or(0))
    }

    /// Lets a request wait.
    pub(super) fn wait(&mut self, job: QueuedRequest) {
        self.waiting.push_back(job);
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Those that are next, up to a limit.
    pub(super) fn next_waiting(&self, limit: usize) -> Vec<WaitingRequest> {
        let waiting = |job: &QueuedRequest| WaitingRequest {
            summary: job.call.summary.clone(),
            path: job.call.path(job.kind.frame()),
            waited: job.since.elapsed(),
        };
        self.waiting.iter().take(limit).map(waiting).collect()
    }

    /// Removes a request that nobody waits for.
    pub(super) fn forget(&mut self, call: &Arc<Call>) {
        self.waiting.retain(|job| !Arc::ptr_eq(&job.call, call));
    }

    /// Removes all that wait.
    pub(super) fn take_waiting(&mut self) -> VecDeque<QueuedRequest> {
        std::mem::take(&mut self.waiting)
    }

    /// Removes those that wait and are meant.
    pub(super) fn take_waiting_of(
        &mut self,
        meant: impl Fn(&QueuedRequest) -> bool,
    ) -> VecDeque<QueuedRequest> {
        let (taken, left) = std::mem::take(&mut self.waiting).into_iter().partition(meant);
        self.waiting = left;
        taken
    }

    /// All workers that have not left, those that get no more requests among them.
    pub(super) fn links(&self) -> impl Iterator<Item = Arc<Link>> {
        self.entries.iter().map(|entry| Arc::clone(&entry.link))
    }

    /// The workers that take requests.
    pub(super) fn serving(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.entries.iter().filter(|entry| !entry.retired).map(|entry| &entry.link)
    }

    /// Workers that take requests.
    pub(super) fn workers(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.retired).count()
    }

    /// Of each worker how many places are taken, and how many it has.
    #[cfg(test)]
    pub(super) fn slots(&self) -> impl Iterator<Item = (&Arc<Link>, usize, usize)> {
        self.entries.iter().map(|entry| (&entry.link, entry.taken, entry.slots))
    }

    /// Requests that workers hold.
    #[cfg(test)]
    pub(super) fn in_work(&self) -> usize {
        self.in_work
    }

    fn entry(&mut self, link: &Arc<Link>) -> Option<&mut WorkerEntry> {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.link, link))
    }
}

impl WorkerEntry {
    /// Among those with as many requests, the lowest is chosen.
    fn rank(&self, thread: usize) -> u64 {
        match self.link.kind {
            LinkKind::Wire(_) => u64::from(self.link.thread() != thread),
            LinkKind::Server(_) | LinkKind::External(_) => self.turn,
        }
    }

    fn take(&mut self, now: std::time::Instant) {
        if self.taken == 0 {
            self.latency.handle_begin(now);
        }
        self.taken += 1;
    }
}

/// The finalizer of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl QueuedRequest {
    fn avoids(&self, link: &Arc<Link>) -> bool {
        self.avoid.as_ref().is_some_and(|avoided| Arc::ptr_eq(avoided, link))
    }

    /// Whether it may wait at a worker (`spec/wire.md` §4): it is complete, small, and no WebSocket.
    pub(super) fn may_wait_at_worker(&self) -> bool {
        const SMALL: usize = 16 * 1024;
        match &self.kind {
            RequestKind::Wire(frame) => {
                frame_flags(frame) & (flags::END | flags::WEBSOCKET) == flags::END && frame.len() <= SMALL
            }
            RequestKind::Server => false,
        }
    }
}

/// The worker gets no more requests, and has none.
#[derive(Debug)]
pub(super) struct WorkerDrained;
