//! `keepwarm convert --verify`: the same GETs to two servers, and what differs in their responses.

mod client;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use self::client::{Response, Target};
use crate::Error;

/// What to compare.
#[derive(Debug)]
pub struct Verification {
    /// The URL of the old server.
    pub old: String,
    /// The URL of the new one.
    pub new: String,
    /// The host to request of both; else that of the old URL.
    pub host: Option<String>,
    /// The text of an access log, in place of a crawl.
    pub log: Option<String>,
    /// The number of paths that are requested at most.
    pub max: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Differences {
    /// Paths that were requested.
    pub requested: usize,
    /// Differences, each with its path.
    pub found: Vec<String>,
    /// Differences that any two servers have, and how often each was seen.
    pub expected: std::collections::BTreeMap<String, usize>,
}

impl Differences {
    /// The result as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for difference in &self.found {
            let _ = writeln!(out, "{difference}");
        }
        if !self.expected.is_empty() {
            let _ = writeln!(out, "expected between two servers:");
            for (what, times) in &self.expected {
                let _ = writeln!(out, "  {what}: {times}");
            }
        }
        let _ = writeln!(out, "{} paths, {} differences", self.requested, self.found.len());
        out
    }
}

/// Headers that differ between any two servers.
const EXPECTED: [&str; 15] = [
    "server",
    "date",
    "etag",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "x-request-id",
    "via",
    "accept-ranges",
    "alt-svc",
    "age",
    "x-powered-by",
    "set-cookie",
    "vary",
];

/// Headers of a page that a server has made itself.
const OF_PAGES: [&str; 2] = ["content-type", "cache-control"];

/// Requests the same paths of both servers.
///
/// # Errors
///
/// A URL that is not one, a server that cannot be reached, a log without a GET.
pub fn verify(verification: &Verification) -> Result<Differences, Error> {
    let old = Target::parse(&verification.old)?;
    let new = Target::parse(&verification.new)?;
    let host = verification.host.clone().unwrap_or_else(|| old.authority());
    let mut waiting: Vec<String> = match &verification.log {
        None => vec![old.path.clone()],
        Some(log) => {
            let paths = paths_of(log);
            if paths.is_empty() {
                return Err(Error::new("the access log has no line with `GET /path HTTP/1.1`"));
            }
            paths
        }
    };
    let crawl = verification.log.is_none();
    let mut known: BTreeSet<String> = waiting.iter().cloned().collect();
    waiting.reverse();
    let mut differences = Differences::default();
    while let Some(path) = waiting.pop() {
        if differences.requested == verification.max {
            break;
        }
        differences.requested += 1;
        let (a, b) = (old.get(&path, &host)?, new.get(&path, &host)?);
        compare(&path, &a, &b, &mut differences);
        if crawl {
            let links = links(&path, &a, &host);
            let fresh: Vec<String> = links.into_iter().filter(|link| known.insert(link.clone())).collect();
            waiting.extend(fresh.into_iter().rev());
        }
    }
    Ok(differences)
}

fn compare(path: &str, old: &Response, new: &Response, out: &mut Differences) {
    if old.status != new.status {
        out.found.push(format!("GET {path}: status {} was {}", new.status, old.status));
        return;
    }
    // A page of an error or redirect is each server's own, unless it is a page of the site.
    let is_own_page = old.status >= 300 && old.is_short_page() && new.is_short_page();
    let names: BTreeSet<&str> =
        old.headers.iter().chain(&new.headers).map(|(name, _)| name.as_str()).collect();
    for name in names {
        let (a, b) = (old.values(name), new.values(name));
        if same_header(name, &a, &b) {
            continue;
        }
        match EXPECTED.contains(&name) || (is_own_page && OF_PAGES.contains(&name)) {
            true => *out.expected.entry(name.to_owned()).or_default() += 1,
            false => {
                let shown = |values: &[&str]| {
                    if values.is_empty() { "absent".to_owned() } else { format!("`{}`", values.join(", ")) }
                };
                out.found.push(format!("GET {path}: {name} is {}, was {}", shown(&b), shown(&a)));
            }
        }
    }
    if old.body != new.body {
        match is_own_page {
            true => *out.expected.entry(format!("body of {}", old.status)).or_default() += 1,
            false => {
                let at = old.body.iter().zip(&new.body).take_while(|(a, b)| a == b).count();
                out.found.push(format!(
                    "GET {path}: body differs at byte {at} ({} bytes, was {})",
                    new.body.len(),
                    old.body.len()
                ));
            }
        }
    }
}

fn same_header(name: &str, old: &[&str], new: &[&str]) -> bool {
    if old == new {
        return true;
    }
    match name {
        // Case and spaces of a media type say nothing, and text is UTF-8.
        "content-type" => {
            let plain = |values: &[&str]| {
                values.join(",").to_ascii_lowercase().replace(' ', "").replace(";charset=utf-8", "")
            };
            let script = |text: String| text.replace("application/javascript", "text/javascript");
            script(plain(old)) == script(plain(new))
        }
        // The host and scheme of a redirect may be spelled out or not.
        "location" => {
            let path = |values: &[&str]| {
                values
                    .join(",")
                    .split("://")
                    .last()
                    .map(|rest| rest.find('/').map_or("/", |at| rest.get(at..).unwrap_or("/")).to_owned())
            };
            let is_own = |values: &[&str]| values.iter().all(|value| value.starts_with('/'));
            (is_own(old) || is_own(new)) && path(old) == path(new)
        }
        _ => false,
    }
}

/// Paths of the GETs of an access log, in their order, each once.
fn paths_of(log: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut paths = Vec::new();
    for line in log.lines() {
        let mut words = line.split([' ', '"']);
        let Some(path) = words.by_ref().find(|word| *word == "GET").and_then(|_| words.next()) else {
            continue;
        };
        if path.starts_with('/') && seen.insert(path.to_owned()) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// Paths of the same site that a page leads to.
fn links(base: &str, page: &Response, host: &str) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(target) = page.values("location").first() {
        out.extend(resolve(base, target, host));
    }
    let is_html = page.values("content-type").first().is_some_and(|media| media.contains("html"));
    if !is_html {
        return out;
    }
    let text = String::from_utf8_lossy(&page.body);
    for attribute in ["href=", "src="] {
        for part in text.split(attribute).skip(1) {
            let Some(quote) = part.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else {
                continue;
            };
            let Some((link, _)) = part.get(1..).and_then(|rest| rest.split_once(quote)) else { continue };
            out.extend(resolve(base, &link.replace("&amp;", "&"), host));
        }
    }
    out
}

/// A link as a path of this host.
fn resolve(base: &str, link: &str, host: &str) -> Option<String> {
    let link = link.split('#').next().unwrap_or("");
    let link = match link.split_once("://") {
        Some(("http" | "https", rest)) => {
            let (of, path) =
                rest.split_once('/').map_or((rest, String::new()), |(of, path)| (of, format!("/{path}")));
            if of != host {
                return None;
            }
            path
        }
        Some(_) => return None,
        None => link.to_owned(),
    };
    let is_other = link.starts_with("//") || link.split('/').next().is_some_and(|first| first.contains(':'));
    if link.is_empty() || is_other {
        return None;
    }
    if link.starts_with('/') {
        return Some(link);
    }
    let directory = base.split('?').next().unwrap_or("/");
    if link.starts_with('?') {
        return Some(format!("{directory}{link}"));
    }
    let directory = directory.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts: Vec<&str> = directory.split('/').collect();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => _ = (parts.len() > 1).then(|| parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_paths() {
        for (link, path) in [
            ("/a", Some("/a")),
            ("b.css", Some("/docs/b.css")),
            ("../c", Some("/c")),
            ("?page=2", Some("/docs/index.html?page=2")),
            ("http://site.example/d#top", Some("/d")),
            ("http://other.example/d", None),
            ("mailto:a@b", None),
            ("//cdn.example/x", None),
            ("#top", None),
        ] {
            assert_eq!(resolve("/docs/index.html", link, "site.example").as_deref(), path, "{link}");
        }
    }

    #[test]
    fn logs_of_several_forms_have_paths() {
        let log = "1.2.3.4 - - [x] \"GET /a?b=1 HTTP/1.1\" 200\nnoise\n10.0.0.1 \"POST /p HTTP/1.1\"\nGET /c HTTP/2 200\n1.2.3.4 \"GET /a?b=1 HTTP/1.1\"\n";
        assert_eq!(paths_of(log), ["/a?b=1", "/c"]);
    }
}
