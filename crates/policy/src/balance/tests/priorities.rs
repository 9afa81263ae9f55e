use super::*;

/// Envoy's table: how much of the first of two priorities is well, and what each gets.
#[test]
fn the_next_priority_takes_the_rest_of_the_load() {
    let members: Vec<_> = (0..200).map(|at| member(at, 1, u32::from(at >= 100))).collect();
    let balancer = balancer(Algorithm::LeastRequest, &members);
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
    let balancer = balancer(Algorithm::LeastRequest, &members);
    // 2 of 10 and 1 of 10: 28 % and 14 % are two thirds and one third.
    let view = |at| if at < 2 || at == 10 { WELL } else { DOWN };
    balancer.refresh(view);
    assert_eq!(balancer.shares().collect::<Vec<_>>(), [666, 333]);
    assert!(balancer.is_panicking());
    let picked = spread(&balancer, 20, 20_000, view);
    assert!(picked.iter().all(|times| *times > 300), "all are used: {picked:?}");
}

#[test]
fn without_panic_the_few_healthy_endpoints_get_everything() {
    let settings = BalanceSettings { panic: 0, ..BalanceSettings::default() };
    let balancer = Balancer::new(settings, &equal(10));
    let picked = spread(&balancer, 10, 1_000, |at| if at == 4 { WELL } else { DOWN });
    assert_eq!(picked[4], 1_000);
    let ask = PickContext { hash: None, tried: &FailedMembers::default(), random: 1 };
    assert_eq!(balancer.pick(|_| DOWN, ask), None);
}

/// Between two looks at all of them, a priority that has just died is passed over.
#[test]
fn a_priority_that_has_just_died_is_passed_over_at_once() {
    let members: Vec<_> = (0..20).map(|at| member(at, 1, u32::from(at >= 10))).collect();
    let balancer = balancer(Algorithm::RoundRobin, &members);
    balancer.refresh(|_| WELL);
    let ask = PickContext { hash: None, tried: &FailedMembers::default(), random: 1 };
    let _ = balancer.pick(|_| WELL, ask);
    for random in 0..50 {
        let view = |at| if at < 10 { DOWN } else { WELL };
        let pick = balancer.pick(view, PickContext { random, ..ask }).unwrap();
        assert!(pick.index >= 10 && !pick.panic);
    }
}

#[test]
fn a_key_stays_with_its_priority() {
    let members: Vec<_> = (0..20).map(|at| member(at, 1, u32::from(at >= 10))).collect();
    let balancer = balancer(Algorithm::Maglev, &members);
    let view = |at| if (5..10).contains(&at) { DOWN } else { WELL };
    for key in 0..1_000 {
        let pick = |random| {
            balancer
                .pick(view, PickContext { hash: Some(stable(key)), tried: &FailedMembers::default(), random })
                .unwrap()
        };
        assert_eq!(pick(1), pick(2));
    }
}
