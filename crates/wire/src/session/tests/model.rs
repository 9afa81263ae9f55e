//! [`Session`] against a naive twin in [`twin`], step by step.

mod random;
mod twin;

use super::{credits, ready};
use crate::FaultKind;
use crate::frame::ResetCode;
use crate::session::Session;
use random::Random;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use twin::Twin;

const STEPS: usize = 600;

#[test]
fn it_does_what_a_naive_twin_does() {
    let (mut steps, mut faults) = (0, HashSet::new());
    for seed in 1..=300 {
        let (ran, fault) = run(seed);
        steps += ran;
        faults.extend(fault);
    }
    // The steps must make progress, and meet every fault of a stream, or the test proves nothing.
    assert!(steps > 300 * 100, "only {steps} steps");
    for kind in [
        FaultKind::UnknownStream,
        FaultKind::StreamOver,
        FaultKind::BeforeResponse,
        FaultKind::SecondResponse,
        FaultKind::LateInform,
        FaultKind::NotWebsocket,
        FaultKind::WebsocketBody,
        FaultKind::MixedMessage,
        FaultKind::CreditSpent,
        FaultKind::CreditOverflow,
    ] {
        assert!(faults.contains(&kind), "no seed met {kind:?}");
    }
}

#[test]
fn it_does_what_a_naive_twin_does_with_a_fresh_seed() {
    for _ in 0..20 {
        run(RandomState::new().build_hasher().finish());
    }
}

/// How many steps there were, and the fault that ended them.
fn run(seed: u64) -> (usize, Option<FaultKind>) {
    println!("seed {seed}"); // shown when it fails: add it to the list as a named test
    let mut random = Random::new(seed);
    let places = [1, 2, 7, 40][random.below(4)];
    let mut pair = Pair { session: ready(places), twin: Twin::new(places as usize), out: Vec::new() };
    for step in 0..STEPS {
        if let Err(fault) = pair.step(&mut random) {
            return (step, Some(fault)); // which both saw
        }
        pair.compare();
    }
    (STEPS, None)
}

struct Pair {
    session: Session,
    twin: Twin,
    out: Vec<u8>,
}

impl Pair {
    fn step(&mut self, random: &mut Random) -> Result<(), FaultKind> {
        match random.below(16) {
            0..=2 => {
                let websocket = random.one_in(3);
                let opened = if websocket { self.session.open_websocket() } else { self.session.open() };
                assert_eq!(opened, self.twin.open(websocket));
            }
            3 => {
                let stream = self.twin.some_stream(random);
                let reset = self.session.reset(stream, ResetCode::CANCELLED, "", &mut Vec::new());
                assert_eq!(reset, self.twin.reset(stream));
            }
            4 | 5 => {
                let stream = self.twin.some_stream(random);
                let most = self.session.send_credit(stream) as usize;
                let bytes = random.up_to(most);
                self.session.spent(stream, bytes);
                self.twin.spend(stream, bytes);
            }
            6..=8 => {
                let stream = self.twin.some_stream(random);
                let bytes = random.up_to(self.twin.held(stream));
                self.session.release(stream, bytes, &mut self.out);
                let given = self.twin.release(stream, bytes);
                assert_eq!(credits(&mut self.out), given);
            }
            _ => {
                let frame = self.twin.some_frame(random);
                let judged = self.session.handle_frame(frame);
                let expected = self.twin.hear(&frame);
                match (judged, expected) {
                    (Ok(event), Ok(heard)) => heard.compare(event),
                    (Err(fault), Err(kind)) => {
                        assert_eq!(fault.kind, kind, "{frame:?}");
                        return Err(kind);
                    }
                    (judged, expected) => panic!("{frame:?}: {judged:?}, the twin {expected:?}"),
                }
                self.session.poll_credit(&mut self.out);
                assert_eq!(credits(&mut self.out), self.twin.poll());
            }
        }
        Ok(())
    }

    fn compare(&self) {
        let open = self.twin.streams.iter().filter(|stream| !stream.over).count();
        assert_eq!(self.session.open_streams(), open);
        for (index, twin) in self.twin.streams.iter().enumerate() {
            let id = index as u32 + 1;
            assert_eq!(self.session.is_over(id), twin.over, "stream {id}");
            assert_eq!(self.session.send_credit(id) as u64, self.twin.send_credit(twin), "stream {id}");
        }
        assert!(!self.session.is_over(0) && !self.session.is_over(self.twin.streams.len() as u32 + 1));
    }
}
