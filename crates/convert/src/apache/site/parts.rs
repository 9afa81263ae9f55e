//! Sections: `<Directory>`, `<Files>`, `<Location>` and their kin, in the order in which Apache merges them. Where several are for a path, the rules of the last
//! one apply.

use super::access::{Access, has_rules};
use super::mounts::{of_directory, of_directory_matching};
use super::regions::{Region, of_location, of_name, of_name_matching};
use super::{Host, Mount, Reader};
use crate::apache::syntax::{Node, ignore};
use crate::expression::check;
use crate::table::Table;

const TODO: &str = "write a route by hand";

/// A part of the paths, and the mount that serves them; `None`: whatever serves them.
pub(super) type MountRegion = (Option<usize>, Region);

/// A section, and the paths that it is of.
pub(super) struct Part<'a> {
    pub(super) node: &'a Node,
    /// Sections around it.
    pub(super) around: Vec<&'a Node>,
    /// Each of the paths that one mount serves, or of all.
    pub(super) regions: Vec<MountRegion>,
    /// Whether it is of files, and not of what is passed to another server.
    pub(super) is_of_files: bool,
    /// In the order of merging.
    pub(super) order: (u8, usize),
}

/// What a part sets: access rules, and header fields.
pub(super) struct Settings {
    pub(super) access: Access,
    pub(super) headers: Table,
}

impl<'a> Reader<'a> {
    /// What a part sets.
    pub(super) fn settings(&mut self, parts: &[Part<'a>], index: usize) -> Settings {
        let mut set = Settings { access: Access::default(), headers: Table::default() };
        let Some(part) = parts.get(index) else { return set };
        if has_rules(&part.node.inner) {
            // Sections that were merged before, and are of all its paths, may have the file of passwords.
            let mut around: Vec<&Node> = parts
                .iter()
                .take(index)
                .filter(|earlier| {
                    part.regions.iter().all(|region| earlier.regions.iter().any(|all| includes(all, region)))
                })
                .map(|earlier| earlier.node)
                .collect();
            around.extend(&part.around);
            set.access = self.access(&part.node.inner, &around);
        }
        set.headers = self.headers(part.node.inner.iter());
        set
    }

    /// All sections with settings, in the order of merging.
    pub(super) fn parts(&mut self, host: &Host<'a>, mounts: &[Mount]) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        // Those of the server come before those of the host.
        let shared = host.all.iter().skip(host.own.len()).chain(&host.own);
        for node in shared.copied() {
            self.part(node, mounts, &mut parts);
        }
        parts.sort_by_key(|part: &Part<'a>| part.order);
        parts
    }

    fn part(&mut self, node: &'a Node, mounts: &[Mount], parts: &mut Vec<Part<'a>>) {
        let is_matching = node.name.ends_with("match") || node.arg(0) == "~";
        let pattern = node.args.last().map_or("", String::as_str);
        let mut new =
            Part { node, around: Vec::new(), regions: Vec::new(), is_of_files: true, order: (0, 0) };
        match node.name.as_str() {
            "directory" | "directorymatch" => {
                new.order = if is_matching {
                    (1, 0)
                } else {
                    (0, pattern.split('/').filter(|name| !name.is_empty()).count())
                };
                let found: Option<Vec<Vec<MountRegion>>> = mounts
                    .iter()
                    .enumerate()
                    .map(|(number, mount)| {
                        let regions = match is_matching {
                            true => of_directory_matching(mount, pattern)?,
                            false => of_directory(mount, pattern),
                        };
                        Some(regions.into_iter().map(|region| (Some(number), region)).collect())
                    })
                    .collect();
                let found: Option<Vec<_>> = found.map(|all| all.into_iter().flatten().collect());
                match found {
                    Some(regions) => new.regions = regions,
                    None => {
                        self.ledger.lost(
                            node.origin,
                            "its regular expression is of the paths of files",
                            TODO,
                        );
                        ignore(&node.inner, self.ledger);
                        return;
                    }
                }
                if new.regions.is_empty() {
                    self.nothing_is_there(node);
                    return;
                }
            }
            "files" | "filesmatch" => {
                new.order = (2, 0);
                self.names(new, &[(None, Region::All)], is_matching, parts);
                return;
            }
            "location" | "locationmatch" => {
                new.is_of_files = false;
                new.order = (3, 0);
                let found = match is_matching {
                    true => check(pattern, false).map(|pattern| vec![(None, Region::Matching(pattern))]),
                    false if pattern.starts_with('/') => {
                        Ok(of_location(pattern).into_iter().map(|region| (None, region)).collect())
                    }
                    false => Err("it is of requests to other servers".to_owned()),
                };
                match found {
                    Ok(regions) => new.regions = regions,
                    Err(why) => {
                        self.ledger.lost(node.origin, why, TODO);
                        ignore(&node.inner, self.ledger);
                        return;
                    }
                }
                if self.is_status_page(node) {
                    return;
                }
            }
            "if" | "elseif" | "else" | "proxymatch" | "macro" | "limit" | "limitexcept" => {
                self.lost_section(node);
                return;
            }
            _ => return,
        }
        let (regions, order) = (new.regions.clone(), new.order);
        parts.push(new);
        for inner in &node.inner {
            match inner.name.as_str() {
                "files" | "filesmatch" => {
                    let is_matching = inner.name == "filesmatch" || inner.arg(0) == "~";
                    let new = Part {
                        node: inner,
                        around: vec![node],
                        regions: Vec::new(),
                        is_of_files: true,
                        order: (2, 1 + if order.0 == 0 { order.1 } else { usize::MAX / 2 }),
                    };
                    self.names(new, &regions, is_matching, parts);
                }
                "limit" | "limitexcept" | "if" => self.lost_section(inner),
                _ => {}
            }
        }
    }

    fn lost_section(&mut self, node: &Node) {
        let sets_access = |node: &Node| has_rules(&node.inner) || !node.inner.is_empty();
        match sets_access(node) {
            true => self.ledger.lost(node.origin, "the section has no counterpart", TODO),
            false => self.ledger.ignored(node.origin, "there is nothing in it"),
        }
        ignore(&node.inner, self.ledger);
    }

    /// `<Files>`, of some paths.
    fn names(
        &mut self,
        mut part: Part<'a>,
        regions: &[MountRegion],
        is_matching: bool,
        parts: &mut Vec<Part<'a>>,
    ) {
        let pattern = part.node.args.last().map_or("", String::as_str);
        let of = |prefix: &str| match is_matching {
            true => of_name_matching(prefix, pattern),
            false => of_name(prefix, pattern),
        };
        let found: Option<Vec<MountRegion>> = regions
            .iter()
            .filter(|(_, region)| !matches!(region, Region::Exact(_)))
            .map(|(mount, region)| {
                let names = match region {
                    Region::All => of(""),
                    Region::Below(begin) => of(begin.trim_end_matches('/')),
                    Region::Exact(_) | Region::Matching(_) => None,
                };
                Some((*mount, names?))
            })
            .collect();
        let has_meaning =
            has_rules(&part.node.inner) || part.node.inner.iter().any(|node| node.name == "header");
        match found {
            Some(regions) => {
                part.regions = regions;
                parts.push(part);
            }
            None if has_meaning => {
                self.ledger.lost(part.node.origin, "its pattern of names has no counterpart", TODO);
                ignore(&part.node.inner, self.ledger);
            }
            None => {}
        }
    }

    /// A section of a directory that no path leads to.
    fn nothing_is_there(&mut self, node: &Node) {
        if !self.ledger.is_settled(node.origin) {
            self.ledger.ignored(node.origin, "no path of the sites leads to it");
            ignore(&node.inner, self.ledger);
        }
    }

    fn is_status_page(&mut self, node: &Node) -> bool {
        let handler = node.inner.iter().find(|inner| {
            inner.name == "sethandler"
                && matches!(inner.arg(0), "server-status" | "server-info" | "balancer-manager")
        });
        let Some(handler) = handler else { return false };
        self.ledger.dropped(
            node.origin,
            "Keepwarm has its own page for operators",
            "set `admin.bind`, or use `keepwarm status`",
        );
        ignore(&node.inner, self.ledger);
        self.ledger.ignored(handler.origin, "a part of a section that is not converted");
        true
    }
}

/// Whether all paths of one region are of the other.
fn includes((mount, all): &MountRegion, (of, region): &MountRegion) -> bool {
    if mount.is_some() && mount != of {
        return false;
    }
    match (all, region) {
        (Region::All, _) => true,
        (Region::Below(begin), Region::Below(path) | Region::Exact(path)) => path.starts_with(begin.as_str()),
        (one, other) => one == other,
    }
}
