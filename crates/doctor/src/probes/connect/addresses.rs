//! Every address of the name: does a server accept connections there?

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::{Failure, PeerAddress};
use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::report::time;

const ID: &str = "connect.addresses";

/// How long to wait for an address: a first packet that got lost is sent again after a second.
const PATIENCE: Duration = Duration::from_millis(1500);

/// The result of connecting to one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConnectAttempt {
    Responses(Duration),
    Refuses(Duration),
    Silent(Duration),
    /// This machine cannot send anything there.
    NoRoute,
    Failed(String),
}

/// The first addresses, at most four of them.
pub(super) async fn ask(context: &ProbeContext) -> Vec<(SocketAddr, ConnectAttempt)> {
    let at = |index: usize| context.addresses.get(index).copied();
    let tried = tokio::join!(
        once_more(context, at(0)),
        once_more(context, at(1)),
        once_more(context, at(2)),
        once_more(context, at(3)),
    );
    [tried.0, tried.1, tried.2, tried.3].into_iter().flatten().collect()
}

/// One that is silent is asked twice: packets do get lost.
async fn once_more(
    context: &ProbeContext,
    address: Option<SocketAddr>,
) -> Option<(SocketAddr, ConnectAttempt)> {
    let address = address?;
    Some(match connect(context, address).await {
        ConnectAttempt::Silent(_) => (address, connect(context, address).await),
        tried => (address, tried),
    })
}

async fn connect(context: &ProbeContext, address: SocketAddr) -> ConnectAttempt {
    let begun = std::time::Instant::now();
    let patience = PATIENCE.min(context.settings.timeout);
    match tokio::time::timeout(patience, context.connect_to(&PeerAddress::Tcp(address), None)).await {
        Ok(Ok(connection)) => ConnectAttempt::Responses(connection.times.connect),
        Ok(Err(Failure::Refused(_))) => ConnectAttempt::Refuses(begun.elapsed()),
        Ok(Err(Failure::NoRoute(_))) => ConnectAttempt::NoRoute,
        Ok(Err(Failure::TimedOut(_, after))) => ConnectAttempt::Silent(after),
        Ok(Err(failure)) => ConnectAttempt::Failed(failure.to_string()),
        Err(_) => ConnectAttempt::Silent(patience),
    }
}

/// A silent address stalls each client that tries it first; one that refuses costs a round trip.
pub(super) fn judge(tried: &[(SocketAddr, ConnectAttempt)]) -> Vec<Finding> {
    if tried.is_empty() {
        return Vec::new();
    }
    let words = tried.iter().map(|(address, tried)| say(*address, tried)).collect::<Vec<_>>().join("; ");
    let responses = tried.iter().any(|(_, tried)| matches!(tried, ConnectAttempt::Responses(_)));
    let silent = tried.iter().find_map(|(address, tried)| match tried {
        ConnectAttempt::Silent(after) => Some((address, *after)),
        _ => None,
    });
    let refuses = tried.iter().find_map(|(address, tried)| match tried {
        // On this machine the cost is not noticeable; `localhost` is often so.
        ConnectAttempt::Refuses(after) if !address.ip().is_loopback() => Some(*after),
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

fn say(address: SocketAddr, tried: &ConnectAttempt) -> String {
    match tried {
        ConnectAttempt::Responses(after) => format!("{address} responds in {}", time(*after)),
        ConnectAttempt::Refuses(after) => format!("{address} refuses the connection after {}", time(*after)),
        ConnectAttempt::Silent(after) => format!("{address} does not respond within {}, twice", time(*after)),
        ConnectAttempt::NoRoute => format!("{address} cannot be tried: this machine has no route to it"),
        ConnectAttempt::Failed(why) => format!("{address}: {why}"),
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
            (vec![(four, ConnectAttempt::Responses(ms))], Good),
            (vec![(four, ConnectAttempt::Responses(ms)), (six, ConnectAttempt::Responses(ms))], Good),
            (vec![(four, ConnectAttempt::Responses(ms)), (six, ConnectAttempt::Silent(ms))], Bad),
            (vec![(four, ConnectAttempt::Responses(ms)), (six, ConnectAttempt::Refuses(ms))], Warning),
            (vec![(four, ConnectAttempt::Responses(ms)), (six, ConnectAttempt::NoRoute)], Good),
            (vec![(four, ConnectAttempt::Responses(ms)), (home, ConnectAttempt::Refuses(ms))], Good),
            (vec![(four, ConnectAttempt::Silent(ms)), (six, ConnectAttempt::Silent(ms))], Unknown),
            (vec![(four, ConnectAttempt::Failed("no".to_owned()))], Unknown),
        ] {
            let finding = judge(&tried).remove(0);
            assert_eq!(finding.verdict, verdict, "{}", finding.evidence);
        }
        assert!(judge(&[]).is_empty());
    }
}
