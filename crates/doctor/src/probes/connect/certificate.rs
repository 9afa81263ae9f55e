//! The chain of certificates: whether it is trusted, until when, and how much of it is sent for nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::bytes;
use crate::client::{Certificate, ChainError, TlsSettings, chain_errors, client_config, span};
use crate::context::ProbeContext;
use crate::finding::Finding;

/// Under this much time the renewal did not happen when it should have.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// Certificates valid no longer than this are renewed by machines, and close to their end (RFC 9773; the CA/Browser Forum calls them short-lived).
const SHORT_LIVED: Duration = Duration::from_secs(10 * 24 * 3600);

/// Bytes that a server can send before the first acknowledgement: ten segments (RFC 6928).
const FIRST_FLIGHT: usize = 14_000;

pub(super) async fn examine(context: &ProbeContext, tls_settings: &TlsSettings) -> Vec<Finding> {
    const ID: &str = "connect.certificate";
    let connection = match client_config(tls_settings) {
        // With these settings no session is known, so that the whole chain comes.
        Ok(config) => context.connect_with(Some(config)).await,
        Err(failure) => Err(failure),
    };
    let chain = match connection {
        Ok(connection) => connection.handshake.map(|handshake| handshake.chain).unwrap_or_default(),
        Err(failure) => return vec![Finding::unknown(ID, failure.to_string())],
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let reasons = chain_errors(&chain, &context.target.host, &tls_settings.authorities, now);
    let read: Vec<Certificate> = chain.iter().filter_map(|der| Certificate::parse(der)).collect();
    let Some(leaf) = read.first() else {
        return vec![Finding::unknown(ID, "no readable certificate")];
    };
    vec![believed(leaf, &reasons), expiry(leaf, now), size(&read)]
}

/// Without `--insecure` an untrusted certificate ends the examination before it begins, so a reader of this finding has passed that option.
fn believed(leaf: &Certificate, reasons: &[ChainError]) -> Finding {
    const ID: &str = "connect.certificate";
    let told: Vec<String> = reasons
        .iter()
        .filter(|reason| !matches!(reason, ChainError::Expired(_)))
        .map(ToString::to_string)
        .collect();
    match told.is_empty() {
        true => {
            let names: Vec<&str> = leaf.names.iter().take(5).map(String::as_str).collect();
            Finding::good(ID, format!("for {}, signed by {}", names.join(", "), leaf.issuer))
        }
        false => Finding::warning(
            ID,
            format!("the certificate is not trusted, which --insecure allows: {}", told.join("; ")),
        )
        .costs("every client that verifies certificates rejects it"),
    }
}

fn expiry(leaf: &Certificate, now: i64) -> Finding {
    const ID: &str = "connect.expiry";
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    if now > leaf.until {
        let ago = seconds(now.saturating_sub(leaf.until));
        return Finding::bad(ID, format!("the certificate expired {} ago", span(ago)))
            .costs("every client that verifies certificates rejects it");
    }
    let left = seconds(leaf.until.saturating_sub(now));
    let lifetime = leaf.lifetime();
    let evidence =
        format!("the certificate is valid for another {}, of {} in total", span(left), span(lifetime));
    let soon = if lifetime <= SHORT_LIVED { lifetime / 6 } else { SOON };
    match left < soon {
        true => Finding::warning(ID, evidence)
            .costs(format!("in {} every client that verifies certificates rejects it", span(left))),
        false => Finding::good(ID, evidence),
    }
}

fn size(chain: &[Certificate]) -> Finding {
    const ID: &str = "connect.chain";
    let whole: usize = chain.iter().map(|certificate| certificate.bytes).sum();
    let many = if chain.len() == 1 { "certificate" } else { "certificates" };
    let evidence = format!("{} {many}, {}", chain.len(), bytes(whole as u64));
    let root = chain.iter().skip(1).find(|certificate| certificate.is_self_signed);
    let stray = chain.iter().skip(1).find(|certificate| {
        !certificate.is_self_signed && !chain.iter().any(|other| other.issuer == certificate.subject)
    });
    match (root, stray) {
        (Some(root), _) => Finding::warning(
            ID,
            format!(
                "{evidence}, including the root ({}), which clients either have or do not trust",
                root.subject
            ),
        )
        .costs(format!(
            "{} on every new connection that does not resume a session",
            bytes(root.bytes as u64)
        )),
        (None, Some(stray)) => Finding::warning(
            ID,
            format!("{evidence}, including one that issued none of the others ({})", stray.subject),
        )
        .costs(format!(
            "{} on every new connection that does not resume a session",
            bytes(stray.bytes as u64)
        )),
        (None, None) if whole > FIRST_FLIGHT => {
            Finding::warning(ID, format!("{evidence}: more than fits into the first ten segments"))
                .costs("one more round trip on every new connection that does not resume a session")
        }
        (None, None) => Finding::good(ID, evidence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict::{Bad, Good, Warning};

    const NOW: i64 = 1_800_000_000;
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn certificate(subject: &str, issuer: &str, lifetime: i64, left: i64) -> Certificate {
        let day = DAY.as_secs() as i64;
        Certificate {
            subject: subject.to_owned(),
            issuer: issuer.to_owned(),
            names: vec!["shop.example".to_owned()],
            from: NOW + (left - lifetime) * day,
            until: NOW + left * day,
            is_current: true,
            is_self_signed: subject == issuer,
            bytes: 1000,
        }
    }

    #[test]
    fn a_certificate_that_is_late_to_be_renewed_is_told() {
        for (lifetime, left, verdict) in [
            (90, 60, Good),
            (90, 14, Good),
            (90, 13, Warning),
            (398, 5, Warning),
            (90, -1, Bad),
            // Let's Encrypt's shortest, and what private authorities give out.
            (6, 3, Good),
            (7, 1, Warning),
        ] {
            let finding = expiry(&certificate("shop", "CA", lifetime, left), NOW);
            assert_eq!(finding.verdict, verdict, "{}", finding.evidence);
        }
    }

    #[test]
    fn what_is_sent_for_nothing_is_told() {
        let leaf = certificate("shop", "Middle", 90, 60);
        let middle = certificate("Middle", "Root", 90, 60);
        let root = certificate("Root", "Root", 90, 60);
        let stray = certificate("Stray", "Root", 90, 60);
        let huge = Certificate { bytes: 20_000, ..middle.clone() };
        let own = certificate("shop", "shop", 90, 60);
        for (chain, verdict) in [
            (vec![leaf.clone()], Good),
            (vec![own], Good),
            (vec![leaf.clone(), middle.clone()], Good),
            (vec![leaf.clone(), middle.clone(), root], Warning),
            (vec![leaf.clone(), middle, stray], Warning),
            (vec![leaf, huge], Warning),
        ] {
            let finding = size(&chain);
            assert_eq!(finding.verdict, verdict, "{}", finding.evidence);
        }
    }

    #[test]
    fn what_was_allowed_is_no_more_than_a_warning() {
        let leaf = certificate("shop", "CA", 90, 60);
        assert_eq!(believed(&leaf, &[]).verdict, Good);
        assert_eq!(believed(&leaf, &[ChainError::SelfSigned("shop".to_owned())]).verdict, Warning);
        assert_eq!(believed(&leaf, &[ChainError::Expired(DAY)]).verdict, Good, "told by its own id");
    }
}
