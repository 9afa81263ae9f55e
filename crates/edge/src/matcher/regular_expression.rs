//! Regular expressions over bytes.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};

/// A regular expression of the crate `regex`: it takes time in proportion to the text, whatever the pattern.
#[derive(Clone)]
pub struct RegularExpression {
    regex: Regex,
    /// The text that every match begins with, where it is anchored there.
    literal_prefix: Box<[u8]>,
}

/// Memory of a compiled pattern. The default of the crate is ten times that; no pattern of a route comes near.
const SIZE_LIMIT: usize = 1 << 20;

impl RegularExpression {
    /// Compiles it. `.` matches every byte, also the end of a line and what is not UTF-8: a condition such as `!~^.*admin` must not fail to match
    /// because of a byte that a client adds.
    ///
    /// # Errors
    /// In words: it is not valid.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(pattern)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { regex, literal_prefix: literal_prefix(pattern).as_bytes().into() })
    }

    /// Whether it matches anywhere in the text.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// What each group stands for in the first match; nothing for one that took no part.
    pub(crate) fn captures(&self, text: &[u8]) -> Vec<Vec<u8>> {
        let Some(captures) = self.regex.captures(text) else { return Vec::new() };
        let text_of = |group: Option<regex::bytes::Match<'_>>| {
            group.map_or_else(Vec::new, |group| group.as_bytes().to_vec())
        };
        captures.iter().skip(1).map(text_of).collect()
    }

    /// The text that every match begins with; empty if that is unknown.
    #[must_use]
    pub fn literal_prefix(&self) -> &[u8] {
        &self.literal_prefix
    }
}

/// The letters, digits and other plain characters after a leading `^`. The last is left out where a repetition may follow; an alternative
/// anywhere makes it none. Less than a parser would find, and enough for an index.
fn literal_prefix(pattern: &str) -> &str {
    let Some(rest) = pattern.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return "" };
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '%' | '~' | '@' | ':');
    let end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
    let (plain, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
    match after.starts_with(['*', '?', '{']) {
        true => plain.get(..plain.len().saturating_sub(1)).unwrap_or(""),
        false => plain,
    }
}

impl PartialEq for RegularExpression {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }
}

impl Eq for RegularExpression {}

impl fmt::Display for RegularExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.regex.as_str())
    }
}

impl fmt::Debug for RegularExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_matches_every_byte() {
        let expression = RegularExpression::new("^.*admin$").unwrap();
        for text in [b"admin".as_slice(), b"\nadmin", b"\xffadmin", b"x\r\n\xc3admin"] {
            assert!(expression.matches(text), "{}", text.escape_ascii());
        }
        // RFC 3986 has no line ends; `$` is the end of the text and not the place before a last line end.
        assert!(!expression.matches(b"admin\n"));
    }

    #[test]
    fn the_literal_prefix_is_part_of_every_match() {
        let cases = [
            ("^/shop/items/[0-9]+$", "/shop/items/"),
            ("^/a/bc*", "/a/b"),
            ("^/a/b?", "/a/"),
            ("^/a/b{2}", "/a/"),
            ("^/a/b+", "/a/b"),
            ("^/a|^/b", ""),
            ("^/a/(b|c)", ""),
            ("/a/", ""),
            ("^/a\\.php", "/a"),
            ("^", ""),
            ("^(?i)/a", ""),
        ];
        for (pattern, expected) in cases {
            assert_eq!(literal_prefix(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_broken_or_huge_one_is_refused() {
        for pattern in ["(", "[z-a]", "(?:a{1000}){1000}"] {
            assert!(RegularExpression::new(pattern).is_err(), "{pattern}");
        }
    }
}
