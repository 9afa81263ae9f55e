//! Patterns with `*`.

use std::fmt;

use memchr::memmem::Finder;

/// A pattern in which each `*` stands for any bytes, also none and also `/`. Matching takes time in proportion to the text.
#[derive(Debug, Clone)]
pub struct Glob {
    /// As configured.
    text: Box<str>,
    /// The text before the first `*`.
    front: Box<[u8]>,
    /// The texts between two `*`.
    middle: Box<[Finder<'static>]>,
    /// The text after the last `*`.
    back: Box<[u8]>,
}

impl Glob {
    /// A pattern with at least one `*`; without any, `*` is added at its end.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let bytes = |text: &str| text.as_bytes().into();
        let (front, rest) = text.split_once('*').unwrap_or((text, ""));
        let (middle, back) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|piece| !piece.is_empty());
        Self {
            text: text.into(),
            front: bytes(front),
            middle: middle.map(|piece| Finder::new(piece).into_owned()).collect(),
            back: bytes(back),
        }
    }

    /// Whether the whole text matches.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        let Some(mut rest) = text.strip_prefix(&*self.front).and_then(|rest| rest.strip_suffix(&*self.back))
        else {
            return false;
        };
        // The first place of each text leaves the most for those after it.
        for piece in &self.middle {
            let Some(at) = piece.find(rest) else { return false };
            rest = rest.get(at + piece.needle().len()..).unwrap_or_default();
        }
        true
    }

    /// What each `*` stands for in a text that matches: as little as possible for each but the last.
    pub(crate) fn captures(&self, text: &[u8]) -> Vec<Vec<u8>> {
        let mut captures = Vec::new();
        let Some(mut rest) = text.strip_prefix(&*self.front).and_then(|rest| rest.strip_suffix(&*self.back))
        else {
            return captures;
        };
        // Between two `*` that touch there is an empty text, which stands at once.
        let texts: Vec<&str> = self.text.split('*').collect();
        for piece in texts.iter().skip(1).take(texts.len().saturating_sub(2)) {
            let at = memchr::memmem::find(rest, piece.as_bytes()).unwrap_or(0);
            captures.push(rest.get(..at).unwrap_or_default().to_vec());
            rest = rest.get(at + piece.len()..).unwrap_or_default();
        }
        captures.push(rest.to_vec());
        captures
    }

    /// As [`Self::captures`], for a text that matches in lower case; the pattern is in lower case.
    pub(crate) fn captures_ignoring_case(&self, text: &[u8]) -> Vec<Vec<u8>> {
        let mut captures = self.captures(&text.to_ascii_lowercase());
        let mut at = self.front.len();
        let between = self.text.split('*').skip(1).map(str::len);
        for (capture, after) in captures.iter_mut().zip(between) {
            let end = at + capture.len();
            *capture = text.get(at..end).unwrap_or_default().to_vec();
            at = end + after;
        }
        captures
    }

    /// The text that every match begins with.
    #[must_use]
    pub fn literal_prefix(&self) -> &[u8] {
        &self.front
    }

    /// The text that every match ends with.
    pub(crate) fn literal_suffix(&self) -> &[u8] {
        &self.back
    }

    /// Bytes that are not `*`.
    pub(crate) fn literal_length(&self) -> usize {
        self.text.bytes().filter(|&byte| byte != b'*').count()
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Glob {}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_star_stands_for_any_bytes() {
        let cases = [
            ("*", "", true),
            ("*", "any/thing", true),
            ("*.php", "/a/b.php", true),
            ("*.php", ".php", true),
            ("*.php", "/a.php/b", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/b/b/c", true),
            ("/a/*/c", "/a//c", true),
            ("/a/*/c", "/a/c", false),
            ("/a*", "/a", true),
            ("/a*a", "/a", false),
            ("/a*a", "/aa", true),
            ("*b*", "abc", true),
            ("*b*", "ac", false),
            ("**", "", true),
            ("a**b", "ab", true),
            ("a*b*c*d", "abcd", true),
            ("a*b*c*d", "acbd", false),
            ("a*bc*c", "abcbc", true),
            ("a*bc*bc", "abc", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Glob::new(pattern).matches(text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn each_star_is_captured() {
        let cases: [(&str, &str, &[&str]); 5] = [
            ("/a/*", "/a/b/c", &["b/c"]),
            ("*.php", "/x.php.php", &["/x.php"]),
            ("/*/to/*/x", "/a/to/b/to/c/x", &["a", "b/to/c"]),
            ("a**b", "axyb", &["", "xy"]),
            ("*", "", &[""]),
        ];
        for (pattern, text, expected) in cases {
            let captures = Glob::new(pattern).captures(text.as_bytes());
            assert_eq!(
                captures,
                expected.iter().map(|text| text.as_bytes()).collect::<Vec<_>>(),
                "{pattern}"
            );
        }
    }

    /// The naive definition, over every short text of two letters.
    #[test]
    fn it_agrees_with_the_naive_definition() {
        fn naive(pattern: &[u8], text: &[u8]) -> bool {
            match pattern {
                [] => text.is_empty(),
                [b'*', rest @ ..] => (0..=text.len()).any(|at| naive(rest, &text[at..])),
                [byte, rest @ ..] => text.first() == Some(byte) && naive(rest, &text[1..]),
            }
        }
        let words = |letters: &[u8], length: u32| {
            (0..letters.len().pow(length))
                .map(|mut number| {
                    (0..length)
                        .map(|_| {
                            let letter = letters[number % letters.len()];
                            number /= letters.len();
                            letter
                        })
                        .collect::<Vec<u8>>()
                })
                .collect::<Vec<_>>()
        };
        let texts: Vec<_> = (0..6).flat_map(|length| words(b"ab", length)).collect();
        for pattern in (1..6).flat_map(|length| words(b"ab*", length)).filter(|word| word.contains(&b'*')) {
            let glob = Glob::new(std::str::from_utf8(&pattern).unwrap());
            for text in &texts {
                assert_eq!(glob.matches(text), naive(&pattern, text), "{glob} {text:?}");
            }
        }
    }
}
