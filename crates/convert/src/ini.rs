//! Files of `[section]` and `key = value`, with the line of each key.
//!
//! The dialects differ in comments and continued lines, and none of the usual crates reports lines.

use crate::Error;

/// How a dialect is read.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    /// A `;` after a space begins a comment within a line.
    pub(crate) inline_comments: bool,
    /// An indented line continues the value above it.
    pub(crate) continued: bool,
    /// Quotes around a value are removed.
    pub(crate) quotes: bool,
}

/// php.ini and php-fpm's pools.
pub(crate) const PHP: Dialect = Dialect { inline_comments: true, continued: false, quotes: true };
/// supervisord.conf, which Python's configparser reads.
pub(crate) const SUPERVISOR: Dialect = Dialect { inline_comments: true, continued: true, quotes: false };

#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) keys: Vec<Key>,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// Reads a file; keys before any section are an error.
pub(crate) fn read(text: &str, file: &str, dialect: Dialect) -> Result<Vec<Section>, Error> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let raw = raw.trim_start_matches('\u{feff}');
        let trimmed = raw.trim();
        if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
            continue;
        }
        let is_indented = raw.starts_with([' ', '\t']);
        let last = sections.last_mut().and_then(|section| section.keys.last_mut());
        if let (true, true, Some(key)) = (dialect.continued, is_indented, last) {
            key.value.push('\n');
            key.value.push_str(&value(trimmed, dialect));
            continue;
        }
        if let Some(rest) = trimmed.strip_prefix('[') {
            let Some((name, _)) = rest.split_once(']') else {
                return Err(Error::at(file, line, format!("expected `]` after `[{rest}`")));
            };
            sections.push(Section { name: name.trim().to_owned(), line, keys: Vec::new() });
            continue;
        }
        let separator = match dialect.continued {
            true => trimmed.find(['=', ':']),
            false => trimmed.find('='),
        };
        let Some(at) = separator else {
            return Err(Error::at(
                file,
                line,
                format!("expected `key = value` or `[section]`, found `{trimmed}`"),
            ));
        };
        let (name, rest) = trimmed.split_at(at);
        let Some(section) = sections.last_mut() else {
            return Err(Error::at(file, line, format!("expected `[section]` before `{}`", name.trim())));
        };
        let value = value(rest.get(1..).unwrap_or("").trim(), dialect);
        section.keys.push(Key { name: name.trim().to_owned(), value, line });
    }
    Ok(sections)
}

fn value(text: &str, dialect: Dialect) -> String {
    let is_quoted = text.starts_with('"') || text.starts_with('\'');
    if dialect.quotes && is_quoted {
        let quote = text.chars().next().unwrap_or('"');
        if let Some((inside, _)) = text.get(1..).and_then(|rest| rest.split_once(quote)) {
            return inside.to_owned();
        }
    }
    let text = match dialect.inline_comments {
        true if text.starts_with(';') => "",
        true => text.split_once(" ;").or_else(|| text.split_once("\t;")).map_or(text, |(before, _)| before),
        false => text,
    };
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_differ() {
        let text = "[a]\nk = \"x;y\" ; z\n  more = 1\n";
        let php = read(text, "f", PHP).unwrap();
        assert_eq!(php[0].keys[0].value, "x;y");
        assert_eq!(php[0].keys[1].line, 3);
        let supervisor = read(text, "f", SUPERVISOR).unwrap();
        assert_eq!(supervisor[0].keys[0].value, "\"x;y\"\nmore = 1");
    }

    #[test]
    fn errors_name_the_line() {
        for (text, message) in [
            ("[a\n", "f:1: expected `]` after `[a`"),
            ("[a]\nx\n", "f:2: expected `key = value` or `[section]`, found `x`"),
            ("a = 1\n", "f:1: expected `[section]` before `a`"),
        ] {
            assert_eq!(read(text, "f", PHP).unwrap_err().to_string(), message);
        }
    }
}
