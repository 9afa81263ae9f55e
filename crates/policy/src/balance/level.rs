//! The endpoints of one priority.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::tables::{Alias, Maglev, Ring, Schedule};
use super::{Member, Method, View};
use crate::draws::{Draws, mix};

/// Draws before all are looked at. With half of them usable that happens once in 256 picks.
const DRAWS: usize = 8;
/// An average that is not known, of an endpoint that has requests: a guess on the safe side, so that one new endpoint is not given all requests before it
/// has answered the first (Finagle's penalty). In nanoseconds, far above any time-out.
const UNKNOWN: u64 = 1 << 45;
/// So much the pressure of requests in flight is scaled up, to stay a whole number.
const SCALE: u64 = 1024;

#[derive(Debug)]
pub(super) struct Level {
    /// In the order of their identities, so that tables are the same on every host.
    members: Vec<Entry>,
    /// Sum of the weights.
    total: u64,
    table: Table,
    /// Thousandths of the weight, when it was looked at last.
    usable: AtomicU32,
    /// Thousandths of all load.
    share: AtomicU32,
    panics: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Into the set.
    index: usize,
    weight: u32,
}

/// Positions in `members`.
#[derive(Debug)]
enum Table {
    Alias(Alias),
    Schedule(Schedule),
    Ring(Ring),
    Maglev(Maglev),
}

impl Level {
    pub(super) fn new(method: Method, members: &[Member], priority: u32) -> Self {
        let mut sorted: Vec<(u64, Entry)> = members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.priority == priority && member.weight > 0)
            .map(|(index, member)| {
                (member.identity, Entry { index, weight: member.weight.min(Member::MOST) })
            })
            .collect();
        sorted.sort_by_key(|(identity, _)| *identity);
        let weighted: Vec<(u64, u32)> = sorted.iter().map(|(id, entry)| (*id, entry.weight)).collect();
        let weights: Vec<u32> = weighted.iter().map(|(_, weight)| *weight).collect();
        let table = match method {
            Method::LeastRequest => Table::Alias(Alias::new(&weights)),
            Method::RoundRobin => Table::Schedule(Schedule::new(&weights)),
            Method::RingHash => Table::Ring(Ring::new(&weighted)),
            Method::Maglev => Table::Maglev(Maglev::new(&weighted)),
        };
        Self {
            total: weights.iter().copied().map(u64::from).sum(),
            members: sorted.into_iter().map(|(_, entry)| entry).collect(),
            table,
            usable: AtomicU32::new(0),
            share: AtomicU32::new(0),
            panics: AtomicBool::new(false),
        }
    }

    pub(super) fn share(&self) -> u32 {
        self.share.load(Ordering::Relaxed)
    }

    pub(super) fn panics(&self) -> bool {
        self.panics.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, share: u32, panics: bool) {
        self.share.store(share, Ordering::Relaxed);
        self.panics.store(panics, Ordering::Relaxed);
    }

    /// Looks at all of them.
    pub(super) fn look(&self, view: impl Fn(usize) -> View) {
        let usable: u64 = self
            .members
            .iter()
            .filter(|entry| view(entry.index).usable)
            .map(|entry| u64::from(entry.weight))
            .sum();
        let part = u32::try_from(usable * 1000 / self.total.max(1)).unwrap_or(1000);
        // One of very many is something.
        self.usable.store(part.max(u32::from(usable > 0)), Ordering::Relaxed);
    }

    /// What could be used when they were looked at, in thousandths of the weight.
    pub(super) fn usable(&self) -> u32 {
        self.usable.load(Ordering::Relaxed)
    }

    /// The index of a member that `admit` lets pass.
    pub(super) fn pick(
        &self,
        view: &impl Fn(usize) -> View,
        admit: &impl Fn(usize, &View) -> bool,
        hash: Option<u64>,
        draws: &mut Draws,
    ) -> Option<usize> {
        let look = |at: usize| {
            let entry = self.members.get(at)?;
            let view = view(entry.index);
            admit(entry.index, &view).then_some((*entry, view))
        };
        let hash = hash.unwrap_or(0);
        let found = match &self.table {
            Table::Alias(alias) => self.less_loaded(alias, &look, draws),
            Table::Schedule(schedule) => {
                let next = |drawn: usize, draws: &mut Draws| match drawn {
                    0 => schedule.next(),
                    // The place of one that cannot be used is given away at random: given to the next in the row, that one would bear twice its part.
                    _ => schedule.random(draws.next()),
                };
                self.draw(next, &look, draws)
            }
            Table::Ring(ring) => self.draw(|drawn, _| ring.at(hash, drawn), &look, draws),
            Table::Maglev(maglev) => {
                // The keys of one that cannot be used go each to another, and come back when it can.
                let place = |drawn| if drawn == 0 { hash } else { mix(hash.wrapping_add(drawn as u64)) };
                self.draw(|drawn, _| maglev.at(place(drawn)), &look, draws)
            }
        };
        found.map(|(entry, _)| entry.index)
    }

    /// The first of some draws that will do, else any that will.
    fn draw(
        &self,
        next: impl Fn(usize, &mut Draws) -> usize,
        look: &impl Fn(usize) -> Option<(Entry, View)>,
        draws: &mut Draws,
    ) -> Option<(Entry, View)> {
        let keyed = matches!(self.table, Table::Ring(_) | Table::Maglev(_));
        // Keys do not leave an endpoint because it is new; of two the choice is made later.
        let spares = matches!(self.table, Table::Schedule(_));
        let mut first = 0;
        for drawn in 0..DRAWS {
            let at = next(drawn, draws);
            if drawn == 0 {
                first = at;
            }
            if let Some(found) = look(at)
                && (!spares || draws.pass(found.1.warmth, 1000))
            {
                return Some(found);
            }
        }
        // From a place that is another for each request, and the same for each key.
        let start = if keyed { first } else { usize::try_from(draws.below(self.len())).unwrap_or(0) };
        self.scan(start, look)
    }

    fn scan(&self, start: usize, look: &impl Fn(usize) -> Option<(Entry, View)>) -> Option<(Entry, View)> {
        (start..self.members.len()).chain(0..start).find_map(look)
    }

    fn less_loaded(
        &self,
        alias: &Alias,
        look: &impl Fn(usize) -> Option<(Entry, View)>,
        draws: &mut Draws,
    ) -> Option<(Entry, View)> {
        let one = self.draw(|_, draws| alias.draw(draws.next()), look, draws)?;
        if self.members.len() == 1 {
            return Some(one);
        }
        let another = |at: usize| look(at).filter(|(entry, _)| entry.index != one.0.index);
        let Some(other) = self.draw(|_, draws| alias.draw(draws.next()), &another, draws) else {
            return Some(one);
        };
        // Of equal ones the first that was drawn: so idle endpoints are used by their weights.
        let (less, more) = if self.cost(&other) < self.cost(&one) { (other, one) } else { (one, other) };
        // One that is spared has less to do just because of that.
        let takes = draws.pass(less.1.warmth, more.1.warmth.clamp(1, 1000));
        Some(if takes { less } else { more })
    }

    /// The average, times the requests in flight (relative to what it bears) and this one.
    fn cost(&self, (entry, view): &(Entry, View)) -> u128 {
        let bears = u64::from(entry.weight) * u64::from(view.warmth.clamp(1, 1000));
        let mean = self.total * 1000 / self.len().max(1);
        let outstanding = u64::from(view.outstanding.min(1 << 20));
        let pressure = SCALE + outstanding * mean / bears.max(1) * SCALE;
        let average = u64::try_from(view.average.as_nanos()).unwrap_or(u64::MAX);
        let average = if average == 0 && view.outstanding > 0 { UNKNOWN } else { average };
        u128::from(average) * u128::from(pressure)
    }

    fn len(&self) -> u64 {
        self.members.len() as u64
    }
}
