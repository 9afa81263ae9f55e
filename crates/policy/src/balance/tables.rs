//! Tables that are built once for a set of endpoints, so that a pick is one lookup. Entries are positions in the list of weights.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::rng::{Rng, mix};

/// Draws by weight in constant time (Vose, *A Linear Algorithm for Generating Random Numbers with a Given Distribution*, 1991), in whole numbers.
#[derive(Debug)]
pub(super) struct Alias {
    /// Each column is as high as the sum of weights: up to the border it is the entry itself, above it the other.
    columns: Vec<Column>,
    total: u64,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    border: u64,
    other: usize,
}

impl Alias {
    pub(super) fn new(weights: &[u32]) -> Self {
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let count = weights.len() as u64;
        let mut columns: Vec<Column> = weights
            .iter()
            .enumerate()
            .map(|(at, weight)| Column { border: u64::from(*weight) * count, other: at })
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..columns.len()).partition(|at| columns.get(*at).is_some_and(|column| column.border < total));
        while let (Some(less), Some(&more)) = (small.pop(), large.last()) {
            let Some(missing) = columns.get_mut(less).map(|column| {
                column.other = more;
                total - column.border
            }) else {
                break;
            };
            if let Some(giver) = columns.get_mut(more) {
                giver.border -= missing;
                if giver.border < total {
                    large.pop();
                    small.push(more);
                }
            }
        }
        Self { columns, total }
    }

    pub(super) fn draw(&self, random: u64) -> usize {
        let mut rng = Rng::new(random);
        let at = usize::try_from(rng.below(self.columns.len() as u64)).unwrap_or(0);
        match self.columns.get(at) {
            Some(column) if rng.below(self.total) >= column.border => column.other,
            _ => at,
        }
    }
}

/// Smooth weighted round robin, computed once (nginx, `ngx_http_upstream_get_round_robin_peer`: each gains its weight, the one with most is next and pays the sum).
#[derive(Debug)]
pub(super) struct Schedule {
    order: Vec<usize>,
    next: AtomicUsize,
}

/// Steps that computing a schedule may take. Weights that need more are made coarser, down to equal ones at four thousand endpoints.
const STEPS: u64 = 1 << 24;

impl Schedule {
    pub(super) fn new(weights: &[u32]) -> Self {
        let weights = coarsen(weights);
        let total: i64 = weights.iter().sum();
        let mut order = Vec::new();
        if weights.iter().all(|weight| *weight == 1) {
            order.extend(0..weights.len());
        } else {
            let mut current = vec![0_i64; weights.len()];
            for _ in 0..total {
                let mut best: Option<(usize, i64)> = None;
                for (at, (current, weight)) in current.iter_mut().zip(&weights).enumerate() {
                    *current += weight;
                    if best.is_none_or(|(_, most)| *current > most) {
                        best = Some((at, *current));
                    }
                }
                let Some((at, _)) = best else { break };
                order.push(at);
                if let Some(current) = current.get_mut(at) {
                    *current -= total;
                }
            }
        }
        Self { order, next: AtomicUsize::new(0) }
    }

    pub(super) fn next(&self) -> usize {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.order.len().max(1);
        self.order.get(at).copied().unwrap_or(0)
    }

    /// A random entry, by weight.
    pub(super) fn random(&self, random: u64) -> usize {
        let at = Rng::new(random).below(self.order.len() as u64);
        usize::try_from(at).ok().and_then(|at| self.order.get(at)).copied().unwrap_or(0)
    }
}

/// Reduces weights to lowest terms, and to sums small enough for [`STEPS`].
fn coarsen(weights: &[u32]) -> Vec<i64> {
    let divisor = weights.iter().fold(0, |a, b| gcd(a, *b)).max(1);
    let count = weights.len() as u64;
    let total: u64 = weights.iter().map(|weight| u64::from(weight / divisor)).sum();
    let most = (STEPS / count.max(1)).max(count);
    weights
        .iter()
        .map(|weight| {
            let weight = u64::from(weight / divisor);
            let fits = if total > most { (weight * most / total).max(1) } else { weight };
            i64::try_from(fits).unwrap_or(1)
        })
        .collect()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Points of endpoints on a circle of hashes; a key belongs to the next point (Karger et al., *Consistent Hashing and Random Trees*, 1997; ketama).
#[derive(Debug)]
pub(super) struct Ring {
    /// Sorted.
    points: Vec<(u64, u32)>,
}

/// Points for each unit of weight (ketama has 160): shares differ by about a sixteenth.
const POINTS: u64 = 256;
/// Limit on all points together: 16 MiB.
const POINTS_MAX: u64 = 1 << 20;

impl Ring {
    pub(super) fn new(members: &[(u64, u32)]) -> Self {
        let total: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
        // Only by its own weight, so that an endpoint's points do not depend on the others. Above four thousand units of weight all have half as many, and so on:
        // the half that remains is the same, too.
        let coarser = (0..u64::BITS).find(|times| (total * POINTS) >> times <= POINTS_MAX).unwrap_or(0);
        let mut points = Vec::new();
        for (at, (identity, weight)) in (0_u32..).zip(members) {
            let count = ((u64::from(*weight) * POINTS) >> coarser).max(1);
            let mut rng = Rng::new(mix(*identity));
            points.extend((0..count).map(|_| (rng.next(), at)));
        }
        points.sort_unstable();
        Self { points }
    }

    /// The owner of the `further`th point after the hash.
    pub(super) fn at(&self, hash: u64, further: usize) -> usize {
        let at = self.points.partition_point(|(point, _)| *point < hash) + further;
        self.points.get(at % self.points.len().max(1)).map_or(0, |(_, member)| *member as usize)
    }
}

/// Maglev's table: each endpoint takes slots in an order of its own, in turn, until all are taken.
#[derive(Debug)]
pub(super) struct Maglev {
    slots: Vec<u32>,
}

/// The paper's small size, a prime: with 1 % of it or fewer as endpoints, shares differ by about 1 %.
pub(super) const TABLE_SIZE: usize = 65_537;

impl Maglev {
    pub(super) fn new(members: &[(u64, u32)]) -> Self {
        const FREE: u32 = u32::MAX;
        let heaviest = members.iter().map(|(_, weight)| u64::from(*weight)).max().unwrap_or(1);
        let mut orders: Vec<Order> = members.iter().map(|(identity, _)| Order::new(*identity)).collect();
        let mut slots = vec![FREE; TABLE_SIZE];
        let mut left = if members.is_empty() { 0 } else { TABLE_SIZE };
        // Credit of each member: in each round the heaviest takes one slot, a lighter one takes a slot in fewer rounds.
        let mut due = vec![0_u64; members.len()];
        while left > 0 {
            for ((at, (_, weight)), (order, due)) in
                (0_u32..).zip(members).zip(orders.iter_mut().zip(&mut due))
            {
                *due += u64::from(*weight);
                if *due < heaviest {
                    continue;
                }
                *due -= heaviest;
                // Terminates: an order passes every slot, and some are free.
                while let Some(slot) = slots.get_mut(order.next()) {
                    if *slot == FREE {
                        *slot = at;
                        left -= 1;
                        break;
                    }
                }
                if left == 0 {
                    break;
                }
            }
        }
        Self { slots }
    }

    pub(super) fn at(&self, hash: u64) -> usize {
        let at = usize::try_from(hash % TABLE_SIZE as u64).unwrap_or(0);
        self.slots.get(at).map_or(0, |member| *member as usize)
    }
}

/// A permutation of all slots for one endpoint: a start and a step.
#[derive(Debug)]
struct Order {
    at: usize,
    step: usize,
}

impl Order {
    fn new(identity: u64) -> Self {
        let mut rng = Rng::new(mix(identity));
        let slots = TABLE_SIZE as u64;
        let at = usize::try_from(rng.below(slots)).unwrap_or(0);
        // Any step but 0 meets every slot, since their number is a prime.
        let step = usize::try_from(1 + rng.below(slots - 1)).unwrap_or(1);
        Self { at, step }
    }

    fn next(&mut self) -> usize {
        let at = self.at;
        self.at = (at + self.step) % TABLE_SIZE;
        at
    }
}
