//! Certificates and protocols of a virtual host (mod_ssl).

use super::{Host, Reader};
use crate::model::{Certificate, Site};

impl<'a> Reader<'a> {
    pub(super) fn tls(&mut self, host: &Host<'a>, site: &mut Site) {
        match (host.one("sslcertificatefile"), host.one("sslcertificatekeyfile")) {
            (Some(cert), key) => {
                let key_file = key.map_or_else(|| cert.arg(0).to_owned(), |key| key.arg(0).to_owned());
                key.iter().for_each(|node| self.ledger.carried(node.origin));
                site.certificates.push(Certificate {
                    cert: cert.arg(0).to_owned(),
                    key: key_file,
                    origin: Some(cert.origin),
                });
            }
            (None, _) => {
                if let Some(origin) = host.origin {
                    self.ledger.lost(
                        origin,
                        "it has no SSLCertificateFile",
                        "set `tls.cert` and `tls.key` of the listener",
                    );
                }
            }
        }
        if let Some(chain) = host.one("sslcertificatechainfile") {
            self.ledger.lost(
                chain.origin,
                "the chain is in the file of the certificate",
                "append this file to the certificate's",
            );
        }
        if let Some(protocol) = host.one("sslprotocol") {
            let text = protocol.args.join(" ").to_ascii_lowercase();
            match text.contains("-tlsv1.2") || text == "tlsv1.3" || text == "+tlsv1.3" {
                true => site.tls.set("profile", "modern", protocol.origin),
                false => self.ledger.differs(protocol.origin, "TLS 1.2 and 1.3 only"),
            }
        }
        if let Some(verify) =
            host.one("sslverifyclient").filter(|node| !node.arg(0).eq_ignore_ascii_case("none"))
        {
            match (host.one("sslcacertificatefile"), verify.arg(0).to_ascii_lowercase().as_str()) {
                (Some(ca), kind @ ("require" | "optional")) => {
                    site.tls.set("client_ca", ca.arg(0), ca.origin);
                    if kind == "optional" {
                        site.tls.set("client_auth", "optional", verify.origin);
                    }
                    self.ledger.carried(verify.origin);
                }
                _ => self.ledger.lost(
                    verify.origin,
                    "certificates of clients are of an authority in `tls.client_ca`",
                    "set it",
                ),
            }
        }
        if let Some(crl) = host.one("sslcarevocationfile") {
            site.tls.set("client_crl", crl.arg(0), crl.origin);
        }
    }
}
