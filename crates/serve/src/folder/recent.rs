//! Parts of files that the kernel was found to have in memory a moment ago: what is sent again and again is not asked about again and again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tokio::time::Instant;

/// How long that is believed. What was used within this time is what the kernel evicts last.
const VALID: Duration = Duration::from_secs(1);

/// Parts that a thread remembers. This number is arbitrary; a busy site has few files above the size from which this is used.
const PARTS: usize = 64;

/// A part of a file: its device and inode, the first byte, the length.
type Part = (u64, u64, u64, usize);

/// What one thread has found out.
#[derive(Debug)]
pub(super) struct RecentParts([Option<(Part, Instant)>; PARTS]);

impl RecentParts {
    pub(super) const fn new() -> Self {
        Self([None; PARTS])
    }

    /// Whether this part was noted within the last second.
    pub(super) fn has(&self, part: Part, now: Instant) -> bool {
        let noted = self.0.get(place(part)).copied().flatten();
        noted.is_some_and(|(noted, at)| noted == part && now.saturating_duration_since(at) < VALID)
    }

    /// The kernel has it now. Another part at the same place is forgotten.
    pub(super) fn note(&mut self, part: Part, now: Instant) {
        if let Some(noted) = self.0.get_mut(place(part)) {
            *noted = Some((part, now));
        }
    }
}

pub(super) fn part(about: &Metadata, at: u64, length: usize) -> Part {
    (about.dev(), about.ino(), at, length)
}

fn place((_, inode, at, _): Part) -> usize {
    ((inode ^ (at >> 12)) % PARTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_believed_for_a_second_and_no_other_in_its_place() {
        let (mut recent, start) = (RecentParts::new(), Instant::now());
        let first = (8, 100, 0, 4096);
        assert!(!recent.has(first, start));
        recent.note(first, start);
        assert!(recent.has(first, start + Duration::from_millis(999)));
        assert!(!recent.has(first, start + VALID));
        let others = [(9, 100, 0, 4096), (8, 164, 0, 4096), (8, 100, 4096, 4096), (8, 100, 0, 8192)];
        for other in others {
            assert!(!recent.has(other, start), "{other:?}");
        }
        let in_its_place = (8, 164, 0, 4096);
        recent.note(in_its_place, start);
        assert!(recent.has(in_its_place, start) && !recent.has(first, start));
    }
}
