//! Which worker gets which request: the places of an app's workers, and the requests that wait for one.
//!
//! A freed worker takes the oldest waiting request of any thread; a younger one of its own thread only while the oldest has waited for
//! less than [`LOCAL_FIRST`], since crossing threads costs two wake-ups. A worker never idles while a request waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::call::Call;
use super::link::Link;
use crate::supervisor::WorkerKey;

/// How long the oldest request may be passed over for one of the freed worker's own thread.
const LOCAL_FIRST: Duration = Duration::from_millis(1);

/// The workers of an app and the requests that wait for them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    seats: Vec<Seat>,
    waiting: VecDeque<Job>,
}

/// A worker's places.
#[derive(Debug)]
struct Seat {
    link: Arc<Link>,
    taken: usize,
    places: usize,
    retired: bool,
}

/// A request on its way to a worker.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) call: Arc<Call>,
    /// The REQUEST frame; its stream id is filled in when it is given.
    pub(super) frame: Vec<u8>,
    pub(super) websocket: bool,
    /// The thread of its client.
    pub(super) thread: usize,
    pub(super) since: Instant,
}

impl Queue {
    /// A worker is ready, with this many places.
    pub(super) fn enter(&mut self, link: Arc<Link>, places: usize) {
        self.seats.push(Seat { link, taken: 0, places, retired: false });
    }

    /// A worker is gone.
    pub(super) fn leave(&mut self, link: &Arc<Link>) {
        self.seats.retain(|seat| !Arc::ptr_eq(&seat.link, link));
    }

    /// A worker gets no more requests. `true`: it has none, and can drain now.
    pub(super) fn retire(&mut self, key: &WorkerKey) -> bool {
        let Some(seat) = self.seats.iter_mut().find(|seat| seat.link.key == *key) else { return true };
        seat.retired = true;
        seat.taken == 0
    }

    /// Takes a place for a request of `thread`, if one is free: a worker of the same thread first, then the one with the fewest requests.
    pub(super) fn take_place(&mut self, thread: usize) -> Option<Arc<Link>> {
        let seat = self
            .seats
            .iter_mut()
            .filter(|seat| !seat.retired && seat.taken < seat.places)
            .min_by_key(|seat| (seat.taken, seat.link.thread() != thread))?;
        seat.taken += 1;
        Some(Arc::clone(&seat.link))
    }

    /// A place of `link` is free again. Gives the request that takes it, if one waits. `Err`: the worker is retired and has nothing left.
    pub(super) fn free_place(&mut self, link: &Arc<Link>) -> Result<Option<Job>, Retired> {
        let Some(seat) = self.seat(link) else { return Ok(None) };
        seat.taken = seat.taken.saturating_sub(1);
        if !seat.retired {
            return Ok(self.fill(link));
        }
        let empty = seat.taken == 0;
        // The last worker of an app that was taken out of the configuration: what waits has been promised an answer.
        match self.workers() {
            0 => match self.next_job(link.thread()) {
                Some(job) => {
                    self.seat(link).into_iter().for_each(|seat| seat.taken += 1);
                    Ok(Some(job))
                }
                None if empty => Err(Retired),
                None => Ok(None),
            },
            _ if empty => Err(Retired),
            _ => Ok(None),
        }
    }

    /// The request that takes a free place of `link`, which is then taken.
    pub(super) fn fill(&mut self, link: &Arc<Link>) -> Option<Job> {
        let seat = self.seat(link)?;
        if seat.retired || seat.taken >= seat.places {
            return None;
        }
        let job = self.next_job(link.thread())?;
        if let Some(seat) = self.seat(link) {
            seat.taken += 1;
        }
        Some(job)
    }

    fn next_job(&mut self, thread: usize) -> Option<Job> {
        while self.waiting.front().is_some_and(|job| job.call.is_abandoned()) {
            self.waiting.pop_front();
        }
        let oldest = self.waiting.front()?;
        if oldest.thread == thread || oldest.since.elapsed() >= LOCAL_FIRST {
            return self.waiting.pop_front();
        }
        let local = self.waiting.iter().position(|job| job.thread == thread && !job.call.is_abandoned());
        self.waiting.remove(local.unwrap_or(0))
    }

    /// Lets a request wait.
    pub(super) fn wait(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Removes a request that nobody waits for.
    pub(super) fn forget(&mut self, call: &Arc<Call>) {
        self.waiting.retain(|job| !Arc::ptr_eq(&job.call, call));
    }

    /// Removes all that wait.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Job> {
        std::mem::take(&mut self.waiting)
    }

    /// Workers that take requests.
    pub(super) fn workers(&self) -> usize {
        self.seats.iter().filter(|seat| !seat.retired).count()
    }

    fn seat(&mut self, link: &Arc<Link>) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| Arc::ptr_eq(&seat.link, link))
    }
}

/// The worker gets no more requests, and has none.
#[derive(Debug)]
pub(super) struct Retired;
