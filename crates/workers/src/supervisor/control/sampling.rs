//! Periodic samples of all apps.

use super::{Control, now};
use crate::supervisor::sampler::{self, MemorySamples, WorkerSample};

impl Control {
    /// Looks at every worker.
    pub(super) fn look(&mut self) {
        let now = now();
        let count = self.sampling.count;
        self.sampling.count = count.wrapping_add(1);
        let context = &self.context;
        let subjects =
            self.running.values_mut().flat_map(|running| running.look(count, context, now)).collect();
        if !self.sampling.under_way {
            self.sampling.under_way = true;
            let rollups = std::mem::take(&mut self.sampling.rollups);
            sampler::start(subjects, rollups, self.sampling.samples.clone());
        }
    }

    pub(super) fn handle_samples(&mut self, samples: MemorySamples) {
        let now = now();
        self.sampling.under_way = false;
        self.sampling.available = samples.available;
        self.sampling.rollups = samples.rollups;
        for WorkerSample { subject, memory, children } in samples.workers {
            if let Some(running) = self.running.get_mut(&(subject.app, subject.generation)) {
                running.handle_children(subject.id, &children);
                running.handle_memory(subject.id, memory.with(&children), samples.available, now);
            }
        }
    }

    /// Whether any app's number of workers follows its load.
    pub(super) fn is_scaled(&self) -> bool {
        self.running.values().any(|running| running.is_scaled())
    }

    pub(super) fn scale(&mut self) {
        let now = now();
        for ((app, generation), running) in &mut self.running {
            if running.is_scaled() && self.current.get(app) == Some(generation) {
                running.scale(self.context.links.load(app), self.sampling.available, now);
            }
        }
    }

    /// An operator wants more or fewer workers of every app.
    pub(super) fn shift(&mut self, by: i32) {
        let now = now();
        for ((app, generation), running) in &mut self.running {
            if self.current.get(app) == Some(generation) {
                running.shift(by, now);
            }
        }
    }
}
