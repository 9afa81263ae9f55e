use super::*;

#[test]
fn nobody_is_picked_from_nobody() {
    let balancer = Balancer::new(Settings::default(), &[]);
    let view = |_| View { usable: true, outstanding: 0, average: Duration::ZERO, warmth: 1000 };
    assert_eq!(balancer.pick(view, Ask { hash: None, tried: &Tried::default(), random: 1 }), None);
}
