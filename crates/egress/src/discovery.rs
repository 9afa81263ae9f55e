//! Discovery: resolves the configured addresses of an upstream to its endpoints, and keeps them current.
//!
//! One [`Discovery`] per upstream, on the control thread. Literal addresses and Unix sockets need no lookup; each name is looked up in its own task, so that one without
//! a response does not delay others.
//!
//! * **When.** A name is looked up again when its time to live is over, within a floor and a ceiling, up to a tenth earlier at random. After a failure: after a second, then less and less often.
//! * **Validity.** The last good response stays valid until there is a better one ([`cache`]).
//! * **Changes.** Only a set that differs is published. Remaining endpoints keep their connections and their state; removed ones get no further calls, and finish those in flight.
//! * **Two families.** One is used, the other is the standby ([`race`]).

mod cache;
mod names;
mod race;
mod service;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::Endpoint;
use keepwarm_policy::Jitter;
use keepwarm_policy::backoff::{Backoff, BackoffSettings};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub(crate) use names::LookupResult;
pub use names::{DnsResolver, LookupFailure};
pub use status::DiscoveryStatus;

use self::cache::{CachedAddresses, CachedService, LookupOutcome};
use self::race::Family;
use crate::{DiscoveredEndpoint, DnsSettings, Source, SourceAddress};

/// The first set waits at most so long for names that do not respond, once there is an endpoint.
const FIRST_SET: Duration = Duration::from_secs(1);
/// Between two tries to look up what fails: doubled from the first to the second.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// Which family is used is looked into so often, when nothing changes; sooner while it is not known.
const RACE_AGAIN: Duration = Duration::from_secs(600);

/// Finds the endpoints of one upstream.
#[derive(Debug)]
pub struct Discovery {
    /// The upstream's name, for the log.
    pub upstream: Arc<str>,
    /// Where its endpoints are.
    pub sources: Vec<Source>,
    /// How names are looked up.
    pub dns: DnsSettings,
    /// The resolver for names.
    pub names: Arc<DnsResolver>,
    /// Where it tells how it goes.
    pub status: Arc<DiscoveryStatus>,
}

/// An endpoint with its rank: the priority of the source, that of the SRV record, and the address family.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RankedEndpoint {
    endpoint: Endpoint,
    weight: u32,
    rank: Rank,
    authority: Arc<str>,
}

type Rank = (u32, u16, u8);

impl Discovery {
    /// Finds endpoints, and publishes each set that differs from the one before. Never ends, unless everything is a literal address; drop it to end it.
    pub async fn run(&self, publish: impl Fn(&[DiscoveredEndpoint])) {
        self.status.restart(self.sources.len());
        let (sender, mut receiver) = mpsc::channel(16);
        let mut tasks = JoinSet::new();
        let mut parts: Vec<Option<Vec<RankedEndpoint>>> = Vec::with_capacity(self.sources.len());
        for (number, source) in self.sources.iter().enumerate() {
            parts.push(source.literal());
            if parts.last().is_some_and(Option::is_none) {
                tasks.spawn(SourceWatcher::new(self, number, sender.clone()).run());
            }
        }
        drop(sender);
        let mut published: Option<Vec<DiscoveredEndpoint>> = None;
        let mut wait_for_all = Some(Instant::now() + FIRST_SET);
        loop {
            let complete = parts.iter().all(Option::is_some);
            let late = wait_for_all.is_none_or(|until| Instant::now() >= until);
            if complete || late {
                wait_for_all = None;
                let found = combine(parts.iter().flatten().flatten());
                if !found.is_empty() && published.as_ref() != Some(&found) {
                    self.tell(published.as_deref().unwrap_or_default(), &found);
                    publish(&found);
                    published = Some(found);
                }
            }
            let until = wait_for_all.unwrap_or_else(|| Instant::now() + FIRST_SET);
            let update = tokio::select! {
                biased;
                update = receiver.recv() => update,
                Some(ended) = tasks.join_next() => match ended {
                    Ok(()) => continue,
                    // A source without its task would never change again: all are restarted (see the caller).
                    Err(ended) => match ended.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(_aborted) => continue,
                    },
                },
                () = sleep_until(until), if wait_for_all.is_some() => continue,
            };
            let Some((number, part)) = update else { return };
            if let Some(slot) = parts.get_mut(number) {
                *slot = Some(part);
            }
        }
    }

    /// What has changed, for the log.
    fn tell(&self, before: &[DiscoveredEndpoint], after: &[DiscoveredEndpoint]) {
        let new = after.iter().filter(|found| !before.iter().any(|it| it.endpoint == found.endpoint));
        let gone = before.iter().filter(|found| !after.iter().any(|it| it.endpoint == found.endpoint));
        let list = |found: &mut dyn Iterator<Item = &DiscoveredEndpoint>| {
            found.map(|it| it.endpoint.to_string()).collect::<Vec<_>>().join(", ")
        };
        let (new, gone) = (list(&mut new.into_iter()), list(&mut gone.into_iter()));
        self.status.note_change();
        if before.is_empty() {
            tracing::info!(
                name: "endpoints_found",
                upstream = %self.upstream, endpoints = new, "upstream endpoints found"
            );
        } else {
            tracing::info!(
                name: "endpoints_changed",
                upstream = %self.upstream, new, gone, "upstream endpoints changed"
            );
        }
    }
}

impl Source {
    /// What needs no looking up.
    fn literal(&self) -> Option<Vec<RankedEndpoint>> {
        let endpoint = match &self.address {
            SourceAddress::Address(address) => Endpoint::Tcp(*address),
            SourceAddress::Unix(path) => Endpoint::Unix(path.clone()),
            SourceAddress::Name { .. } | SourceAddress::Srv(_) => return None,
        };
        let (rank, authority) = ((self.priority, 0, 0), Arc::clone(&self.authority));
        Some(vec![RankedEndpoint { endpoint, weight: self.weight, rank, authority }])
    }
}

/// One set of all parts, in an order of its own; priorities are numbered from 0 without gaps.
fn combine<'a>(parts: impl Iterator<Item = &'a RankedEndpoint> + Clone) -> Vec<DiscoveredEndpoint> {
    let ranks: BTreeSet<Rank> = parts.clone().map(|part| part.rank).collect();
    let mut found: Vec<DiscoveredEndpoint> = parts
        .map(|part| DiscoveredEndpoint {
            endpoint: part.endpoint.clone(),
            weight: part.weight,
            priority: u32::try_from(ranks.iter().take_while(|rank| **rank < part.rank).count())
                .unwrap_or(u32::MAX),
            authority: Arc::clone(&part.authority),
        })
        .collect();
    found.sort_by_cached_key(|found| (found.priority, found.endpoint.to_string()));
    found
}

/// Looks up the name of one source whenever its time to live ends.
struct SourceWatcher {
    upstream: Arc<str>,
    source: Source,
    number: usize,
    dns: DnsSettings,
    names: Arc<DnsResolver>,
    status: Arc<DiscoveryStatus>,
    sender: mpsc::Sender<(usize, Vec<RankedEndpoint>)>,
    backoff: Backoff,
    jitter: Jitter,
    /// Failures since the last success.
    failures: u32,
    /// By name and port.
    preferences: BTreeMap<(String, u16), FamilyPreference>,
}

impl SourceWatcher {
    fn new(discovery: &Discovery, number: usize, sender: mpsc::Sender<(usize, Vec<RankedEndpoint>)>) -> Self {
        let source = discovery.sources.get(number).cloned();
        let settings = BackoffSettings {
            base: FIRST_PAUSE,
            cap: LAST_PAUSE.min(discovery.dns.max_ttl),
            ..BackoffSettings::default()
        };
        Self {
            upstream: Arc::clone(&discovery.upstream),
            source: source.unwrap_or_else(|| unreachable!("the number is one of its sources")),
            number,
            dns: discovery.dns.clone(),
            names: Arc::clone(&discovery.names),
            status: Arc::clone(&discovery.status),
            sender,
            backoff: Backoff::new(settings),
            jitter: Jitter::new(crate::random()),
            failures: 0,
            preferences: BTreeMap::new(),
        }
    }

    async fn run(mut self) {
        let (mut addresses, mut service) = (CachedAddresses::default(), CachedService::default());
        let mut told = None;
        loop {
            let (part, outcome) = match self.source.address.clone() {
                SourceAddress::Name { host, port } => {
                    let hurry = told.is_none();
                    let outcome = addresses.handle(self.names.addresses(&host, hurry).await);
                    let share = self.share(self.source.weight, 0);
                    let preferences = self.preferences.entry((host, port)).or_default();
                    let part = preferences.ranked(&addresses, port, share).await;
                    (part, outcome)
                }
                SourceAddress::Srv(name) => service::refresh(&mut self, &name, &mut service).await,
                SourceAddress::Address(_) | SourceAddress::Unix(_) => return,
            };
            let pause = self.pause(outcome);
            if told.as_ref() != Some(&part) {
                told = Some(part.clone());
                if self.sender.send((self.number, part)).await.is_err() {
                    return;
                }
            }
            self.status.wait_until(Instant::now() + pause, self.dns.min_ttl).await;
        }
    }

    /// What endpoints of the source have in common; `own` is the service's own priority.
    fn share(&self, weight: u32, own: u16) -> EndpointDefaults {
        EndpointDefaults {
            weight,
            rank: (self.source.priority, own),
            authority: Arc::clone(&self.source.authority),
        }
    }

    /// When to ask again.
    fn pause(&mut self, outcome: LookupOutcome) -> Duration {
        self.status.note_lookup(self.number, outcome.trouble.as_ref());
        let name = self.source.address.name();
        match outcome.trouble {
            None => {
                if std::mem::take(&mut self.failures) > 0 {
                    tracing::info!(
                        name: "name_lookup_recovered",
                        upstream = %self.upstream, name, "upstream name lookup works again"
                    );
                }
                self.backoff.reset();
                let ttl = outcome.ttl.unwrap_or(self.dns.min_ttl);
                // A floor above the ceiling is a floor.
                self.jitter.lower_duration(ttl.min(self.dns.max_ttl).max(self.dns.min_ttl))
            }
            Some(failure) => {
                self.failures = self.failures.saturating_add(1);
                // A response that is merely late is asked for again, quietly.
                if self.failures == 1 && failure.name != "dns_late" {
                    tracing::warn!(
                        name: "name_lookup_failed",
                        upstream = %self.upstream, name, reason = failure.name,
                        "upstream name lookup failed: {}; the endpoints found before stay in use",
                        failure.sentence
                    );
                }
                self.backoff.handle_end(Duration::ZERO, crate::random())
            }
        }
    }
}

impl SourceAddress {
    /// The name to look up, or what it is otherwise.
    fn name(&self) -> String {
        match self {
            Self::Name { host, .. } => host.clone(),
            Self::Srv(name) => name.clone(),
            Self::Address(address) => address.to_string(),
            Self::Unix(path) => path.display().to_string(),
        }
    }
}

/// What the endpoints of one server have in common.
#[derive(Debug, Clone)]
struct EndpointDefaults {
    weight: u32,
    rank: (u32, u16),
    authority: Arc<str>,
}

/// The address family that is preferred for a name.
#[derive(Debug, Default)]
struct FamilyPreference {
    race_result: race::RaceResult,
    /// What it was found for, and when.
    raced: Option<(CachedAddresses, Instant)>,
}

impl FamilyPreference {
    /// The endpoints of a name, the family that works before the other.
    async fn ranked(
        &mut self,
        cache: &CachedAddresses,
        port: u16,
        share: EndpointDefaults,
    ) -> Vec<RankedEndpoint> {
        if cache.is_dual() {
            self.race(cache, port).await;
        } else {
            self.raced = None;
            self.race_result = race::RaceResult::default();
        }
        let race::RaceResult { first, no_route } = self.race_result;
        let ranked = cache.iter().filter_map(|address| {
            let second = first.is_some_and(|first| first != Family::of(address));
            (!(second && no_route)).then(|| RankedEndpoint {
                endpoint: Endpoint::Tcp(SocketAddr::new(address, port)),
                weight: share.weight,
                rank: (share.rank.0, share.rank.1, u8::from(second)),
                authority: Arc::clone(&share.authority),
            })
        });
        ranked.collect()
    }

    async fn race(&mut self, cache: &CachedAddresses, port: u16) {
        let is_good = |(raced, at): &(CachedAddresses, Instant)| {
            raced == cache && self.race_result.first.is_some() && at.elapsed() < RACE_AGAIN
        };
        if self.raced.as_ref().is_some_and(is_good) {
            return;
        }
        let race_result = race::run(cache, port).await;
        // Nobody there: what worked before is the better guess.
        if race_result.first.is_some() {
            self.race_result = race_result;
        }
        self.raced = Some((cache.clone(), Instant::now()));
    }
}
