//! The connection to a store, on the control thread.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keepwarm_net::{ClientTls, Dial, Endpoint, TransportStream, restart_pause};
use keepwarm_policy::backoff::{Backoff, BackoffSettings};
use keepwarm_telemetry::panics::catch_future;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, ErrorKind, RedisError, Script, ServerErrorKind};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::{SCRIPT, StoreFailure, StoreQuery, StoreReply, StoreSettings, StoreState};

/// The key of its health checks; no client uses it.
const PROBE: &[u8] = b"keepwarm:rate:probe";
/// The minimum time for connecting, however short the timeout of a query is.
const CONNECT: Duration = Duration::from_secs(1);
/// How often it checks the store: better a check fails than a request.
const LOOK: Duration = Duration::from_secs(1);

/// Drives the connection to a store.
#[derive(Debug)]
pub struct Driver {
    client: redis::Client,
    tls: Option<Arc<ClientTls>>,
    address: String,
    timeout: Duration,
    queries: mpsc::Receiver<StoreQuery>,
    state: Arc<StoreState>,
    script: Arc<Script>,
}

/// A failed query: its kind, and the message of the server or the system.
struct StoreError {
    failure: StoreFailure,
    /// The whole store fails, not this key alone.
    trips: bool,
    detail: String,
}

impl Driver {
    pub(super) fn new(
        settings: &StoreSettings,
        queries: mpsc::Receiver<StoreQuery>,
        state: Arc<StoreState>,
    ) -> Result<Self, String> {
        let tls = settings.tls.as_ref().map(ClientTls::new).transpose();
        let tls = tls.map_err(|error| format!("the store at {}: {error}", settings.address))?;
        // The library need not know of TLS: it is given a connection that has it.
        let plain = settings.url.strip_prefix("rediss://").filter(|_| tls.is_some());
        let plain = plain.map(|rest| format!("redis://{rest}"));
        let client = redis::Client::open(plain.as_deref().unwrap_or(&settings.url)).map_err(|error| {
            format!(
                "invalid URL of the store at {}: {error}; expected redis://HOST:PORT/DATABASE, rediss://HOST:PORT/DATABASE or redis+unix:///PATH",
                settings.address
            )
        })?;
        Ok(Self {
            client,
            tls,
            address: settings.address.clone(),
            timeout: settings.timeout,
            queries,
            state,
            script: Arc::new(Script::new(SCRIPT)),
        })
    }

    /// Connects, runs queries, and reconnects when the store has failed, until the store is dropped.
    pub async fn run(mut self) {
        loop {
            let serving = pin!(self.serve_all());
            match catch_future(serving).await {
                Ok(()) => return,
                Err(panic) => panic.report("rate_limit_store", None, None),
            }
            restart_pause().await;
        }
    }

    async fn serve_all(&mut self) {
        let settings = BackoffSettings { cap: Duration::from_secs(5), ..BackoffSettings::default() };
        let mut backoff = Backoff::new(settings);
        // Logs the first failure, and then the recovery.
        let mut told = false;
        loop {
            let (failed, healthy) = match self.connect().await {
                Ok(connection) => {
                    let since = Instant::now();
                    self.state.up.store(true, Ordering::Relaxed);
                    if std::mem::take(&mut told) {
                        tracing::info!(
                            name: "rate_limit_store_recovered",
                            store = self.address, "rate limit store in use again"
                        );
                    }
                    match self.serve(connection).await {
                        Some(failed) => (failed, since.elapsed()),
                        None => return,
                    }
                }
                Err(failed) => (failed, Duration::ZERO),
            };
            self.state.trip(failed.failure);
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(
                    name: "rate_limit_store_failed",
                    store = self.address,
                    reason = failed.failure.name(),
                    "rate limit store failed; will retry: {}",
                    failed.detail
                );
            }
            if !self.wait(backoff.handle_end(healthy, crate::random())).await {
                return;
            }
        }
    }

    /// A connection on which a query got its reply in time.
    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let limit = self.timeout.max(CONNECT);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(Some(self.timeout));
        let mut connection = match &self.tls {
            None => {
                let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
                connecting.await.map_err(|error| StoreError::of(&error))?
            }
            Some(tls) => match timeout(limit, self.connect_encrypted(tls, config)).await {
                Ok(connected) => connected?,
                Err(_) => return Err(StoreError::late(limit)),
            },
        };
        // Most of the time it knows the script; if not, this loads it.
        let StoreQuery { key, interval, tolerance, .. } = StoreQuery::probe();
        count(&mut connection, &self.script, &key, interval, tolerance).await?;
        Ok(connection)
    }

    /// The same over TLS, and logged in.
    async fn connect_encrypted(
        &self,
        tls: &ClientTls,
        config: AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, StoreError> {
        let info = self.client.get_connection_info();
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(StoreError::unreachable("TLS needs TCP".to_owned()));
        };
        let addresses = tokio::net::lookup_host((host.as_str(), *port)).await;
        let addresses = addresses.map_err(|error| StoreError::unreachable(error.to_string()))?;
        let mut last = "the name has no address".to_owned();
        for address in addresses {
            let endpoint = Endpoint::Tcp(address);
            let (connect_timeout, handshake_timeout) = (self.timeout.max(CONNECT), self.timeout.max(CONNECT));
            let dial = Dial { endpoint: &endpoint, tls: Some(tls), connect_timeout, handshake_timeout };
            match dial.run().await {
                Ok((transport, _)) => {
                    let stream = TransportStream::from(transport);
                    let begun = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config);
                    let (connection, driven) = begun.await.map_err(|error| StoreError::of(&error))?;
                    tokio::spawn(driven);
                    return Ok(connection);
                }
                Err(error) => last = error.to_string(),
            }
        }
        Err(StoreError::unreachable(last))
    }

    /// Handles queries until the store fails. `None`: the last sender is gone.
    async fn serve(&mut self, connection: MultiplexedConnection) -> Option<StoreError> {
        let (sender, mut failures) = mpsc::channel(1);
        let mut look = interval_at(Instant::now() + LOOK, LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let query = tokio::select! {
                biased;
                failed = failures.recv() => return failed,
                // A thread's wait timed out; unless the notice is from an earlier connection.
                () = self.state.tripped.notified() => match self.state.up.load(Ordering::Relaxed) {
                    true => continue,
                    false => return Some(StoreError::late(self.timeout)),
                },
                query = self.queries.recv() => query?,
                _ = look.tick() => StoreQuery::probe(),
            };
            let (mut connection, script) = (connection.clone(), Arc::clone(&self.script));
            let (state, sender) = (Arc::clone(&self.state), sender.clone());
            tokio::spawn(async move {
                let StoreQuery { key, interval, tolerance, response } = query;
                let counted = count(&mut connection, &script, &key, interval, tolerance).await;
                let counted = counted.map_err(|failed| {
                    let failure = failed.failure;
                    if failed.trips {
                        state.trip(failure);
                        let _ = sender.try_send(failed);
                    }
                    failure
                });
                // The caller may have gone.
                let _ = response.send(counted);
            });
        }
    }

    /// Waits; queries fail at once meanwhile. Returns whether the store is still wanted.
    async fn wait(&mut self, pause: Duration) -> bool {
        let pause = sleep(pause);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                biased;
                () = &mut pause => return true,
                // Dropping the query fails it.
                query = self.queries.recv() => if query.is_none() { return false },
            }
        }
    }
}

impl StoreQuery {
    /// A query without a waiter.
    fn probe() -> Self {
        Self { key: PROBE.to_vec(), interval: 1, tolerance: 1, response: oneshot::channel().0 }
    }
}

/// One question.
async fn count(
    connection: &mut MultiplexedConnection,
    script: &Script,
    key: &[u8],
    interval: u64,
    tolerance: u64,
) -> Result<StoreReply, StoreError> {
    let command = |name: &str, what: &str| {
        let mut command = redis::cmd(name);
        command.arg(what).arg(1).arg(key).arg(interval).arg(tolerance);
        command
    };
    let known = command("EVALSHA", script.get_hash()).query_async::<(u8, u64)>(connection).await;
    let reply = match known {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            // Runs it, and from now on it is known.
            command("EVAL", SCRIPT).query_async::<(u8, u64)>(connection).await
        }
        reply => reply,
    };
    let (admitted, ahead) = reply.map_err(|error| StoreError::of(&error))?;
    Ok(StoreReply { admitted: admitted == 1, ahead })
}

impl StoreError {
    fn of(error: &RedisError) -> Self {
        let failure = if error.is_timeout() {
            StoreFailure::Timeout
        } else if error.kind() == ErrorKind::AuthenticationFailed {
            StoreFailure::Refused
        } else if error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error() {
            StoreFailure::Unreachable
        } else {
            StoreFailure::Refused
        };
        // Somebody else's value lies under the key.
        let trips = error.code() != Some("WRONGTYPE");
        Self { failure, trips, detail: error.to_string() }
    }

    fn unreachable(detail: String) -> Self {
        Self { failure: StoreFailure::Unreachable, trips: true, detail }
    }

    fn late(timeout: Duration) -> Self {
        let detail = format!("it did not respond within {timeout:?}");
        Self { failure: StoreFailure::Timeout, trips: true, detail }
    }
}
