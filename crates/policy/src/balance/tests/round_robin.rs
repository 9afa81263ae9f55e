use super::*;

fn order(weights: &[u32]) -> String {
    // Their order is that of their identities.
    let mut members: Vec<_> =
        weights.iter().map(|weight| Member { weight: *weight, priority: 0, identity: 0 }).collect();
    (0..).zip(&mut members).for_each(|(at, member)| member.identity = at);
    let balancer = balancer(Algorithm::RoundRobin, &members);
    let total: u32 = weights.iter().sum();
    (0..total)
        .map(|_| {
            let ask = PickContext { hash: None, tried: &FailedMembers::default(), random: 0 };
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
fn an_endpoint_in_slow_start_passes_most_of_its_turns_on() {
    let balancer = balancer(Algorithm::RoundRobin, &equal(4));
    let view = |at| MemberStatus { slow_start_factor: if at == 0 { 100 } else { 1000 }, ..WELL };
    let picked = spread(&balancer, 4, 40_000, view);
    assert!((1_000..2_000).contains(&picked[0]), "{picked:?}");
}

#[test]
fn many_endpoints_of_many_weights_are_built_in_time() {
    let members: Vec<_> = (0..5_000).map(|at| member(at, 1 + (at as u32 * 7_919) % 65_536, 0)).collect();
    let picked = spread(&balancer(Algorithm::RoundRobin, &members), 5_000, 10_000, |_| WELL);
    assert_eq!(picked.iter().sum::<u64>(), 10_000);
}
