//! A static configuration of Envoy: clusters become upstreams, listeners with virtual hosts become sites.

mod cluster;
mod conditions;
mod filters;
mod headers;
mod listener;
mod route;
mod tls;

use self::cluster::Cluster;
use crate::Error;
use crate::files::Files;
use crate::ledger::{Ledger, Origin};
use crate::model::{Model, Section, name_of};
use crate::table::Table;
use crate::tree::{Node, load};
use std::path::Path;

/// An upstream that a cluster becomes: one for each set of settings that routes give it.
struct Use {
    cluster: usize,
    name: String,
    table: Table,
    /// Addresses of doors.
    binds: Vec<(String, Option<Origin>)>,
}

struct Reader<'a> {
    model: &'a mut Model,
    ledger: &'a mut Ledger,
    clusters: Vec<Cluster>,
    uses: Vec<Use>,
    secrets: Vec<Node>,
    /// Limits that were made, by the settings that they come from.
    limits: Vec<(usize, String)>,
    /// The addresses of the listener that is read.
    addresses: Vec<String>,
    /// Whether the client is the peer, whatever a header says.
    is_peer: bool,
}

pub(crate) fn read(path: &Path, files: &Files, model: &mut Model, ledger: &mut Ledger) -> Result<(), Error> {
    let root = load(path, files, ledger)?;
    let Some(resources) = root.get("static_resources") else {
        return Err(Error::new(format!(
            "{}: has no `static_resources`; only static configurations are read",
            files.shown(path)
        )));
    };
    for (name, node) in root.entries() {
        match name.as_str() {
            "static_resources" => {}
            "admin" => admin(node, model, ledger),
            "dynamic_resources" => {
                node.drop("only static resources are read", "write the upstreams by hand", true, ledger)
            }
            "overload_manager" => {
                node.drop("limits of the process", "set `limits.connections` of `[server]`", true, ledger)
            }
            "layered_runtime"
            | "node"
            | "stats_config"
            | "stats_sinks"
            | "bootstrap_extensions"
            | "watchdogs" => {
                node.ignore("Envoy's own", ledger);
            }
            _ => {}
        }
    }
    let secrets =
        resources.get("secrets").map(Node::items).unwrap_or_default().into_iter().cloned().collect();
    let mut reader = Reader {
        model,
        ledger,
        clusters: Vec::new(),
        uses: Vec::new(),
        secrets,
        limits: Vec::new(),
        addresses: Vec::new(),
        is_peer: false,
    };
    for cluster in resources.get("clusters").map(Node::items).unwrap_or_default() {
        reader.cluster(cluster)?;
    }
    for listener in resources.get("listeners").map(Node::items).unwrap_or_default() {
        reader.listener(listener)?;
    }
    if let Some(secrets) = resources.get("secrets") {
        secrets.ignore("nothing that was converted uses it", reader.ledger);
    }
    reader.finish();
    Ok(())
}

impl Reader<'_> {
    /// The name of the upstream of a cluster with these settings.
    fn used(&mut self, cluster: usize, name: &str, table: Table) -> String {
        if let Some(known) = self.uses.iter().find(|one| one.cluster == cluster && one.table == table) {
            table.settle(self.ledger);
            return known.name.clone();
        }
        let wish = name_of(name);
        let is_taken = |name: &str| {
            self.uses.iter().any(|one| one.name == name)
                || self.model.upstreams.iter().any(|section| section.name == name)
        };
        let mut name = wish.clone();
        let mut number = 2;
        while is_taken(&name) {
            name = format!("{wish}-{number}");
            number += 1;
        }
        self.uses.push(Use { cluster, name: name.clone(), table, binds: Vec::new() });
        name
    }

    /// Clusters that no route leads to are upstreams as well.
    fn finish(mut self) {
        for index in 0..self.clusters.len() {
            let Some(cluster) = self.clusters.get(index) else { break };
            if !self.uses.iter().any(|one| one.cluster == index) {
                let (name, table) = (cluster.name.clone(), cluster.table.clone());
                if let Some((_, origin)) = cluster.hash {
                    self.ledger.dropped(origin, "it needs a header or a cookie", "set `balance` with `hash`");
                }
                self.used(index, &name, table);
            }
        }
        let mut uses = std::mem::take(&mut self.uses);
        uses.sort_by_key(|one| one.cluster);
        for one in uses {
            let mut table = one.table;
            let is_local = |address: &str| {
                address.starts_with("127.") || address.starts_with("[::1]") || address.starts_with("unix:")
            };
            for (address, origin) in &one.binds {
                let origin = origin.unwrap_or_else(Origin::hidden);
                table.push_in(&[], "bind", address.as_str(), origin);
                if !is_local(address) {
                    table.set("public", true, origin);
                }
            }
            let origin = self.clusters.get(one.cluster).map(|cluster| cluster.origin);
            self.model.upstreams.push(Section { name: one.name, origin, table });
        }
    }
}

fn admin(node: &Node, model: &mut Model, ledger: &mut Ledger) {
    let address = node.at(&["address", "socket_address"]);
    if let Some((host, port)) =
        address.and_then(|address| Some((address.get("address")?, address.get("port_value")?)))
    {
        let is_local = matches!(host.text(), "127.0.0.1" | "::1" | "localhost");
        match is_local {
            true => model.admin.set("bind", format!("{}:{}", host.text(), port.text()), port.origin),
            false => ledger.dropped(
                port.origin,
                "an address that other machines reach needs a token",
                "set `admin.bind` and `admin.token`",
            ),
        }
        ledger.carried(host.origin);
    }
    node.ignore("Envoy's own", ledger);
}
