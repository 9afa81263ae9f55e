//! Services: SRV records (RFC 2782), and the addresses of the servers they name.

use tokio::task::JoinSet;

use super::cache::{CachedService, LookupOutcome};
use super::{RankedEndpoint, SourceWatcher};

/// Looks the service up, and then its servers, all at the same time.
pub(super) async fn refresh(
    watch: &mut SourceWatcher,
    name: &str,
    cached: &mut CachedService,
) -> (Vec<RankedEndpoint>, LookupOutcome) {
    let hurry = cached.records.is_empty();
    let mut outcome = match cached.handle(watch.names.service(name).await) {
        Ok(ttl) => LookupOutcome { ttl: Some(ttl), trouble: None },
        Err(failure) => LookupOutcome { ttl: None, trouble: Some(failure) },
    };
    let mut lookups = JoinSet::new();
    for target in cached.targets() {
        let names = std::sync::Arc::clone(&watch.names);
        lookups.spawn(async move {
            let addresses = names.addresses(&target, hurry).await;
            (target, addresses)
        });
    }
    while let Some(result) = lookups.join_next().await {
        let Ok((target, addresses)) = result else { continue };
        let of_target = cached.addresses.entry(target).or_default().handle(addresses);
        outcome.ttl = outcome.ttl.min(of_target.ttl.or(outcome.ttl));
        outcome.trouble = outcome.trouble.or(of_target.trouble);
    }
    (endpoints(watch, cached).await, outcome)
}

/// The endpoints, with their shares. The weight of a record is that of its server, however many addresses it has.
async fn endpoints(watch: &mut SourceWatcher, cached: &CachedService) -> Vec<RankedEndpoint> {
    let some_weigh = cached.records.iter().any(|record| record.weight > 0);
    let mut before = std::mem::take(&mut watch.preferences);
    let mut servers = JoinSet::new();
    for record in &cached.records {
        let key = (record.target.clone(), record.port);
        let mut preferences = before.remove(&key).unwrap_or_default();
        let addresses = cached.addresses.get(&record.target).cloned().unwrap_or_default();
        let share = watch.share(weight(record.weight, some_weigh), record.priority);
        servers.spawn(async move {
            let mut ranked = preferences.ranked(&addresses, key.1, share).await;
            let first = ranked.iter().filter(|it| it.rank.2 == 0).count();
            let addresses = u32::try_from(first).unwrap_or(1).max(1);
            ranked.iter_mut().for_each(|it| it.weight = (it.weight / addresses).max(1));
            (key, preferences, ranked)
        });
    }
    let mut all = Vec::new();
    while let Some(server) = servers.join_next().await {
        let Ok((key, preferences, ranked)) = server else { continue };
        watch.preferences.insert(key, preferences);
        all.extend(ranked);
    }
    let divisor = all.iter().fold(0, |divisor, ranked: &RankedEndpoint| gcd(divisor, ranked.weight));
    all.iter_mut().for_each(|ranked| ranked.weight = ranked.weight.checked_div(divisor).unwrap_or(1));
    all.sort_by_cached_key(|ranked| (ranked.rank, ranked.endpoint.to_string()));
    all
}

/// Shares are counted in parts that most numbers of addresses divide.
const PARTS: u32 = 60;
/// Of a server of weight 0 beside others: RFC 2782 wants a very small chance for it.
const SMALL: u32 = 1;

fn weight(weight: u16, some_weigh: bool) -> u32 {
    match (weight, some_weigh) {
        (0, true) => SMALL,
        (0, false) => PARTS,
        (weight, _) => u32::from(weight) * PARTS,
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_nothing_are_small_beside_others_and_equal_among_themselves() {
        assert_eq!((weight(0, false), weight(0, true), weight(3, true)), (60, 1, 180));
        assert!(weight(u16::MAX, true) > 0);
        assert_eq!([gcd(0, 12), gcd(12, 18), gcd(5, 0)], [12, 6, 5]);
    }
}
