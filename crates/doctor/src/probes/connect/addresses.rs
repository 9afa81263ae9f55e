//! Every address of the name: does somebody answer there?

use std::net::SocketAddr;
use std::time::Duration;

use crate::finding::Finding;
use crate::patient::Patient;
use crate::report::time;
use crate::wire::{Failure, Peer};

const ID: &str = "connect.addresses";

/// For so long an address is waited for: a first packet that got lost is sent again after a second.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What became of connecting to one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tried {
    Responses(Duration),
    Refuses(Duration),
    Silent(Duration),
    /// This machine cannot send anything there.
    NoRoute,
    Failed(String),
}

/// The first addresses, at most four of them.
pub(super) async fn ask(patient: &Patient) -> Vec<(SocketAddr, Tried)> {
    let at = |index: usize| patient.addresses.get(index).copied();
    let tried = tokio::join!(
        once_more(patient, at(0)),
        once_more(patient, at(1)),
        once_more(patient, at(2)),
        once_more(patient, at(3)),
    );
    [tried.0, tried.1, tried.2, tried.3].into_iter().flatten().collect()
}

/// One that is silent is asked twice: packets do get lost.
async fn once_more(patient: &Patient, address: Option<SocketAddr>) -> Option<(SocketAddr, Tried)> {
    let address = address?;
    Some(match connect(patient, address).await {
        Tried::Silent(_) => (address, connect(patient, address).await),
        tried => (address, tried),
    })
}

async fn connect(patient: &Patient, address: SocketAddr) -> Tried {
    let begun = std::time::Instant::now();
    let patience = PATIENCE.min(patient.settings.timeout);
    match tokio::time::timeout(patience, patient.line_to(&Peer::Tcp(address), None)).await {
        Ok(Ok(line)) => Tried::Responses(line.times.connect),
        Ok(Err(Failure::Refused(_))) => Tried::Refuses(begun.elapsed()),
        Ok(Err(Failure::NoRoute(_))) => Tried::NoRoute,
        Ok(Err(Failure::TimedOut(_, after))) => Tried::Silent(after),
        Ok(Err(failure)) => Tried::Failed(failure.to_string()),
        Err(_) => Tried::Silent(patience),
    }
}

/// One that is silent stalls whoever tries it first; one that refuses costs a round trip.
pub(super) fn judge(tried: &[(SocketAddr, Tried)]) -> Vec<Finding> {
    if tried.is_empty() {
        return Vec::new();
    }
    let words = tried.iter().map(|(address, tried)| say(*address, tried)).collect::<Vec<_>>().join("; ");
    let responses = tried.iter().any(|(_, tried)| matches!(tried, Tried::Responses(_)));
    let silent = tried.iter().find_map(|(address, tried)| match tried {
        Tried::Silent(after) => Some((address, *after)),
        _ => None,
    });
    let refuses = tried.iter().find_map(|(address, tried)| match tried {
        // On this machine nobody notices; `localhost` is often so.
        Tried::Refuses(after) if !address.ip().is_loopback() => Some(*after),
        _ => None,
    });
    let finding = match (responses, silent, refuses) {
        (false, ..) => Finding::unknown(ID, words),
        (true, Some((address, after)), _) => {
            let kind = if address.is_ipv6() { "IPv6" } else { "IPv4" };
            Finding::bad(ID, words).costs(format!(
                "more than {} for clients that try {kind} first and wait (by default two minutes on Linux), 250 ms for those that race both (RFC 8305 §5)",
                time(after)
            ))
        }
        (true, None, Some(after)) => Finding::warning(ID, words)
            .costs(format!("{} for every new connection that tries that address first", time(after))),
        (true, None, None) => Finding::good(ID, words),
    };
    vec![finding]
}

fn say(address: SocketAddr, tried: &Tried) -> String {
    match tried {
        Tried::Responses(after) => format!("{address} responds in {}", time(*after)),
        Tried::Refuses(after) => format!("{address} refuses the connection after {}", time(*after)),
        Tried::Silent(after) => format!("{address} does not respond within {}, twice", time(*after)),
        Tried::NoRoute => format!("{address} cannot be tried: this machine has no route to it"),
        Tried::Failed(why) => format!("{address}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict::{Bad, Good, Unknown, Warning};

    #[test]
    fn an_address_that_stalls_is_bad_when_another_responds() {
        let four: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let six: SocketAddr = "[2001:db8::1]:80".parse().unwrap();
        let home: SocketAddr = "[::1]:80".parse().unwrap();
        let ms = Duration::from_millis(20);
        for (tried, verdict) in [
            (vec![(four, Tried::Responses(ms))], Good),
            (vec![(four, Tried::Responses(ms)), (six, Tried::Responses(ms))], Good),
            (vec![(four, Tried::Responses(ms)), (six, Tried::Silent(ms))], Bad),
            (vec![(four, Tried::Responses(ms)), (six, Tried::Refuses(ms))], Warning),
            (vec![(four, Tried::Responses(ms)), (six, Tried::NoRoute)], Good),
            (vec![(four, Tried::Responses(ms)), (home, Tried::Refuses(ms))], Good),
            (vec![(four, Tried::Silent(ms)), (six, Tried::Silent(ms))], Unknown),
            (vec![(four, Tried::Failed("no".to_owned()))], Unknown),
        ] {
            let finding = judge(&tried).remove(0);
            assert_eq!(finding.verdict, verdict, "{}", finding.evidence);
        }
        assert!(judge(&[]).is_empty());
    }
}
