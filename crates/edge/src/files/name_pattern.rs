//! Patterns of file names: `*` and `?` within a part of a name, `**` across parts.

use regex_lite::Regex;

/// A pattern of file names.
#[derive(Debug, Clone)]
pub struct NamePattern {
    /// Linear in the length of a name.
    regex: Regex,
    /// It has no slash: it is compared with the last part of a name.
    is_of_last_part: bool,
}

impl NamePattern {
    /// The pattern, as the configuration has it.
    ///
    /// # Errors
    /// The pattern is too long.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let regex = Regex::new(&translate(pattern)).map_err(|error| error.to_string())?;
        Ok(Self { regex, is_of_last_part: !pattern.contains('/') })
    }

    /// Whether a file's name, relative to its directory, matches.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let last = || name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
        let name = if self.is_of_last_part { last() } else { name };
        self.regex.is_match(&String::from_utf8_lossy(name))
    }
}

/// As a regular expression.
fn translate(pattern: &str) -> String {
    let mut regex = String::from("(?s)^");
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let (piece, length) = match rest.as_bytes() {
            // `**/x` is `x` in any directory, or in none.
            [b'*', b'*', b'/', ..] => ("(?:.*/)?".to_owned(), 3),
            [b'*', b'*', ..] => (".*".to_owned(), 2),
            [b'*', ..] => ("[^/]*".to_owned(), 1),
            [b'?', ..] => ("[^/]".to_owned(), 1),
            _ => (regex_lite::escape(next.encode_utf8(&mut [0; 4])), next.len_utf8()),
        };
        regex.push_str(&piece);
        rest = rest.get(length..).unwrap_or_default();
    }
    regex.push('$');
    regex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_match() {
        for (pattern, name, expected) in [
            ("*.html", "a.html", true),
            ("*.html", "docs/a.html", true),
            ("*.html", "a.html.gz", false),
            ("*.html", ".html", true),
            ("docs/*.html", "docs/a.html", true),
            ("docs/*.html", "docs/b/a.html", false),
            ("docs/*.html", "a.html", false),
            ("docs/**", "docs/b/a.html", true),
            ("docs/**/a.html", "docs/b/c/a.html", true),
            ("docs/**/a.html", "docs/a.html", true),
            ("docs/**/a.html", "docs/ba.html", false),
            ("**/a.html", "a.html", true),
            ("?.js", "a.js", true),
            ("?.js", "ab.js", false),
            ("a?b/c", "a/b/c", false),
            ("ü?.js", "üé.js", true),
            ("a+b(1).js", "a+b(1).js", true),
            ("a.b", "axb", false),
            ("*", "anything\nat all", true),
            ("x", "y/x", true),
        ] {
            assert_eq!(
                NamePattern::new(pattern).unwrap().matches(name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    /// A pattern that takes a backtracking matcher minutes.
    #[test]
    fn time_is_linear() {
        let glob = NamePattern::new(&format!("{}b", "*a".repeat(20))).unwrap();
        assert!(!glob.matches("a".repeat(4000).as_bytes()));
    }
}
