//! TLS handshakes with the clients of a listener.

use crate::per_thread::ThreadCounter;

/// Why handshakes fail; the last stands for others.
pub const HANDSHAKE_FAILURES: [&str; 23] = [
    "timeout",
    "limit",
    "client_left",
    "plaintext_http",
    "not_tls",
    "name_unknown",
    "no_shared_version",
    "no_shared_cipher",
    "no_shared_parameters",
    "protocol_unknown",
    "protocol_error",
    "certificate_untrusted",
    "certificate_expired",
    "certificate_refused",
    "client_alert",
    "client_certificate_missing",
    "client_certificate_expired",
    "client_certificate_unknown_issuer",
    "client_certificate_invalid",
    "client_certificate_revoked",
    "client_crl_expired",
    "client_crl_missing",
    "other",
];

/// The part of one thread.
#[derive(Debug, Default)]
pub struct HandshakeCells {
    /// Full and resumed ones of TLS 1.2.
    tls12: [ThreadCounter; 2],
    /// The same of TLS 1.3.
    tls13: [ThreadCounter; 2],
    failures: [ThreadCounter; HANDSHAKE_FAILURES.len()],
}

impl HandshakeCells {
    /// Counts one that is done.
    pub fn note_done(&self, is_tls13: bool, resumed: bool) {
        let [full, again] = if is_tls13 { &self.tls13 } else { &self.tls12 };
        if resumed { again } else { full }.add(1);
    }

    /// Counts one that failed.
    pub fn note_failed(&self, reason: &str) {
        let at = HANDSHAKE_FAILURES.iter().position(|name| *name == reason);
        if let Some(cell) = at.map_or(self.failures.last(), |at| self.failures.get(at)) {
            cell.add(1);
        }
    }
}

/// Totals of the handshakes of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandshakeTotals {
    /// Full and resumed ones of TLS 1.2.
    pub tls12: [u64; 2],
    /// The same of TLS 1.3.
    pub tls13: [u64; 2],
    /// By [`HANDSHAKE_FAILURES`].
    pub failures: [u64; HANDSHAKE_FAILURES.len()],
}

impl<'c> FromIterator<&'c HandshakeCells> for HandshakeTotals {
    fn from_iter<I: IntoIterator<Item = &'c HandshakeCells>>(threads: I) -> Self {
        let mut totals = Self::default();
        for cells in threads {
            add(&mut totals.tls12, &cells.tls12);
            add(&mut totals.tls13, &cells.tls13);
            add(&mut totals.failures, &cells.failures);
        }
        totals
    }
}

fn add(sums: &mut [u64], cells: &[ThreadCounter]) {
    sums.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell.value());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_handshake_is_counted_once() {
        let cells = HandshakeCells::default();
        for (is_tls13, resumed) in [(true, true), (true, false), (true, false), (false, true)] {
            cells.note_done(is_tls13, resumed);
        }
        for reason in ["timeout", "other", "a reason that is not listed"] {
            cells.note_failed(reason);
        }
        let totals: HandshakeTotals = [&cells, &HandshakeCells::default()].into_iter().collect();
        assert_eq!((totals.tls12, totals.tls13), ([0, 1], [2, 1]));
        assert_eq!((totals.failures[0], totals.failures.last()), (1, Some(&2)));
    }
}
