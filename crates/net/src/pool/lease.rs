//! A connection in use.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Pool, PoolSettings};
use crate::Endpoint;
use crate::client::{Client, Codec};
use crate::connect::DialTimes;

/// A connection in use. Dropping it closes the connection.
#[derive(Debug)]
pub struct Lease<C: Codec> {
    /// None only after its return.
    client: Option<Box<Client<C>>>,
    pool: Arc<Pool<C>>,
    endpoint: Endpoint,
    /// How long it had been idle; `None`: it is new.
    idle: Option<Duration>,
    reused: bool,
    times: Option<DialTimes>,
}

impl<C: Codec> Lease<C> {
    pub(super) fn new(
        pool: &Arc<Pool<C>>,
        endpoint: &Endpoint,
        client: Box<Client<C>>,
        idle: Option<Duration>,
        times: Option<DialTimes>,
    ) -> Self {
        let reused = idle.is_some() && client.requests() > 0;
        Self { client: Some(client), pool: Arc::clone(pool), endpoint: endpoint.clone(), idle, reused, times }
    }

    /// A connection without a pool, closed after its use.
    pub fn alone(client: Client<C>) -> Self {
        let pool = Pool::new(PoolSettings { idle: 0, ..PoolSettings::default() });
        Self::new(&pool, &Endpoint::Unix(PathBuf::new()), Box::new(client), None, None)
    }

    /// How long the connection had been idle before this use; `None`: it is new.
    pub fn idle(&self) -> Option<Duration> {
        self.idle
    }

    /// Whether it has carried another request before: a prewarmed one may have been idle, and is still new.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// The dial times, if it was dialled for this use.
    pub fn dialled(&self) -> Option<DialTimes> {
        self.times
    }

    /// Ends the use: the connection is kept if possible.
    pub fn finish(mut self) {
        if let Some(client) = self.client.take_if(|client| client.is_reusable()) {
            self.pool.put_back(&self.endpoint, client, self.idle);
        }
    }

    /// As if its call had succeeded.
    #[cfg(test)]
    pub(super) fn take_client(&mut self) -> Box<Client<C>> {
        self.client.take().expect("not returned yet")
    }

    fn client(&self) -> &Client<C> {
        match &self.client {
            Some(client) => client,
            None => unreachable!("taken by `finish` only, which has the lease"),
        }
    }

    fn client_mut(&mut self) -> &mut Client<C> {
        match &mut self.client {
            Some(client) => client,
            None => unreachable!("taken by `finish` only, which has the lease"),
        }
    }
}

impl<C: Codec> Deref for Lease<C> {
    type Target = Client<C>;

    fn deref(&self) -> &Client<C> {
        self.client()
    }
}

impl<C: Codec> DerefMut for Lease<C> {
    fn deref_mut(&mut self) -> &mut Client<C> {
        self.client_mut()
    }
}

impl<C: Codec> Drop for Lease<C> {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let mut inner = self.pool.lock();
        if let (Some(idle), Some(entry)) = (self.idle, inner.entries.get_mut(&self.endpoint)) {
            let now = Instant::now();
            if client.is_without_response() {
                // Most likely the server closed it while the request was on its way.
                entry.keep_alive.handle_loss(idle, now.into_std());
            } else if client.has_heard() {
                entry.handle_responded(None, Some(idle), now);
            }
        }
        inner.left(&self.endpoint);
    }
}
