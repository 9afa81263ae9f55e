//! What is looked at now and then, in all apps.

use super::{Control, now};
use crate::supervisor::look::{self, Seen, SeenWorker};

impl Control {
    /// Looks at every worker.
    pub(super) fn look(&mut self) {
        let now = now();
        let count = self.looks.count;
        self.looks.count = count.wrapping_add(1);
        let context = &self.context;
        let subjects =
            self.running.values_mut().flat_map(|running| running.look(count, context, now)).collect();
        if !self.looks.under_way {
            self.looks.under_way = true;
            look::start(subjects, self.looks.seen.clone());
        }
    }

    pub(super) fn handle_seen(&mut self, seen: Seen) {
        let now = now();
        self.looks.under_way = false;
        self.looks.available = seen.available;
        for SeenWorker { subject, memory, children } in seen.workers {
            if let Some(running) = self.running.get_mut(&(subject.app, subject.generation)) {
                running.handle_children(subject.id, &children);
                running.handle_memory(subject.id, memory.with(&children), seen.available, now);
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
                running.scale(self.context.links.load(app), self.looks.available, now);
            }
        }
    }

    /// A person wants so many workers of every app more, or fewer.
    pub(super) fn shift(&mut self, by: i32) {
        let now = now();
        for ((app, generation), running) in &mut self.running {
            if self.current.get(app) == Some(generation) {
                running.shift(by, now);
            }
        }
    }
}
