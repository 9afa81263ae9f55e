//! nginx: a whole configuration, or fragments of its `http` block.

mod access;
mod action;
mod condition;
mod files;
mod http;
mod known;
mod location;
mod methods;
mod proxy;
mod referers;
mod rewrite;
mod scope;
mod scripts;
mod server;
mod settings;
mod syntax;
mod targets;
mod try_files;
mod variables;

use std::path::PathBuf;

pub(crate) use self::action::{redirect, safe_target};

use self::known::{Disposition, disposition};
use self::scope::Scope;
use self::syntax::{Directive, Parser};
use crate::Error;
use crate::files::Files;
use crate::fpm::Pool;
use crate::ledger::{Ledger, Origin};
use crate::model::{Model, Site};

/// What an upstream is named after.
pub(crate) fn upstream_wish(authority: &str) -> String {
    proxy::wish(authority)
}

/// Reads files of nginx into the model.
pub(crate) fn read(
    paths: &[PathBuf],
    files: &Files,
    pools: &[Pool],
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let mut top = Vec::new();
    for path in paths {
        top.extend(Parser { files, ledger }.file(path)?);
    }
    let mut levels: Vec<Directive> = Vec::new();
    for directive in &top {
        match directive.name.as_str() {
            "http" => {
                ledger.carried(directive.origin);
                levels.extend(directive.children().iter().cloned());
            }
            "events" => settle_all(std::slice::from_ref(directive), ledger),
            _ => levels.push(directive.clone()),
        }
    }
    let before = model.sites.len();
    let mut reader = Reader {
        files,
        pools,
        model,
        ledger,
        http: Scope::of(&levels),
        sends: Vec::new(),
        quiet: Vec::new(),
        pending_front: None,
        redirects: 0,
    };
    reader.http_level();
    for server in levels.iter().filter(|directive| directive.name == "server") {
        if let Some(site) = reader.server(server) {
            reader.model.sites.push(site);
        }
    }
    reader.proxy_senders(before);
    if model.sites.len() == before {
        let names: Vec<String> = paths.iter().map(|path| files.shown(path)).collect();
        return Err(Error::new(format!(
            "{}: there is no `server` block, so there is nothing to serve; give nginx.conf, or a file of sites-enabled",
            names.join(", ")
        )));
    }
    settle_rest(&levels, false, &mut model.rules, ledger);
    Ok(())
}

/// What the reading of a configuration needs.
struct Reader<'d, 'a> {
    files: &'a Files,
    pools: &'a [Pool],
    model: &'a mut Model,
    ledger: &'a mut Ledger,
    http: Scope<'d>,
    /// Directories of `internal` locations of the server that is read, each with its prefix.
    sends: Vec<(String, String, Origin)>,
    /// Patterns of paths of that server that are not in its access log.
    quiet: Vec<String>,
    /// The script of that server for paths without a file.
    pending_front: Option<String>,
    /// Internal redirects on the way to what is read.
    redirects: usize,
}

impl Reader<'_, '_> {
    /// A listener that expects PROXY headers needs to know who sends them.
    fn proxy_senders(&mut self, first: usize) {
        let sites = self.model.sites.get(first..).unwrap_or(&[]);
        let origin = sites
            .iter()
            .flat_map(|site| &site.binds)
            .find(|bind| bind.proxy_protocol)
            .and_then(|bind| bind.origin);
        let Some(origin) = origin.filter(|_| !self.model.server.has("trusted_proxies")) else { return };
        self.model.server.note(
            "trusted_proxies",
            vec!["127.0.0.1"],
            "set this: the proxies that send the PROXY header",
        );
        self.ledger.differs(
            origin,
            "set `server.trusted_proxies` to the addresses of the proxies that send the header",
        );
    }
}

/// Rules of a location that must not be lost with it.
const RULES: [&str; 9] =
    ["allow", "deny", "auth_basic", "auth_request", "limit_except", "return", "rewrite", "if", "limit_req"];

/// Settles the directives that no code has looked at.
fn settle_rest(directives: &[Directive], in_location: bool, rules: &mut Vec<Origin>, ledger: &mut Ledger) {
    let returns = directives.iter().any(|directive| directive.name == "return");
    for directive in directives {
        let origin = directive.origin;
        if !ledger.is_settled(origin) {
            match disposition(&directive.name) {
                Disposition::Ignored(why) => ledger.ignored(origin, why),
                Disposition::Differs(how) => ledger.differs(origin, how),
                Disposition::Dropped(why, todo) => ledger.dropped(origin, why, todo),
                Disposition::Lost(why, todo) => {
                    ledger.lost(origin, why, todo);
                    settle_all(directive.children(), ledger);
                }
                // Known once all routes are.
                Disposition::Converted
                    if in_location && RULES.contains(&directive.name.as_str()) && !returns =>
                {
                    rules.push(origin)
                }
                Disposition::Converted => {
                    ledger.ignored(origin, "nothing that was converted is affected by it")
                }
                Disposition::Unknown => {}
            }
        }
        settle_rest(directive.children(), in_location || directive.name == "location", rules, ledger);
    }
}

/// Settles whole blocks of which only the head is reported.
fn settle_all(directives: &[Directive], ledger: &mut Ledger) {
    for directive in directives {
        ledger.ignored(directive.origin, "a part of a block that was not converted, or has no meaning here");
        settle_all(directive.children(), ledger);
    }
}

/// Settles a block that is dropped with everything in it.
fn drop_block(directive: &Directive, why: &str, todo: &str, ledger: &mut Ledger) {
    ledger.lost(directive.origin, why, todo);
    settle_all(directive.children(), ledger);
}

/// A site without routes is none.
fn is_worth(site: &Site) -> bool {
    !site.binds.is_empty()
}
