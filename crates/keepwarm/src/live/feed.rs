//! One snapshot for all streams. A stream has the newest one or none: one that is read slowly misses snapshots, and they do not add up.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// Streams at once. Each holds one snapshot at most, so this bounds their memory: 16 of 4 MB with 2,000 workers and 5,000 endpoints.
pub(crate) const STREAMS: usize = 16;

/// Where snapshots come from.
#[derive(Debug)]
pub(crate) struct SnapshotFeed {
    newest: watch::Sender<Option<Arc<str>>>,
    free: Arc<Semaphore>,
    wanted: Arc<Notify>,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Subscription {
    newest: watch::Receiver<Option<Arc<str>>>,
    _slot: OwnedSemaphorePermit,
}

impl Default for SnapshotFeed {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(None),
            free: Arc::new(Semaphore::new(STREAMS)),
            wanted: Arc::default(),
        }
    }
}

impl SnapshotFeed {
    /// Begins a stream; `None`: there are [`STREAMS`]. Its first snapshot is the newest of the others, or is made now.
    pub(crate) fn subscribe(&self) -> Option<Subscription> {
        let slot = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let mut newest = self.newest.subscribe();
        let is_there = newest.borrow().is_some();
        match is_there {
            true => newest.mark_changed(),
            false => self.wanted.notify_one(),
        }
        Some(Subscription { newest, _slot: slot })
    }

    /// Tells of streams that wait for the first snapshot.
    pub(crate) fn wanted(&self) -> Arc<Notify> {
        Arc::clone(&self.wanted)
    }

    /// Whether anybody reads. Frees the last snapshot where nobody does.
    pub(super) fn is_read(&self) -> bool {
        let is_read = self.newest.receiver_count() > 0;
        if !is_read {
            self.newest.send_replace(None);
        }
        is_read
    }

    /// Gives all streams this snapshot in place of the one before.
    pub(super) fn publish(&self, snapshot: String) {
        self.newest.send_replace(Some(snapshot.into()));
    }
}

impl Subscription {
    /// Waits for a snapshot that is newer than the last one; `None`: there will be none.
    pub(crate) async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            self.newest.changed().await.ok()?;
            if let Some(snapshot) = &*self.newest.borrow_and_update() {
                return Some(Arc::clone(snapshot));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn a_slow_stream_has_the_newest_snapshot_and_no_other() {
        let feed = SnapshotFeed::default();
        assert!(!feed.is_read());
        let (mut slow, mut quick) = (feed.subscribe().unwrap(), feed.subscribe().unwrap());
        assert!(feed.is_read());
        runtime().block_on(async {
            let mut last: Option<Weak<str>> = None;
            for number in 0..100 {
                feed.publish(number.to_string());
                assert!(
                    last.is_none_or(|last| last.upgrade().is_none()),
                    "snapshot {number} is the only one"
                );
                let snapshot = quick.next().await.unwrap();
                assert_eq!(*snapshot, number.to_string());
                last = Some(Arc::downgrade(&snapshot));
            }
            assert_eq!(slow.next().await.as_deref(), Some("99"));
            drop((slow, quick));
            assert!(!feed.is_read());
            assert!(last.is_some_and(|last| last.upgrade().is_none()), "nobody reads: nothing is held");
        });
    }

    #[test]
    fn streams_are_bounded_and_a_slot_is_free_again_after_its_stream() {
        let feed = SnapshotFeed::default();
        let mut all: Vec<_> = std::iter::from_fn(|| feed.subscribe()).take(STREAMS + 1).collect();
        assert_eq!(all.len(), STREAMS);
        all.pop();
        assert!(feed.subscribe().is_some());
    }

    #[test]
    fn the_first_snapshot_does_not_wait_for_the_next_second() {
        let feed = SnapshotFeed::default();
        let wanted = feed.wanted();
        runtime().block_on(async {
            let mut first = feed.subscribe().unwrap();
            wanted.notified().await;
            feed.publish("1".to_owned());
            assert_eq!(first.next().await.as_deref(), Some("1"));
            let mut second = feed.subscribe().unwrap();
            assert_eq!(second.next().await.as_deref(), Some("1"), "that of the other stream");
            feed.publish("2".to_owned());
            assert_eq!(second.next().await.as_deref(), Some("2"));
        });
    }

    #[test]
    fn a_stream_ends_with_its_feed() {
        let feed = SnapshotFeed::default();
        let mut stream = feed.subscribe().unwrap();
        drop(feed);
        assert_eq!(runtime().block_on(stream.next()), None);
    }
}
