//! How many requests of a route are in progress at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keepwarm_serve::Exchange;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::forwarding::LOCAL;
use crate::refusals;

/// A limit of requests in progress, for all clients and for each.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    total: Option<Arc<Semaphore>>,
    wait: Duration,
    clients: Option<Arc<ClientCounts>>,
}

#[derive(Debug)]
struct ClientCounts {
    most: u32,
    counts: Mutex<HashMap<IpAddr, u32>>,
}

/// A request in progress; over when dropped.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    _total: Option<OwnedSemaphorePermit>,
    client: Option<(Arc<ClientCounts>, IpAddr)>,
}

impl ConcurrencyLimit {
    /// At most `total` at once, for which a request waits up to `wait`, and at most `per_client` of one client.
    #[must_use]
    pub fn new(total: Option<u32>, per_client: Option<u32>, wait: Duration) -> Self {
        let total = total.map(|total| Arc::new(Semaphore::new(usize::try_from(total).unwrap_or(usize::MAX))));
        let clients = per_client.map(|most| Arc::new(ClientCounts { most, counts: Mutex::default() }));
        Self { total, wait, clients }
    }

    /// Counts a request; `None`: it is over the limit, and got its response.
    pub(crate) async fn enter(&self, exchange: &mut Exchange<'_>) -> Option<RequestSlot> {
        let mut slot = RequestSlot { _total: None, client: None };
        if let Some(clients) = &self.clients {
            let client = network_of(exchange.request().client_address().unwrap_or(LOCAL));
            if !clients.enter(client) {
                refusals::TOO_MANY_OF_CLIENT.about(&[&clients.most]).respond(exchange);
                return None;
            }
            slot.client = Some((Arc::clone(clients), client));
        }
        if let Some(total) = &self.total {
            let Some(permit) = self.acquire(total).await else {
                refusals::TOO_MANY_OF_ROUTE.respond(exchange);
                return None;
            };
            slot._total = Some(permit);
        }
        Some(slot)
    }

    async fn acquire(&self, total: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        match Arc::clone(total).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) if self.wait.is_zero() => None,
            // In the order in which they came.
            Err(_) => tokio::time::timeout(self.wait, Arc::clone(total).acquire_owned()).await.ok()?.ok(),
        }
    }
}

impl ClientCounts {
    fn enter(&self, client: IpAddr) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(client).or_default();
        if *count >= self.most {
            return false;
        }
        *count += 1;
        true
    }

    fn leave(&self, client: IpAddr) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&client);
            }
        }
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        if let Some((clients, client)) = self.client.take() {
            clients.leave(client);
        }
    }
}

/// What one subscriber has: an IPv4 address, or the first 64 bits of an IPv6 address.
fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_client_is_its_network() {
        let of = |client: &str| network_of(client.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.1"), "192.0.2.1");
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn a_client_that_has_no_request_is_forgotten() {
        let counts = ClientCounts { most: 2, counts: Mutex::default() };
        let client = IpAddr::from([192, 0, 2, 1]);
        assert!(counts.enter(client) && counts.enter(client) && !counts.enter(client));
        counts.leave(client);
        assert!(counts.enter(client));
        counts.leave(client);
        counts.leave(client);
        assert!(counts.counts.lock().unwrap().is_empty());
    }
}
