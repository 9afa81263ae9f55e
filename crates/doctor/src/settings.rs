//! How a target is examined.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::budget::CONNECTIONS;
use crate::client::Identity;
use crate::probes::Probe;
use crate::server::Server;

/// How a target is examined. The defaults are polite, and harm no server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The probes to run, in this order.
    pub probes: Vec<Probe>,
    /// Fields sent with every request, in place of the doctor's own of the same name.
    pub headers: Vec<(String, String)>,
    /// The method of ordinary requests: a safe one.
    pub method: String,
    /// The body to send where a probe needs one.
    pub body: Vec<u8>,
    /// A path that may be asked by `POST`; without it only safe methods are used.
    pub post: Option<String>,
    /// Addresses to use in place of those of the name: (host, port, address).
    pub resolve: Vec<(String, u16, IpAddr)>,
    /// Whether a certificate that cannot be verified is accepted (and reported).
    pub insecure: bool,
    /// Authorities that are trusted besides the system's, each in DER.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The client certificate, for a server that requests one.
    pub identity: Option<Arc<Identity>>,
    /// How long a single step may take.
    pub timeout: Duration,
    /// Requests a second, at most.
    pub rate: u32,
    /// Which server it is, where that is known: it need not say its name.
    pub server: Option<Server>,
    /// Whether redirects are followed, and what they lead to is examined.
    pub follow: bool,
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
            identity: None,
            timeout: Duration::from_secs(5),
            rate: crate::budget::REQUESTS_PER_SECOND,
            server: None,
            follow: true,
            intrusive: false,
            slow: false,
            via: Vec::new(),
        }
    }
}

impl Settings {
    /// Believes the authorities in a file of PEM besides the system's.
    ///
    /// # Errors
    /// It cannot be read, or there is none in it.
    pub fn believe(&mut self, file: &str) -> Result<(), String> {
        let wrong = |error: &dyn std::fmt::Display| format!("CA file {file}: {error}");
        let before = self.authorities.len();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
            self.authorities.push(certificate.map_err(|error| wrong(&error))?);
        }
        match self.authorities.len() > before {
            true => Ok(()),
            false => Err(wrong(&"no certificate in it; expected PEM with -----BEGIN CERTIFICATE-----")),
        }
    }

    /// Shows the client certificate in one file of PEM, with the key in another.
    ///
    /// # Errors
    /// One of them cannot be read, or does not hold what it should.
    pub fn identify(&mut self, cert: &str, key: &str) -> Result<(), String> {
        let wrong = |file: &str, error: &dyn std::fmt::Display| format!("file {file}: {error}");
        let certificates = CertificateDer::pem_file_iter(cert).map_err(|error| wrong(cert, &error))?;
        let chain = certificates.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(cert, &error))?;
        if chain.is_empty() {
            return Err(wrong(cert, &"no certificate in it; expected PEM with -----BEGIN CERTIFICATE-----"));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        self.identity = Some(Arc::new(Identity { chain, key }));
        Ok(())
    }

    /// The most that an examination of this many servers will do, in a sentence: shown before it begins.
    #[must_use]
    pub fn promise(&self, servers: usize) -> String {
        let requests: u32 =
            self.probes.iter().fold(1_u32, |sum, probe| sum.saturating_add(probe.requests(self)));
        let all = if servers > 1 { "to each server" } else { "in all" };
        let mut text = format!(
            "Opens at most {CONNECTIONS} connections at once and sends at most {} a second, about {requests} {all}; only GET, HEAD and OPTIONS",
            counted(self.rate),
        );
        if let Some(path) = &self.post {
            text.push_str(&format!(", and POST to {path}"));
        }
        if self.intrusive {
            text.push_str("; also malformed messages and unusual methods");
        }
        if self.slow {
            text.push_str("; waits minutes for idle connections to close");
        }
        text.push('.');
        text
    }
}

fn counted(requests: u32) -> String {
    format!("{requests} request{}", if requests == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_be_done_is_said() {
        let mut settings = Settings { probes: vec![Probe::Writes], rate: 1, ..Settings::default() };
        assert_eq!(
            settings.promise(1),
            format!(
                "Opens at most 8 connections at once and sends at most 1 request a second, about {} in all; only GET, HEAD and OPTIONS.",
                Probe::Writes.requests(&settings) + 1
            )
        );
        settings.post = Some("/echo".to_owned());
        settings.intrusive = true;
        settings.slow = true;
        let promise = settings.promise(2);
        for part in [
            "to each server;",
            "OPTIONS, and POST to /echo;",
            "; also malformed messages and",
            "; waits minutes for",
        ] {
            assert!(promise.contains(part), "{promise}");
        }
    }
}
