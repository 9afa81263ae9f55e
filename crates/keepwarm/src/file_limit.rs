//! How many files Keepwarm may open, and how many its workers may: a connection is a descriptor, so Keepwarm takes all that the hard limit allows; what it
//! starts gets the soft limit that Keepwarm was started with. Programs that use `select(2)`, or close every possible descriptor when they begin, rely on it.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Tells the successor of an upgrade, which inherits the raised limit, what it was before.
pub(crate) const VARIABLE: &str = "KEEPWARM_SOFT_FILES";

static ORIGINAL: OnceLock<Option<u64>> = OnceLock::new();

/// Raises it, once. `successor`: of an upgrade.
pub(crate) fn raise(successor: bool) {
    let limit = getrlimit(Resource::Nofile);
    let told = || std::env::var(VARIABLE).ok()?.parse().ok();
    // A value that does not come from an upgrade is not for us.
    ORIGINAL.get_or_init(|| successor.then(told).flatten().or(limit.current));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The soft limit before [`raise`]. `None`: there was none.
pub(crate) fn original() -> Option<u64> {
    ORIGINAL.get().copied().flatten()
}
