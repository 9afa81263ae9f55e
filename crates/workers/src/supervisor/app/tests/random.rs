//! Random events against the invariants.

use super::*;

/// See `check`. The seed is in the message.
#[test]
fn no_order_of_events_breaks_the_invariants() {
    for seed in 0..400_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |bound: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % bound as u64).unwrap()
        };
        let workers = 1 + next(3);
        let phase = if next(2) == 0 { Phase::First } else { Phase::Trial };
        let around = GenerationContext { seed, cores: 1 + next(4), hurry: next(4) == 0 };
        let recycling = Recycling {
            max_requests: Some(100),
            max_age: (next(2) == 0).then_some(secs(30)),
            max_memory: Some(100),
            kill_memory: Some(200),
        };
        let mut bench = Bench::around(workers, phase, around, |spec| spec.recycling = recycling);
        for step in 0..80 {
            let worker = next(bench.spawned.len());
            let ready = bench.count_ready();
            let mut gentle = true;
            match next(13) {
                0..=2 => bench.ready(worker),
                9 | 10 => {
                    bench.machine.handle_requests_reached(bench.id(worker), bench.now);
                    bench.collect();
                }
                11 => {
                    let (own, available) = (next(220) as u64, next(200) as u64);
                    gentle = own <= 200;
                    bench.machine.handle_memory(bench.id(worker), own, Some(available), bench.now);
                    bench.collect();
                }
                12 => {
                    bench.machine.set_target(1 + next(4), bench.now);
                    bench.collect();
                }
                8 => {
                    // A trial may fail by it: a worker that was killed has not ended.
                    gentle = *bench.machine.phase() != Phase::Trial;
                    bench.pass(millis(next(20_000) as u64));
                }
                rough => {
                    gentle = false;
                    bench.disturb(rough, worker, &mut next);
                }
            }
            let context = format!("seed {seed}, step {step}");
            check(&bench, &context);
            // What Keepwarm does on purpose takes nobody away who is not replaced.
            assert!(!gentle || ready == 0 || bench.count_ready() > 0, "{context}: nobody is left");
        }
        // Whatever happened, a stop leads to an end.
        bench.retire(Duration::ZERO);
        for worker in 0..bench.spawned.len() {
            bench.exit(worker, KILLED);
        }
        assert!(bench.machine.is_over(), "seed {seed}");
    }
}

impl Bench {
    fn count_ready(&self) -> usize {
        self.machine.workers.values().filter(|worker| worker.is_ready()).count()
    }

    fn disturb(&mut self, how: usize, worker: usize, next: &mut impl FnMut(usize) -> usize) {
        match how {
            3 => self.exit(worker, if next(4) == 0 { Exit::Status(1) } else { CRASH }),
            4 => {
                if *self.machine.phase() == Phase::Serving {
                    self.machine.handle_request_given(self.id(worker));
                }
                self.closed(worker);
            }
            5 => self.kill(worker),
            6 => self.wants_drain(worker),
            7 if next(10) == 0 => self.machine.give_way(self.now),
            _ if next(10) == 0 => self.retire(secs(next(3) as u64)),
            _ => {
                self.machine.commit(self.now);
                self.collect();
            }
        }
    }
}

fn check(bench: &Bench, context: &str) {
    let machine = &bench.machine;
    let given_up = matches!(machine.phase, Phase::Failed(_))
        || machine.slots.iter().any(|slot| slot.given_up && slot.service.failures() > 0);
    assert!(!given_up || !machine.has_served, "{context}: given up, though it has served");
    for slot in &machine.slots {
        let number = slot.number;
        let here = machine.workers.values().filter(|worker| worker.number == number);
        let stays = here.filter(|worker| worker.is_wanted() && worker.leaving.is_none()).count();
        assert!(stays <= 1, "{context}: two workers serve place {number}");
        let lively = matches!(machine.phase, Phase::First | Phase::Trial | Phase::Serving);
        let anyone = machine.workers.values().any(|worker| worker.number == number);
        assert!(
            !lively || slot.given_up || slot.spawn_at.is_some() || anyone,
            "{context}: place {number} is forgotten"
        );
        assert!(lively || slot.spawn_at.is_none(), "{context}: a start after the end");
    }
    for worker in machine.workers.values() {
        let waits = matches!(worker.state, WorkerState::Starting | WorkerState::Draining);
        assert!(!waits || worker.deadline.is_some(), "{context}: a worker that nothing ends");
    }
    let replaced = machine.workers.values().filter(|worker| {
        worker.is_ready() && worker.leaving.is_some_and(|why| why != RecycleReason::Requested)
    });
    assert!(replaced.count() <= 1, "{context}: more than one is being replaced");
    let first = machine.slots.iter().map(|slot| slot.number).collect::<Vec<_>>();
    assert!(!first.is_empty() && first.is_sorted(), "{context}: {first:?}");
}
