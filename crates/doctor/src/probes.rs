//! The probes: one file each, with what it asks, the rules of its verdicts, the fixes it knows, and its tests.

mod boot;
mod connect;
mod expect;
mod framing;
mod health;
mod informational;
mod ladder;
#[cfg(test)]
mod mock;
mod persistence;
#[cfg(test)]
mod scripted;
mod writes;

use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::server::Server;
use crate::settings::Settings;

/// A probe. Their order is that of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "their titles say what they are")]
pub enum Probe {
    Persistence,
    Expect,
    Writes,
    Boot,
    Connect,
    Framing,
    Health,
    Informational,
    Ladder,
}

impl Probe {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Persistence,
        Self::Expect,
        Self::Writes,
        Self::Boot,
        Self::Connect,
        Self::Framing,
        Self::Health,
        Self::Informational,
        Self::Ladder,
    ];

    /// For machines, and for `--only` and `--skip`. Stable.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Persistence => "persistence",
            Self::Expect => "expect",
            Self::Writes => "writes",
            Self::Boot => "boot",
            Self::Connect => "connect",
            Self::Framing => "framing",
            Self::Health => "health",
            Self::Informational => "informational",
            Self::Ladder => "ladder",
        }
    }

    /// The subject of the check, for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Persistence => "connection keep-alive and close",
            Self::Expect => "response to Expect: 100-continue",
            Self::Writes => "packets per response",
            Self::Boot => "app boot on each request",
            Self::Connect => "cost of a new connection",
            Self::Framing => "message framing per RFC 9112",
            Self::Health => "health checks of load balancers",
            Self::Informational => "103 Early Hints and trailers",
            Self::Ladder => "timeouts of chained servers",
        }
    }

    /// About how many requests it sends to a server that is well. One that stalls, or is looked at twice, is sent a few more; one that is slow, fewer.
    #[must_use]
    pub fn requests(self, settings: &Settings) -> u32 {
        let hops = u32::try_from(settings.via.len()).unwrap_or(u32::MAX);
        match self {
            Self::Persistence => 16,
            Self::Expect => 8,
            Self::Writes => 20,
            Self::Boot => 42,
            Self::Connect => 16,
            Self::Framing if settings.intrusive => 45,
            Self::Framing => 18,
            Self::Health => 12,
            Self::Informational => hops.saturating_mul(6).saturating_add(6),
            Self::Ladder => hops.saturating_mul(4),
        }
    }

    /// The probe of this id.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|probe| probe.id() == id)
    }

    /// Examines; at least one finding comes back.
    pub async fn examine(self, context: &ProbeContext) -> Vec<Finding> {
        match self {
            Self::Persistence => persistence::examine(context).await,
            Self::Expect => expect::examine(context).await,
            Self::Writes => writes::examine(context).await,
            Self::Boot => boot::examine(context).await,
            Self::Connect => connect::examine(context).await,
            Self::Framing => framing::examine(context).await,
            Self::Health => health::examine(context).await,
            Self::Informational => informational::examine(context).await,
            Self::Ladder => ladder::examine(context).await,
        }
    }

    /// The fix for a finding that is a warning or worse, for this server where it is known.
    #[must_use]
    pub fn fix(self, finding: &str, server: Server) -> Option<&'static str> {
        match self {
            Self::Persistence => persistence::fix(finding, server),
            Self::Expect => expect::fix(finding, server),
            Self::Writes => writes::fix(finding, server),
            Self::Boot => boot::fix(finding, server),
            Self::Connect => connect::fix(finding, server),
            Self::Framing => framing::fix(finding, server),
            Self::Health => health::fix(finding, server),
            Self::Informational => informational::fix(finding, server),
            Self::Ladder => ladder::fix(finding, server),
        }
    }
}

/// The fixes for a finding: the names of the servers that each is for, and last what is true of any other.
#[must_use]
pub fn fixes(probe: Probe, finding: &str) -> Vec<(String, &'static str)> {
    let mut rows: Vec<(Vec<Server>, &str)> = Vec::new();
    for server in Server::ALL {
        let Some(fix) = probe.fix(finding, server) else { continue };
        match rows.iter_mut().find(|(_, text)| *text == fix) {
            Some((servers, _)) => servers.push(server),
            None => rows.push((vec![server], fix)),
        }
    }
    rows.sort_by_key(|(servers, _)| servers.contains(&Server::Unknown));
    let is_only = rows.len() == 1;
    let named = |(servers, fix): (Vec<Server>, _)| {
        let names = match servers.contains(&Server::Unknown) {
            true if is_only => "any".to_owned(),
            true => "any other".to_owned(),
            false => servers.iter().map(|server| server.name()).collect::<Vec<_>>().join(", "),
        };
        (names, fix)
    };
    rows.into_iter().map(named).collect()
}
