//! The endpoints of one priority.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::tables::{Alias, Maglev, Ring, Schedule};
use super::{Algorithm, Member, MemberStatus};
use crate::rng::{Rng, mix};

/// Draws before all members are scanned. With half of them usable that happens once in 256 picks.
const DRAWS_MAX: usize = 8;
/// Assumed average of an endpoint that has requests and no sample yet: a penalty, so that a new endpoint is not given all requests before it
/// has responded to the first (Finagle's penalty). In nanoseconds, far above any timeout.
const UNKNOWN: u64 = 1 << 45;
/// Scale of the pressure of requests in flight, which is a whole number.
const SCALE: u64 = 1024;

#[derive(Debug)]
pub(super) struct Level {
    /// In the order of their identities, so that tables are the same on every host.
    members: Vec<Entry>,
    /// Sum of the weights.
    total: u64,
    table: Table,
    /// Thousandths of the weight, at the last refresh.
    usable: AtomicU32,
    /// Thousandths of all load.
    share: AtomicU32,
    panics: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Index into the set.
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
    pub(super) fn new(method: Algorithm, members: &[Member], priority: u32) -> Self {
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
            Algorithm::LeastRequest => Table::Alias(Alias::new(&weights)),
            Algorithm::RoundRobin => Table::Schedule(Schedule::new(&weights)),
            Algorithm::RingHash => Table::Ring(Ring::new(&weighted)),
            Algorithm::Maglev => Table::Maglev(Maglev::new(&weighted)),
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

    /// Queries all members.
    pub(super) fn refresh(&self, view: impl Fn(usize) -> MemberStatus) {
        let usable: u64 = self
            .members
            .iter()
            .filter(|entry| view(entry.index).usable)
            .map(|entry| u64::from(entry.weight))
            .sum();
        let part = u32::try_from(usable * 1000 / self.total.max(1)).unwrap_or(1000);
        // Not zero when one of very many is usable.
        self.usable.store(part.max(u32::from(usable > 0)), Ordering::Relaxed);
    }

    /// The usable part at the last refresh, in thousandths of the weight.
    pub(super) fn usable(&self) -> u32 {
        self.usable.load(Ordering::Relaxed)
    }

    /// The index of a member that `admit` accepts.
    pub(super) fn pick(
        &self,
        view: &impl Fn(usize) -> MemberStatus,
        admit: &impl Fn(usize, &MemberStatus) -> bool,
        hash: Option<u64>,
        rng: &mut Rng,
    ) -> Option<usize> {
        let look = |at: usize| {
            let entry = self.members.get(at)?;
            let view = view(entry.index);
            admit(entry.index, &view).then_some((*entry, view))
        };
        let hash = hash.unwrap_or(0);
        let found = match &self.table {
            Table::Alias(alias) => self.less_loaded(alias, &look, rng),
            Table::Schedule(schedule) => {
                let next = |drawn: usize, rng: &mut Rng| match drawn {
                    0 => schedule.next(),
                    // The turn of an unusable member goes to a random one: if it went to the next, that one would bear twice its part.
                    _ => schedule.random(rng.next()),
                };
                self.draw(next, &look, rng)
            }
            Table::Ring(ring) => self.draw(|drawn, _| ring.at(hash, drawn), &look, rng),
            Table::Maglev(maglev) => {
                // The keys of an unusable member are spread over the others, and come back when it is usable.
                let place = |drawn| if drawn == 0 { hash } else { mix(hash.wrapping_add(drawn as u64)) };
                self.draw(|drawn, _| maglev.at(place(drawn)), &look, rng)
            }
        };
        found.map(|(entry, _)| entry.index)
    }

    /// The first of some draws that is accepted, else any member that is.
    fn draw(
        &self,
        next: impl Fn(usize, &mut Rng) -> usize,
        look: &impl Fn(usize) -> Option<(Entry, MemberStatus)>,
        rng: &mut Rng,
    ) -> Option<(Entry, MemberStatus)> {
        let keyed = matches!(self.table, Table::Ring(_) | Table::Maglev(_));
        // A key does not leave an endpoint because of slow start; least request applies it when it compares.
        let has_slow_start = matches!(self.table, Table::Schedule(_));
        let mut first = 0;
        for drawn in 0..DRAWS_MAX {
            let at = next(drawn, rng);
            if drawn == 0 {
                first = at;
            }
            if let Some(found) = look(at)
                && (!has_slow_start || rng.chance(found.1.slow_start_factor, 1000))
            {
                return Some(found);
            }
        }
        // The scan starts at another position for each request, and at the same for each key.
        let start = if keyed { first } else { usize::try_from(rng.below(self.len())).unwrap_or(0) };
        self.scan(start, look)
    }

    fn scan(
        &self,
        start: usize,
        look: &impl Fn(usize) -> Option<(Entry, MemberStatus)>,
    ) -> Option<(Entry, MemberStatus)> {
        (start..self.members.len()).chain(0..start).find_map(look)
    }

    fn less_loaded(
        &self,
        alias: &Alias,
        look: &impl Fn(usize) -> Option<(Entry, MemberStatus)>,
        rng: &mut Rng,
    ) -> Option<(Entry, MemberStatus)> {
        let one = self.draw(|_, rng| alias.draw(rng.next()), look, rng)?;
        if self.members.len() == 1 {
            return Some(one);
        }
        let another = |at: usize| look(at).filter(|(entry, _)| entry.index != one.0.index);
        let Some(other) = self.draw(|_, rng| alias.draw(rng.next()), &another, rng) else {
            return Some(one);
        };
        // If equal, the first draw: so idle endpoints are used by their weights.
        let (less, more) = if self.cost(&other) < self.cost(&one) { (other, one) } else { (one, other) };
        // An endpoint in slow start has less load just because of that.
        let takes = rng.chance(less.1.slow_start_factor, more.1.slow_start_factor.clamp(1, 1000));
        Some(if takes { less } else { more })
    }

    /// The average, times the requests in flight (relative to its weight) including this one.
    fn cost(&self, (entry, view): &(Entry, MemberStatus)) -> u128 {
        let capacity = u64::from(entry.weight) * u64::from(view.slow_start_factor.clamp(1, 1000));
        let mean = self.total * 1000 / self.len().max(1);
        let outstanding = u64::from(view.outstanding.min(1 << 20));
        let pressure = SCALE + outstanding * mean / capacity.max(1) * SCALE;
        let average = u64::try_from(view.average.as_nanos()).unwrap_or(u64::MAX);
        let average = if average == 0 && view.outstanding > 0 { UNKNOWN } else { average };
        u128::from(average) * u128::from(pressure)
    }

    fn len(&self) -> u64 {
        self.members.len() as u64
    }
}
