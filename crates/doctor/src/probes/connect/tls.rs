//! The handshake: versions, round trips, and whether a second connection takes up the session of the first.

use std::time::Duration;

use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, SupportedProtocolVersion};

use super::bytes;
use super::reuse::SLOW;
use crate::client::{Failure, Handshake, TlsSettings, client_config};
use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::report::time;

/// Connections that offer to resume a session. Behind a name may be several machines that do not know one another's.
const RESUMED: usize = 3;

static NEWEST: [&SupportedProtocolVersion; 1] = [&TLS13];
static OLDER: [&SupportedProtocolVersion; 1] = [&TLS12];

/// The handshakes that were made.
#[derive(Debug)]
pub(super) struct Handshakes {
    /// Offering TLS 1.3 alone.
    pub(super) newest: Result<HandshakeSample, String>,
    /// Offering TLS 1.2 alone.
    pub(super) older: Result<HandshakeSample, String>,
    /// One with everything offered, and those after it that offered to resume its session.
    pub(super) first: Result<HandshakeSample, String>,
    pub(super) again: Vec<HandshakeSample>,
    /// A round trip of TCP.
    pub(super) round_trip: Duration,
}

/// A handshake, as far as it is judged.
#[derive(Debug, Clone, Default)]
pub(super) struct HandshakeSample {
    pub(super) version: String,
    pub(super) cipher: String,
    pub(super) round_trips: u32,
    pub(super) took: Duration,
    pub(super) received: usize,
    pub(super) resumed: bool,
}

pub(super) async fn ask(context: &ProbeContext, tls_settings: &TlsSettings) -> Handshakes {
    let newest = shake(context, tls_settings, &NEWEST).await;
    let older = shake(context, tls_settings, &OLDER).await;
    let (first, again, round_trip) = resume(context, tls_settings).await;
    Handshakes { newest, older, first, again, round_trip }
}

async fn shake(
    context: &ProbeContext,
    tls_settings: &TlsSettings,
    versions: &'static [&'static SupportedProtocolVersion],
) -> Result<HandshakeSample, String> {
    let config = client_config(&TlsSettings { versions, ..tls_settings.clone() })
        .map_err(|failure| failure.to_string())?;
    let connection = context.connect_with(Some(config)).await.map_err(|failure| failure.to_string())?;
    connection.handshake.as_ref().map(HandshakeSample::of).ok_or_else(String::new)
}

/// Each of them sends a request: the ticket to resume a session comes after the handshake, with the response (RFC 8446 §4.6.1).
async fn resume(
    context: &ProbeContext,
    tls_settings: &TlsSettings,
) -> (Result<HandshakeSample, String>, Vec<HandshakeSample>, Duration) {
    let mut shakes = Vec::new();
    let mut round_trip = Duration::MAX;
    let mut failure = None;
    let versions = ALL_VERSIONS;
    let config = client_config(&TlsSettings { versions, ..tls_settings.clone() });
    let resumed = if context.first.took < SLOW { RESUMED } else { 1 };
    for _ in 0..=resumed {
        let opened = match &config {
            Ok(config) => context.connect_with(Some(config.clone())).await,
            Err(failure) => Err(failure.clone()),
        };
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(error) => {
                failure = Some(error);
                break;
            }
        };
        shakes.extend(connection.handshake.as_ref().map(HandshakeSample::of));
        round_trip = round_trip.min(connection.times.connect);
        // Its response is looked at elsewhere.
        let _ = context.exchange(&mut connection, &context.ordinary_request()).await;
        connection.finish_writing();
    }
    if shakes.is_empty() {
        let failure = failure.unwrap_or_else(|| Failure::Tls("no handshake".to_owned()));
        return (Err(failure.to_string()), shakes, round_trip);
    }
    let first = shakes.remove(0);
    (Ok(first), shakes, round_trip)
}

impl HandshakeSample {
    fn of(handshake: &Handshake) -> Self {
        Self {
            version: handshake.version.clone(),
            cipher: handshake.cipher.clone(),
            round_trips: handshake.round_trips,
            took: handshake.took,
            received: handshake.received,
            resumed: handshake.resumed,
        }
    }

    fn words(&self) -> String {
        let trips = if self.round_trips == 1 { "round trip" } else { "round trips" };
        format!("{} in {} {trips}, {} ({})", self.version, self.round_trips, time(self.took), self.cipher)
    }
}

pub(super) fn judge(handshakes: &Handshakes) -> Vec<Finding> {
    vec![versions(handshakes), resumption(handshakes)]
}

fn versions(handshakes: &Handshakes) -> Finding {
    const ID: &str = "connect.tls";
    match (&handshakes.newest, &handshakes.older) {
        (Ok(newest), Ok(older)) => Finding::good(ID, format!("{}; {}", newest.words(), older.words())),
        (Ok(newest), Err(_)) => Finding::good(ID, format!("{}; TLS 1.2 is refused", newest.words())),
        (Err(why), Ok(older)) => {
            Finding::warning(ID, format!("{}; TLS 1.3 alone is refused ({why})", older.words())).costs(
                format!(
                    "one round trip more than with TLS 1.3 on every new connection, {} from here",
                    time(handshakes.round_trip)
                ),
            )
        }
        (Err(newest), Err(older)) => {
            Finding::unknown(ID, format!("TLS 1.3 alone: {newest}; TLS 1.2 alone: {older}"))
        }
    }
}

fn resumption(handshakes: &Handshakes) -> Finding {
    const ID: &str = "connect.resumption";
    let first = match &handshakes.first {
        Ok(first) => first,
        Err(why) => return Finding::unknown(ID, why.clone()),
    };
    let of = handshakes.again.len();
    let resumed: Vec<&HandshakeSample> = handshakes.again.iter().filter(|shake| shake.resumed).collect();
    let full = format!("a full handshake takes {} and {}", time(first.took), bytes(first.received as u64));
    match resumed.iter().min_by_key(|shake| shake.took) {
        _ if of == 0 => Finding::unknown(ID, "no second connection could be opened"),
        Some(one) => Finding::good(
            ID,
            format!(
                "{} of {of} connections resumed the session of the previous one: {} and {}; {full}",
                resumed.len(),
                time(one.took),
                bytes(one.received as u64),
            ),
        ),
        None => {
            Finding::warning(ID, format!("none of {of} connections resumed the session of the previous one"))
                .costs(format!("{full}, for every new connection of every client"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict::{self, Good, Unknown, Warning};

    fn shake(version: &str, resumed: bool) -> HandshakeSample {
        HandshakeSample {
            version: version.to_owned(),
            cipher: "AES".to_owned(),
            round_trips: 1,
            took: Duration::from_millis(20),
            received: 3000,
            resumed,
        }
    }

    #[test]
    fn an_old_version_and_full_handshakes_cost() {
        let no = || Err("refused".to_owned());
        let (new, old) = (|| Ok(shake("TLS 1.3", false)), || Ok(shake("TLS 1.2", false)));
        let full = || vec![shake("TLS 1.3", false); 3];
        let one = || vec![shake("TLS 1.3", false), shake("TLS 1.3", true)];
        type Row = (
            Result<HandshakeSample, String>,
            Result<HandshakeSample, String>,
            Vec<HandshakeSample>,
            Verdict,
            Verdict,
        );
        let rows: [Row; 5] = [
            (new(), old(), one(), Good, Good),
            (new(), no(), one(), Good, Good),
            (no(), old(), full(), Warning, Warning),
            (new(), old(), Vec::new(), Good, Unknown),
            (no(), no(), full(), Unknown, Warning),
        ];
        for (newest, older, again, tls, resumption) in rows {
            let round_trip = Duration::from_millis(9);
            let findings = judge(&Handshakes { newest, older, first: new(), again, round_trip });
            let verdicts: Vec<Verdict> = findings.iter().map(|finding| finding.verdict).collect();
            assert_eq!(verdicts, [tls, resumption], "{findings:?}");
        }
    }
}
