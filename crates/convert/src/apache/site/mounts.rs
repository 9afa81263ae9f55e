//! Which paths of the site lead to a directory.

use super::Mount;
use super::regions::{Region, alternatives, glob, is_anchored, of_location};
use crate::expression::check;
use crate::model::escape;

/// The paths of a directory, which may be a pattern of the shell, within a mount.
pub(super) fn of_directory(mount: &Mount, pattern: &str) -> Vec<Region> {
    let wanted: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
    let base: Vec<&str> = mount.directory.split('/').filter(|name| !name.is_empty()).collect();
    let is_like = |(pattern, name): (&&str, &&str)| {
        regex::bytes::Regex::new(&format!("^{}$", glob(pattern)))
            .is_ok_and(|regex| regex.is_match(name.as_bytes()))
    };
    if !wanted.iter().zip(&base).all(is_like) {
        return Vec::new();
    }
    let all = match mount.prefix.as_str() {
        "" => vec![Region::All],
        prefix => of_location(prefix),
    };
    match wanted.get(base.len()..) {
        None | Some([]) => all,
        Some(rest) => of_location(&format!("{}/{}", mount.prefix, rest.join("/"))),
    }
}

/// The same for a regular expression; `None`: which paths are its own is not known.
pub(super) fn of_directory_matching(mount: &Mount, pattern: &str) -> Option<Vec<Region>> {
    let checked = check(pattern, false).ok()?;
    let prefix = &mount.prefix;
    let dotted = mount.directory.replace('.', "\\.");
    let is_whole = checked.starts_with(&mount.directory) || checked.starts_with(&dotted);
    let Some(anchored) = checked.strip_prefix('^').or_else(|| is_whole.then_some(checked.as_str())) else {
        let is_plain = !is_anchored(&checked) && !begins_in(&mount.directory, &checked);
        let between = if checked.starts_with('/') { "(?:/.*)?" } else { "/.*?" };
        return match (is_plain, prefix.is_empty()) {
            (true, true) => Some(vec![Region::Matching(checked)]),
            (true, false) => Some(vec![Region::Matching(format!("^{}{between}{checked}", escape(prefix)))]),
            (false, _) => None,
        };
    };
    let rest = anchored.strip_prefix(&mount.directory).or_else(|| anchored.strip_prefix(&dotted));
    match rest {
        Some("" | "/" | "$" | "/$" | "/?$" | "(/|$)" | "(?:/|$)") => {
            Some(of_directory(mount, &mount.directory))
        }
        Some(rest) if rest.starts_with('/') && alternatives(rest).len() == 1 => {
            Some(vec![Region::Matching(format!("^{}{rest}", escape(prefix)))])
        }
        _ => match crate::expression::beginning(&checked) {
            // Of another directory.
            Some(begin) if !mount.directory.starts_with(&begin) && !begin.starts_with(&mount.directory) => {
                Some(Vec::new())
            }
            _ => None,
        },
    }
}

/// Whether what an expression finds can begin in the path of a directory, so that it is not in the rest of a path.
fn begins_in(directory: &str, pattern: &str) -> bool {
    if [".*", "(/", "(?:/"].iter().any(|begin| pattern.starts_with(begin)) && !directory.contains(pattern) {
        return false;
    }
    let begins = crate::expression::begins(pattern).unwrap_or_else(|| vec![String::new()]);
    let ends = || directory.char_indices().filter_map(|(at, _)| directory.get(at..));
    begins.iter().any(|begin| ends().any(|end| end.starts_with(begin.as_str()) || begin.starts_with(end)))
}

/// Where a directory is in the paths of the site: for rules that are written for one.
pub(crate) fn places(mounts: &[Mount], directory: &str) -> Vec<String> {
    let mut places = Vec::new();
    for mount in mounts {
        match of_directory(mount, directory).as_slice() {
            [Region::All] if directory.trim_end_matches('/') == mount.directory => {
                places.push("/".to_owned())
            }
            [.., Region::Below(begin)] if !directory.contains(['*', '?', '[']) => {
                let is_within = directory.trim_end_matches('/').starts_with(&mount.directory);
                places.extend(is_within.then(|| begin.clone()));
            }
            _ => {}
        }
    }
    places
}
