//! Dials a connection.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use keepwarm_http1::Limits;
use keepwarm_telemetry::panics::catch_future;

use super::Http2Pool;
use super::endpoint_connections::PooledConnection;
use crate::h2::frame_transport::FrameTransport;
use crate::h2::link::Link;
use crate::h2::{driver, settings};
use crate::pool::{ConnectionSlot, count_dial, count_failed_dial};
use crate::{AcquireError, ConnectionNeed, Dial, Endpoint, PoolSettings, thread_index};

impl Http2Pool {
    /// Dials a connection for this thread, if it is still wanted.
    pub(super) fn dial(self: &Arc<Self>, endpoint: &Endpoint, need: ConnectionNeed, slot: ConnectionSlot) {
        let mut inner = self.lock();
        let max = inner.settings.max;
        let everywhere = inner.connections(endpoint);
        let number = inner.dials + 1;
        let entry = inner.entry(endpoint, thread_index());
        if !entry.is_short(need, everywhere, max) {
            drop(inner);
            return drop(slot);
        }
        entry.dialling = true;
        entry.dial = number;
        entry.failure = None;
        inner.dials = number;
        crate::spawn_local(dial(Arc::clone(self), endpoint.clone(), number, slot));
    }

    /// A dial has ended. If its endpoint was forgotten meanwhile, the connection is dropped; callers that now wait there need another dial.
    pub(super) fn handle_dialled(
        &self,
        endpoint: &Endpoint,
        thread: usize,
        dial: u64,
        dialled: Result<PooledConnection, AcquireError>,
    ) {
        let mut inner = self.lock();
        let entry = inner.entries.get_mut(endpoint).and_then(|entries| entries.get_mut(thread));
        let Some(entry) = entry.filter(|entry| entry.dial == dial) else {
            return drop(dialled.map(|kept| kept.link.retire()));
        };
        entry.dialling = false;
        match dialled {
            Ok(kept) => entry.kept.push(kept),
            Err(failure) => entry.failure = Some(failure),
        }
        entry.wake();
    }
}

/// Dials a connection, and reports to the pool.
async fn dial(pool: Arc<Http2Pool>, endpoint: Endpoint, number: u64, slot: ConnectionSlot) {
    let thread = thread_index();
    let dialled = {
        let connecting = pin!(connect(&pool, &endpoint, thread, slot));
        catch_future(connecting).await
    };
    // Its waiters must learn of its end.
    let dialled = dialled.unwrap_or_else(|panic| {
        panic.report("dial", None, None);
        Err(AcquireError::Connect(io::Error::other("a bug in Keepwarm")))
    });
    if let Err(error) = &dialled
        && (pool.http1.is_none() || !matches!(error, AcquireError::NotHttp2))
    {
        count_failed_dial(pool.metering.counts(pool.metering.of(&endpoint)), error);
    }
    let dialled = dialled.map(|(sender, connection, link)| {
        crate::spawn_local(driver::run(connection, Arc::clone(&link), Arc::downgrade(&pool)));
        PooledConnection { sender, link }
    });
    pool.handle_dialled(&endpoint, thread, number, dialled);
}

type NewConnection = (SendRequest<Bytes>, Connection<FrameTransport<Link>, Bytes>, Arc<Link>);

async fn connect(
    pool: &Http2Pool,
    endpoint: &Endpoint,
    thread: usize,
    slot: ConnectionSlot,
) -> Result<NewConnection, AcquireError> {
    let (settings, tls) = {
        let inner = pool.lock();
        (inner.settings, inner.tls.clone())
    };
    let PoolSettings { connect_timeout, handshake_timeout, .. } = settings;
    let dial = Dial { endpoint, tls: tls.as_deref(), connect_timeout, handshake_timeout };
    let (mut transport, times) = dial.run().await?;
    transport.hold(slot);
    // RFC 9113 §3.3: in plaintext by prior knowledge, under TLS by agreement.
    if tls.is_some() && transport.alpn() != Some(b"h2") {
        if let Some(http1) = &pool.http1 {
            http1.keep(endpoint, transport, &times);
        }
        return Err(AcquireError::NotHttp2);
    }
    let meter = pool.metering.of(endpoint);
    count_dial(pool.metering.counts(meter), &times);
    let link = Arc::new(Link::new(endpoint.clone(), thread, &transport, meter));
    begin(FrameTransport::client(transport, Arc::clone(&link)))
        .await
        .map(|(sender, connection)| (sender, connection, link))
        .map_err(|error| {
            let lost = || io::ErrorKind::BrokenPipe.into();
            AcquireError::Connect(error.into_io().unwrap_or_else(lost))
        })
}

async fn begin(
    wire: FrameTransport<Link>,
) -> Result<(SendRequest<Bytes>, Connection<FrameTransport<Link>, Bytes>), h2::Error> {
    Builder::new()
        .enable_push(false)
        .initial_window_size(settings::STREAM_WINDOW)
        .initial_connection_window_size(settings::CONNECTION_WINDOW)
        .max_header_list_size(Limits::HEADER_BLOCK as u32)
        .max_send_buffer_size(settings::SEND_BUFFER)
        .handshake(wire)
        .await
}
