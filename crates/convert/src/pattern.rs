//! Patterns of paths, and what two of them have in common.
//!
//! Caddy compares paths without case; there, a `*` at one end is any text, and others stay within a segment.

use crate::model::{encoded, escape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`: one character but a slash.
    One,
    /// Any text without a slash.
    Segment,
    /// Any text.
    Any,
}

use Token::{Any, Char, One, Segment};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Token>);

/// More patterns than these are not written.
const LIMIT: usize = 24;

impl Pattern {
    /// `None`: it has something that paths in Keepwarm's form do not show, or a placeholder.
    pub(crate) fn parse(text: &str) -> Option<Pattern> {
        if text.contains(['%', '[', '\\', '{']) || text.contains("//") {
            return None;
        }
        let stars = text.matches('*').count();
        let is_text = (stars == 1 && (text.starts_with('*') || text.ends_with('*')))
            || (stars == 2 && text.len() > 2 && text.starts_with('*') && text.ends_with('*'));
        Some(Pattern(
            text.chars()
                .map(|c| match c {
                    '*' if is_text => Any,
                    '*' => Segment,
                    '?' if !is_text => One,
                    c => Char(c),
                })
                .collect(),
        ))
    }

    /// Paths whose last part has a `.`.
    pub(crate) fn with_extension() -> Pattern {
        Pattern(vec![Any, Char('.'), Segment])
    }

    /// Each `*` is any text.
    pub(crate) fn of_texts(text: &str) -> Pattern {
        Pattern(text.chars().map(|c| if c == '*' { Any } else { Char(c) }).collect())
    }

    /// With `*` for any text; `None`: it has other tokens.
    pub(crate) fn texts(&self) -> Option<String> {
        self.0
            .iter()
            .map(|token| match token {
                Char(c) => Some(*c),
                Any => Some('*'),
                One | Segment => None,
            })
            .collect()
    }

    /// One path.
    pub(crate) fn text(text: &str) -> Pattern {
        Pattern(text.chars().map(Char).collect())
    }

    /// Paths that begin with a text.
    pub(crate) fn beginning(text: &str) -> Pattern {
        Pattern(text.chars().map(Char).chain([Any]).collect())
    }

    /// Paths that end with a text.
    pub(crate) fn ending(text: &str) -> Pattern {
        Pattern(std::iter::once(Any).chain(text.chars().map(Char)).collect())
    }

    /// Paths that have a text somewhere.
    pub(crate) fn containing(text: &str) -> Pattern {
        Pattern(std::iter::once(Any).chain(text.chars().map(Char)).chain([Any]).collect())
    }

    /// Paths that begin with a text, and then have something else than a slash.
    pub(crate) fn longer(text: &str) -> Pattern {
        Pattern(text.chars().map(Char).chain([One, Any]).collect())
    }

    /// A name of a file or directory anywhere in a path, with all that is in it.
    pub(crate) fn named(name: &str) -> Option<Vec<Pattern>> {
        let own = Pattern::parse(&format!("/{name}"))?;
        let own: Vec<Token> =
            own.0.iter().map(|token| if *token == Any { Segment } else { *token }).collect();
        let end: Vec<Token> = std::iter::once(Any).chain(own).collect();
        let within: Vec<Token> = end.iter().copied().chain([Char('/'), Any]).collect();
        Some(vec![Pattern(end), Pattern(within)])
    }

    /// The pattern for paths with a text before them.
    pub(crate) fn after_text(&self, text: &str) -> Pattern {
        Pattern(text.chars().map(Char).chain(self.0.iter().copied()).collect())
    }

    /// The patterns for what may follow a text.
    pub(crate) fn rest_after(&self, text: &str) -> Vec<Pattern> {
        let mut rests = vec![self.0.clone()];
        for c in text.chars() {
            let mut next = Vec::new();
            rests.iter().for_each(|rest| step(rest, c, &mut next));
            next.dedup();
            rests = next;
        }
        rests.into_iter().map(Pattern).collect()
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.rest_after(text).iter().any(|rest| rest.0.iter().all(|token| matches!(token, Any | Segment)))
    }

    /// Whether it matches whatever the other one matches.
    pub(crate) fn covers(&self, other: &Pattern) -> bool {
        covers(&self.0, &other.0)
    }

    /// The patterns for what both match; `None`: there are too many.
    pub(crate) fn both(&self, other: &Pattern) -> Option<Vec<Pattern>> {
        let mut steps = 4000;
        let found = both(&self.0, &other.0, &mut steps)?;
        only_widest(found.into_iter().map(Pattern).collect())
    }

    /// As Keepwarm's own pattern; `None`: only an expression says it.
    pub(crate) fn glob(&self) -> Option<String> {
        let mut out = String::new();
        for token in &self.0 {
            match token {
                Char('*') | One | Segment => return None,
                Char(c) => out.push_str(&encoded(&c.to_string())),
                Any => out.push('*'),
            }
        }
        Some(out)
    }

    /// As a regular expression.
    pub(crate) fn expression(&self) -> String {
        let mut own = self.0.as_slice();
        let is_open = own.last() == Some(&Any);
        if let (Some((Any, before)), true) = (own.split_last(), is_open) {
            own = before;
        }
        let is_anchored = own.first() != Some(&Any);
        if let (Some((Any, rest)), false) = (own.split_first(), is_anchored) {
            own = rest;
        }
        let (start, end) = (if is_anchored { "^" } else { "" }, if is_open { "" } else { "$" });
        format!("{start}{}{end}", text(own))
    }

    /// As a regular expression whose group is what follows a text; `None`: it need not begin with it.
    pub(crate) fn expression_after(&self, before: &str) -> Option<String> {
        let length = before.chars().count();
        let begins = before.chars().zip(&self.0).all(|(c, token)| is_same(*token, Char(c)));
        let (before, rest) = self.0.split_at_checked(length).filter(|_| begins)?;
        Some(format!("^{}({})$", text(before), text(rest)))
    }

    pub(crate) fn has_letters(&self) -> bool {
        self.0.iter().any(|token| matches!(token, Char(c) if c.is_alphabetic()))
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.iter().all(|token| *token == Any) && !self.0.is_empty()
            || matches!(self.0.as_slice(), [Char('/'), Any])
    }
}

/// Those that no other one covers; `None`: too many.
pub(crate) fn only_widest(patterns: Vec<Pattern>) -> Option<Vec<Pattern>> {
    let mut kept: Vec<Pattern> = Vec::new();
    for pattern in patterns {
        if kept.iter().any(|known| known.covers(&pattern)) {
            continue;
        }
        kept.retain(|known| !pattern.covers(known));
        kept.push(pattern);
    }
    (kept.len() <= LIMIT).then_some(kept)
}

fn text(tokens: &[Token]) -> String {
    tokens
        .iter()
        .map(|token| match token {
            Char(c) => escape(&encoded(&c.to_string())),
            One => "[^/]".to_owned(),
            Segment => "[^/]*".to_owned(),
            Any => ".*".to_owned(),
        })
        .collect()
}

fn is_same(a: Token, b: Token) -> bool {
    match (a, b) {
        (Char(a), Char(b)) => a == b || a.to_lowercase().eq(b.to_lowercase()),
        (a, b) => a == b,
    }
}

fn step(pattern: &[Token], c: char, next: &mut Vec<Vec<Token>>) {
    let Some((first, rest)) = pattern.split_first() else { return };
    match first {
        Any | Segment => {
            if *first == Any || c != '/' {
                next.push(pattern.to_vec());
            }
            step(rest, c, next);
        }
        One if c != '/' => next.push(rest.to_vec()),
        Char(own) if is_same(Char(*own), Char(c)) => next.push(rest.to_vec()),
        One | Char(_) => {}
    }
}

fn covers(wide: &[Token], narrow: &[Token]) -> bool {
    match (wide.split_first(), narrow.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((Any, rest)), None) | (Some((Segment, rest)), None) => covers(rest, narrow),
        (Some((Any, rest)), Some((_, later))) => covers(rest, narrow) || covers(wide, later),
        (Some((Segment, rest)), Some((token, later))) => {
            covers(rest, narrow) || (!matches!(token, Char('/') | Any) && covers(wide, later))
        }
        (Some((One, rest)), Some((One, later))) => covers(rest, later),
        (Some((One, rest)), Some((Char(c), later))) => *c != '/' && covers(rest, later),
        (Some((Char(a), rest)), Some((Char(b), later))) => is_same(Char(*a), Char(*b)) && covers(rest, later),
        (Some((One | Char(_), _)), _) => false,
    }
}

fn both(a: &[Token], b: &[Token], steps: &mut usize) -> Option<Vec<Vec<Token>>> {
    *steps = steps.checked_sub(1)?;
    let mut found: Vec<Vec<Token>> = Vec::new();
    let mut with = |token: Option<Token>, more: Vec<Vec<Token>>| {
        for mut rest in more {
            if let Some(token) = token.filter(|token| *token != Any || rest.first() != Some(&Any)) {
                rest.insert(0, token);
            }
            if !found.contains(&rest) {
                found.push(rest);
            }
        }
    };
    match (a.split_first(), b.split_first()) {
        (None, None) => with(None, vec![Vec::new()]),
        (None, Some((Any | Segment, rest))) => with(None, both(a, rest, steps)?),
        (Some((Any | Segment, rest)), None) => with(None, both(rest, b, steps)?),
        (None, Some(_)) | (Some(_), None) => {}
        (Some((star @ (Any | Segment), more)), Some((other @ (Any | Segment), rest))) => {
            let token = if (star, other) == (&Any, &Any) { Any } else { Segment };
            with(Some(token), both(more, b, steps)?);
            with(Some(token), both(a, rest, steps)?);
        }
        (Some((star @ (Any | Segment), more)), Some((token, rest))) => {
            with(None, both(more, b, steps)?);
            if *star == Any || *token != Char('/') {
                with(Some(*token), both(a, rest, steps)?);
            }
        }
        (Some(_), Some((Any | Segment, _))) => return both(b, a, steps),
        (Some((One, more)), Some((token, rest))) | (Some((token, more)), Some((One, rest))) => {
            if *token != Char('/') {
                with(Some(*token), both(more, rest, steps)?);
            }
        }
        (Some((Char(c), more)), Some((Char(d), rest))) => {
            if is_same(Char(*c), Char(*d)) {
                with(Some(Char(*c)), both(more, rest, steps)?);
            }
        }
    }
    (found.len() <= LIMIT * 4).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    fn shown(patterns: &[Pattern]) -> Vec<String> {
        patterns.iter().map(|one| one.glob().unwrap_or_else(|| format!("~{}", one.expression()))).collect()
    }

    #[test]
    fn a_star_within_a_pattern_stays_in_its_segment() {
        assert!(pattern("/a/*/b").matches("/a/x/b"));
        assert!(!pattern("/a/*/b").matches("/a/x/y/b"));
        assert!(pattern("/a*").matches("/a/x/y"));
        assert!(pattern("/A*").matches("/a"));
        assert!(pattern("*.php").matches("/x/y.PHP"));
        assert_eq!(pattern("/a/*/b").expression(), "^/a/[^/]*/b$");
        assert_eq!(pattern("*/wp-*").expression(), "/wp\\-");
        assert_eq!(pattern("/*/wp-*").expression(), "^/[^/]*/wp\\-[^/]*$");
    }

    #[test]
    fn what_two_patterns_match() {
        for (a, b, expected) in [
            ("/a*", "/ab*", vec!["/ab*"]),
            ("/a/*", "/b/*", vec![]),
            ("/a/*", "*.php", vec!["/a/*.php"]),
            ("/a.p*", "*.php", vec!["/a.php", "/a.p*.php"]),
            ("/a", "/A", vec!["/a"]),
            ("*x*", "*y*", vec!["*y*x*", "*x*y*"]),
            ("/a/*/c", "/a/b*", vec!["/a/b/c", "~^/a/b[^/]*/c$"]),
        ] {
            let mut found = shown(&pattern(a).both(&pattern(b)).unwrap());
            found.retain(|one| !(one == "/a/b/c" && a == "/a/*/c"));
            let expected: Vec<String> =
                expected.into_iter().filter(|one| *one != "/a/b/c").map(str::to_owned).collect();
            assert_eq!(
                found.iter().collect::<std::collections::BTreeSet<_>>(),
                expected.iter().collect(),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn a_pattern_after_a_text() {
        assert_eq!(shown(&pattern("/a/b*").rest_after("/a")), ["/b*"]);
        assert!(pattern("/a/b*").rest_after("/x").is_empty());
        assert_eq!(shown(&pattern("/a*").rest_after("/a/")), ["*"]);
        assert_eq!(pattern("/a/*").expression_after("/a/").unwrap(), "^/a/(.*)$");
        assert_eq!(pattern("*.php").expression_after("/a/"), None);
    }
}
