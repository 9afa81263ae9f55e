//! A `server` block becomes a site.

use super::Reader;
use super::location::Locations;
use super::scope::Scope;
use super::syntax::Directive;
use super::variables::Variables;
use crate::ledger::Origin;
use crate::model::{Bind, Certificate, Site};
use crate::table::{Table, Value};
use crate::units::{bytes, nginx_time, size, time};

/// A server that is read.
pub(super) struct Server<'d> {
    pub(super) scope: Scope<'d>,
    pub(super) origin: Origin,
    pub(super) locations: Locations<'d>,
    pub(super) variables: Variables,
    /// What its sections are named after.
    pub(super) label: String,
    pub(super) has_tls: bool,
    pub(super) has_plaintext: bool,
    pub(super) sockets: Sockets,
}

/// Whether clients come by Unix sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    None,
    Some,
    Only,
}

impl<'d> Reader<'d, '_> {
    pub(super) fn server(&mut self, block: &'d Directive) -> Option<Site> {
        let scope = self.http.within(block.children());
        let mut site = Site { origin: Some(block.origin), ..Site::default() };
        site.binds = self.binds(block);
        site.hosts = self.hosts(&scope);
        self.certificates(&scope, &mut site);
        self.listener_settings(&scope, &mut site);
        let first = site.hosts.iter().find(|host| !host.starts_with('~')).cloned().unwrap_or_default();
        let plain = first.trim_start_matches("*.").to_owned();
        let port =
            site.binds.first().and_then(|bind| bind.address.rsplit_once(':')).map_or("", |(_, port)| port);
        let root = scope.one("root").map(|root| absolute(root.arg(0))).unwrap_or_default();
        let mut server = Server {
            origin: block.origin,
            locations: Locations::of(&scope, self.ledger),
            variables: Variables {
                server_name: plain.clone(),
                port: port.to_owned(),
                root,
                ..Variables::default()
            },
            label: if plain.is_empty() { "site".to_owned() } else { plain },
            has_tls: site.binds.iter().any(|bind| bind.tls),
            has_plaintext: site.binds.iter().any(|bind| !bind.tls),
            sockets: sockets(&site.binds),
            scope,
        };
        self.set_constants(&server.scope.clone(), &mut server.variables);
        self.sends.clear();
        self.read_internal(&server);
        self.quiet.clear();
        self.pending_front = None;
        site.routes = self.routes(&server);
        self.quiet_paths(&mut site);
        super::is_worth(&site).then_some(site)
    }

    fn binds(&mut self, block: &'d Directive) -> Vec<Bind> {
        let mut binds = Vec::new();
        for listen in block.children().iter().filter(|inner| inner.name == "listen") {
            let options = listen.args.get(1..).unwrap_or(&[]);
            let has = |option: &str| options.iter().any(|known| known == option);
            if has("quic") {
                self.ledger.dropped(listen.origin, "Keepwarm has no HTTP/3", "nothing: clients use HTTP/2");
                continue;
            }
            let Some(addresses) = addresses(listen.arg(0), options) else {
                let why = format!("`{}` is not an address that Keepwarm can listen on", listen.arg(0));
                self.ledger.lost(listen.origin, why, "set `bind` of a listener by hand");
                continue;
            };
            const KNOWN: [&str; 11] = [
                "ssl",
                "http2",
                "spdy",
                "default_server",
                "default",
                "proxy_protocol",
                "ipv6only",
                "reuseport",
                "deferred",
                "bind",
                "quic",
            ];
            let unknown = options.iter().find(|option| {
                let name = option.split('=').next().unwrap_or("");
                !KNOWN.contains(&name)
                    && !["backlog", "rcvbuf", "sndbuf", "so_keepalive", "fastopen", "accept_filter", "setfib"]
                        .contains(&name)
            });
            match unknown {
                Some(option) => self.ledger.differs(listen.origin, format!("`{option}` is not known")),
                None => self.ledger.carried(listen.origin),
            }
            let old_ssl = block.children().iter().any(|inner| inner.name == "ssl" && inner.arg(0) == "on");
            for address in addresses {
                binds.push(Bind {
                    address,
                    tls: has("ssl") || old_ssl,
                    is_default: has("default_server") || has("default"),
                    proxy_protocol: has("proxy_protocol"),
                    origin: Some(listen.origin),
                });
            }
        }
        if binds.is_empty() && !block.children().iter().any(|inner| inner.name == "listen") {
            let bind = Bind {
                address: "0.0.0.0:80".to_owned(),
                tls: false,
                is_default: false,
                proxy_protocol: false,
                origin: None,
            };
            binds.push(bind);
        }
        binds
    }

    fn hosts(&mut self, scope: &Scope<'d>) -> Vec<String> {
        let mut hosts: Vec<String> = Vec::new();
        for directive in scope.own().iter().filter(|inner| inner.name == "server_name") {
            self.ledger.carried(directive.origin);
            for name in &directive.args {
                let name = name.as_str();
                match name {
                    "_" | "" | "localhost.localdomain" => {}
                    name if name.starts_with('~') => {
                        match self.expression(name.trim_start_matches('~'), false) {
                            Ok(pattern) => hosts.push(format!("~{pattern}")),
                            Err(why) => self.ledger.lost(
                                directive.origin,
                                format!("`{name}`: {why}"),
                                "write `host` of the routes by hand",
                            ),
                        }
                    }
                    name => match name.strip_prefix('.') {
                        Some(domain) => {
                            hosts.extend([domain.to_lowercase(), format!("*.{}", domain.to_lowercase())])
                        }
                        None if name.contains('$') => {
                            self.ledger.differs(directive.origin, format!("`{name}` is not a host"))
                        }
                        None => hosts.push(name.to_lowercase()),
                    },
                }
            }
        }
        hosts
    }

    fn certificates(&mut self, scope: &Scope<'d>, site: &mut Site) {
        if !site.binds.iter().any(|bind| bind.tls) {
            return;
        }
        let (certs, keys) = (scope.all("ssl_certificate"), scope.all("ssl_certificate_key"));
        for (index, cert) in certs.iter().enumerate() {
            let Some(key) = keys.get(index) else {
                self.ledger.lost(
                    cert.origin,
                    "it has no ssl_certificate_key",
                    "set `tls.cert` and `tls.key` of the listener",
                );
                continue;
            };
            if cert.arg(0).contains('$')
                || cert.arg(0).starts_with("data:")
                || key.arg(0).starts_with("engine:")
            {
                let todo =
                    "set `tls.certificates`, or `tls.on_demand` for hosts that are not known in advance";
                self.ledger.lost(cert.origin, "a certificate is a file with a fixed name", todo);
                continue;
            }
            let path = |directive: &Directive| configured(directive.arg(0));
            site.certificates.push(Certificate {
                cert: path(cert),
                key: path(key),
                origin: Some(cert.origin),
            });
            self.ledger.carried(key.origin);
        }
        self.tls_settings(scope, site);
    }

    fn tls_settings(&mut self, scope: &Scope<'d>, site: &mut Site) {
        if let Some(protocols) = scope.one("ssl_protocols") {
            let has = |version: &str| protocols.args.iter().any(|known| known == version);
            match (has("TLSv1.3") && !has("TLSv1.2"), has("TLSv1") || has("TLSv1.1") || has("SSLv3")) {
                (true, _) => site.tls.set("profile", "modern", protocols.origin),
                (false, true) => self
                    .ledger
                    .differs(protocols.origin, "TLS 1.2 and 1.3 only: older versions are not offered"),
                (false, false) => self.ledger.ignored(protocols.origin, "TLS 1.2 and 1.3, as by default"),
            }
        }
        let verify = scope.one("ssl_verify_client").filter(|verify| verify.arg(0) != "off");
        if let Some(verify) = verify {
            match (scope.one("ssl_client_certificate"), verify.arg(0)) {
                (Some(ca), "on" | "optional") => {
                    site.tls.set("client_ca", configured(ca.arg(0)), ca.origin);
                    if verify.arg(0) == "optional" {
                        site.tls.set("client_auth", "optional", verify.origin);
                    }
                    self.ledger.carried(verify.origin);
                    if let Some(crl) = scope.one("ssl_crl") {
                        site.tls.set("client_crl", configured(crl.arg(0)), crl.origin);
                    }
                }
                _ => self.ledger.lost(
                    verify.origin,
                    "a certificate of a client must be of an authority in `tls.client_ca`",
                    "set `tls.client_ca`",
                ),
            }
        }
        if let Some(file) = scope.one("ssl_password_file") {
            self.ledger.lost(
                file.origin,
                "keys must not be encrypted",
                "decrypt the key: openssl pkey -in KEY -out PLAIN",
            );
        }
        if let Some(reject) = scope.one("ssl_reject_handshake").filter(|reject| reject.arg(0) == "on") {
            match site.hosts.is_empty() {
                true => site.tls.set("unknown_names", "refuse", reject.origin),
                false => self.ledger.lost(
                    reject.origin,
                    "handshakes are refused for hosts without a certificate only",
                    "set `tls.unknown_names`",
                ),
            }
        }
    }

    /// Keys of `[listen.NAME]`.
    fn listener_settings(&mut self, scope: &Scope<'d>, site: &mut Site) {
        if let Some(http2) = scope.one("http2").filter(|http2| http2.arg(0) == "off") {
            site.listener.set("http2", false, http2.origin);
        } else if let Some(http2) = scope.one("http2") {
            self.ledger.carried(http2.origin);
        }
        let mut limits = Table::default();
        for (name, key) in [
            ("client_header_timeout", "head_timeout"),
            ("send_timeout", "write_timeout"),
            ("keepalive_timeout", "idle_timeout"),
        ] {
            let Some(directive) = scope.one(name) else { continue };
            match nginx_time(directive.arg(0)) {
                Some(0) => self
                    .ledger
                    .differs(directive.origin, "persistent connections stay on, with the default timeout"),
                Some(millis) => limits.set(key, time(millis), directive.origin),
                None => self.ledger.lost(directive.origin, "it is not a time", format!("set `limits.{key}`")),
            }
        }
        if let Some(directive) = scope.one("keepalive_requests") {
            match directive.arg(0).parse::<i64>() {
                Ok(number) if number > 0 => limits.set("connection_requests", number, directive.origin),
                _ => self.ledger.differs(directive.origin, "connections have the default limit of requests"),
            }
        }
        if let Some(directive) = scope.one("large_client_header_buffers") {
            match (directive.arg(0).parse::<u64>(), bytes(directive.arg(1))) {
                (Ok(number), Some(each)) => {
                    limits.set("request_line", size(each.clamp(16, 1 << 20)), directive.origin);
                    limits.set("header_block", size((number * each).clamp(64, 16 << 20)), directive.origin);
                }
                _ => self.ledger.lost(
                    directive.origin,
                    "it is not a number and a size",
                    "set `limits.header_block`",
                ),
            }
        }
        if !limits.is_empty() {
            site.listener.set("limits", limits, None);
        }
        self.access_log(scope, site);
    }

    fn access_log(&mut self, scope: &Scope<'d>, site: &mut Site) {
        let Some(log) = scope.one("access_log") else { return };
        for further in scope.all("access_log").get(1..).unwrap_or(&[]) {
            self.ledger.dropped(
                further.origin,
                "a listener has one access log",
                "copy it by the log's own tools",
            );
        }
        let mut table = Table::default();
        match log.arg(0) {
            "off" => {
                site.listener.set("access_log", "off", log.origin);
                return;
            }
            path if path.starts_with("syslog:") || path.contains('$') => {
                self.ledger.dropped(
                    log.origin,
                    "the access log is a file, or standard output",
                    "let the service manager pass it on",
                );
                return;
            }
            "/dev/stdout" => {}
            path => table.set("file", configured(path), log.origin),
        }
        let mut is_table = table.has("file");
        if let Some(condition) = log.args.iter().find(|arg| arg.starts_with("if=")) {
            self.ledger.dropped(
                log.origin,
                format!("`{condition}`"),
                "set `status`, `path`, `client` or `header` of the access log",
            );
        }
        let format = log.args.get(1).filter(|arg| !arg.contains('=')).map_or("combined", String::as_str);
        match self.log_format(format) {
            Some((text, origin)) => {
                table.set("format", text, origin);
                is_table = true;
            }
            None => self.ledger.differs(log.origin, "its format is Keepwarm's own"),
        }
        if is_table {
            site.listener.set("access_log", table, log.origin);
        }
        self.ledger.carried(log.origin);
    }

    fn log_format(&mut self, name: &str) -> Option<(String, Option<Origin>)> {
        const COMBINED: &str = "$client - $user [$time] \"$method $target $version\" $status $bytes \"$header_referer\" \"$header_user_agent\"";
        let format = self.http.every("log_format").into_iter().find(|format| format.arg(0) == name);
        let Some(format) = format else {
            return (name == "combined").then(|| (COMBINED.to_owned(), None));
        };
        let words = format.args.get(1..).unwrap_or(&[]).iter().filter(|arg| !arg.starts_with("escape="));
        let text: String = words.map(String::as_str).collect();
        let variables = Variables::default();
        let mut out = String::new();
        let mut missing = Vec::new();
        for piece in super::variables::pieces(&text) {
            match piece {
                super::variables::Piece::Text(text) => out.push_str(&text.replace('$', "$$")),
                super::variables::Piece::Variable(name) => match variables.log(&format!("${{{name}}}")) {
                    Ok(ours) => out.push_str(&ours),
                    Err(name) => {
                        missing.push(format!("${name}"));
                        out.push('-');
                    }
                },
            }
        }
        match missing.is_empty() {
            true => self.ledger.carried(format.origin),
            false => self.ledger.differs(format.origin, format!("it has `-` for {}", missing.join(", "))),
        }
        Some((out, Some(format.origin)))
    }

    /// Values of `set` in a block.
    pub(super) fn set_constants(&mut self, scope: &Scope<'d>, variables: &mut Variables) {
        for set in scope.own().iter().filter(|inner| inner.name == "set") {
            variables.set.insert(set.arg(0).trim_start_matches('$').to_owned(), set.arg(1).to_owned());
            self.ledger.carried(set.origin);
        }
    }

    /// Locations with `access_log off`.
    fn quiet_paths(&mut self, site: &mut Site) {
        let quiet = std::mem::take(&mut self.quiet);
        if quiet.is_empty() || site.listener.get("access_log") == Some(&Value::from("off")) {
            return;
        }
        site.listener.within(&["access_log"], None).set("path", crate::table::one_or_list(quiet), None);
    }

    /// A regular expression that Keepwarm can use, or why it cannot.
    pub(super) fn expression(&self, pattern: &str, ignore_case: bool) -> Result<String, String> {
        crate::expression::check(pattern, ignore_case)
    }
}

fn sockets(binds: &[Bind]) -> Sockets {
    match binds.iter().filter(|bind| bind.address.starts_with("unix:")).count() {
        0 => Sockets::None,
        number if number == binds.len() => Sockets::Only,
        _ => Sockets::Some,
    }
}

/// Addresses as keepwarm.toml has them.
fn addresses(text: &str, options: &[String]) -> Option<Vec<String>> {
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/').then(|| vec![format!("unix:{path}")]);
    }
    if let Ok(port) = text.parse::<u16>() {
        return Some(vec![format!("0.0.0.0:{port}")]);
    }
    if text.starts_with('[') {
        let (host, port) = match text.rsplit_once("]:") {
            Some((host, port)) => (host.trim_start_matches('['), port.parse::<u16>().ok()?),
            None => (text.trim_matches(['[', ']']), 80),
        };
        let address = format!("[{host}]:{port}");
        // By default, an IPv6 address does not accept IPv4.
        return Some(match options.iter().any(|option| option == "ipv6only=off") && host == "::" {
            true => vec![format!("0.0.0.0:{port}"), address],
            false => vec![address],
        });
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()?),
        None => (text, 80),
    };
    let host = if host == "*" || host.is_empty() { "0.0.0.0" } else { host };
    let is_host = host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
    is_host.then(|| vec![format!("{host}:{port}")])
}

/// A path relative to the prefix of nginx, as Debian builds it.
pub(super) fn absolute(path: &str) -> String {
    let path =
        if path.starts_with(['/', '$']) { path.to_owned() } else { format!("/usr/share/nginx/{path}") };
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// A path relative to nginx.conf.
pub(super) fn configured(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/etc/nginx/{path}") }
}

/// A text, if it is one.
pub(super) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
