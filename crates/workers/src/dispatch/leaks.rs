//! What an app's workers keep between requests, as one of them measures it after each request (`spec/wire.md` §11).
//!
//! [`App::begin_leak_search`] and [`LeakSearch::measure`] choose a worker. It gets no request until those that it has are over; then LEAKS, and from its response on
//! one request at a time, each after the GROWTH of the one before. Its slot stays taken until then. Dropping the [`Measuring`] makes it a worker like any other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keepwarm_wire::frame::Growth;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::activity::RequestSummary;
use super::app::App;
use super::call::Call;
use super::kind::LinkKind;
use super::link::{Link, LinkInner};
use crate::supervisor::WorkerKey;

/// Changes that are read of one GROWTH; a worker sends 200 at most.
const CHANGES: usize = 250;
/// The longest name, in bytes: of a longer one the beginning.
const LONGEST: usize = 512;

/// A search for what an app keeps. There is one of an app at a time; it ends when this is dropped.
#[derive(Debug)]
pub struct LeakSearch(Arc<App>);

/// A worker that is measured, until this is dropped.
#[derive(Debug)]
pub struct Measuring {
    app: Arc<App>,
    link: Arc<Link>,
    takes_many: bool,
    measurements: UnboundedReceiver<Measurement>,
}

/// What a request has left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// Its method and the pattern of its route: `GET /cart`.
    pub route: String,
    /// How long the worker took to measure it.
    pub time: Duration,
    /// Names (`spec/wire.md` §11), without control characters, and changes.
    pub changes: Vec<(String, i64)>,
}

/// What a worker that is measured does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuringState {
    /// The requests that it had before.
    Finishing,
    /// It counts what it holds, before the first request.
    Counting,
    /// Nothing: it waits for a request.
    Idle,
    /// A request.
    Serving,
    /// It counts what a request has left behind.
    Measuring,
    /// It is measured no more: it has gone, will go, or has a WebSocket.
    Over,
}

/// A worker of an app, as far as its leaks are concerned.
#[derive(Debug, Clone)]
pub struct LeaksWorker {
    /// Who.
    pub key: WorkerKey,
    /// What its adapter is (`python/0.1.0`); none before it is ready.
    pub adapter: Option<Arc<str>>,
    /// It can measure what its requests leave behind.
    pub measures: bool,
}

impl App {
    /// Begins a search. `None`: there is one.
    pub fn begin_leak_search(self: &Arc<Self>) -> Option<LeakSearch> {
        let is_first = !self.is_searched.swap(true, Ordering::AcqRel);
        is_first.then(|| LeakSearch(Arc::clone(self)))
    }

    /// Whether a search is under way.
    pub fn is_searched(&self) -> bool {
        self.is_searched.load(Ordering::Acquire)
    }

    /// Its workers that take requests; none of those that are servers by themselves.
    pub fn leaks_workers(&self) -> Vec<LeaksWorker> {
        let links: Vec<Arc<Link>> = self.state().queue.serving().cloned().collect();
        links
            .iter()
            .filter(|link| matches!(link.kind, LinkKind::Wire(_)))
            .map(|link| LeaksWorker {
                key: link.key.clone(),
                adapter: link.adapter().map(|adapter| Arc::clone(&adapter.name)),
                measures: link.adapter().is_some_and(|adapter| adapter.leaks),
            })
            .collect()
    }

    /// A worker that will be measured may have no request any more.
    #[cold]
    pub(super) fn count_if_idle(&self, link: &Arc<Link>) {
        if self.state().queue.is_idle(link) {
            link.begin_leaks();
        }
    }
}

impl LeakSearch {
    /// Begins to measure the worker with this process id. `None`: it has gone, will go, or is measured.
    #[must_use]
    pub fn measure(&self, pid: u32) -> Option<Measuring> {
        measure(&self.0, pid)
    }
}

impl App {
    /// The same without a search, for as long as there is none: the caller gives way to one.
    #[must_use]
    pub fn measure_unasked(self: &Arc<Self>, pid: u32) -> Option<Measuring> {
        if self.is_searched() { None } else { measure(self, pid) }
    }
}

fn measure(app: &Arc<App>, pid: u32) -> Option<Measuring> {
    let link = app.state().queue.serving().find(|link| link.key.pid == pid).cloned()?;
    let (sender, measurements) = unbounded_channel();
    {
        let mut inner = link.lock();
        if inner.dead || inner.leaks.is_some() {
            return None;
        }
        inner.leaks = Some(Box::new(LinkLeaks::new(sender)));
    }
    let mut measuring =
        Measuring { app: Arc::clone(app), link: Arc::clone(&link), takes_many: false, measurements };
    link.set_awaits_idle(true);
    let places = app.state().queue.measure(&link);
    measuring.takes_many = places? > 1;
    app.count_if_idle(&link);
    Some(measuring)
}

impl Drop for LeakSearch {
    fn drop(&mut self) {
        self.0.is_searched.store(false, Ordering::Release);
    }
}

impl Measuring {
    /// The next measurement. `None`: the worker is measured no more.
    pub async fn next(&mut self) -> Option<Measurement> {
        self.measurements.recv().await
    }

    /// What the worker does, and since when.
    #[must_use]
    pub fn state(&self) -> (MeasuringState, Instant) {
        let inner = self.link.lock();
        match &inner.leaks {
            Some(leaks) if !self.link.is_retired() => (leaks.state, leaks.since),
            _ => (MeasuringState::Over, Instant::now()),
        }
    }

    /// Whether it takes several requests at once when it is not measured.
    #[must_use]
    pub fn takes_many(&self) -> bool {
        self.takes_many
    }

    /// Who.
    #[must_use]
    pub fn worker(&self) -> &WorkerKey {
        &self.link.key
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        self.link.set_awaits_idle(false);
        let holds_slot = self.link.end_leaks();
        self.app.state().queue.end_measure(&self.link);
        match holds_slot {
            true => self.app.place_is_free(&self.link),
            false => self.app.fill(&self.link),
        }
    }
}

/// What a link keeps while its worker is measured.
#[derive(Debug)]
pub(super) struct LinkLeaks {
    measurements: UnboundedSender<Measurement>,
    state: MeasuringState,
    since: Instant,
    /// The request that the worker has, or had last.
    stream: u32,
    /// What that was, once it is over; none if its client has left.
    summary: Option<RequestSummary>,
    /// Its slot is free when its GROWTH has come.
    holds_slot: bool,
}

impl LinkLeaks {
    fn new(measurements: UnboundedSender<Measurement>) -> Self {
        Self {
            measurements,
            state: MeasuringState::Finishing,
            since: Instant::now(),
            stream: 0,
            summary: None,
            holds_slot: false,
        }
    }

    fn set(&mut self, state: MeasuringState) {
        (self.state, self.since) = (state, Instant::now());
    }

    /// The worker gets a request. It may be one that was on its way to it before.
    pub(super) fn begin(&mut self, stream: u32) {
        if self.state == MeasuringState::Idle {
            (self.stream, self.summary) = (stream, None);
            self.set(MeasuringState::Serving);
        }
    }

    /// A request is over.
    pub(super) fn end(&mut self, stream: u32, call: Option<&Arc<Call>>) {
        if self.state == MeasuringState::Serving && self.stream == stream {
            self.summary = call.map(|call| call.summary.clone());
            self.set(MeasuringState::Measuring);
        }
    }

    fn send(&self, summary: &RequestSummary, growth: &Growth<'_>) {
        let change = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<i64>().ok();
        let pairs = growth.changes.pairs().take(CHANGES);
        let changes = pairs.filter_map(|(name, digits)| Some((cleaned(name), change(digits)?))).collect();
        let time = Duration::from_micros(growth.microseconds.into());
        // An error: nobody wants it any more.
        let _ = self.measurements.send(Measurement { route: summary.to_string(), time, changes });
    }
}

/// One line, whatever the worker has sent.
fn cleaned(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.get(..LONGEST).unwrap_or(name));
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What follows from a GROWTH.
pub(super) enum AfterGrowth {
    /// The worker can get its first request.
    Ready,
    /// The worker can get its next request.
    SlotFree,
    Nothing,
}

impl Link {
    /// Sends LEAKS, if it is time.
    fn begin_leaks(&self) {
        let mut frame = Vec::new();
        let mut inner = self.lock();
        let LinkInner { leaks: Some(leaks), session, .. } = &mut *inner else { return };
        if leaks.state == MeasuringState::Finishing && session.begin_leaks(&mut frame) {
            leaks.set(MeasuringState::Counting);
            inner.write(self.kind.socket(), &frame);
            self.set_awaits_idle(false);
        }
    }

    /// The worker is measured no more. `true`: its slot waited for the GROWTH, and is free.
    fn end_leaks(&self) -> bool {
        let mut inner = self.lock();
        let holds_slot = inner.leaks.as_ref().is_some_and(|leaks| leaks.holds_slot);
        inner.end_leaks(self.kind.socket());
        holds_slot
    }

    /// The worker has sent what the last request has left behind.
    pub(super) fn handle_growth(&self, growth: &Growth<'_>) -> AfterGrowth {
        let mut inner = self.lock();
        let Some(leaks) = &mut inner.leaks else { return AfterGrowth::Nothing };
        match (growth.request, leaks.state) {
            (0, MeasuringState::Counting) => {
                leaks.set(MeasuringState::Idle);
                AfterGrowth::Ready
            }
            (request, MeasuringState::Measuring) if request == leaks.stream => {
                if let Some(summary) = leaks.summary.take() {
                    leaks.send(&summary, growth);
                }
                leaks.set(MeasuringState::Idle);
                match std::mem::take(&mut leaks.holds_slot) {
                    true => AfterGrowth::SlotFree,
                    false => AfterGrowth::Nothing,
                }
            }
            // It has crossed the end of the measurement before this one.
            _ => AfterGrowth::Nothing,
        }
    }
}

impl LinkInner {
    /// Whether the slot of a request that is over waits for its GROWTH.
    #[cfg(test)]
    pub(super) fn holds_slot(&self) -> bool {
        self.leaks.as_ref().is_some_and(|leaks| leaks.holds_slot)
    }

    /// A slot would be free now. `false`: not before the GROWTH of its request.
    pub(super) fn frees_slot(&mut self) -> bool {
        let Self { leaks: Some(leaks), session, .. } = self else { return true };
        leaks.holds_slot = session.is_growth_awaited();
        !leaks.holds_slot
    }
}

#[cfg(test)]
mod tests;
