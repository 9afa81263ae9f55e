//! NGINX Unit's JSON: listeners, routes, applications, upstreams.

mod applications;
mod conditions;
mod routes;

use crate::Error;
use crate::files::Files;
use crate::ledger::Ledger;
use crate::model::{Bind, Model, Route, Site, add};
use crate::table::{Table, Value};
use crate::tree::{Node, load};
use crate::units::{size, time};
use std::path::Path;

pub(crate) fn read(path: &Path, files: &Files, model: &mut Model, ledger: &mut Ledger) -> Result<(), Error> {
    let whole = load(path, files, ledger)?;
    // As `curl …/` gives it, the configuration is within `config`.
    let config = whole.get("config").unwrap_or(&whole);
    if let Some(certificates) = whole.get("certificates").filter(|_| whole.get("config").is_some()) {
        certificates.ignore("Unit's store of certificates", ledger);
    }
    let Some(listeners) = config.get("listeners") else {
        return Err(Error::new(format!(
            "{}: has no `listeners`, so there is nothing to serve",
            files.shown(path)
        )));
    };
    let mut reader = Reader { config, model, ledger, depth: 0, used: Vec::new() };
    for (address, listener) in listeners.entries() {
        reader.listener(address, listener);
    }
    reader.settings();
    for (name, routes) in config.get("routes").map(Node::entries).unwrap_or_default() {
        if !reader.used.contains(name) {
            routes.ignore("no listener leads to these routes", reader.ledger);
        }
    }
    for (name, app) in config.get("applications").map(Node::entries).unwrap_or_default() {
        if !reader.model.apps.iter().any(|known| known.name.starts_with(name.as_str())) {
            app.ignore("no listener leads to this application", reader.ledger);
        }
    }
    Ok(())
}

struct Reader<'a> {
    config: &'a Node,
    model: &'a mut Model,
    ledger: &'a mut Ledger,
    /// Routes within routes.
    depth: usize,
    /// Names of routes that something leads to.
    used: Vec<String>,
}

impl Reader<'_> {
    fn listener(&mut self, address: &str, listener: &Node) {
        let origin = listener.open(self.ledger);
        let tls = listener.get("tls");
        let text = match address.strip_prefix("unix:") {
            Some(path) => format!("unix:{path}"),
            None => address.replace("*:", "0.0.0.0:"),
        };
        let bind = Bind {
            address: text,
            tls: tls.is_some(),
            is_default: true,
            proxy_protocol: false,
            origin: Some(origin),
        };
        let mut site = Site { origin: Some(origin), binds: vec![bind], ..Site::default() };
        if let Some(tls) = tls {
            let todo = "export the certificate and its key to files, and set `tls.cert` and `tls.key` of the listener";
            tls.drop("Unit keeps certificates in its own store", todo, true, self.ledger);
            site.tls.note("cert", "/etc/ssl/unit.pem", "set this: the file of the certificate");
            site.tls.note("key", "/etc/ssl/unit.key", "set this: the file of its key");
        }
        if let Some(forwarded) = listener.get("forwarded").or_else(|| listener.get("client_ip")) {
            if let Some(source) = forwarded.get("source") {
                self.model.server.set("trusted_proxies", source.texts(), source.origin);
            }
            let header = forwarded.get("client_ip").or_else(|| forwarded.get("header"));
            if let Some(name) = header.filter(|name| !name.text().eq_ignore_ascii_case("x-forwarded-for")) {
                self.ledger
                    .differs(name.origin, "the client is read from X-Forwarded-For and Forwarded only");
            }
            forwarded.ignore(
                "the client is read from X-Forwarded-For and Forwarded of `server.trusted_proxies`",
                self.ledger,
            );
        }
        if let Some(pass) = listener.get("pass") {
            self.ledger.carried(pass.origin);
            site.routes = self.pass(pass.text(), pass.origin, &conditions::Place::new(origin));
        }
        self.model.sites.push(site);
    }

    fn upstream(&mut self, name: &str) -> Option<String> {
        let servers = self.config.at(&["upstreams", name, "servers"]).cloned()?;
        let mut endpoints: Vec<Value> = Vec::new();
        for (address, server) in servers.entries() {
            let weight = server.get("weight").and_then(|weight| Some((weight.number()?, weight.origin)));
            let url = format!("http://{address}");
            self.ledger.carried(server.origin);
            endpoints.push(match weight {
                Some((weight, origin)) => {
                    let mut endpoint = Table::default();
                    endpoint.set("url", url, None);
                    endpoint.set("weight", weight, origin);
                    self.ledger.carried(origin);
                    endpoint.into()
                }
                None => url.into(),
            });
        }
        let origin = servers.open(self.ledger);
        let mut table = Table::default();
        table.set("endpoints", Value::List(endpoints), origin);
        Some(add(&mut self.model.upstreams, name, table, origin, self.ledger))
    }

    fn body_limit(&mut self, route: &mut Route) {
        match self.config.at(&["settings", "http", "max_body_size"]) {
            Some(limit) => {
                let bytes = limit.number().unwrap_or(0).unsigned_abs();
                route.table.set("max_body", size(bytes), limit.origin);
            }
            None => route.table.note("max_body", "8MiB", "the default of Unit"),
        }
    }

    fn settings(&mut self) {
        if let Some(log) = self.config.get("access_log") {
            let path = if log.is_map() { log.get("path") } else { Some(log) };
            if let Some(path) = path {
                for site in &mut self.model.sites {
                    site.listener.set_in(&["access_log"], "file", path.text(), path.origin);
                }
            }
            if let Some(format) = log.get("format") {
                self.ledger.differs(format.origin, "the format is Keepwarm's own; set `access_log.format`");
            }
        }
        if let Some(isolation) = self.config.get("settings") {
            for (name, value) in isolation.get("http").map(Node::entries).unwrap_or_default() {
                let key = match name.as_str() {
                    "header_read_timeout" => "head_timeout",
                    "idle_timeout" => "idle_timeout",
                    "send_timeout" => "write_timeout",
                    "max_body_size" => continue,
                    _ => {
                        value.ignore("Keepwarm's own limits apply", self.ledger);
                        continue;
                    }
                };
                let limit = time(value.number().unwrap_or(30).max(1).unsigned_abs() * 1000);
                for site in &mut self.model.sites {
                    site.listener.set_in(&["limits"], key, limit.as_str(), value.origin);
                }
            }
            isolation.ignore("Keepwarm's own settings apply", self.ledger);
        }
    }
}
