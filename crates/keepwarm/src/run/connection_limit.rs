//! How many connections the limit on open files has room for.

use keepwarm_config::{AppKind, Config};
use rustix::process::{Resource, getrlimit};

/// Reserved for everything but client connections: listening sockets, workers and their output, logs, idle connections to upstreams, spill files.
const RESERVED: u64 = 256;
/// Where few files may be open, no more than this share is kept back for them: a quarter.
const RESERVED_SHARE: u64 = 4;

/// Connections of clients at once: as configured, or what the limit on open files has room for.
pub(super) fn derive(config: &Config) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = of_files(files, config.server.limits.connections, passes_on(config));
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn of_files(files: u64, configured: Option<u64>, passes_on: bool) -> u64 {
    let free = files - RESERVED.min(files / RESERVED_SHARE);
    match configured {
        Some(limit) => limit.min(free),
        // A proxy needs two descriptors for each request: the client's, and the one to the server.
        None if passes_on => free / 2,
        None => free,
    }
}

/// Warns where there may be fewer than configured.
pub(super) fn warn_of_lowered(config: &Config, limit: usize) {
    if let Some(configured) = config.server.limits.connections
        && configured > limit as u64
    {
        tracing::warn!(
            name: "connection_limit_lowered",
            configured, limit,
            "`server.limits.connections` lowered to what the limit on open files allows; raise that limit (systemd: LimitNOFILE)"
        );
    }
}

/// Whether requests may leave by connections of their own.
fn passes_on(config: &Config) -> bool {
    let by_app = config.apps.iter().any(|app| matches!(app.kind, Some(AppKind::Http | AppKind::FastCgi)));
    let proxies = config.listeners.iter().any(|listen| listen.forward_proxy.is_some());
    by_app || proxies || !config.upstreams.is_empty()
}

#[cfg(test)]
mod tests {
    use super::of_files;

    #[test]
    fn most_descriptors_are_for_connections_however_few_there_are() {
        assert_eq!(of_files(65_536, None, false), 65_280);
        assert_eq!(of_files(1024, None, false), 768);
        assert_eq!(of_files(256, None, false), 192);
        assert_eq!(of_files(64, None, false), 48);
    }

    #[test]
    fn a_request_that_is_passed_on_has_a_descriptor_of_its_own() {
        assert_eq!(of_files(1024, None, true), 384);
        assert_eq!(of_files(256, None, true), 96);
    }

    #[test]
    fn what_is_configured_counts_as_far_as_there_are_descriptors() {
        assert_eq!(of_files(1024, Some(500), true), 500);
        assert_eq!(of_files(1024, Some(20_000), false), 768);
    }
}
