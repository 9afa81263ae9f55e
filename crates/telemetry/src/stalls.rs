//! Stalls that Keepwarm detects and removes: expensive waits that nothing reports because nothing fails. Each is counted, and the first of each
//! kind and app is logged with advice.

use crate::counters;

/// The kind of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// A client of HTTP/1.0 reads until the connection ends, and the app's response did not announce that it ends.
    CloseAdded,
    /// A client held its body back for a `100 Continue`.
    ExpectationIgnored,
    /// The head of a response came in several pieces: each a packet, and a wake-up, of its own.
    HeadInPieces,
    /// The app's processes end after one request: each request pays for a start.
    BootPerRequest,
    /// No connection to an upstream is there for the next call: each call pays for a handshake.
    HandshakePerCall,
}

/// All kinds.
pub const ALL: [Stall; 5] = [
    Stall::CloseAdded,
    Stall::ExpectationIgnored,
    Stall::HeadInPieces,
    Stall::BootPerRequest,
    Stall::HandshakePerCall,
];

impl Stall {
    /// A stable name, for the counter and the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CloseAdded => "close_added",
            Self::ExpectationIgnored => "expectation_ignored",
            Self::HeadInPieces => "head_in_pieces",
            Self::BootPerRequest => "boot_per_request",
            Self::HandshakePerCall => "handshake_per_call",
        }
    }

    /// The observation and the advice.
    fn advice(self) -> &'static str {
        match self {
            Self::CloseAdded => {
                "an HTTP/1.0 client waits for the connection to close, and the app's response does not close it: Keepwarm does. \
                 Let the client (ab, an old proxy, a health check) use HTTP/1.1 or send `Connection: keep-alive`; another server in front of this app \
                 would have to close, too"
            }
            Self::ExpectationIgnored => {
                "a client holds its body back until it gets `100 Continue`: Keepwarm sends it as soon as the app reads. Without it, curl and PHP wait for \
                 a second; `Expect:` (an empty header) in the client turns this off"
            }
            Self::HeadInPieces => {
                "the app's server writes its response head in several pieces, each a packet of its own: Keepwarm sends one. Let it buffer the head, or set \
                 TCP_NODELAY together with one write"
            }
            Self::BootPerRequest => {
                "the app's processes exit after one request, so that each request pays for a start: keep the process (raise `max_requests`, do not exit after \
                 a response)"
            }
            Self::HandshakePerCall => {
                "the upstream's connections are closed before the next call, so that each call pays for a handshake: let its server keep them (no \
                 `Connection: close`, more requests per connection, a longer keep-alive timeout), and check `pool.idle`, `pool.max_requests` and \
                 `pool.idle_timeout` here"
            }
        }
    }
}

/// Counts a stall of this app; the first of its kind is logged.
pub fn record(app: &str, stall: Stall) {
    if counters::STALLS.count(app, stall.name()) == 1 {
        tracing::warn!(name: "stall", app, stall = stall.name(), "{} (logged once)", stall.advice());
    }
}

/// The stalls of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallSet(u8);

impl StallSet {
    /// Adds one.
    pub fn insert(&mut self, stall: Stall) {
        self.0 |= 1 << stall as u8;
    }

    /// Whether there was none, as usual.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The stalls in the set.
    pub fn iter(self) -> impl Iterator<Item = Stall> {
        ALL.into_iter().filter(move |stall| self.0 & (1 << *stall as u8) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_a_set() {
        let mut stalls = StallSet::default();
        assert!(stalls.is_empty());
        stalls.insert(Stall::HeadInPieces);
        stalls.insert(Stall::CloseAdded);
        stalls.insert(Stall::CloseAdded);
        assert_eq!(stalls.iter().collect::<Vec<_>>(), [Stall::CloseAdded, Stall::HeadInPieces]);
    }

    #[test]
    fn each_stall_has_a_name_and_advice() {
        let names: std::collections::BTreeSet<&str> = ALL.iter().map(|stall| stall.name()).collect();
        assert_eq!(names.len(), ALL.len());
        for stall in ALL {
            assert!(stall.advice().len() > 40);
            record("advised", stall);
            assert_eq!(counters::STALLS.value(stall.name()), 1);
        }
    }
}
