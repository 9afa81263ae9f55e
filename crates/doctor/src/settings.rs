//! How a target is examined.

use std::net::IpAddr;
use std::time::Duration;

use rustls::pki_types::CertificateDer;

use crate::probes::Probe;

/// How a target is examined. The defaults are polite, and harm no server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The probes to run, in this order.
    pub probes: Vec<Probe>,
    /// Fields sent with every request, in place of the doctor's own of the same name.
    pub headers: Vec<(String, String)>,
    /// The method of ordinary requests: a safe one.
    pub method: String,
    /// What is sent where a probe needs a body.
    pub body: Vec<u8>,
    /// A path that may be asked by `POST`; without it only safe methods are used.
    pub post: Option<String>,
    /// Addresses to use in place of those of the name: (host, port, address).
    pub resolve: Vec<(String, u16, IpAddr)>,
    /// Whether a certificate that cannot be verified is accepted (and reported).
    pub insecure: bool,
    /// Authorities that are believed besides the system's, each in DER.
    pub authorities: Vec<CertificateDer<'static>>,
    /// How long a single step may take.
    pub timeout: Duration,
    /// Requests a second, at most.
    pub rate: u32,
    /// Whether malformed messages may be sent.
    pub intrusive: bool,
    /// Whether a probe may wait for an idle connection to be closed, for minutes.
    pub slow: bool,
    /// Servers behind the first one, outermost first, as URLs that reach them directly.
    pub via: Vec<crate::Target>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            probes: Probe::ALL.to_vec(),
            headers: Vec::new(),
            method: "GET".to_owned(),
            body: b"keepwarm check".to_vec(),
            post: None,
            resolve: Vec::new(),
            insecure: false,
            authorities: Vec::new(),
            timeout: Duration::from_secs(5),
            rate: crate::budget::REQUESTS_PER_SECOND,
            intrusive: false,
            slow: false,
            via: Vec::new(),
        }
    }
}
