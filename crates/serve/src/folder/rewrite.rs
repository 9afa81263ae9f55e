//! The rewrites of an `.htaccess` that lead to a script: the part of Apache's `mod_rewrite` that sites of PHP use for their addresses.
//!
//! As in Apache's directory context: rules are tried in order on the path below the directory; a rule that matches and whose conditions hold changes the path, and
//! the query if its target has one; after `[L]`, or the last rule, the rules start again with the new path, until it stays the same. Captures of the
//! path are percent-encoded when they get into the query (Apache has the flag `B` for that).

mod condition;
mod template;
#[cfg(test)]
mod tests;

use regex_lite::{Regex, RegexBuilder};

pub(super) use self::condition::Condition;
pub(super) use self::template::path_of;
use self::template::{Scope, Target, args};

/// Maximum length of a path.
const MAX_PATH: usize = 8 * 1024;

/// The rewrite rules of one file.
#[derive(Debug, Default)]
pub(super) struct Rewriting {
    rules: Vec<Rule>,
    /// `RewriteBase`, with a trailing slash.
    base: Option<String>,
    /// A rule does more than lead missing files to `index.php`.
    pub(super) matters: bool,
}

#[derive(Debug)]
struct Rule {
    pattern: Regex,
    negated: bool,
    conditions: Vec<Condition>,
    /// `None`: the path stays as it is.
    target: Option<Target>,
    flags: Flags,
}

/// A `RewriteRule` with `[F]` or `[G]`, and its conditions.
#[derive(Debug)]
pub(super) struct Forbidding(Rule);

#[derive(Debug, Default)]
struct Flags {
    last: bool,
    end: bool,
    appends: bool,
    discards: bool,
    ignores_case: bool,
}

/// The query of a rewritten request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenQuery {
    /// The query of the rules.
    pub front: Vec<u8>,
    /// The client's own query follows.
    pub with_clients: bool,
}

/// A path and a query on their way through the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Relative to the site's root, decoded.
    pub(super) name: String,
    pub(super) query: RewrittenQuery,
}

/// The result of one pass through the rules.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PassResult {
    Same,
    Changed,
    /// No further rules are tried.
    End,
}

/// The files of a site, for conditions.
pub(super) trait SiteFiles {
    /// The site's root, as its scripts know it.
    fn root(&self) -> &str;
    /// Whether a name (relative to the root) names a file, or a directory.
    async fn is(&self, name: &str, folder: bool) -> std::io::Result<bool>;
}

impl Default for RewrittenQuery {
    fn default() -> Self {
        Self { front: Vec::new(), with_clients: true }
    }
}

impl Rewriting {
    pub(super) fn set_base(&mut self, base: &str) {
        self.base = Some(format!("{}/", base.trim_end_matches('/')));
    }

    /// Takes a `RewriteRule`. `Err`: it is not honored.
    pub(super) fn take(&mut self, words: &[String], conditions: Option<Vec<Condition>>) -> Result<(), ()> {
        let [pattern, target, rest @ ..] = words else { return Ok(()) };
        let flags = Flags::parse(rest.first().map_or("", String::as_str))?;
        let plain = target == "-" || is_front(target);
        // A rule whose condition cannot be evaluated does nothing; one that only leads to the front controller is not missed.
        let Some(conditions) = conditions else { return if plain { Ok(()) } else { Err(()) } };
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, pattern.as_str()),
        };
        let runs = [pattern, target].iter().any(|text| text.contains(".php"));
        if !(plain || runs) || target.contains("://") {
            return Err(());
        }
        let regex = expression(pattern, flags.ignores_case)?;
        let target = match target.as_str() {
            "-" => None,
            target => Some(Target::parse(target.strip_prefix("%{ENV:BASE}").unwrap_or(target))?),
        };
        self.matters |= !plain;
        self.rules.push(Rule { pattern: regex, negated, conditions, target, flags });
        Ok(())
    }

    /// Tries the rules once. `above`: their directory, empty or with a trailing slash; it contains the address.
    pub(super) async fn pass(
        &self,
        site: &impl SiteFiles,
        above: &str,
        address: &mut Address,
    ) -> std::io::Result<PassResult> {
        let before = address.clone();
        for rule in &self.rules {
            let below = address.name.strip_prefix(above).unwrap_or(&address.name).to_owned();
            let caught = match (rule.pattern.captures(&below), rule.negated) {
                (Some(found), false) => texts(&found),
                (None, true) => Vec::new(),
                _ => continue,
            };
            let scope = Scope { root: site.root(), uri: &before.name, name: &address.name, caught: &caught };
            let Some(by_condition) = rule.holds(site, &scope).await? else { continue };
            if let Some(target) = &rule.target {
                let path = scope.expand(&target.path, &by_condition, None);
                let query = target.query.as_ref().map(|query| scope.expand(query, &by_condition, Some(args)));
                let name = self.place(above, &path);
                if name.len() > MAX_PATH {
                    return Ok(PassResult::End);
                }
                address.name = name;
                rule.flags.apply(&mut address.query, query);
            }
            if rule.flags.end {
                return Ok(PassResult::End);
            }
            if rule.flags.last {
                break;
            }
        }
        Ok(if *address == before { PassResult::Same } else { PassResult::Changed })
    }

    /// The path of a target, relative to the site's root.
    fn place(&self, above: &str, path: &str) -> String {
        let based = self.base.as_ref().and_then(|base| path.strip_prefix(base.as_str()));
        match (based, path.strip_prefix('/')) {
            (Some(rest), _) => format!("{above}{rest}"),
            (None, Some(rest)) => rest.to_owned(),
            (None, None) => format!("{above}{}", path.strip_prefix("./").unwrap_or(path)),
        }
    }
}

impl Forbidding {
    /// `Err`: it is not honored.
    pub(super) fn parse(pattern: &str, ignores_case: bool, conditions: Vec<Condition>) -> Result<Self, ()> {
        let (negated, pattern) =
            pattern.strip_prefix('!').map_or((false, pattern), |pattern| (true, pattern));
        let pattern = expression(pattern, ignores_case)?;
        Ok(Self(Rule { pattern, negated, conditions, target: None, flags: Flags::default() }))
    }

    /// Whether it forbids a name, relative to the site's root. `above`: as of [`Rewriting::pass`].
    pub(super) async fn forbids(
        &self,
        site: &impl SiteFiles,
        above: &str,
        name: &str,
    ) -> std::io::Result<bool> {
        let Self(rule) = self;
        let below = name.strip_prefix(above).unwrap_or(name);
        let caught = match (rule.pattern.captures(below), rule.negated) {
            (Some(found), false) => texts(&found),
            (None, true) => Vec::new(),
            _ => return Ok(false),
        };
        let scope = Scope { root: site.root(), uri: name, name, caught: &caught };
        Ok(rule.holds(site, &scope).await?.is_some())
    }
}

impl Rule {
    /// Whether the conditions hold, and the captures of the last expression among them.
    async fn holds(&self, site: &impl SiteFiles, scope: &Scope<'_>) -> std::io::Result<Option<Vec<String>>> {
        let mut caught = Vec::new();
        let mut conditions = self.conditions.iter();
        while let Some(condition) = conditions.next() {
            if condition.holds(site, scope, &mut caught).await? {
                // Skips the other conditions tied to it by [OR].
                let mut tied = condition.or_next;
                while tied {
                    tied = conditions.next().is_some_and(|next| next.or_next);
                }
            } else if !condition.or_next {
                return Ok(None);
            }
        }
        Ok(Some(caught))
    }
}

impl Flags {
    /// `Err`: one that is not honored.
    fn parse(text: &str) -> Result<Self, ()> {
        let mut flags = Self::default();
        for flag in text.trim_matches(['[', ']']).split(',').map(|flag| flag.trim().to_ascii_lowercase()) {
            match flag.as_str() {
                "l" | "last" => flags.last = true,
                "end" => flags.end = true,
                "qsa" | "qsappend" => flags.appends = true,
                "qsd" | "qsdiscard" => flags.discards = true,
                "nc" | "nocase" => flags.ignores_case = true,
                "" | "b" | "bnp" | "ne" | "noescape" | "pt" | "passthrough" | "ns" | "nosubreq" | "dpi"
                | "discardpath" => {}
                _ if flag.starts_with("e=") || flag.starts_with("env=") => {}
                _ => return Err(()),
            }
        }
        Ok(flags)
    }

    fn apply(&self, query: &mut RewrittenQuery, new: Option<String>) {
        if self.discards {
            *query = RewrittenQuery { front: Vec::new(), with_clients: false };
        }
        let Some(new) = new else { return };
        let old = std::mem::replace(query, RewrittenQuery { front: new.into_bytes(), with_clients: false });
        if self.appends {
            query.with_clients = old.with_clients;
            if !query.front.is_empty() && !old.front.is_empty() {
                query.front.push(b'&');
            }
            query.front.extend_from_slice(&old.front);
        }
    }
}

/// Whether a target is `index.php`, in any directory, and nothing else.
fn is_front(target: &str) -> bool {
    target.rsplit('/').next().is_some_and(|last| last == "index.php") && !target.contains(['$', '?'])
}

fn expression(text: &str, ignores_case: bool) -> Result<Regex, ()> {
    RegexBuilder::new(text).case_insensitive(ignores_case).size_limit(1 << 20).build().map_err(drop)
}

fn texts(found: &regex_lite::Captures<'_>) -> Vec<String> {
    found.iter().map(|part| part.map_or_else(String::new, |part| part.as_str().to_owned())).collect()
}
