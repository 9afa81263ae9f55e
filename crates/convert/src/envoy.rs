//! A static configuration of Envoy: clusters become upstreams, listeners with virtual hosts become sites.

mod cluster;
mod listener;

use self::cluster::upstream;
use self::listener::sites;
use crate::Error;
use crate::files::Files;
use crate::ledger::{Ledger, Origin};
use crate::model::{Model, name_of};
use crate::tree::{Node, load};
use std::path::Path;

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
            "node"
            | "layered_runtime"
            | "stats_config"
            | "stats_sinks"
            | "overload_manager"
            | "bootstrap_extensions"
            | "watchdogs" => {
                node.ignore("Envoy's own", ledger);
            }
            _ => {}
        }
    }
    for cluster in resources.get("clusters").map(Node::items).unwrap_or_default() {
        upstream(cluster, model, ledger)?;
    }
    let mut doors = Vec::new();
    for listener in resources.get("listeners").map(Node::items).unwrap_or_default() {
        doors.extend(sites(listener, model, ledger)?);
    }
    open_doors(doors, model, ledger);
    Ok(())
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

/// The only cluster that a listener leads to, with its address: the door of an upstream.
struct Door {
    cluster: String,
    address: String,
    origin: Origin,
}

fn open_doors(doors: Vec<Door>, model: &mut Model, ledger: &mut Ledger) {
    for door in doors {
        let Some(upstream) =
            model.upstreams.iter_mut().find(|upstream| upstream.name == name_of(&door.cluster))
        else {
            continue;
        };
        upstream.table.push_in(&[], "bind", door.address.as_str(), door.origin);
        let is_local = door.address.starts_with("127.")
            || door.address.starts_with("[::1]")
            || door.address.starts_with("unix:");
        if !is_local {
            upstream.table.set("public", true, door.origin);
        }
        ledger.carried(door.origin);
    }
}
