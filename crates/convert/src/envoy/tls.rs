//! TLS contexts, of clusters and of listeners.

use super::Reader;
use super::cluster::carry;
use crate::model::{Certificate, Site};
use crate::table::Table;
use crate::tree::Node;

/// What a transport socket is.
pub(super) enum Transport<'a> {
    Plain,
    Tls(&'a Node),
    /// PROXY headers in front of another one.
    Proxy(&'a Node),
    Unknown,
}

/// The last part but one of a type: `tls` of `envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext`.
pub(super) fn kind(node: &Node, group: &str) -> String {
    let name = node.get("name").map_or("", Node::text);
    let of_type = node.at(&["typed_config", "@type"]).map_or("", Node::text);
    let text = if of_type.is_empty() { name } else { of_type };
    let rest = text.rsplit_once(&format!("{group}.")).map_or(text, |(_, rest)| rest);
    rest.split('.').next().unwrap_or_default().to_owned()
}

pub(super) fn transport(socket: &Node) -> Transport<'_> {
    match (kind(socket, "transport_sockets").as_str(), socket.get("typed_config")) {
        ("raw_buffer", _) => Transport::Plain,
        ("tls", Some(config)) => Transport::Tls(config),
        ("tls", None) => Transport::Unknown,
        ("proxy_protocol" | "upstream_proxy_protocol", Some(config)) => Transport::Proxy(config),
        _ => Transport::Unknown,
    }
}

const FILE: &str = "write it to a file, and name that in `cert`, `key` or `ca`";

impl Reader<'_> {
    /// The context of an upstream's TLS.
    pub(super) fn upstream_tls(&mut self, socket: &Node, config: &Node, table: &mut Table) {
        let mut has_ca = false;
        let name = config.get("sni").map(|sni| (sni.text().to_owned(), sni.origin));
        if let Some((name, origin)) = &name {
            table.set("server_name", name.as_str(), *origin);
        }
        for (key, node) in config.entries() {
            match key.as_str() {
                "@type" | "sni" | "common_tls_context" => {}
                "max_session_keys" | "allow_renegotiation" | "enforce_rsa_key_usage" => {
                    node.ignore("Keepwarm's own settings apply", self.ledger)
                }
                "auto_host_sni" | "auto_sni_san_validation" => node.drop(
                    "the name is the one of `server_name`, else of `host` or the URL",
                    "set `server_name` of the upstream",
                    false,
                    self.ledger,
                ),
                _ => {}
            }
        }
        for (key, node) in config.get("common_tls_context").map(Node::entries).unwrap_or_default() {
            match key.as_str() {
                "tls_certificates" | "tls_certificate_sds_secret_configs" => {
                    let pairs = self.certificates(node);
                    if let Some(pair) = pairs.first() {
                        table.set("cert", pair.cert.as_str(), pair.origin);
                        table.set("key", pair.key.as_str(), None);
                    }
                }
                "validation_context"
                | "combined_validation_context"
                | "validation_context_sds_secret_config" => {
                    for context in self.contexts(key, node) {
                        has_ca |= self.upstream_validation(&context, name.as_ref(), table);
                    }
                }
                "tls_params" => {
                    if let Some(least) = node.get("tls_minimum_protocol_version") {
                        match least.text() {
                            "TLSv1_3" => table.set("min_tls", "1.3", least.origin),
                            _ => self.ledger.ignored(least.origin, "TLS 1.2 at least"),
                        }
                    }
                }
                "alpn_protocols" | "key_log" => node.ignore("Keepwarm's own settings apply", self.ledger),
                _ => {}
            }
        }
        table.settle(self.ledger);
        if !has_ca {
            let origin = socket.open(self.ledger);
            self.ledger
                .differs(origin, "the certificate of the upstream is verified, by the system's authorities");
        }
        self.rest_of_tls(socket, config);
    }

    /// Settles what has no effect; what is not known stays unsettled, and is reported as lost.
    fn rest_of_tls(&mut self, socket: &Node, config: &Node) {
        socket.get("name").iter().for_each(|node| node.ignore("its name", self.ledger));
        config.get("@type").iter().for_each(|node| node.ignore("its type", self.ledger));
        if let Some(parameters) = config.at(&["common_tls_context", "tls_params"]) {
            parameters.ignore("TLS has Keepwarm's own settings", self.ledger);
        }
    }

    /// Contexts of validation, with those of the static secrets.
    fn contexts(&mut self, key: &str, node: &Node) -> Vec<Node> {
        let mut all = Vec::new();
        let mut secret = None;
        match key {
            "validation_context" => all.push(node.clone()),
            "combined_validation_context" => {
                all.extend(node.get("default_validation_context").cloned());
                secret = node.get("validation_context_sds_secret_config");
            }
            _ => secret = Some(node),
        }
        if let Some(reference) = secret {
            match self.secret(reference).and_then(|secret| secret.get("validation_context").cloned()) {
                Some(context) => all.push(context),
                None => reference.drop(
                    "its authorities come from another server (SDS)",
                    "set `ca` of the upstream, or `client_ca` of the listener",
                    true,
                    self.ledger,
                ),
            }
        }
        all
    }

    /// A static secret that is referred to by its name.
    fn secret(&mut self, reference: &Node) -> Option<Node> {
        if reference.get("sds_config").is_some() {
            return None;
        }
        let name = reference.get("name")?;
        let found = self
            .secrets
            .iter()
            .find(|secret| secret.get("name").is_some_and(|known| known.text() == name.text()));
        let found = found.cloned()?;
        carry(reference, self.ledger);
        found.get("name").iter().for_each(|name| self.ledger.carried(name.origin));
        Some(found)
    }

    /// Returns whether authorities are set. `name`: the one that is sent.
    fn upstream_validation(
        &mut self,
        context: &Node,
        name: Option<&(String, crate::ledger::Origin)>,
        table: &mut Table,
    ) -> bool {
        let mut has_ca = false;
        for (key, node) in context.entries() {
            match key.as_str() {
                "trusted_ca" => match node.get("filename") {
                    // The usual bundle of the system is what is trusted anyway.
                    Some(ca) if ca.text().starts_with("/etc/ssl/certs/ca-") => {
                        has_ca = true;
                        self.ledger.carried(ca.origin);
                    }
                    Some(ca) => {
                        has_ca = true;
                        table.set("ca", ca.text(), ca.origin);
                    }
                    None => node.drop(
                        "its authorities are not in a file: those of the system are trusted in their place",
                        FILE,
                        true,
                        self.ledger,
                    ),
                },
                "system_root_certs" => {
                    has_ca = true;
                    carry(node, self.ledger);
                }
                "match_typed_subject_alt_names" | "match_subject_alt_names" | "verify_subject_alt_name" => {
                    self.names(node, name, table)
                }
                "trust_chain_verification" if node.text() == "ACCEPT_UNTRUSTED" => {
                    self.ledger.differs(node.origin, "certificates that are not trusted are refused")
                }
                "trust_chain_verification"
                | "allow_expired_certificate"
                | "max_verify_depth"
                | "only_verify_leaf_cert_crl" => {
                    node.ignore("certificates are verified, with their dates", self.ledger)
                }
                _ => {}
            }
        }
        if let Some(ca) = context.get("trusted_ca").filter(|ca| ca.get("filename").is_some()) {
            ca.ignore("the file is watched by reloads", self.ledger);
        }
        has_ca
    }

    /// Names of which the certificate must have one: Keepwarm verifies a single name, the one that it sends.
    fn names(&mut self, node: &Node, name: Option<&(String, crate::ledger::Origin)>, table: &mut Table) {
        let mut exact = Vec::new();
        for item in node.items() {
            let is_dns = item.get("san_type").is_none_or(|kind| kind.text() == "DNS");
            let matcher = item.get("matcher").unwrap_or(item);
            match matcher.get("exact").filter(|_| is_dns) {
                Some(name) => exact.push(name.text().to_owned()),
                None if !item.text().is_empty() => exact.push(item.text().to_owned()),
                None => exact.push(String::new()),
            }
        }
        match (name, exact.as_slice()) {
            (Some((name, _)), [only]) if only.eq_ignore_ascii_case(name) => carry(node, self.ledger),
            (Some((name, origin)), names) if names.iter().any(|one| one.eq_ignore_ascii_case(name)) => {
                self.ledger.differs(*origin, "the certificate must be for this name: others are refused");
                carry(node, self.ledger);
            }
            (None, [only]) if !only.is_empty() => {
                let origin = node.open(self.ledger);
                table.set("server_name", only.as_str(), origin);
                self.ledger.differs(origin, "the name is also sent to the upstream (SNI)");
                carry(node, self.ledger);
            }
            _ => node.drop(
                "the certificate must be for `server_name`, or the host of the URL",
                "set `server_name` of the upstream",
                true,
                self.ledger,
            ),
        }
    }

    /// Pairs of certificate and key.
    fn certificates(&mut self, node: &Node) -> Vec<Certificate> {
        let mut pairs = Vec::new();
        for item in node.items() {
            let secret = match item.get("certificate_chain") {
                Some(_) => Some(item.clone()),
                None => self.secret(item).and_then(|secret| secret.get("tls_certificate").cloned()),
            };
            let pair = secret.as_ref().unwrap_or(item);
            let file = |key: &str| pair.at(&[key, "filename"]);
            match (file("certificate_chain"), file("private_key")) {
                (Some(cert), Some(key)) if pair.get("password").is_none() => {
                    self.ledger.carried(key.origin);
                    self.ledger.carried(cert.origin);
                    pairs.push(Certificate {
                        cert: cert.text().to_owned(),
                        key: key.text().to_owned(),
                        origin: Some(cert.origin),
                    });
                    pair.get("watched_directory")
                        .iter()
                        .for_each(|node| node.ignore("files are read at each reload", self.ledger));
                    if pair.get("ocsp_staple").is_some_and(|staple| staple.get("filename").is_none()) {
                        pair.get("ocsp_staple").iter().for_each(|staple| {
                            staple.drop("it is not in a file", "set `tls.ocsp`", false, self.ledger)
                        });
                    }
                }
                _ => pair.drop("it is not in files, or has a password", FILE, true, self.ledger),
            }
        }
        pairs
    }

    /// The context of a listener's TLS; returns whether clients must be refused, for what they must show is not known.
    pub(super) fn listener_tls(&mut self, socket: &Node, config: &Node, site: &mut Site) -> bool {
        let is_required = config.get("require_client_certificate").is_some_and(Node::is_on);
        let mut is_closed = false;
        for (key, node) in config.entries() {
            match key.as_str() {
                "@type" | "common_tls_context" => {}
                "require_client_certificate" => {}
                "session_ticket_keys"
                | "session_ticket_keys_sds_secret_config"
                | "disable_stateless_session_resumption"
                | "disable_stateful_session_resumption"
                | "session_timeout"
                | "ocsp_staple_policy"
                | "full_scan_certs_on_sni_mismatch"
                | "prefer_client_ciphers" => node.ignore("TLS has Keepwarm's own settings", self.ledger),
                "require_sni" => node.drop("it is not required", "nothing", false, self.ledger),
                _ => {}
            }
        }
        for (key, node) in config.get("common_tls_context").map(Node::entries).unwrap_or_default() {
            match key.as_str() {
                "tls_certificates" | "tls_certificate_sds_secret_configs" => {
                    let pairs = self.certificates(node);
                    site.certificates.extend(pairs);
                }
                "validation_context"
                | "combined_validation_context"
                | "validation_context_sds_secret_config" => {
                    let contexts = self.contexts(key, node);
                    is_closed |= contexts.is_empty();
                    for context in contexts {
                        is_closed |= self.client_validation(&context, site);
                    }
                }
                "tls_params" => {
                    let least = node.get("tls_minimum_protocol_version");
                    if let Some(least) = least.filter(|least| least.text() == "TLSv1_3") {
                        site.tls.set("profile", "modern", least.origin);
                        self.ledger.carried(least.origin);
                    }
                }
                "alpn_protocols" | "key_log" => node.ignore("Keepwarm's own settings apply", self.ledger),
                _ => {}
            }
        }
        if let Some(node) = config.get("require_client_certificate") {
            match (is_required, site.tls.has("client_ca")) {
                (true, false) => {
                    self.ledger.lost(
                        node.origin,
                        "any certificate is accepted, or one whose authorities are not known here: no client is",
                        "set `tls.client_ca` of the listener",
                    );
                    is_closed = true;
                }
                _ => self.ledger.carried(node.origin),
            }
        }
        if site.tls.has("client_ca") && !is_required {
            site.tls.set("client_auth", "optional", None);
        }
        self.rest_of_tls(socket, config);
        is_closed
    }

    fn client_validation(&mut self, context: &Node, site: &mut Site) -> bool {
        let mut is_closed = false;
        for (key, node) in context.entries() {
            match (key.as_str(), node.get("filename")) {
                ("trusted_ca", Some(file)) => {
                    site.tls.set("client_ca", file.text(), file.origin);
                    node.ignore("files are read at each reload", self.ledger);
                    self.ledger.carried(file.origin);
                }
                ("crl", Some(file)) => {
                    site.tls.set("client_crl", file.text(), file.origin);
                    self.ledger.carried(file.origin);
                }
                ("max_verify_depth" | "only_verify_leaf_cert_crl" | "allow_expired_certificate", _) => {
                    node.ignore("certificates are verified, with their dates", self.ledger)
                }
                ("trust_chain_verification", _) => match node.text() {
                    "ACCEPT_UNTRUSTED" => self.ledger.differs(node.origin, "other certificates are refused"),
                    _ => self.ledger.ignored(node.origin, "certificates are verified"),
                },
                _ => {
                    node.drop(
                        "clients whose certificate is for some names or keys only: no client is served",
                        "set `tls.client_ca` to an authority that signs these only",
                        true,
                        self.ledger,
                    );
                    is_closed = true;
                }
            }
        }
        is_closed
    }
}
