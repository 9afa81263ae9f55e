//! HTTP/2: whether the server agrees on it by ALPN, and what its first SETTINGS say (RFC 9113 §3.4, §6.5).

use std::time::Duration;

use crate::client::{Connection, Read, TlsSettings, client_config};
use crate::context::ProbeContext;
use crate::finding::Finding;

const ID: &str = "connect.http2";

/// The preface, and empty SETTINGS.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// An acknowledgement of SETTINGS, and GOAWAY without an error.
const GOODBYE: &[u8] = b"\0\0\0\x04\x01\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The length, the type, flags and the stream stand before a frame.
const FRAME_HEAD: usize = 9;

/// Largest frame, unless we allow more (RFC 9113 §4.2).
const FRAME: usize = 16 * 1024;

/// How long to wait for the SETTINGS; they need nothing from us but the preface.
const PATIENCE: Duration = Duration::from_secs(2);

/// Fewer streams at once than this slow clients down that rely on it (RFC 9113 §6.5.2).
const STREAMS: u32 = 100;

const NOT_SPOKEN: &str = "Enable HTTP/2 on this port, or remove h2 from the protocols that TLS offers there (ALPN); behind a proxy that forwards connections, where TLS ends.";

/// The result of offering HTTP/2 by ALPN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AlpnOutcome {
    /// HTTP/2, and what the settings say.
    Http2(Http2Settings),
    /// HTTP/2, and then something else than SETTINGS.
    Garbage(String),
    /// HTTP/2, and then nothing.
    Silence(Duration),
    /// Another protocol, or ALPN is not used.
    Other(Option<String>),
    Failed(String),
}

/// The members of SETTINGS that matter; nothing where the default counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Http2Settings {
    pub(super) streams: Option<u32>,
    pub(super) window: Option<u32>,
    pub(super) frame: Option<u32>,
}

pub(super) async fn ask(context: &ProbeContext, tls_settings: &TlsSettings) -> AlpnOutcome {
    let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = match client_config(&TlsSettings { alpn, ..tls_settings.clone() }) {
        Ok(config) => config,
        Err(failure) => return AlpnOutcome::Failed(failure.to_string()),
    };
    let mut connection = match context.connect_with(Some(config)).await {
        Ok(connection) => connection,
        Err(failure) => return AlpnOutcome::Failed(failure.to_string()),
    };
    let alpn = connection.handshake.as_ref().and_then(|handshake| handshake.alpn.clone());
    if alpn.as_deref() != Some("h2") {
        return AlpnOutcome::Other(alpn);
    }
    if let Err(failure) = connection.send(PREFACE).await {
        return AlpnOutcome::Failed(failure.to_string());
    }
    let agreed = first_settings(&mut connection, PATIENCE.min(context.settings.timeout)).await;
    // Whether or not GOAWAY arrives, the connection ends here.
    let _ = connection.send(GOODBYE).await;
    agreed
}

async fn first_settings(connection: &mut Connection, within: Duration) -> AlpnOutcome {
    let begun = std::time::Instant::now();
    loop {
        match read_settings(connection.left_over()) {
            Some(Ok(settings)) => return AlpnOutcome::Http2(settings),
            Some(Err(why)) => return AlpnOutcome::Garbage(why),
            None => {}
        }
        match connection.read(within.saturating_sub(begun.elapsed())).await {
            Read::Bytes(_) if begun.elapsed() < within => {}
            Read::Bytes(_) | Read::Silence => return AlpnOutcome::Silence(within),
            Read::Closed => return AlpnOutcome::Garbage("a close".to_owned()),
            Read::Reset => return AlpnOutcome::Garbage("a reset".to_owned()),
            Read::Broken(why) => return AlpnOutcome::Garbage(why),
        }
    }
}

/// The SETTINGS with which a server begins (RFC 9113 §3.4); nothing as long as they are not whole.
fn read_settings(bytes: &[u8]) -> Option<Result<Http2Settings, String>> {
    let &[high, middle, low, kind, flags, ..] = bytes else { return None };
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    if kind != 4 || flags & 1 != 0 || length > FRAME || length % 6 != 0 {
        let first = bytes.get(..bytes.len().min(40)).unwrap_or_default();
        return Some(Err(format!("\"{}\"", first.escape_ascii())));
    }
    let frame = bytes.get(FRAME_HEAD..FRAME_HEAD + length)?;
    let mut settings = Http2Settings::default();
    for setting in frame.chunks_exact(6) {
        let &[id_high, id_low, a, b, c, d] = setting else { continue };
        let value = Some(u32::from_be_bytes([a, b, c, d]));
        match u16::from_be_bytes([id_high, id_low]) {
            3 => settings.streams = value,
            4 => settings.window = value,
            5 => settings.frame = value,
            _ => {}
        }
    }
    Some(Ok(settings))
}

/// A server without HTTP/2 is well, too.
pub(super) fn judge(agreed: &AlpnOutcome) -> Finding {
    match agreed {
        AlpnOutcome::Failed(why) => Finding::unknown(ID, why.clone()),
        AlpnOutcome::Other(Some(protocol)) => {
            Finding::good(ID, format!("ALPN selects {protocol}: the server does not offer HTTP/2"))
        }
        AlpnOutcome::Other(None) => Finding::good(ID, "no ALPN: the server does not offer HTTP/2"),
        AlpnOutcome::Silence(after) => Finding::unknown(
            ID,
            format!("ALPN selects h2, but no SETTINGS arrived within {}", crate::report::time(*after)),
        ),
        AlpnOutcome::Garbage(what) => {
            Finding::bad(ID, format!("ALPN selects h2, but instead of SETTINGS came {what}"))
                .costs("clients that offer HTTP/2, as browsers do, get no response")
                .with_fix(NOT_SPOKEN)
        }
        AlpnOutcome::Http2(settings) => {
            let said = |value: Option<u32>, default: &str| {
                value.map_or_else(|| default.to_owned(), |value| value.to_string())
            };
            let evidence = format!(
                "ALPN selects h2; concurrent streams {}, stream window {}, largest frame {}",
                said(settings.streams, "unlimited"),
                said(settings.window, "65535 (default)"),
                said(settings.frame, "16384 (default)"),
            );
            match settings.streams {
                Some(streams) if streams < STREAMS => Finding::warning(ID, evidence)
                    .costs(format!("the requests of a page beyond {streams} at once wait for their turn")),
                _ => Finding::good(ID, evidence),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict::{Bad, Good, Unknown, Warning};

    #[test]
    fn settings_are_read_as_soon_as_they_are_whole() {
        let whole = b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0\0\x05\0\xff\xff\xff";
        for end in 0..whole.len() {
            assert_eq!(read_settings(&whole[..end]), None);
        }
        let settings = Http2Settings { streams: Some(128), window: Some(65536), frame: Some(16_777_215) };
        assert_eq!(read_settings(whole), Some(Ok(settings)));
        assert_eq!(read_settings(b"\0\0\0\x04\0\0\0\0\0"), Some(Ok(Http2Settings::default())));
        for garbage in [&b"HTTP/1.1 400"[..], b"\0\0\0\x04\x01\0\0\0\0", b"\0\0\x05\x04\0", b"\xff\0\0\x04\0"]
        {
            assert!(matches!(read_settings(garbage), Some(Err(_))), "{garbage:?}");
        }
    }

    #[test]
    fn a_server_that_agrees_on_http2_and_does_not_speak_it_is_told_so() {
        let finding = judge(&AlpnOutcome::Garbage("\"HTTP/1.1 200 OK\"".to_owned()));
        assert_eq!(finding.verdict, Bad);
        // Other findings of this id are about how many streams it allows.
        assert!(finding.fix.as_ref().is_some_and(|fix| fix.contains("Enable HTTP/2")), "{finding:?}");
    }

    #[test]
    fn only_what_clients_would_trip_over_is_bad() {
        let streams =
            |count| AlpnOutcome::Http2(Http2Settings { streams: count, ..Http2Settings::default() });
        for (agreed, verdict) in [
            (streams(None), Good),
            (streams(Some(128)), Good),
            (streams(Some(10)), Warning),
            (AlpnOutcome::Other(None), Good),
            (AlpnOutcome::Other(Some("http/1.1".to_owned())), Good),
            (AlpnOutcome::Garbage("a close".to_owned()), Bad),
            (AlpnOutcome::Silence(PATIENCE), Unknown),
            (AlpnOutcome::Failed("no".to_owned()), Unknown),
        ] {
            let finding = judge(&agreed);
            assert_eq!(finding.verdict, verdict, "{}", finding.evidence);
        }
    }
}
