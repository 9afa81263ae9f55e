//! Caddyfiles.

mod directive;
mod syntax;

use std::path::Path;

use self::syntax::{Block, Line, parse};
use crate::Error;
use crate::files::Files;
use crate::fpm::Pool;
use crate::ledger::{Ledger, Origin};
use crate::model::{Bind, Certificate, Model, PathMatch, Route, Site};
use crate::table::Table;

pub(crate) fn read(
    path: &Path,
    files: &Files,
    pools: &[Pool],
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let blocks = parse(path, files, ledger)?;
    let before = model.sites.len();
    let mut reader = Reader { pools, model, ledger, redirects: Vec::new(), closed: Vec::new() };
    for block in &blocks {
        let has_path = |address: &&String| {
            address.split("://").last().is_some_and(|rest| rest.trim_end_matches('/').contains('/'))
        };
        if let Some(address) = block.addresses.iter().find(has_path) {
            let place = reader.ledger.place(block.origin);
            return Err(Error::new(format!(
                "{place}: the address `{address}` has a path; write one site, with `handle PATH {{ … }}` for each path"
            )));
        }
        match block.addresses.as_slice() {
            [] => reader.global(block),
            _ => reader.site(block),
        }
    }
    reader.redirect_plain();
    reader.refuse_other_hosts(before);
    if reader.model.sites.len() == before {
        return Err(Error::new(format!(
            "{}: there is no site, so there is nothing to serve",
            files.shown(path)
        )));
    }
    Ok(())
}

struct Reader<'a> {
    pools: &'a [Pool],
    model: &'a mut Model,
    ledger: &'a mut Ledger,
    /// Hosts of HTTPS sites, which Caddy redirects to.
    redirects: Vec<Origin>,
    /// Sites that lost a rule for all of their clients.
    closed: Vec<Option<Origin>>,
}

/// A site's address: `https://example.com:8443`, `:80`, `example.com`.
struct Address {
    host: String,
    port: u16,
    tls: bool,
}

fn address(text: &str) -> Option<Address> {
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
    let rest = rest.split('/').next().unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().ok()?),
        _ => (rest, if scheme == "http" { 80 } else { 443 }),
    };
    let has_port_only = host.is_empty() && scheme.is_empty();
    let tls = match scheme {
        "http" => false,
        "https" => true,
        _ => port != 80 && !has_port_only,
    };
    let host = if host == "*" || host == "0.0.0.0" { "" } else { host };
    Some(Address { host: host.trim_matches(['[', ']']).to_lowercase(), port, tls })
}

impl Reader<'_> {
    fn global(&mut self, block: &Block) {
        for line in &block.lines {
            match line.name() {
                "email" => self.model.acme.set("email", line.arg(0), line.origin),
                "acme_ca" => self.model.acme.set("directory", line.arg(0), line.origin),
                "order" if !matches!(line.arg(0), "php_server" | "php" | "mercure" | "rate_limit") => {
                    self.ledger.lost(
                        line.origin,
                        "directives are applied in Caddy's own order",
                        "put the directives into a `route` block in the order that you want",
                    )
                }
                "servers" | "admin" | "debug" | "log" | "storage" | "grace_period" | "shutdown_delay"
                | "order" | "http_port" | "https_port" | "local_certs" | "key_type"
                | "skip_install_trust" | "persist_config" | "metrics" | "frankenphp" | "default_bind"
                | "ocsp_stapling" => {
                    let is_grave =
                        matches!(line.name(), "servers" | "http_port" | "https_port" | "default_bind");
                    match is_grave {
                        true => self.ledger.lost(
                            line.origin,
                            "an option of all servers",
                            "set it on the listeners by hand",
                        ),
                        false => self.ledger.ignored(line.origin, "Keepwarm's own settings apply"),
                    }
                    line.settle_inner(self.ledger);
                }
                "auto_https" => match line.arg(0) {
                    "off" | "disable_redirects" => {
                        self.ledger.differs(line.origin, "remove the listener that redirects, or `tls`")
                    }
                    _ => self.ledger.carried(line.origin),
                },
                "on_demand_tls" => {
                    self.ledger.lost(
                        line.origin,
                        "certificates on demand",
                        "set `tls.on_demand` of the listener to the URL of `ask`",
                    );
                    line.settle_inner(self.ledger);
                }
                _ => line.settle_unknown(self.ledger),
            }
        }
    }

    fn site(&mut self, block: &Block) {
        self.ledger.carried(block.origin);
        let mut site = Site { origin: Some(block.origin), ..Site::default() };
        let mut is_default = false;
        let binds: Vec<String> = block
            .lines
            .iter()
            .filter(|line| line.name() == "bind")
            .flat_map(|line| line.args().to_vec())
            .collect();
        for text in &block.addresses {
            let Some(address) = address(text) else {
                self.ledger.lost(
                    block.origin,
                    format!("`{text}` is not an address of a site"),
                    "write a listener by hand",
                );
                continue;
            };
            if address.host.is_empty() {
                is_default = true;
            } else {
                site.hosts.push(address.host.clone());
            }
            let hosts: Vec<String> = match binds.is_empty() {
                true => vec!["0.0.0.0".to_owned()],
                false => binds.clone(),
            };
            for host in hosts {
                let bind = match host.starts_with("unix/") {
                    true => host.replacen("unix/", "unix:", 1),
                    false => format!("{host}:{}", address.port),
                };
                if site.binds.iter().any(|known| known.address == bind) {
                    continue;
                }
                site.binds.push(Bind {
                    address: bind,
                    tls: address.tls,
                    is_default: false,
                    proxy_protocol: false,
                    origin: Some(block.origin),
                });
            }
        }
        site.binds.iter_mut().for_each(|bind| bind.is_default = is_default);
        for line in block.lines.iter().filter(|line| line.name() == "bind") {
            self.ledger.carried(line.origin);
        }
        let is_tls = site.binds.iter().any(|bind| bind.tls);
        if is_tls {
            self.certificates(block, &mut site);
            if site.binds.iter().any(|bind| bind.address.ends_with(":443")) {
                self.redirects.push(block.origin);
            }
        }
        self.listener(block, &mut site);
        site.routes = self.routes(block, &site);
        if self.closed.contains(&site.origin) {
            site.routes = vec![Route::status(block.origin, PathMatch::Any, 501)];
        }
        self.model.sites.push(site);
    }

    /// `tls CERT KEY`, or certificates from an authority for the names of the site.
    fn certificates(&mut self, block: &Block, site: &mut Site) {
        let line = block.lines.iter().find(|line| line.name() == "tls");
        match line {
            Some(line) if line.args().len() == 2 => {
                site.certificates.push(Certificate {
                    cert: line.arg(0).to_owned(),
                    key: line.arg(1).to_owned(),
                    origin: Some(line.origin),
                });
            }
            Some(line) if line.arg(0) == "internal" => {
                self.ledger.lost(
                    line.origin,
                    "Keepwarm has no authority of its own",
                    "set `tls.cert` and `tls.key`; for development: keepwarm run --tls-dev",
                );
                site.tls.note("cert", "/etc/ssl/site.pem", "set this: the file of the certificate");
                site.tls.note("key", "/etc/ssl/site.key", "set this: the file of its key");
            }
            _ => {
                if let Some(line) = line {
                    if line.arg(0).contains('@') {
                        self.model.acme.set("email", line.arg(0), line.origin);
                    }
                    for inner in &line.inner {
                        match inner.name() {
                            "protocols" if inner.arg(0) == "tls1.3" => {
                                site.tls.set("profile", "modern", inner.origin)
                            }
                            "protocols" | "ciphers" | "curves" | "alpn" => {
                                self.ledger.differs(inner.origin, "TLS settings are those of `tls.profile`")
                            }
                            "dns" => self.ledger.lost(
                                inner.origin,
                                "Keepwarm proves names by HTTP and TLS, not by DNS",
                                "open port 80 or 443, or set `tls.cert` and `tls.key`",
                            ),
                            "client_auth" => self.client_auth(inner, site),
                            "on_demand" => self.ledger.lost(
                                inner.origin,
                                "certificates on demand",
                                "set `tls.on_demand` of the listener to the URL of `ask`",
                            ),
                            _ => inner.settle_unknown(self.ledger),
                        }
                    }
                    self.ledger.carried(line.origin);
                }
                let names: Vec<String> =
                    site.hosts.iter().filter(|host| !host.contains('*')).cloned().collect();
                if names.len() < site.hosts.len() || names.is_empty() {
                    self.ledger.lost(
                        block.origin,
                        "a certificate for a pattern of names needs DNS",
                        "set `tls.cert` and `tls.key`, or `tls.on_demand`",
                    );
                    site.tls.note("cert", "/etc/ssl/site.pem", "set this: the file of the certificate");
                    site.tls.note("key", "/etc/ssl/site.key", "set this: the file of its key");
                }
                let is_public = |name: &String| {
                    name.contains('.')
                        && name.parse::<std::net::IpAddr>().is_err()
                        && !name.ends_with(".localhost")
                };
                let (public, local): (Vec<String>, Vec<String>) = names.into_iter().partition(is_public);
                if !local.is_empty() {
                    self.ledger.lost(
                        block.origin,
                        format!("Caddy's own authority signs the certificate of {}", local.join(", ")),
                        "set `tls.cert` and `tls.key`; for development: keepwarm run --tls-dev",
                    );
                    site.tls.note("cert", "/etc/ssl/site.pem", "set this: the file of the certificate");
                    site.tls.note("key", "/etc/ssl/site.key", "set this: the file of its key");
                }
                site.acme.extend(public);
            }
        }
        if let Some(line) = line.filter(|line| line.args().len() == 2 || line.arg(0) == "internal") {
            if let Some(inner) = line.child("client_auth") {
                self.client_auth(inner, site);
            }
            line.settle_inner(self.ledger);
            self.ledger.carried(line.origin);
        }
    }

    /// Certificates of clients: of one authority, whose file is named.
    fn client_auth(&mut self, line: &Line, site: &mut Site) {
        let mode = line.child("mode").map_or("require_and_verify", |mode| mode.arg(0));
        let authorities: Vec<&str> = line
            .inner
            .iter()
            .filter_map(|inner| match (inner.name(), inner.arg(0)) {
                ("trusted_ca_cert_file", _) => Some(inner.arg(0)),
                ("trust_pool", "file") if inner.args().len() == 2 => Some(inner.arg(1)),
                _ => None,
            })
            .collect();
        let has_other = line
            .inner
            .iter()
            .any(|inner| !matches!(inner.name(), "mode" | "trusted_ca_cert_file" | "trust_pool"));
        match (mode, authorities.as_slice(), has_other) {
            ("require_and_verify" | "verify_if_given", [file], false) => {
                site.tls.set("client_ca", *file, line.origin);
                if mode == "verify_if_given" {
                    site.tls.set("client_auth", "optional", line.origin);
                }
            }
            _ => {
                self.ledger.lost(
                    line.origin,
                    "certificates of clients, of other than one authority in a file",
                    "set `tls.client_ca` of the listener, and write the routes: the site gets 501",
                );
                self.closed.push(site.origin);
            }
        }
        line.settle_inner(self.ledger);
    }

    fn listener(&mut self, block: &Block, site: &mut Site) {
        // Caddy writes no access log unless it is told to.
        let Some(log) = block.lines.iter().find(|line| line.name() == "log") else {
            site.listener.note("access_log", "off", "Caddy has no access log without `log`");
            return;
        };
        self.ledger.carried(log.origin);
        let mut table = Table::default();
        for inner in &log.inner {
            match (inner.name(), inner.arg(0)) {
                ("output", "file") => {
                    table.set("file", inner.arg(1), inner.origin);
                    inner.inner.iter().for_each(|line| {
                        self.ledger.differs(line.origin, "the log is rotated from outside (logrotate)")
                    });
                }
                ("output", "stdout" | "stderr") => self.ledger.carried(inner.origin),
                ("format", "json") => table.set("format", "json", inner.origin),
                ("format", "console" | "transform") => {
                    self.ledger.differs(inner.origin, "the format is Keepwarm's text")
                }
                ("level", _) => self.ledger.ignored(inner.origin, "every request is recorded"),
                _ => inner.settle_unknown(self.ledger),
            }
        }
        if !table.is_empty() {
            site.listener.set("access_log", table, log.origin);
        }
    }

    /// Port 80 redirects to the sites with HTTPS.
    fn redirect_plain(&mut self) {
        let has_plain =
            self.model.sites.iter().flat_map(|site| &site.binds).any(|bind| bind.address.ends_with(":80"));
        let Some(origin) = self.redirects.first().copied().filter(|_| !has_plain) else { return };
        let bind = Bind {
            address: "0.0.0.0:80".to_owned(),
            tls: false,
            is_default: true,
            proxy_protocol: false,
            origin: None,
        };
        let mut site = Site { origin: Some(origin), binds: vec![bind], ..Site::default() };
        site.listener.note("redirect_to_https", 443i64, "as Caddy does for sites with HTTPS");
        self.model.sites.push(site);
    }
    /// Caddy has nothing for hosts that no site has.
    fn refuse_other_hosts(&mut self, first: usize) {
        let own = self.model.sites.get(first..).unwrap_or(&[]);
        let mut others: Vec<Site> = Vec::new();
        for (site, bind) in own.iter().flat_map(|site| site.binds.iter().map(move |bind| (site, bind))) {
            let is_known = own
                .iter()
                .chain(&others)
                .flat_map(|site| &site.binds)
                .any(|other| other.address == bind.address && other.is_default);
            if !is_known {
                let bind = Bind { is_default: true, origin: None, ..bind.clone() };
                others.push(Site {
                    binds: vec![bind],
                    // Certificates of clients are those of a listener.
                    tls: site.tls.clone(),
                    routes: vec![Route::status(None, PathMatch::Any, 404)],
                    ..Site::default()
                });
            }
        }
        self.model.sites.extend(others);
    }
}
