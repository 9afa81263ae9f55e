#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

use std::collections::HashMap;
use std::time::Instant;

use super::*;

const METHODS: [Method; 4] = [Method::LeastRequest, Method::RoundRobin, Method::RingHash, Method::Maglev];
const WELL: View = View { usable: true, outstanding: 0, average: Duration::from_millis(1), warmth: 1000 };
const DOWN: View = View { usable: false, ..WELL };

fn member(identity: u64, weight: u32, priority: u32) -> Member {
    Member { weight, priority, identity: stable(identity) }
}

fn stable(number: u64) -> u64 {
    crate::stable_hash(&number.to_be_bytes())
}

fn equal(count: u64) -> Vec<Member> {
    (0..count).map(|identity| member(identity, 1, 0)).collect()
}

fn balancer(method: Method, members: &[Member]) -> Balancer {
    Balancer::new(Settings { method, ..Settings::default() }, members)
}

/// How often each is picked, by requests of as many keys.
fn spread(balancer: &Balancer, count: usize, picks: u64, view: impl Fn(usize) -> View) -> Vec<u64> {
    let mut picked = vec![0; count];
    let mut draws = Draws::new(1);
    for at in 0..picks {
        let ask = Ask { hash: Some(stable(at)), tried: &Tried::default(), random: draws.next() };
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
fn nobody_is_picked_from_nobody() {
    for method in METHODS {
        let ask = Ask { hash: None, tried: &Tried::default(), random: 1 };
        assert_eq!(balancer(method, &[]).pick(|_| WELL, ask), None);
        assert_eq!(balancer(method, &[member(1, 0, 0)]).pick(|_| WELL, ask), None, "a weight of 0");
        let one = balancer(method, &[member(1, 1, 7)]);
        assert_eq!(one.pick(|_| WELL, ask), Some(Pick { index: 0, panic: false }));
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
fn what_cannot_be_used_is_not_picked_and_its_part_is_shared_by_the_others() {
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
fn a_usable_untried_one_is_found_whenever_there_is_one() {
    let mut draws = Draws::new(9);
    for round in 0..1_000 {
        // Maglev's table takes its time to build.
        let method = METHODS[if round % 50 == 0 { 3 } else { round % 3 }];
        let count = 1 + draws.below(12);
        let members: Vec<_> = (0..count)
            .map(|at| {
                member(at, u32::try_from(draws.below(3)).unwrap(), u32::try_from(draws.below(3)).unwrap())
            })
            .collect();
        let mask = draws.next() & draws.next();
        let panic = if round % 2 == 0 { 0 } else { 50 };
        let balancer = Balancer::new(Settings { method, panic, ..Settings::default() }, &members);
        let view = |at: usize| if mask >> at & 1 == 1 { WELL } else { DOWN };
        let mut tried = Tried::default();
        for _ in 0..4 {
            let ask = Ask { hash: None, tried: &tried, random: draws.next() };
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
fn tried_ones_are_taken_again_only_when_there_is_no_other() {
    for method in METHODS {
        let balancer = balancer(method, &equal(3));
        let mut tried = Tried::default();
        let mut order = Vec::new();
        for attempt in 0..3 {
            let ask = Ask { hash: Some(5), tried: &tried, random: attempt };
            let pick = balancer.pick(|_| WELL, ask).unwrap();
            assert!(!tried.contains(pick.index));
            tried.push(pick.index);
            order.push(pick.index);
        }
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
        let ask = Ask { hash: Some(5), tried: &tried, random: 3 };
        assert!(balancer.pick(|_| WELL, ask).is_some());
    }
    let mut tried = Tried::default();
    (0..20).for_each(|index| tried.push(index));
    assert!(tried.contains(19) && tried.contains(12) && !tried.contains(11));
}

mod least_request {
    use super::*;

    /// Servers of different speed, each taking what it is given in turn. The quick ones do more, and nobody's queue grows.
    #[test]
    fn load_follows_what_each_server_can_do() {
        let balancer = balancer(Method::LeastRequest, &equal(4));
        let service = [1_u64, 1, 2, 8].map(Duration::from_millis);
        let start = Instant::now();
        let loads: Vec<Load> = service.iter().map(|_| Load::new(start)).collect();
        let mut free = [start; 4];
        let mut under_way: Vec<(Instant, usize, Instant)> = Vec::new();
        let (mut now, mut draws, mut picked, mut longest) =
            (start, Draws::new(2), [0_u64; 4], Duration::ZERO);
        for _ in 0..40_000 {
            // Three quarters of what they can do together (2,625 a second).
            now += Duration::from_micros(draws.below(2 * 508));
            under_way.sort_unstable();
            while let Some((end, at, begun)) = under_way.first().copied().filter(|(end, ..)| *end <= now) {
                loads[at].handle_answer(end - begun, false, end);
                loads[at].handle_end();
                under_way.remove(0);
            }
            let view = |at: usize| View {
                outstanding: loads[at].outstanding(),
                average: loads[at].average(now),
                ..WELL
            };
            let ask = Ask { hash: None, tried: &Tried::default(), random: draws.next() };
            let at = balancer.pick(view, ask).unwrap().index;
            picked[at] += 1;
            loads[at].handle_begin();
            free[at] = free[at].max(now) + service[at];
            longest = longest.max(free[at] - now);
            under_way.push((free[at], at, now));
        }
        assert!(picked[0] > 4 * picked[3] && picked[2] > picked[3], "{picked:?}");
        assert!(longest < Duration::from_millis(100), "{longest:?} {picked:?}");
    }

    #[test]
    fn of_two_the_one_with_fewer_requests_gets_it() {
        let members = [member(0, 1, 0), member(1, 1, 0)];
        let balancer = balancer(Method::LeastRequest, &members);
        let view = |at| View { outstanding: if at == 0 { 3 } else { 2 }, ..WELL };
        assert_eq!(spread(&balancer, 2, 1_000, view), [0, 1_000]);
        // Three of a weight of two are less than two of a weight of one.
        let members = [member(0, 2, 0), member(1, 1, 0)];
        let balancer = super::balancer(Method::LeastRequest, &members);
        assert_eq!(spread(&balancer, 2, 1_000, view), [1_000, 0]);
    }

    #[test]
    fn a_new_endpoint_gets_one_request_until_it_has_answered() {
        let balancer = balancer(Method::LeastRequest, &equal(2));
        let view = |outstanding| {
            move |at| match at {
                0 => View { outstanding: 100, ..WELL },
                _ => View { outstanding, average: Duration::ZERO, ..WELL },
            }
        };
        assert_eq!(spread(&balancer, 2, 100, view(0)), [0, 100]);
        assert_eq!(spread(&balancer, 2, 100, view(1)), [100, 0]);
    }

    #[test]
    fn a_cold_endpoint_gets_a_part_that_grows() {
        let balancer = balancer(Method::LeastRequest, &equal(10));
        let mut last = 0;
        for warmth in [100, 300, 600, 1000] {
            let view = |at| View { warmth: if at == 0 { warmth } else { 1000 }, ..WELL };
            let part = spread(&balancer, 10, 20_000, view)[0];
            assert!(part > last && part <= 2_300, "{part} after {last}");
            last = part;
        }
    }

    /// All numbers at their ends: no overflow.
    #[test]
    fn extremes_are_compared() {
        let members = [member(0, u32::MAX, 0), member(1, 1, 0)];
        let balancer = balancer(Method::LeastRequest, &members);
        for outstanding in [0, 1, u32::MAX] {
            for average in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
                for warmth in [0, 1, 1000, u32::MAX] {
                    let view = |_| View { usable: true, outstanding, average, warmth };
                    let picked = spread(&balancer, 2, 100, view);
                    assert_eq!(picked.iter().sum::<u64>(), 100);
                }
            }
        }
    }
}

mod load {
    use super::*;

    #[test]
    fn it_rises_at_once_and_falls_slowly() {
        let start = Instant::now();
        let load = Load::new(start);
        assert_eq!(load.average(start), Duration::ZERO);
        load.handle_answer(Duration::from_millis(10), false, start);
        assert_eq!(load.average(start), Duration::from_millis(10));
        load.handle_answer(Duration::from_secs(1), false, start + Duration::from_millis(1));
        assert!(load.average(start + Duration::from_millis(1)) > Duration::from_millis(999));
        // Halved after its half-life without an answer, and with quick ones nearer to them.
        let later = start + Duration::from_millis(8_591);
        assert_eq!(load.average(later).as_millis(), 499);
        let mut now = start + Duration::from_millis(1);
        for _ in 0..8_590 {
            now += Duration::from_millis(1);
            load.handle_answer(Duration::from_millis(10), false, now);
        }
        let average = load.average(now).as_millis();
        assert!((500..525).contains(&average), "{average}");
        for _ in 0..100_000 {
            now += Duration::from_millis(1);
            load.handle_answer(Duration::from_millis(10), false, now);
        }
        assert_eq!(load.average(now).as_millis(), 10);
    }

    /// At ten thousand answers a second each step is less than a nanosecond.
    #[test]
    fn it_falls_however_many_answers_come() {
        let start = Instant::now();
        let (load, mut now) = (Load::new(start), start);
        load.handle_answer(Duration::from_millis(1), false, now);
        for _ in 0..600_000 {
            now += Duration::from_micros(100);
            load.handle_answer(Duration::from_micros(50), false, now);
        }
        let average = load.average(now).as_micros();
        assert!((50..150).contains(&average), "{average}");
    }

    #[test]
    fn a_quick_failure_does_not_make_it_look_quick() {
        let start = Instant::now();
        let load = Load::new(start);
        load.handle_answer(Duration::from_millis(50), false, start);
        let later = start + Duration::from_secs(1);
        let before = load.average(later);
        load.handle_answer(Duration::from_micros(10), true, later);
        assert_eq!(load.average(later), before);
        load.handle_answer(Duration::from_secs(5), true, later);
        assert_eq!(load.average(later), Duration::from_secs(5), "a slow one counts");
    }

    #[test]
    fn requests_in_flight_are_counted_by_all_threads() {
        let load = Load::new(Instant::now());
        (0..3).for_each(|_| load.handle_begin());
        load.handle_end();
        assert_eq!(load.outstanding(), 2);
    }
}

mod round_robin {
    use super::*;

    fn order(weights: &[u32]) -> String {
        // Their order is that of their identities.
        let mut members: Vec<_> =
            weights.iter().map(|weight| Member { weight: *weight, priority: 0, identity: 0 }).collect();
        (0..).zip(&mut members).for_each(|(at, member)| member.identity = at);
        let balancer = balancer(Method::RoundRobin, &members);
        let total: u32 = weights.iter().sum();
        (0..total)
            .map(|_| {
                let ask = Ask { hash: None, tried: &Tried::default(), random: 0 };
                let at = balancer.pick(|_| WELL, ask).unwrap().index;
                char::from(b'a' + u8::try_from(at).unwrap())
            })
            .collect()
    }

    /// The first is the example of nginx's change that brought it.
    #[test]
    fn turns_are_smooth() {
        assert_eq!(order(&[5, 1, 1]), "aabacaa");
        assert_eq!(order(&[1, 1, 1]), "abc");
        assert_eq!(order(&[3, 1, 2]), "acabca".chars().cycle().take(6).collect::<String>());
        assert_eq!(order(&[100, 100]).len(), 200);
    }

    #[test]
    fn a_cold_endpoint_passes_most_of_its_turns_on() {
        let balancer = balancer(Method::RoundRobin, &equal(4));
        let view = |at| View { warmth: if at == 0 { 100 } else { 1000 }, ..WELL };
        let picked = spread(&balancer, 4, 40_000, view);
        assert!((1_000..2_000).contains(&picked[0]), "{picked:?}");
    }

    #[test]
    fn many_endpoints_of_many_weights_are_built_in_time() {
        let members: Vec<_> = (0..5_000).map(|at| member(at, 1 + (at as u32 * 7_919) % 65_536, 0)).collect();
        let picked = spread(&balancer(Method::RoundRobin, &members), 5_000, 10_000, |_| WELL);
        assert_eq!(picked.iter().sum::<u64>(), 10_000);
    }
}

mod hashed {
    use super::*;

    const KEYS: u64 = 10_000;

    fn owners(balancer: &Balancer, members: &[Member], view: impl Fn(usize) -> View) -> HashMap<u64, u64> {
        (0..KEYS)
            .map(|key| {
                let ask = Ask { hash: Some(stable(key)), tried: &Tried::default(), random: key * 7 };
                (key, members[balancer.pick(&view, ask).unwrap().index].identity)
            })
            .collect()
    }

    fn moved(before: &HashMap<u64, u64>, after: &HashMap<u64, u64>) -> usize {
        before.iter().filter(|(key, owner)| after[*key] != **owner).count()
    }

    #[test]
    fn a_key_has_one_owner_whatever_the_order_of_the_endpoints() {
        for method in [Method::RingHash, Method::Maglev] {
            let members = equal(20);
            let mut turned = members.clone();
            turned.rotate_left(7);
            let one = owners(&balancer(method, &members), &members, |_| WELL);
            let other = owners(&balancer(method, &turned), &turned, |_| WELL);
            assert_eq!(one, other, "{method:?}");
        }
    }

    #[test]
    fn only_the_keys_of_one_that_cannot_be_used_move_and_they_spread() {
        for method in [Method::RingHash, Method::Maglev] {
            let members = equal(20);
            let balancer = balancer(method, &members);
            let before = owners(&balancer, &members, |_| WELL);
            let after = owners(&balancer, &members, |at| if at == 3 { DOWN } else { WELL });
            let mut heirs: HashMap<u64, u64> = HashMap::new();
            for (key, owner) in &before {
                match *owner == members[3].identity {
                    false => assert_eq!(after[key], *owner, "{method:?}"),
                    true => *heirs.entry(after[key]).or_default() += 1,
                }
            }
            assert!(heirs.len() >= 15, "{method:?}: {heirs:?}");
        }
    }

    /// Maglev moves a few others when the table is built anew, the ring none.
    #[test]
    fn when_an_endpoint_goes_for_good_few_others_move() {
        let members = equal(20);
        let rest: Vec<_> = members.iter().copied().filter(|it| it.identity != members[3].identity).collect();
        for (method, others) in [(Method::RingHash, 0), (Method::Maglev, KEYS as usize / 20)] {
            let before = owners(&balancer(method, &members), &members, |_| WELL);
            let after = owners(&balancer(method, &rest), &rest, |_| WELL);
            let own = before.values().filter(|owner| **owner == members[3].identity).count();
            assert!(moved(&before, &after) <= own + others, "{method:?}");
        }
    }

    #[test]
    fn a_new_endpoint_that_is_cold_gets_its_keys_all_the_same() {
        let members = equal(4);
        let balancer = balancer(Method::Maglev, &members);
        let cold = owners(&balancer, &members, |_| View { warmth: 100, ..WELL });
        assert_eq!(cold, owners(&balancer, &members, |_| WELL));
    }

    #[test]
    fn without_a_key_any_will_do() {
        for method in [Method::RingHash, Method::Maglev] {
            let balancer = balancer(method, &equal(5));
            let mut picked = [0; 5];
            for random in 0..10_000 {
                let ask = Ask { hash: None, tried: &Tried::default(), random: random * 31 };
                picked[balancer.pick(|_| WELL, ask).unwrap().index] += 1;
            }
            assert!(picked.iter().all(|times| *times > 1_000), "{picked:?}");
        }
    }
}

mod priorities {
    use super::*;

    /// Envoy's table: how much of the first of two priorities is well, and what each gets.
    #[test]
    fn the_next_takes_over_what_the_first_does_not_bear() {
        let members: Vec<_> = (0..200).map(|at| member(at, 1, u32::from(at >= 100))).collect();
        let balancer = balancer(Method::LeastRequest, &members);
        for (well, shares) in [
            (100, [1000, 0]),
            (72, [1000, 0]),
            (71, [994, 6]),
            (50, [700, 300]),
            (25, [350, 650]),
            (0, [0, 1000]),
        ] {
            let view = |at| if at < well || at >= 100 { WELL } else { DOWN };
            balancer.refresh(view);
            assert_eq!(balancer.shares().collect::<Vec<_>>(), shares, "{well}");
            assert!(!balancer.is_panicking());
            let first = spread(&balancer, 200, 10_000, view)[..100].iter().sum::<u64>();
            assert!(first.abs_diff(u64::from(shares[0]) * 10) < 250, "{well}: {first}");
        }
    }

    #[test]
    fn when_all_together_do_not_bear_it_each_gets_its_part_and_panics() {
        let members: Vec<_> = (0..20).map(|at| member(at, 1, u32::from(at >= 10))).collect();
        let balancer = balancer(Method::LeastRequest, &members);
        // 2 of 10 and 1 of 10: 28 % and 14 % are two thirds and one third.
        let view = |at| if at < 2 || at == 10 { WELL } else { DOWN };
        balancer.refresh(view);
        assert_eq!(balancer.shares().collect::<Vec<_>>(), [666, 333]);
        assert!(balancer.is_panicking());
        let picked = spread(&balancer, 20, 20_000, view);
        assert!(picked.iter().all(|times| *times > 300), "all are used: {picked:?}");
    }

    #[test]
    fn without_panic_the_few_that_are_well_get_everything() {
        let settings = Settings { panic: 0, ..Settings::default() };
        let balancer = Balancer::new(settings, &equal(10));
        let picked = spread(&balancer, 10, 1_000, |at| if at == 4 { WELL } else { DOWN });
        assert_eq!(picked[4], 1_000);
        let ask = Ask { hash: None, tried: &Tried::default(), random: 1 };
        assert_eq!(balancer.pick(|_| DOWN, ask), None);
    }

    /// Between two looks at all of them, a priority that has just died is passed over.
    #[test]
    fn a_priority_that_has_just_died_is_passed_over_at_once() {
        let members: Vec<_> = (0..20).map(|at| member(at, 1, u32::from(at >= 10))).collect();
        let balancer = balancer(Method::RoundRobin, &members);
        balancer.refresh(|_| WELL);
        let ask = Ask { hash: None, tried: &Tried::default(), random: 1 };
        let _ = balancer.pick(|_| WELL, ask);
        for random in 0..50 {
            let view = |at| if at < 10 { DOWN } else { WELL };
            let pick = balancer.pick(view, Ask { random, ..ask }).unwrap();
            assert!(pick.index >= 10 && !pick.panic);
        }
    }

    #[test]
    fn a_key_stays_with_its_priority() {
        let members: Vec<_> = (0..20).map(|at| member(at, 1, u32::from(at >= 10))).collect();
        let balancer = balancer(Method::Maglev, &members);
        let view = |at| if (5..10).contains(&at) { DOWN } else { WELL };
        for key in 0..1_000 {
            let pick = |random| {
                balancer
                    .pick(view, Ask { hash: Some(stable(key)), tried: &Tried::default(), random })
                    .unwrap()
            };
            assert_eq!(pick(1), pick(2));
        }
    }
}
