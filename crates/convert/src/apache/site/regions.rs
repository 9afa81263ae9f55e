//! Which paths a section is of, and what a route leaves of them.

use crate::expression::{beginning, check};
use crate::model::{PathMatch, escape};

/// A part of the paths of a site.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Region {
    All,
    Exact(String),
    /// All paths that begin with a text that ends with a slash.
    Below(String),
    /// All paths that a regular expression finds.
    Matching(String),
}

/// What of a route a region takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Share {
    Nothing,
    All,
    /// These paths of it.
    Part(PathMatch),
    /// A regular expression, and it is not known which of its paths are also of the region: those that begin with the text
    /// are.
    Begin(String),
    /// Some paths, and it is not known which.
    Unknown,
}

/// `/admin` is the path itself, and all that is below it.
pub(super) fn of_location(path: &str) -> Vec<Region> {
    let plain = path.trim_end_matches('/');
    match path {
        "/" | "" => vec![Region::All],
        path if path.ends_with('/') && !path.contains(['*', '?', '[']) => {
            vec![Region::Below(format!("{plain}/"))]
        }
        path if path.contains(['*', '?', '[']) => {
            let names: Vec<String> = plain
                .split('/')
                .map(|name| if name == "*" { "[^/]+".to_owned() } else { glob(name) })
                .collect();
            match check(&format!("^{}(?:/|$)", names.join("/")), false) {
                Ok(pattern) => vec![Region::Matching(pattern)],
                Err(_) => Vec::new(),
            }
        }
        _ => vec![Region::Exact(plain.to_owned()), Region::Below(format!("{plain}/"))],
    }
}

/// A pattern of the shell, whose `*` and `?` are no slash, as a regular expression.
pub(super) fn glob(pattern: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' => {
                let class: String = chars.by_ref().take_while(|c| *c != ']').collect();
                let (sign, class) = match class.strip_prefix(['!', '^']) {
                    Some(rest) => ("^", rest),
                    None => ("", class.as_str()),
                };
                out.push_str(&format!("[{sign}{}]", class.replace('\\', "\\\\").replace('[', "\\[")));
            }
            c => out.push_str(&escape(&c.to_string())),
        }
    }
    out
}

/// The name of a file by a pattern of the shell (`<Files>`), as a regular expression of paths below `prefix`.
pub(super) fn of_name(prefix: &str, pattern: &str) -> Option<Region> {
    check(&format!("{}{}$", below(prefix), glob(pattern)), false).ok().map(Region::Matching)
}

/// The name of a file by a regular expression (`<FilesMatch>`), as one of paths below `prefix`.
pub(super) fn of_name_matching(prefix: &str, pattern: &str) -> Option<Region> {
    let (flags, pattern) = match pattern.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", pattern),
    };
    let mut all = Vec::new();
    for alternative in alternatives(pattern) {
        let begin = match alternative.strip_prefix('^') {
            Some(rest) => rest.to_owned(),
            None => format!("[^/]*{alternative}"),
        };
        let end = if begin.ends_with('$') && !begin.ends_with("\\$") { "" } else { "[^/]*$" };
        all.push(format!("{begin}{end}"));
    }
    check(&format!("{flags}{}{}", below(prefix), one_of(&all)), false).ok().map(Region::Matching)
}

/// The begin of a regular expression of what is below a prefix, which has no slash at its end.
fn below(prefix: &str) -> String {
    match prefix {
        "" => "/".to_owned(),
        prefix => format!("^{}/(?:.*/)?", escape(prefix)),
    }
}

fn one_of(alternatives: &[String]) -> String {
    match alternatives {
        [only] => only.clone(),
        all => format!("(?:{})", all.join("|")),
    }
}

/// An expression of paths that begin with a text, with all behind the text as its first group.
pub(super) fn captured(begin: &str, pattern: &str) -> Option<String> {
    let rest = pattern.strip_prefix('^')?.strip_prefix(&escape(begin))?;
    if alternatives(rest).len() > 1 {
        return None;
    }
    Some(match rest.strip_suffix('$').filter(|rest| !rest.ends_with('\\')) {
        Some(rest) => format!("^{}({rest})$", escape(begin)),
        None => format!("^{}({rest}.*)$", escape(begin)),
    })
}

/// Whether a regular expression asks for the begin of the path somewhere, or has flags.
pub(super) fn is_anchored(pattern: &str) -> bool {
    let mut is_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => is_class = true,
            ']' => is_class = false,
            '^' if !is_class => return true,
            _ => {}
        }
    }
    pattern.starts_with("(?")
}

/// The parts of a regular expression between `|` that are in no group.
pub(super) fn alternatives(pattern: &str) -> Vec<String> {
    let (mut all, mut one) = (Vec::new(), String::new());
    let (mut depth, mut is_class) = (0_usize, false);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                one.push(c);
                one.extend(chars.next());
                continue;
            }
            '[' => is_class = true,
            ']' => is_class = false,
            '(' if !is_class => depth += 1,
            ')' if !is_class => depth = depth.saturating_sub(1),
            '|' if !is_class && depth == 0 => {
                all.push(std::mem::take(&mut one));
                continue;
            }
            _ => {}
        }
        one.push(c);
    }
    all.push(one);
    all
}

/// A regular expression of paths in a directory, which have no slash at the begin, as one of paths below `base`, which ends with a
/// slash.
pub(crate) fn in_directory(base: &str, pattern: &str) -> String {
    let base = escape(base);
    let all: Vec<String> = alternatives(pattern)
        .into_iter()
        .map(|alternative| match alternative.strip_prefix('^') {
            // `^/?x` is written for both, a directory and a server.
            Some(rest) => format!("^{base}{}", rest.strip_prefix("/?").unwrap_or(rest)),
            None => format!("^{base}.*?{alternative}"),
        })
        .collect();
    all.join("|")
}

/// What of a route's paths are of a region.
pub(super) fn share(route: &PathMatch, region: &Region) -> Share {
    let begin = match route {
        PathMatch::Exact(path) => {
            return match is_of(path, region) {
                true => Share::All,
                false => Share::Nothing,
            };
        }
        PathMatch::Regex(pattern) => return share_of_regex(pattern, region),
        route => match begin_of(route) {
            Some(begin) => begin,
            None if *region == Region::All => return Share::All,
            None => return Share::Unknown,
        },
    };
    match region {
        Region::All => Share::All,
        Region::Exact(path) if path.starts_with(&begin) => Share::Part(PathMatch::Exact(path.clone())),
        Region::Below(path) if begin.starts_with(path.as_str()) => Share::All,
        Region::Below(path) if path.starts_with(&begin) => Share::Part(PathMatch::Begin(path.clone())),
        Region::Exact(_) | Region::Below(_) => Share::Nothing,
        Region::Matching(pattern) => share_of_begin(&begin, pattern),
    }
}

/// The text that all paths of a route begin with, and that is all it asks of them.
pub(super) fn begin_of(route: &PathMatch) -> Option<String> {
    match route {
        PathMatch::Any => Some(String::new()),
        PathMatch::Begin(begin) => Some(begin.clone()),
        PathMatch::Patterns(patterns) => match patterns.as_slice() {
            [pattern] if pattern == "~^/(.*)$" => Some(String::new()),
            [pattern] if !pattern.starts_with(['~', '!']) => {
                pattern.strip_suffix('*').filter(|begin| !begin.contains('*')).map(str::to_owned)
            }
            _ => None,
        },
        PathMatch::Exact(_) | PathMatch::Regex(_) => None,
    }
}

fn is_of(path: &str, region: &Region) -> bool {
    match region {
        Region::All => true,
        Region::Exact(exact) => exact == path,
        Region::Below(begin) => path.starts_with(begin.as_str()),
        Region::Matching(pattern) => is_match(pattern, path),
    }
}

fn is_match(pattern: &str, path: &str) -> bool {
    regex::bytes::RegexBuilder::new(pattern)
        .unicode(false)
        .dot_matches_new_line(true)
        .build()
        .is_ok_and(|regex| regex.is_match(path.as_bytes()))
}

fn share_of_begin(begin: &str, pattern: &str) -> Share {
    if begin.is_empty() {
        return Share::Part(PathMatch::Regex(pattern.to_owned()));
    }
    match beginning(pattern) {
        Some(known) if known.starts_with(begin) => Share::Part(PathMatch::Regex(pattern.to_owned())),
        Some(known) if !begin.starts_with(&known) => Share::Nothing,
        // It asks for something at the begin, which cannot be combined with another begin.
        Some(_) => Share::Unknown,
        None if is_anchored(pattern) => Share::Unknown,
        None => {
            let (prefix, all) = (begin.trim_end_matches('/'), alternatives(pattern));
            let names: Option<Vec<String>> =
                all.iter().map(|one| one.strip_prefix('/').map(str::to_owned)).collect();
            Share::Part(PathMatch::Regex(match names {
                Some(names) => format!("{}{}", below(prefix), one_of(&names)),
                None => format!("^{}/.*?{}", escape(prefix), one_of(&all)),
            }))
        }
    }
}

fn share_of_regex(route: &str, region: &Region) -> Share {
    let known = beginning(route);
    match region {
        Region::All => Share::All,
        Region::Matching(pattern) if pattern == route => Share::All,
        Region::Matching(pattern) => match (known, beginning(pattern)) {
            (Some(one), Some(other)) if !one.starts_with(&other) && !other.starts_with(&one) => {
                Share::Nothing
            }
            _ => Share::Unknown,
        },
        Region::Exact(path) => match is_match(route, path) {
            true => Share::Begin(path.clone()),
            false => Share::Nothing,
        },
        Region::Below(path) => match known {
            Some(known) if known.starts_with(path.as_str()) => Share::All,
            Some(known) if !path.starts_with(&known) => Share::Nothing,
            _ => Share::Begin(path.clone()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(text: &str) -> PathMatch {
        PathMatch::Begin(text.to_owned())
    }

    fn below(text: &str) -> Region {
        Region::Below(text.to_owned())
    }

    fn matching(text: &str) -> Region {
        Region::Matching(text.to_owned())
    }

    fn part(pattern: &str) -> Share {
        Share::Part(PathMatch::Regex(pattern.to_owned()))
    }

    #[test]
    fn a_location_is_a_path_and_all_below_it() {
        assert_eq!(of_location("/"), [Region::All]);
        assert_eq!(of_location("/a"), [Region::Exact("/a".to_owned()), below("/a/")]);
        assert_eq!(of_location("/a/"), [below("/a/")]);
        assert_eq!(of_location("/a*/b"), [matching("^/a[^/]*/b(?:/|$)")]);
        assert_eq!(of_location("/a/*"), [matching("^/a/[^/]+(?:/|$)")]);
        assert_eq!(of_location("/[!x]?"), [matching("^/[^x][^/](?:/|$)")]);
    }

    #[test]
    fn names_of_files() {
        assert_eq!(of_name("", "*.bak"), Some(matching("/[^/]*\\.bak$")));
        assert_eq!(of_name("/up", "*.php"), Some(matching("^/up/(?:.*/)?[^/]*\\.php$")));
        assert_eq!(of_name_matching("", "^\\.ht"), Some(matching("/\\.ht[^/]*$")));
        assert_eq!(of_name_matching("", "\\.(bak|sql)$"), Some(matching("/[^/]*\\.(bak|sql)$")));
        assert_eq!(of_name_matching("", "^a|b$"), Some(matching("/(?:a[^/]*$|[^/]*b$)")));
        assert_eq!(of_name_matching("/u", "(?i)\\.php"), Some(matching("(?i)^/u/(?:.*/)?[^/]*\\.php[^/]*$")));
    }

    #[test]
    fn the_rest_of_a_path_is_captured() {
        assert_eq!(captured("/a/", "^/a/(?:.*/)?b$").as_deref(), Some("^/a/((?:.*/)?b)$"));
        assert_eq!(captured("/a/", "^/a/b\\$").as_deref(), Some("^/a/(b\\$.*)$"));
        assert_eq!(captured("/a/", "^/a/b|c"), None);
        assert_eq!(captured("/a/", "^/b"), None);
    }

    #[test]
    fn paths_of_a_directory_get_its_begin() {
        assert_eq!(in_directory("/", "^\\.git"), "^/\\.git");
        assert_eq!(in_directory("/sub/", "^old/(.*)$"), "^/sub/old/(.*)$");
        assert_eq!(in_directory("/", "^/?a"), "^/a");
        assert_eq!(in_directory("/", "\\.bak$"), "^/.*?\\.bak$");
        assert_eq!(in_directory("/", "^a(b|c)|[|]d"), "^/a(b|c)|^/.*?[|]d");
    }

    #[test]
    fn what_a_region_takes_of_a_route() {
        assert_eq!(share(&PathMatch::Any, &Region::All), Share::All);
        assert_eq!(share(&PathMatch::Any, &below("/a/")), Share::Part(begin("/a/")));
        assert_eq!(share(&begin("/a/b/"), &below("/a/")), Share::All);
        assert_eq!(share(&begin("/b/"), &below("/a/")), Share::Nothing);
        assert_eq!(share(&PathMatch::Exact("/a/x".to_owned()), &below("/a/")), Share::All);
        assert_eq!(share(&PathMatch::Any, &matching("\\.bak$")), part("\\.bak$"));
        assert_eq!(share(&begin("/a/"), &matching("/[^/]*\\.bak$")), part("^/a/(?:.*/)?[^/]*\\.bak$"));
        assert_eq!(share(&begin("/a/"), &matching("\\.svn|x")), part("^/a/.*?(?:\\.svn|x)"));
        assert_eq!(share(&begin("/a/"), &matching("^/a/b")), part("^/a/b"));
        assert_eq!(share(&begin("/a/"), &matching("^/b")), Share::Nothing);
        assert_eq!(share(&begin("/a/"), &matching("^/(a|b)/c")), Share::Unknown);
        assert_eq!(share(&PathMatch::Regex("^/a/.*x".to_owned()), &below("/a/")), Share::All);
        assert_eq!(share(&PathMatch::Regex("x$".to_owned()), &below("/a/")), Share::Begin("/a/".to_owned()));
    }
}
