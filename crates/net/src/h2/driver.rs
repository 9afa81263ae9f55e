//! The task that drives one connection.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::{Ping, PingPong, client::Connection};
use keepwarm_telemetry::panics::{catch, catch_future};
use tokio::time::{Instant, Sleep, sleep_until};

use super::frame_transport::FrameTransport;
use super::link::Link;
use super::pool::Http2Pool;

/// How long a finished connection may take to send its GOAWAY: nobody waits for it.
const GOODBYE: Duration = Duration::from_secs(5);

/// Drives a connection to its end.
pub(super) async fn run(
    connection: Connection<FrameTransport<Link>, Bytes>,
    link: Arc<Link>,
    pool: Weak<Http2Pool>,
) {
    let mut connection = connection;
    let pings = connection.ping_pong();
    let patience = pool.upgrade().map_or(GOODBYE, |pool| pool.connect_timeout());
    let mut driver =
        Driver { connection, link, pool, pings, patience, pinged: None, streams: None, timer: None };
    let driven = {
        let driving = pin!(poll_fn(|cx| driver.poll(cx)));
        catch_future(driving).await
    };
    let Driver { connection, link, pool, .. } = driver;
    let error = driven.unwrap_or_else(|panic| {
        panic.report("http2_connection", None, None);
        link.retire();
        None
    });
    // Streams still open learn of the end here. This panics if an earlier panic left the connection locked: then so does every call on it.
    if let Err(panic) = catch(|| drop(connection)) {
        panic.report("http2_connection", None, None);
    }
    link.close();
    if let Some(pool) = pool.upgrade() {
        pool.handle_end(&link, error);
    }
}

struct Driver {
    connection: Connection<FrameTransport<Link>, Bytes>,
    link: Arc<Link>,
    pool: Weak<Http2Pool>,
    pings: Option<PingPong>,
    /// How long a silent server may take to acknowledge a PING, and a new one to send its first frame: the connect timeout.
    patience: Duration,
    /// A PING is in flight: since when, and the reads up to then.
    pinged: Option<(Instant, u64)>,
    /// Concurrent streams that the server accepts, as the pool knows them; `None`: its SETTINGS have not come.
    streams: Option<usize>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Driver {
    /// Ready when the connection has ended; with the error, if there was one.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<h2::Error>> {
        self.link.set_driver(cx.waker());
        loop {
            // Each call concerned has received its error.
            if let Poll::Ready(end) = Pin::new(&mut self.connection).poll(cx) {
                return Poll::Ready(end.err());
            }
            self.tell_pool();
            if self.ping() {
                // It leaves with the next poll.
                continue;
            }
            self.take_pong(cx);
            if !self.poll_timer(cx) {
                return Poll::Pending;
            }
            if self.is_over() {
                return Poll::Ready(None);
            }
        }
    }

    /// Tells the pool what affects future calls.
    fn tell_pool(&mut self) {
        let streams = self.link.is_settled().then(|| self.connection.max_concurrent_send_streams());
        let news = self.link.take_expected() || streams != self.streams;
        if !news && !self.link.goes_away() {
            return;
        }
        if let Some(pool) = self.pool.upgrade() {
            if self.link.goes_away() && !self.link.is_retired() {
                pool.handle_goaway(&self.link);
            }
            if news {
                pool.handle_news(&self.link);
            }
        }
        self.streams = streams;
    }

    /// Pings a server in doubt. `true`: it was sent just now.
    fn ping(&mut self) -> bool {
        if !self.link.take_doubt() || self.pinged.is_some() {
            return false;
        }
        let Some(pings) = &mut self.pings else { return false };
        if pings.send_ping(Ping::opaque()).is_err() {
            return false;
        }
        self.pinged = Some((Instant::now(), self.link.reads()));
        true
    }

    fn take_pong(&mut self, cx: &mut Context<'_>) {
        let Some((_, reads)) = self.pinged else { return };
        let Some(pings) = &mut self.pings else { return };
        // Any byte shows that the server is alive; the pong itself must be taken before another PING can be sent.
        if pings.poll_pong(cx).is_ready() {
            self.pinged = None;
        } else if self.link.reads() > reads {
            self.pinged = Some((Instant::now(), self.link.reads()));
        }
    }

    /// When to look again even if nothing arrives.
    fn next_look(&self) -> Option<Instant> {
        let pong = self.pinged.and_then(|(at, _)| at.checked_add(self.patience));
        let crowded = self.link.crowded_since().and_then(|since| since.checked_add(self.patience));
        let settings = self.link.opened.checked_add(self.patience).filter(|_| self.streams.is_none());
        let idle = match self.link.is_retired() {
            false => self.idle_end(),
            true if self.link.open() == 0 => self.link.idle_since().checked_add(GOODBYE),
            true => None,
        };
        pong.into_iter().chain(crowded).chain(settings).chain(idle).min()
    }

    /// When the idle limit is reached; while in use, the earliest time at which it could be.
    fn idle_end(&self) -> Option<Instant> {
        let limit = self.pool.upgrade().map_or(GOODBYE, |pool| pool.idle_limit(&self.link.endpoint));
        match self.link.open() {
            0 => self.link.idle_since().checked_add(limit),
            _ => Instant::now().checked_add(limit),
        }
    }

    /// Whether the time has come. A set timer fires in any case: moving it with every call would cost more.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let urgent = self.pinged.is_some() || self.link.is_retired() || self.link.is_crowded();
        if urgent || self.timer.as_ref().is_none_or(|timer| timer.is_elapsed()) {
            let Some(at) = self.next_look() else { return false };
            match &mut self.timer {
                Some(timer) if timer.is_elapsed() || timer.deadline() > at => timer.as_mut().reset(at),
                Some(_) => {}
                timer => *timer = Some(Box::pin(sleep_until(at))),
            }
        }
        self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
    }

    /// The timer fired. `true`: drop the connection at once.
    fn is_over(&mut self) -> bool {
        let now = Instant::now();
        let waited = |since: Instant| now.saturating_duration_since(since) >= self.patience;
        if self.link.crowded_since().is_some_and(waited) {
            self.link.blame("too_many_heads", "sends informational responses faster than they are read");
            return true;
        }
        // SETTINGS is the first frame of a server, without a request (RFC 9113 §3.4).
        if self.pinged.is_some_and(|(at, _)| waited(at))
            || (self.streams.is_none() && waited(self.link.opened))
        {
            self.link.give_up();
            return true;
        }
        let idle = self.link.open() == 0;
        match self.pool.upgrade().filter(|_| !self.link.is_retired()) {
            None => idle && self.link.idled(now) >= GOODBYE,
            Some(pool) => {
                if idle && self.link.idled(now) >= pool.idle_limit(&self.link.endpoint) {
                    // When the last handle is dropped, the connection sends GOAWAY and ends.
                    pool.retire(&self.link);
                }
                false
            }
        }
    }
}
