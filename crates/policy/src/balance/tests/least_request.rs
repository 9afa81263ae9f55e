use super::*;

/// Servers of different speed, each taking what it is given in turn. The quick ones do more, and nobody's queue grows.
#[test]
fn load_follows_what_each_server_can_do() {
    let balancer = balancer(Algorithm::LeastRequest, &equal(4));
    let service = [1_u64, 1, 2, 8].map(Duration::from_millis);
    let start = Instant::now();
    let loads: Vec<EndpointLoad> = service.iter().map(|_| EndpointLoad::new(start)).collect();
    let mut free = [start; 4];
    let mut under_way: Vec<(Instant, usize, Instant)> = Vec::new();
    let (mut now, mut rng, mut picked, mut longest) = (start, Rng::new(2), [0_u64; 4], Duration::ZERO);
    for _ in 0..40_000 {
        // Three quarters of what they can do together (2,625 a second).
        now += Duration::from_micros(rng.below(2 * 508));
        under_way.sort_unstable();
        while let Some((end, at, begun)) = under_way.first().copied().filter(|(end, ..)| *end <= now) {
            loads[at].handle_response(end - begun, false, end);
            loads[at].handle_end();
            under_way.remove(0);
        }
        let view = |at: usize| MemberStatus {
            outstanding: loads[at].outstanding(),
            average: loads[at].average(now),
            ..WELL
        };
        let ask = PickContext { hash: None, tried: &FailedMembers::default(), random: rng.next() };
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
    let balancer = balancer(Algorithm::LeastRequest, &members);
    let view = |at| MemberStatus { outstanding: if at == 0 { 3 } else { 2 }, ..WELL };
    assert_eq!(spread(&balancer, 2, 1_000, view), [0, 1_000]);
    // Three of a weight of two are less than two of a weight of one.
    let members = [member(0, 2, 0), member(1, 1, 0)];
    let balancer = super::balancer(Algorithm::LeastRequest, &members);
    assert_eq!(spread(&balancer, 2, 1_000, view), [1_000, 0]);
}

#[test]
fn a_new_endpoint_gets_one_request_until_its_first_response() {
    let balancer = balancer(Algorithm::LeastRequest, &equal(2));
    let view = |outstanding| {
        move |at| match at {
            0 => MemberStatus { outstanding: 100, ..WELL },
            _ => MemberStatus { outstanding, average: Duration::ZERO, ..WELL },
        }
    };
    assert_eq!(spread(&balancer, 2, 100, view(0)), [0, 100]);
    assert_eq!(spread(&balancer, 2, 100, view(1)), [100, 0]);
}

#[test]
fn a_cold_endpoint_gets_a_part_that_grows() {
    let balancer = balancer(Algorithm::LeastRequest, &equal(10));
    let mut last = 0;
    for slow_start_factor in [100, 300, 600, 1000] {
        let view =
            |at| MemberStatus { slow_start_factor: if at == 0 { slow_start_factor } else { 1000 }, ..WELL };
        let part = spread(&balancer, 10, 20_000, view)[0];
        assert!(part > last && part <= 2_300, "{part} after {last}");
        last = part;
    }
}

/// It has less to do than the others just because it is spared.
#[test]
fn a_cold_endpoint_is_spared_though_it_is_the_less_loaded() {
    for count in [2, 3, 10] {
        let balancer = balancer(Algorithm::LeastRequest, &equal(count));
        let view = |at| match at {
            0 => MemberStatus { slow_start_factor: 100, ..WELL },
            _ => MemberStatus { outstanding: 4, ..WELL },
        };
        let part = spread(&balancer, count as usize, 20_000, view)[0];
        // A tenth of what it would get if it were warm: in both draws together twice its part.
        let most = 20_000 * 2 / count / 10;
        assert!(part <= most * 11 / 10, "{part} of {count}");
        assert!(part >= most / 2, "{part} of {count}");
    }
}

/// All numbers at their ends: no overflow.
#[test]
fn extremes_are_compared() {
    let members = [member(0, u32::MAX, 0), member(1, 1, 0)];
    let balancer = balancer(Algorithm::LeastRequest, &members);
    for outstanding in [0, 1, u32::MAX] {
        for average in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            for slow_start_factor in [0, 1, 1000, u32::MAX] {
                let view = |_| MemberStatus { usable: true, outstanding, average, slow_start_factor };
                let picked = spread(&balancer, 2, 100, view);
                assert_eq!(picked.iter().sum::<u64>(), 100);
            }
        }
    }
}
