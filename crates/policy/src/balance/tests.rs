#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

mod hashed;
mod least_request;
mod load;
mod priorities;
mod round_robin;

use std::collections::HashMap;
use std::time::Instant;

use super::*;

const METHODS: [Algorithm; 4] =
    [Algorithm::LeastRequest, Algorithm::RoundRobin, Algorithm::RingHash, Algorithm::Maglev];
const WELL: MemberStatus =
    MemberStatus { usable: true, outstanding: 0, average: Duration::from_millis(1), slow_start_factor: 1000 };
const DOWN: MemberStatus = MemberStatus { usable: false, ..WELL };

fn member(identity: u64, weight: u32, priority: u32) -> Member {
    Member { weight, priority, identity: stable(identity) }
}

fn stable(number: u64) -> u64 {
    crate::stable_hash(&number.to_be_bytes())
}

fn equal(count: u64) -> Vec<Member> {
    (0..count).map(|identity| member(identity, 1, 0)).collect()
}

fn balancer(method: Algorithm, members: &[Member]) -> Balancer {
    Balancer::new(BalanceSettings { method, ..BalanceSettings::default() }, members)
}

/// How often each is picked, by requests of as many keys.
fn spread(balancer: &Balancer, count: usize, picks: u64, view: impl Fn(usize) -> MemberStatus) -> Vec<u64> {
    let mut picked = vec![0; count];
    let mut rng = Rng::new(1);
    for at in 0..picks {
        let ask =
            PickContext { hash: Some(stable(at)), tried: &FailedMembers::default(), random: rng.next() };
        picked[balancer.pick(&view, ask).expect("there are some").index] += 1;
    }
    picked
}

fn assert_near(picked: &[u64], shares: &[u64], tolerance: u64, what: impl std::fmt::Debug) {
    let (all, total) = (picked.iter().sum::<u64>(), shares.iter().sum::<u64>());
    for (picked, share) in picked.iter().zip(shares) {
        let expected = all * share / total;
        let off = picked.abs_diff(expected) * 100;
        assert!(off <= expected * tolerance, "{what:?}: {picked} for {expected}");
    }
}

#[test]
fn an_empty_set_has_no_pick() {
    for method in METHODS {
        let ask = PickContext { hash: None, tried: &FailedMembers::default(), random: 1 };
        assert_eq!(balancer(method, &[]).pick(|_| WELL, ask), None);
        assert_eq!(balancer(method, &[member(1, 0, 0)]).pick(|_| WELL, ask), None, "a weight of 0");
        let one = balancer(method, &[member(1, 1, 7)]);
        assert_eq!(one.pick(|_| WELL, ask), Some(Pick { index: 0, panic: false }));
    }
}

/// There is nowhere else to go: whether it starts slowly, is ejected or fails its checks, the only one gets everything.
#[test]
fn the_only_endpoint_gets_everything() {
    for method in [Algorithm::LeastRequest, Algorithm::RoundRobin, Algorithm::RingHash, Algorithm::Maglev] {
        let balancer = balancer(method, &equal(1));
        for usable in [true, false] {
            let view = |_| MemberStatus { usable, slow_start_factor: 100, ..WELL };
            assert_eq!(spread(&balancer, 1, 1_000, view), [1_000], "{method:?}");
        }
    }
}

#[test]
fn picks_follow_the_weights() {
    let weights = [1, 2, 3, 10, 0, 4];
    let members: Vec<_> = (0..).zip(weights).map(|(at, weight)| member(at, weight, 0)).collect();
    let shares = weights.map(u64::from);
    for (method, tolerance) in METHODS.into_iter().zip([6, 0, 25, 6]) {
        let picked = spread(&balancer(method, &members), 6, 40_000, |_| WELL);
        assert_eq!(picked[4], 0);
        assert_near(&picked, &shares, tolerance, method);
    }
}

#[test]
fn an_unusable_endpoint_is_not_picked_and_the_others_share_its_load() {
    let members = equal(10);
    let view = |at| if at % 4 == 1 { DOWN } else { WELL };
    for (method, tolerance) in METHODS.into_iter().zip([10, 10, 45, 10]) {
        let picked = spread(&balancer(method, &members), 10, 40_000, view);
        let shares = [1, 0, 1, 1, 1, 0, 1, 1, 1, 0];
        assert_near(&picked, &shares, tolerance, method);
    }
}

/// Any subset of usable ones, tried ones among them: what is picked is the best that there is.
#[test]
fn a_usable_untried_member_is_found_if_there_is_one() {
    let mut rng = Rng::new(9);
    for round in 0..1_000 {
        // Maglev's table takes its time to build.
        let method = METHODS[if round % 50 == 0 { 3 } else { round % 3 }];
        let count = 1 + rng.below(12);
        let members: Vec<_> = (0..count)
            .map(|at| member(at, u32::try_from(rng.below(3)).unwrap(), u32::try_from(rng.below(3)).unwrap()))
            .collect();
        let mask = rng.next() & rng.next();
        let panic = if round % 2 == 0 { 0 } else { 50 };
        let balancer =
            Balancer::new(BalanceSettings { method, panic, ..BalanceSettings::default() }, &members);
        let view = |at: usize| if mask >> at & 1 == 1 { WELL } else { DOWN };
        let mut tried = FailedMembers::default();
        for _ in 0..4 {
            let ask = PickContext { hash: None, tried: &tried, random: rng.next() };
            let picked = balancer.pick(view, ask);
            let candidates: Vec<usize> = (0..members.len()).filter(|at| members[*at].weight > 0).collect();
            let usable = |at: &&usize| view(**at).usable;
            let fresh = |at: &&usize| !tried.contains(**at);
            match picked {
                None if panic == 0 => assert!(!candidates.iter().any(|at| view(*at).usable)),
                None => assert!(candidates.is_empty()),
                Some(pick) => {
                    assert!(candidates.contains(&pick.index));
                    assert!(pick.panic || view(pick.index).usable);
                    assert!(panic > 0 || !pick.panic);
                    if candidates.iter().filter(usable).any(|at| fresh(&at)) {
                        assert!(!tried.contains(pick.index), "round {round}: {pick:?} {tried:?}");
                    }
                    tried.push(pick.index);
                }
            }
        }
    }
}

#[test]
fn failed_members_are_picked_again_only_if_there_is_no_other() {
    for method in METHODS {
        let balancer = balancer(method, &equal(3));
        let mut tried = FailedMembers::default();
        let mut order = Vec::new();
        for attempt in 0..3 {
            let ask = PickContext { hash: Some(5), tried: &tried, random: attempt };
            let pick = balancer.pick(|_| WELL, ask).unwrap();
            assert!(!tried.contains(pick.index));
            tried.push(pick.index);
            order.push(pick.index);
        }
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
        let ask = PickContext { hash: Some(5), tried: &tried, random: 3 };
        assert!(balancer.pick(|_| WELL, ask).is_some());
    }
    let mut tried = FailedMembers::default();
    (0..20).for_each(|index| tried.push(index));
    assert!(tried.contains(19) && tried.contains(12) && !tried.contains(11));
}
