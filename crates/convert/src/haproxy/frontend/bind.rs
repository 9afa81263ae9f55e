//! `bind`, and the certificates of its `crt`.

use crate::haproxy::Reader;
use crate::haproxy::section::Line;
use crate::model::{Bind, Certificate, Site};

impl Reader<'_> {
    pub(super) fn bind(&mut self, line: &Line, site: &mut Site) {
        let options = line.after(2);
        let has = |name: &str| options.iter().any(|option| option == name);
        let value =
            |name: &str| options.iter().position(|option| option == name).and_then(|at| options.get(at + 1));
        let tls = has("ssl");
        self.ledger.carried(line.origin);
        for address in line.word(1).split(',') {
            let address =
                match address.strip_prefix("unix@").or_else(|| address.strip_prefix('/').map(|_| address)) {
                    Some(path) => format!("unix:{path}"),
                    None => match address.trim_start_matches("ipv4@").trim_start_matches("ipv6@") {
                        address if address.starts_with("*:") => address.replace("*:", "0.0.0.0:"),
                        address if address.starts_with(":::") => address.replacen(":::", "[::]:", 1),
                        address if address.starts_with(':') => format!("0.0.0.0{address}"),
                        address => address.to_owned(),
                    },
                };
            let bind = Bind {
                address,
                tls,
                is_default: true,
                proxy_protocol: has("accept-proxy"),
                origin: Some(line.origin),
            };
            site.binds.push(bind);
        }
        if tls {
            self.certificate(line, value("crt").map(String::as_str), site);
        }
        if has("accept-proxy") {
            self.ledger.differs(
                line.origin,
                "set `server.trusted_proxies` to the addresses of the proxies that send the header",
            );
            self.model.server.note(
                "trusted_proxies",
                vec!["127.0.0.1"],
                "set this: the proxies that send the PROXY header",
            );
        }
        if let Some(ca) = value("ca-file") {
            site.tls.set("client_ca", ca.as_str(), line.origin);
            if value("verify").is_some_and(|verify| verify == "optional") {
                site.tls.set("client_auth", "optional", line.origin);
            }
        }
        if let Some(crl) = value("crl-file") {
            site.tls.set("client_crl", crl.as_str(), line.origin);
        }
        if value("alpn").is_some_and(|alpn| !alpn.contains("h2")) {
            site.listener.set("http2", false, line.origin);
        }
        if value("ssl-min-ver").is_some_and(|version| version == "TLSv1.3") {
            site.tls.set("profile", "modern", line.origin);
        }
    }

    /// `crt` is a file with the certificate and its key, or a directory of them.
    fn certificate(&mut self, line: &Line, crt: Option<&str>, site: &mut Site) {
        let Some(crt) = crt else {
            self.ledger.lost(line.origin, "it has no `crt`", "set `tls.cert` and `tls.key` of the listener");
            return;
        };
        let path = std::path::Path::new(crt);
        let here = self.files.here(path);
        let is_directory = here.is_dir() || crt.ends_with('/');
        let files: Vec<String> = match is_directory {
            false => vec![crt.to_owned()],
            true => {
                let mut found: Vec<String> = here
                    .read_dir()
                    .map(|entries| {
                        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
                    })
                    .unwrap_or_default();
                found.retain(|name| name.ends_with(".pem") || name.ends_with(".crt"));
                found.sort();
                found.iter().map(|name| path.join(name).display().to_string()).collect()
            }
        };
        if files.is_empty() {
            self.ledger.lost(
                line.origin,
                format!("{crt} cannot be read here"),
                "set `tls.certificates` of the listener to its files",
            );
            site.tls.note(
                "cert",
                format!("{crt}/site.pem").replace("//", "/"),
                "set this: a file of the directory",
            );
            site.tls.note(
                "key",
                format!("{crt}/site.pem").replace("//", "/"),
                "set this: a file of the directory",
            );
        }
        for file in files {
            site.certificates.push(Certificate { cert: file.clone(), key: file, origin: Some(line.origin) });
        }
    }
}
