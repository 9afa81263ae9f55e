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

use crate::finding::Finding;
use crate::patient::Patient;
use crate::server::Server;

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

    /// What it asks, for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Persistence => "does either side wait for the other",
            Self::Expect => "is Expect: 100-continue answered",
            Self::Writes => "how many packets an answer takes",
            Self::Boot => "does the app boot for each request",
            Self::Connect => "what a new connection costs",
            Self::Framing => "are messages read as the RFC says",
            Self::Health => "what health checks see",
            Self::Informational => "do 103 and trailers pass",
            Self::Ladder => "are outer time-outs longer than inner ones",
        }
    }

    /// About how many requests it sends to a server that is well. A server that is slow, or breaks off, is asked less.
    #[must_use]
    pub fn requests(self) -> u32 {
        match self {
            Self::Persistence | Self::Framing | Self::Boot => 40,
            Self::Expect | Self::Writes | Self::Connect => 20,
            Self::Health | Self::Informational => 10,
            Self::Ladder => 5,
        }
    }

    /// The probe of this id.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|probe| probe.id() == id)
    }

    /// Examines; at least one finding comes back.
    pub async fn examine(self, patient: &Patient) -> Vec<Finding> {
        match self {
            Self::Persistence => persistence::examine(patient).await,
            Self::Expect => expect::examine(patient).await,
            Self::Writes => writes::examine(patient).await,
            Self::Boot => boot::examine(patient).await,
            Self::Connect => connect::examine(patient).await,
            Self::Framing => framing::examine(patient).await,
            Self::Health => health::examine(patient).await,
            Self::Informational => informational::examine(patient).await,
            Self::Ladder => ladder::examine(patient).await,
        }
    }

    /// What to do about a finding that is a warning or worse, for this server where it is known.
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
