//! Clients that go on and on while something is done to the server: some on kept connections, some with a connection for each request. Each request
//! carries an id, which the test application counts, so that a lost one and a repeated one are seen.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::process::wait_until;
use crate::{Client, Failure};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

/// The result of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Responded(u16),
    /// The connection was made, and ended before a byte came back.
    Dropped {
        kept: bool,
    },
    Broken(String),
}

/// Clients of the test application's `/count`.
pub struct Load {
    address: SocketAddr,
    method: &'static str,
    /// How long the application works on each, in ms.
    work: u32,
    stop: AtomicBool,
    next: AtomicU64,
    /// Connections refused while something should have listened.
    refused: AtomicU64,
}

impl Load {
    pub fn new(address: SocketAddr, method: &'static str) -> Self {
        Self {
            address,
            method,
            work: 3,
            stop: AtomicBool::new(false),
            next: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The application works this many milliseconds on each.
    #[must_use]
    pub fn with_work_ms(self, millis: u32) -> Self {
        Self { work: millis, ..self }
    }

    /// The same clients once more, with other ids.
    #[must_use]
    pub fn with_new_ids(&self) -> Self {
        let next = AtomicU64::new(self.sent());
        Self { next, ..Self::new(self.address, self.method) }.with_work_ms(self.work)
    }

    /// Runs the clients while `act` runs in this thread; returns each request's id and outcome.
    pub fn while_doing(&self, kept: usize, single: usize, act: impl FnOnce()) -> Vec<(String, Outcome)> {
        std::thread::scope(|scope| {
            let mut clients: Vec<_> = (0..kept).map(|_| scope.spawn(|| self.run_persistent())).collect();
            clients.extend((0..single).map(|_| scope.spawn(|| self.run_single())));
            // However `act` ends: clients that go on for ever would hide its failure.
            let stop = StopWhenDropped(&self.stop);
            act();
            drop(stop);
            clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
        })
    }

    pub fn sent(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Connections that were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Waits until this many further requests have been sent: the load has continued through what happened.
    #[track_caller]
    pub fn wait_for(&self, more: u64) {
        let from = self.sent();
        wait_until("the load goes on", LONG, || self.sent() >= from + more);
    }

    fn run_persistent(&self) -> Vec<(String, Outcome)> {
        let mut seen = Vec::new();
        while let Some(mut client) = self.connect() {
            let mut first = true;
            loop {
                let (id, outcome, closes) = self.one(&mut client, "", !first);
                first = false;
                let goes_on = matches!(outcome, Outcome::Responded(_));
                seen.push((id, outcome));
                if self.is_stopped() || closes || !goes_on {
                    break;
                }
            }
        }
        seen
    }

    fn run_single(&self) -> Vec<(String, Outcome)> {
        let mut seen = Vec::new();
        while let Some(mut client) = self.connect() {
            let (id, outcome, _) = self.one(&mut client, "Connection: close\r\n", false);
            seen.push((id, outcome));
        }
        seen
    }

    fn one(&self, client: &mut Client, say: &str, kept: bool) -> (String, Outcome, bool) {
        let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let sent = client.try_send(
            format!(
                "{} /count?id={id}&ms={} HTTP/1.1\r\nHost: a\r\n{say}Content-Length: 0\r\n\r\n",
                self.method, self.work
            )
            .as_bytes(),
        );
        if sent.is_err() {
            return (id, Outcome::Dropped { kept }, true);
        }
        match client.try_response(self.method) {
            Ok(response) => (id, Outcome::Responded(response.status), response.says_close()),
            Err(Failure::Closed) => (id, Outcome::Dropped { kept }, true),
            Err(Failure::Reset(bytes)) if bytes.is_empty() => (id, Outcome::Dropped { kept }, true),
            Err(other) => (id, Outcome::Broken(format!("{other:?}\n{client}")), true),
        }
    }

    /// `None`: this client is done.
    fn connect(&self) -> Option<Client> {
        if self.is_stopped() {
            return None;
        }
        match std::net::TcpStream::connect_timeout(&self.address, 10 * SECOND) {
            Ok(stream) => Some(Client::from_stream(stream).patient(20 * SECOND)),
            Err(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Says that it is over, however what is done meanwhile ends.
pub struct StopWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How often each line stands in the file that the test application counts in.
pub fn counts(file: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// Every request got a response, and the application got each once.
#[track_caller]
pub fn all_responded_once(counts: &BTreeMap<String, u32>, outcomes: &[(String, Outcome)]) {
    for (id, outcome) in outcomes {
        assert_eq!(*outcome, Outcome::Responded(200), "request {id}; {}", tally(outcomes));
        assert_eq!(counts.get(id), Some(&1), "request {id} at the app");
    }
}

/// How often each outcome came, for a failure's message.
pub fn tally(outcomes: &[(String, Outcome)]) -> String {
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    for (_, outcome) in outcomes {
        *tally.entry(format!("{outcome:?}")).or_default() += 1;
    }
    format!("{tally:#?}")
}
