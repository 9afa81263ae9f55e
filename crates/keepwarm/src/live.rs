//! The stream of snapshots: `GET /events` of `[admin]`, and `events` of the control socket. Once a second, while anybody reads it, the sampler makes one
//! snapshot (`snapshot`) for all who do (`feed`), with the figures of the last seconds (`recent`) and the last slow and failed requests (`requests`).

mod feed;
mod recent;
mod requests;
mod slow;
mod snapshot;

use std::time::Duration;

pub(crate) use self::feed::{STREAMS, SnapshotFeed, Subscription};
pub(crate) use self::recent::Recent;
pub(crate) use self::slow::set_slow;
pub(crate) use self::snapshot::publish;

/// How long a reader may take nothing of a snapshot before its stream is cut.
pub(crate) const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);
