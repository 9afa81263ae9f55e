//! The cache of a name: the last good DNS answer, and how a new one changes it. Sans-IO.
//!
//! A DNS answer with addresses replaces the cached ones. A lookup that fails, or has none, does not: an unhealthy name server, or a zone
//! emptied by mistake, must not take down a healthy service. The families are looked up separately, so one may fail alone: then the other is used, and the
//! cached addresses of the failed one are kept.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::names::{Addresses, LookupFailure, LookupResult, ServiceRecord};

/// The last good addresses of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CachedAddresses {
    pub(super) v4: Vec<Ipv4Addr>,
    pub(super) v6: Vec<Ipv6Addr>,
}

/// The result of one lookup: how long it is valid, or what failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LookupOutcome {
    /// How long it counts, when all of it was good.
    pub(super) ttl: Option<Duration>,
    /// Why not, otherwise.
    pub(super) trouble: Option<LookupFailure>,
}

impl CachedAddresses {
    /// Handles the DNS answers of both families.
    pub(super) fn handle(&mut self, (v4, v6): Addresses) -> LookupOutcome {
        let failure = failure(&v4).or_else(|| failure(&v6));
        let mut after = self.clone();
        let ttls = [replace(&mut after.v4, v4), replace(&mut after.v6, v6)];
        if after.is_empty() {
            // What both families say together may be that there are none, or nothing.
            return LookupOutcome { ttl: None, trouble: Some(failure.unwrap_or_else(empty)) };
        }
        *self = after;
        match failure {
            Some(failure) => LookupOutcome { ttl: None, trouble: Some(failure) },
            None => LookupOutcome { ttl: ttls.into_iter().flatten().min(), trouble: None },
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Both families are there.
    pub(super) fn is_dual(&self) -> bool {
        !self.v4.is_empty() && !self.v6.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.v4.iter().copied().map(IpAddr::V4);
        v4.chain(self.v6.iter().copied().map(IpAddr::V6))
    }
}

/// The last good SRV records of one service, and the addresses of their targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CachedService {
    pub(super) records: Vec<ServiceRecord>,
    /// By target.
    pub(super) addresses: BTreeMap<String, CachedAddresses>,
}

impl CachedService {
    /// Handles the DNS answer with the servers. `Err`: it was unusable.
    pub(super) fn handle(&mut self, result: LookupResult<ServiceRecord>) -> Result<Duration, LookupFailure> {
        match result {
            LookupResult::Found(mut records, ttl) => {
                records.sort_by(|a, b| (a.priority, &a.target, a.port).cmp(&(b.priority, &b.target, b.port)));
                self.addresses.retain(|target, _| records.iter().any(|record| record.target == *target));
                self.records = records;
                Ok(ttl)
            }
            LookupResult::Empty => Err(empty()),
            LookupResult::Failed(failure) => Err(failure),
        }
    }

    /// The targets, each once.
    pub(super) fn targets(&self) -> Vec<String> {
        let mut targets: Vec<String> = self.records.iter().map(|record| record.target.clone()).collect();
        targets.sort();
        targets.dedup();
        targets
    }
}

/// Replaces the cached records by those of a DNS answer, unless the lookup failed. Returns their time to live.
fn replace<T: Ord>(cached: &mut Vec<T>, result: LookupResult<T>) -> Option<Duration> {
    match result {
        LookupResult::Found(mut found, ttl) => {
            // Name servers rotate the order; our own order makes equal DNS answers equal.
            found.sort();
            found.dedup();
            *cached = found;
            Some(ttl)
        }
        LookupResult::Empty => {
            cached.clear();
            None
        }
        LookupResult::Failed(_) => None,
    }
}

fn failure<T>(result: &LookupResult<T>) -> Option<LookupFailure> {
    match result {
        LookupResult::Failed(failure) => Some(failure.clone()),
        _ => None,
    }
}

fn empty() -> LookupFailure {
    LookupFailure::new("dns_empty", "the name servers returned no address")
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
    const SIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

    fn found<T>(records: Vec<T>, seconds: u64) -> LookupResult<T> {
        LookupResult::Found(records, Duration::from_secs(seconds))
    }

    fn failed<T>() -> LookupResult<T> {
        LookupResult::Failed(LookupFailure::new("dns_timeout", "late"))
    }

    fn cached() -> CachedAddresses {
        CachedAddresses { v4: vec![A], v6: vec![SIX] }
    }

    #[test]
    fn a_good_answer_replaces_and_the_shorter_time_counts() {
        let mut it = CachedAddresses::default();
        let outcome = it.handle((found(vec![B, A, B], 30), found(vec![SIX], 20)));
        assert_eq!(outcome, LookupOutcome { ttl: Some(Duration::from_secs(20)), trouble: None });
        assert_eq!(it, CachedAddresses { v4: vec![A, B], v6: vec![SIX] });
        assert_eq!(it.handle((found(vec![B], 9), LookupResult::Empty)).ttl, Some(Duration::from_secs(9)));
        assert_eq!(it, CachedAddresses { v4: vec![B], v6: vec![] });
    }

    #[test]
    fn emptiness_and_failure_keep_the_last_good_answer() {
        let cases =
            [(LookupResult::Empty, LookupResult::Empty, "dns_empty"), (failed(), failed(), "dns_timeout")];
        for (v4, v6, name) in cases {
            let mut it = cached();
            let outcome = it.handle((v4, v6));
            assert_eq!((outcome.ttl, outcome.trouble.map(|why| why.name)), (None, Some(name)));
            assert_eq!(it, cached());
        }
    }

    #[test]
    fn a_family_that_fails_alone_keeps_its_own() {
        let mut it = cached();
        let outcome = it.handle((found(vec![B], 30), failed()));
        assert_eq!(outcome.trouble.map(|why| why.name), Some("dns_timeout"));
        assert_eq!(it, CachedAddresses { v4: vec![B], v6: vec![SIX] });
        // One says for certain that it has none, the other nothing: what is left is used.
        assert!(it.handle((LookupResult::Empty, failed())).trouble.is_some());
        assert_eq!(it, CachedAddresses { v4: vec![], v6: vec![SIX] });
        assert!(it.handle((failed(), LookupResult::Empty)).trouble.is_some());
        assert_eq!(it, CachedAddresses { v4: vec![], v6: vec![SIX] }, "nothing would be left");
    }

    #[test]
    fn a_service_keeps_addresses_of_the_targets_it_still_has() {
        let record =
            |target: &str| ServiceRecord { priority: 0, weight: 1, port: 80, target: target.to_owned() };
        let mut it = CachedService::default();
        assert!(it.handle(found(vec![record("b."), record("a."), record("a.")], 5)).is_ok());
        assert_eq!(it.targets(), ["a.", "b."]);
        it.addresses.insert("a.".to_owned(), cached());
        it.addresses.insert("b.".to_owned(), cached());
        assert!(it.handle(found(vec![record("b.")], 5)).is_ok());
        assert_eq!(it.addresses.keys().collect::<Vec<_>>(), ["b."]);
        assert_eq!(it.handle(LookupResult::Empty).unwrap_err().name, "dns_empty");
        assert_eq!(it.targets(), ["b."]);
    }
}
