//! TLS errors, in words.

use std::time::{Duration, SystemTime};

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// The name of the error of a client that speaks HTTP without TLS.
pub(super) const PLAINTEXT_HTTP: &str = "plaintext_http";

/// Why a TLS connection failed, or ended. `Display` is a sentence of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError {
    /// A stable name, for counters and logs.
    pub name: &'static str,
    /// What happened, and what to do.
    pub sentence: String,
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for TlsError {}

impl TlsError {
    pub(super) fn new(name: &'static str, sentence: impl Into<String>) -> Self {
        Self { name, sentence: sentence.into() }
    }

    /// Converts an error of rustls about the server of that name.
    pub(super) fn of(error: &Error, server: &ServerName<'_>) -> Self {
        match error {
            Error::InvalidCertificate(error) => of_certificate(error, server),
            Error::AlertReceived(alert) => of_alert(*alert),
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::new(
                "tls_not_spoken",
                "the server does not speak TLS on this port; enable it there, or begin its url with http://",
            ),
            Error::PeerIncompatible(reason) => Self::new(
                "tls_incompatible",
                format!(
                    "the server offers no TLS version or cipher that is allowed here ({reason:?}); see min_tls"
                ),
            ),
            Error::NoCertificatesPresented => {
                Self::new("certificate_missing", "the server sent no certificate")
            }
            other => Self::new("tls_failed", format!("TLS with the server failed: {other}")),
        }
    }
}

impl TlsError {
    /// Converts an error of rustls about a client.
    pub(super) fn of_client(error: &Error) -> Self {
        match error {
            Error::AlertReceived(alert) => of_client_alert(*alert),
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::new("not_tls", "the client does not speak TLS"),
            Error::PeerIncompatible(reason) => of_incompatible(reason),
            Error::NoCertificatesPresented => Self::new(
                "client_certificate_missing",
                "the client sent no certificate, which this listener requires",
            ),
            Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => Self::new("client_certificate_expired", "the client's certificate has expired"),
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => Self::new(
                "client_certificate_unknown_issuer",
                "no authority in client_ca has signed the client's certificate",
            ),
            Error::InvalidCertificate(CertificateError::Revoked) => Self::new(
                "client_certificate_revoked",
                "the client's certificate, or its authority's, is revoked",
            ),
            Error::InvalidCertificate(
                CertificateError::ExpiredRevocationList
                | CertificateError::ExpiredRevocationListContext { .. },
            ) => Self::new(
                "client_crl_expired",
                "client_crl has an expired list of the authority of the client's certificate: fetch a new one",
            ),
            Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => Self::new(
                "client_crl_missing",
                "client_crl has no list of an authority of the client's certificate: add it to the file",
            ),
            Error::InvalidCertificate(error) => Self::new(
                "client_certificate_invalid",
                format!("the client's certificate is not acceptable: {error}"),
            ),
            Error::NoApplicationProtocol => {
                Self::new("protocol_unknown", "the client offers no protocol (ALPN) that is spoken here")
            }
            other => Self::new("protocol_error", format!("the client broke the rules of TLS: {other}")),
        }
    }

    /// No certificate is for the name that a client requests.
    pub(super) fn unknown_name(name: Option<&str>) -> Self {
        let sentence = match name {
            Some(name) => format!("the client requests {name}, and no certificate is for that name"),
            None => "the client requests no host name (SNI), and there is no default certificate".to_owned(),
        };
        Self::new("name_unknown", sentence)
    }

    /// A client began with this byte, which begins no handshake (RFC 8446 §5.1).
    pub(super) fn not_tls(first: u8) -> Self {
        // A method of HTTP.
        match first.is_ascii_uppercase() {
            true => Self::new(
                PLAINTEXT_HTTP,
                "the client speaks HTTP without TLS; its url should begin with https://",
            ),
            false => Self::new("not_tls", "the client does not speak TLS"),
        }
    }

    /// The peer has left, in the middle.
    pub(super) fn client_left(error: Option<&std::io::Error>) -> Self {
        let sentence = match error {
            Some(error) => format!("the connection was lost during the TLS handshake: {error}"),
            None => "the client closed the connection during the TLS handshake".to_owned(),
        };
        Self::new("client_left", sentence)
    }
}

fn of_incompatible(reason: &PeerIncompatible) -> TlsError {
    use PeerIncompatible as Reason;
    match reason {
        Reason::Tls12NotOffered
        | Reason::Tls12NotOfferedOrEnabled
        | Reason::Tls13RequiredForQuic
        | Reason::SupportedVersionsExtensionRequired => TlsError::new(
            "no_shared_version",
            "the client offers no version of TLS that is allowed here; see profile",
        ),
        Reason::NoCipherSuitesInCommon => {
            TlsError::new("no_shared_cipher", "the client offers no cipher that is allowed here")
        }
        other => TlsError::new(
            "no_shared_parameters",
            format!("the client and this server have no common parameters ({other:?})"),
        ),
    }
}

/// The client sent an alert with its reason: most often about our certificate.
fn of_client_alert(alert: AlertDescription) -> TlsError {
    use AlertDescription as Alert;
    match alert {
        Alert::UnknownCA => TlsError::new(
            "certificate_untrusted",
            "the client does not trust the authority of the certificate: self-signed, or its chain is incomplete",
        ),
        Alert::CertificateExpired => {
            TlsError::new("certificate_expired", "the client found the certificate expired")
        }
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateUnknown
        | Alert::AccessDenied => {
            TlsError::new("certificate_refused", format!("the client refused the certificate ({alert:?})"))
        }
        Alert::UserCanceled | Alert::CloseNotify => TlsError::client_left(None),
        other => TlsError::new("client_alert", format!("the client ended TLS with the alert {other:?}")),
    }
}

/// The server sent an alert with its reason.
fn of_alert(alert: AlertDescription) -> TlsError {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired | Alert::NoCertificate => TlsError::new(
            "client_certificate_missing",
            "the server requires a client certificate; set cert and key",
        ),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied => TlsError::new(
            "client_certificate_refused",
            format!("the server refused the client certificate ({alert:?}); see cert and key"),
        ),
        Alert::ProtocolVersion => TlsError::new(
            "tls_incompatible",
            "the server supports no TLS version that is allowed here; see min_tls",
        ),
        Alert::UnrecognisedName => {
            TlsError::new("server_name_unknown", "the server does not know the requested host name (SNI)")
        }
        Alert::NoApplicationProtocol => {
            TlsError::new("protocol_unknown", "the server supports none of the offered protocols (ALPN)")
        }
        // With an older server, or one without a certificate of its own.
        Alert::HandshakeFailure => TlsError::new(
            "tls_refused",
            "the server refused the TLS handshake: no common cipher, or it requires a client certificate",
        ),
        other => TlsError::new("tls_refused", format!("the server ended TLS with the alert {other:?}")),
    }
}

fn of_certificate(error: &CertificateError, server: &ServerName<'_>) -> TlsError {
    let server = server.to_str();
    match error {
        CertificateError::NotValidForNameContext { presented, .. } => TlsError::new(
            "certificate_name",
            format!("the server's certificate is for {}, not for {server}", names(presented)),
        ),
        CertificateError::NotValidForName => {
            TlsError::new("certificate_name", format!("the server's certificate is not for {server}"))
        }
        CertificateError::ExpiredContext { not_after, .. } => TlsError::new(
            "certificate_expired",
            format!("the certificate of {server} expired on {}", date(*not_after)),
        ),
        CertificateError::Expired => {
            TlsError::new("certificate_expired", format!("the certificate of {server} has expired"))
        }
        CertificateError::NotValidYetContext { not_before, .. } => TlsError::new(
            "certificate_not_yet_valid",
            format!("the certificate of {server} is not valid before {}", date(*not_before)),
        ),
        CertificateError::UnknownIssuer => TlsError::new(
            "certificate_unknown_issuer",
            format!(
                "no trusted authority has signed the certificate of {server}; set ca to the authority's certificate"
            ),
        ),
        CertificateError::BadSignature => TlsError::new(
            "certificate_unknown_issuer",
            format!(
                "the certificate of {server} names a trusted authority that did not sign it; check that ca is the authority's current certificate"
            ),
        ),
        CertificateError::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => TlsError::new(
            "certificate_is_authority",
            format!(
                "the certificate of {server} is an authority's (CA:TRUE), which a server must not use; create one with basicConstraints=CA:FALSE"
            ),
        ),
        other => TlsError::new(
            "certificate_invalid",
            format!("the certificate of {server} is not acceptable: {other}"),
        ),
    }
}

/// The names in a certificate; they come as `DnsName("a.test")`.
fn names(presented: &[String]) -> String {
    let names: Vec<&str> = presented
        .iter()
        .map(|name| match name.split_once('(') {
            Some((_, inner)) => inner.trim_end_matches(')').trim_matches('"'),
            None => name,
        })
        .collect();
    match names.split_last() {
        None => "no name at all".to_owned(),
        Some((one, [])) => (*one).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

fn date(time: UnixTime) -> String {
    match SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs())) {
        Some(time) if time.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|past| past < YEAR_9999) => {
            httpdate::fmt_http_date(time)
        }
        _ => "a date out of range".to_owned(),
    }
}

/// The latest time that an HTTP date can express.
const YEAR_9999: Duration = Duration::from_secs(253_402_300_800);

/// The wrong setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPart {
    /// `ca`
    Ca,
    /// `cert`
    Certificate,
    /// `key`
    Key,
    /// `ocsp`
    Ocsp,
    /// `client_crl`
    Crl,
    /// The name of the server.
    ServerName,
}

/// Why settings cannot be used. `Display` names the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSetupError {
    /// Which of the settings.
    pub part: TlsPart,
    /// What is wrong, and what to do.
    pub sentence: String,
}

impl std::fmt::Display for TlsSetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for TlsSetupError {}

impl TlsSetupError {
    pub(super) fn certificate(sentence: String) -> Self {
        Self { part: TlsPart::Certificate, sentence }
    }
}
