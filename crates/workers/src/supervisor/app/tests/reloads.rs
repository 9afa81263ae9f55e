//! Generations of one app beside one another, as a supervisor keeps them: reloads, failures, deaths, signals and stops in random orders.

use super::*;

const SEEDS: u64 = 400;
const STEPS: usize = 150;

struct App {
    random: u64,
    now: Instant,
    /// The one that is the app comes first, then those that end, and a trial.
    current: Bench,
    trial: Option<Bench>,
    ending: Vec<Bench>,
}

impl App {
    fn new(seed: u64) -> Self {
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut current = Bench::new(2, Phase::First);
        (0..2).for_each(|worker| current.ready(worker));
        Self { random, now: current.now, current, trial: None, ending: Vec::new() }
    }

    fn next(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % bound as u64).unwrap()
    }

    /// One generation of them all.
    fn any(&mut self) -> &mut Bench {
        let count = 1 + self.ending.len() + usize::from(self.trial.is_some());
        let at = self.next(count);
        match at.checked_sub(1) {
            None => &mut self.current,
            Some(at) if at < self.ending.len() => &mut self.ending[at],
            Some(_) => self.trial.as_mut().unwrap(),
        }
    }

    fn step(&mut self) {
        let (what, which, how) = (self.next(12), self.next(100), self.next(20_000));
        match what {
            0..=2 => {
                let bench = self.any();
                bench.ready(which % bench.spawned.len().max(1));
            }
            3 => self.reload(),
            4 => {
                let bench = self.any();
                let exit = if how % 3 == 0 { Exit::Status(1) } else { CRASH };
                bench.exit(which % bench.spawned.len(), exit);
            }
            5 => {
                let bench = self.any();
                bench.closed(which % bench.spawned.len());
            }
            6 => {
                let bench = self.any();
                bench.kill(which % bench.spawned.len());
            }
            7 => {
                let bench = self.any();
                bench.wants_drain(which % bench.spawned.len());
            }
            8 | 9 => self.pass(millis(how as u64)),
            10 => {
                let bench = self.any();
                bench.machine.handle_requests_reached(bench.id(which % bench.spawned.len()), bench.now);
                bench.collect();
            }
            _ => {
                self.current.machine.set_target(1 + which % 4, self.now);
                self.current.collect();
            }
        }
        self.decide();
    }

    fn reload(&mut self) {
        if self.trial.is_none() {
            let workers = 1 + self.next(3);
            let mut trial = Bench::new(workers, Phase::Trial);
            // The clocks of all generations are one: this one has been made at a moment of its own.
            trial.now = self.now;
            trial.machine = Generation::new(&Self::spec(workers), Phase::Trial, AROUND, self.now);
            trial.spawned.clear();
            trial.quiet.clear();
            trial.collect();
            self.trial = Some(trial);
        }
    }

    fn spec(workers: usize) -> AppSpec {
        let mut spec = AppSpec::new("shop", vec!["app".into()]);
        spec.workers = workers;
        spec
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        for bench in self.ending.iter_mut().chain([&mut self.current]).chain(&mut self.trial) {
            bench.pass(time);
        }
    }

    /// What the supervisor's control task does after each event.
    fn decide(&mut self) {
        if let Some(mut trial) = self.trial.take() {
            if matches!(trial.machine.phase(), Phase::Failed(_)) {
                trial.retire(Duration::MAX);
                self.ending.push(trial);
            } else if trial.machine.all_ready() {
                trial.machine.commit(self.now);
                trial.collect();
                let mut old = std::mem::replace(&mut self.current, trial);
                old.retire(Duration::MAX);
                self.ending.push(old);
            } else {
                self.trial = Some(trial);
            }
        }
        self.ending.retain(|bench| !bench.machine.is_over());
    }

    fn check(&self, context: &str) {
        let phase = self.current.machine.phase();
        assert!(!matches!(phase, Phase::Trial | Phase::Retiring), "{context}: the app is {phase:?}");
        if let Some(trial) = &self.trial {
            assert_eq!(*trial.machine.phase(), Phase::Trial, "{context}");
        }
        for bench in &self.ending {
            let machine = &bench.machine;
            let phase = machine.phase();
            assert!(
                matches!(phase, Phase::Failed(_) | Phase::Retiring),
                "{context}: two generations serve ({phase:?})"
            );
            let wanted = machine.workers.values().filter(|worker| worker.is_wanted()).count();
            assert_eq!(wanted, 0, "{context}: workers of a generation that is over");
            assert!(
                machine.slots.iter().all(|slot| slot.spawn_at.is_none()),
                "{context}: a start after the end"
            );
            // Each is waited for no longer than its deadline says, or was killed.
            let all = machine.workers.values();
            let bounded =
                |worker: &&Worker| worker.deadline.is_none() && worker.state != WorkerState::Stopping;
            assert_eq!(all.filter(bounded).count(), 0, "{context}: nothing ends a worker");
        }
    }

    /// Processes end when they are told to: then nothing is left but the app.
    fn finish(&mut self, context: &str) {
        if let Some(mut trial) = self.trial.take() {
            trial.retire(Duration::MAX);
            self.ending.push(trial);
        }
        self.pass(secs(3600));
        for bench in &mut self.ending {
            (0..bench.spawned.len()).for_each(|worker| bench.exit(worker, KILLED));
        }
        self.decide();
        assert!(
            self.ending.is_empty(),
            "{context}: something of an old generation or a failed reload is left"
        );
    }
}

#[test]
fn exactly_one_generation_serves_whatever_happens_to_it_and_the_others() {
    for seed in 0..SEEDS {
        let mut app = App::new(seed);
        for step in 0..STEPS {
            let ready =
                |bench: &Bench| bench.machine.workers.values().filter(|worker| worker.is_ready()).count();
            let (before, trials) = (ready(&app.current), app.trial.is_some());
            let spared = app.current.machine.workers.len();
            app.step();
            let context = format!("seed {seed}, step {step}");
            app.check(&context);
            // A reload that fails takes nobody away from those that serve.
            let failed = trials && app.trial.is_none() && app.current.machine.workers.len() == spared;
            assert!(!failed || before == 0 || ready(&app.current) > 0, "{context}: nobody is left");
        }
        app.finish(&format!("seed {seed}"));
    }
}
