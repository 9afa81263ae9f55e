//! Regular expressions over bytes.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};

/// A regular expression of the crate `regex`: it takes time in proportion to the text, whatever the pattern.
#[derive(Clone)]
pub struct RegularExpression {
    regex: Regex,
    /// The text that every match begins with, where it is anchored there.
    literal_prefix: Box<[u8]>,
    /// The text that every match ends with, where it is anchored there.
    literal_suffix: Box<[u8]>,
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
        Ok(Self {
            regex,
            literal_prefix: literal_prefix(pattern).as_bytes().into(),
            literal_suffix: literal_suffix(pattern).into(),
        })
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

    /// The text that every match ends with; empty if that is unknown.
    pub(crate) fn literal_suffix(&self) -> &[u8] {
        &self.literal_suffix
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

/// The letters, digits and escaped dots before a final `$`. A flag or an alternative anywhere makes it none.
fn literal_suffix(pattern: &str) -> Vec<u8> {
    // Such as `\x41`.
    let has_numbers = [r"\x", r"\u", r"\U"].iter().any(|escape| pattern.contains(escape));
    let has_flags = pattern.replace("(?:", "").replace("(?P<", "").replace("(?<", "").contains("(?");
    let Some(mut rest) =
        pattern.strip_suffix('$').filter(|_| !has_flags && !has_numbers && !pattern.contains('|'))
    else {
        return Vec::new();
    };
    let is_escaped = |before: &str| before.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1;
    let mut suffix = Vec::new();
    if is_escaped(rest) {
        return suffix;
    }
    while let Some(last) = rest.chars().next_back() {
        let before = rest.strip_suffix(last).unwrap_or_default();
        match (last, is_escaped(before)) {
            ('a'..='z' | 'A'..='Z' | '0'..='9' | '/' | '-' | '_', false) => rest = before,
            ('.', true) => rest = before.strip_suffix('\\').unwrap_or_default(),
            _ => break,
        }
        suffix.extend(u8::try_from(last));
    }
    suffix.reverse();
    suffix
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
    fn the_literal_suffix_is_part_of_every_match() {
        let cases = [
            ("^(.*)\\.shop\\.example$", ".shop.example"),
            ("[0-9]+abc$", "abc"),
            ("x*y$", "y"),
            ("\\dab$", "ab"),
            ("\\\\dab$", "dab"),
            (".a$", "a"),
            ("a\\$", ""),
            ("(ab)$", ""),
            ("a{2}$", ""),
            ("[ab]$", ""),
            ("(?i)ab$", ""),
            ("(?:x)ab$", "ab"),
            ("\\x41b$", ""),
            ("a|b$", ""),
            ("ab", ""),
        ];
        for (pattern, expected) in cases {
            assert_eq!(literal_suffix(pattern), expected.as_bytes(), "{pattern}");
        }
    }

    #[test]
    fn a_broken_or_huge_one_is_refused() {
        for pattern in ["(", "[z-a]", "(?:a{1000}){1000}"] {
            assert!(RegularExpression::new(pattern).is_err(), "{pattern}");
        }
    }
}
