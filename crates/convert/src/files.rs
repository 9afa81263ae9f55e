//! Files of the configuration, perhaps of another machine's disk beneath a directory.

use std::path::{Component, Path, PathBuf};

use crate::Error;

/// Where files are.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The directory that stands for `/` of the machine whose configuration it is.
    pub root: Option<PathBuf>,
    /// The directory to which paths in the output are relative, where they can be.
    pub base: PathBuf,
}

impl Files {
    /// Where a path of the configuration is here.
    pub(crate) fn here(&self, path: &Path) -> PathBuf {
        match &self.root {
            Some(root) if path.is_absolute() && !path.starts_with(root) => {
                root.join(path.strip_prefix("/").unwrap_or(path))
            }
            _ => self.base.join(path),
        }
    }

    /// How a file is named to people.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let path = self.root.as_ref().and_then(|root| path.strip_prefix(root).ok()).map_or_else(
            || path.strip_prefix(&self.base).unwrap_or(path).to_path_buf(),
            |inside| Path::new("/").join(inside),
        );
        path.display().to_string()
    }

    pub(crate) fn read(&self, path: &Path) -> Result<String, Error> {
        let here = self.here(path);
        let bytes = std::fs::read(&here)
            .map_err(|error| Error::new(format!("{}: cannot be read: {error}", self.shown(path))))?;
        String::from_utf8(bytes)
            .map_err(|error| Error::new(format!("{}: is not UTF-8: {error}", self.shown(path))))
    }

    /// The files that a path with `*`, `?` and `[…]` names, in the order of their names.
    pub(crate) fn glob(&self, pattern: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        for part in pattern.components() {
            let text = part.as_os_str().to_string_lossy();
            let is_pattern = matches!(part, Component::Normal(_)) && text.contains(['*', '?', '[']);
            found = found.into_iter().flat_map(|start| self.step(start, part, &text, is_pattern)).collect();
        }
        found.retain(|path| self.here(path).is_file());
        found
    }

    fn step(&self, start: PathBuf, part: Component<'_>, text: &str, is_pattern: bool) -> Vec<PathBuf> {
        if !is_pattern {
            return vec![start.join(part)];
        }
        let Ok(entries) = self.here(&start).read_dir() else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| (!name.starts_with('.') || text.starts_with('.')) && matches(text, name))
            .collect();
        names.sort();
        names.into_iter().map(|name| start.join(name)).collect()
    }
}

/// Whether a name matches a pattern of the shell.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return name.is_empty() };
    let rest = pattern.get(first.len_utf8()..).unwrap_or("");
    let mut after = name.chars();
    let next = after.next();
    match first {
        '*' => matches(rest, name) || (next.is_some() && matches(pattern, after.as_str())),
        '?' => next.is_some() && matches(rest, after.as_str()),
        '[' => match (rest.split_once(']'), next) {
            (Some((class, rest)), Some(c)) => in_class(class, c) && matches(rest, after.as_str()),
            _ => false,
        },
        first => next == Some(first) && matches(rest, after.as_str()),
    }
}

fn in_class(class: &str, c: char) -> bool {
    let (negated, class) = match class.strip_prefix(['!', '^']) {
        Some(class) => (true, class),
        None => (false, class),
    };
    let chars: Vec<char> = class.chars().collect();
    let mut found = false;
    let mut at = 0;
    while let Some(&low) = chars.get(at) {
        match (chars.get(at + 1), chars.get(at + 2)) {
            (Some('-'), Some(&high)) => {
                found |= (low..=high).contains(&c);
                at += 3;
            }
            _ => {
                found |= low == c;
                at += 1;
            }
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name) in
            [("*.conf", "a.conf"), ("*", ""), ("[a-c]?", "b1"), ("[!a]*", "xyz"), ("a", "a")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.conf", "a.conf~"), ("?", ""), ("[a-c]", "d"), ("[!a]", "a"), ("a", "ab")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
