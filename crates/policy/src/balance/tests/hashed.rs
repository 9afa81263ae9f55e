use super::*;

const KEYS: u64 = 10_000;

fn owners(
    balancer: &Balancer,
    members: &[Member],
    view: impl Fn(usize) -> MemberStatus,
) -> HashMap<u64, u64> {
    (0..KEYS)
        .map(|key| {
            let ask =
                PickContext { hash: Some(stable(key)), tried: &FailedMembers::default(), random: key * 7 };
            (key, members[balancer.pick(&view, ask).unwrap().index].identity)
        })
        .collect()
}

fn moved(before: &HashMap<u64, u64>, after: &HashMap<u64, u64>) -> usize {
    before.iter().filter(|(key, owner)| after[*key] != **owner).count()
}

#[test]
fn the_owner_of_a_key_does_not_depend_on_the_order_of_endpoints() {
    for method in [Algorithm::RingHash, Algorithm::Maglev] {
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
    for method in [Algorithm::RingHash, Algorithm::Maglev] {
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

/// Maglev moves a few others when the table is rebuilt, the ring none.
#[test]
fn when_an_endpoint_goes_for_good_few_others_move() {
    let weighted = (0..6).map(|identity| member(identity, 1 + 7 * identity as u32, 0)).collect();
    for members in [equal(20), equal(5), weighted] {
        for gone in [0, 3, members.len() - 1] {
            let gone = members[gone].identity;
            let rest: Vec<_> = members.iter().copied().filter(|it| it.identity != gone).collect();
            for (method, others) in [(Algorithm::RingHash, 0), (Algorithm::Maglev, KEYS as usize / 20)] {
                let before = owners(&balancer(method, &members), &members, |_| WELL);
                let after = owners(&balancer(method, &rest), &rest, |_| WELL);
                let own = before.values().filter(|owner| **owner == gone).count();
                let moved = moved(&before, &after);
                assert!(moved <= own + others, "{method:?} of {}: {} others", members.len(), moved - own);
            }
        }
    }
}

#[test]
fn a_new_endpoint_that_is_cold_gets_its_keys_all_the_same() {
    let members = equal(4);
    let balancer = balancer(Algorithm::Maglev, &members);
    let cold = owners(&balancer, &members, |_| MemberStatus { slow_start_factor: 100, ..WELL });
    assert_eq!(cold, owners(&balancer, &members, |_| WELL));
}

#[test]
fn without_a_key_any_will_do() {
    for method in [Algorithm::RingHash, Algorithm::Maglev] {
        let balancer = balancer(method, &equal(5));
        let mut picked = [0; 5];
        for random in 0..10_000 {
            let ask = PickContext { hash: None, tried: &FailedMembers::default(), random: random * 31 };
            picked[balancer.pick(|_| WELL, ask).unwrap().index] += 1;
        }
        assert!(picked.iter().all(|times| *times > 1_000), "{picked:?}");
    }
}
