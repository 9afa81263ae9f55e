//! Regular expressions of other tools (PCRE) as those of Keepwarm.

/// The expression as the `regex` crate reads it, over bytes; an error says why it cannot.
pub(crate) fn check(pattern: &str, ignore_case: bool) -> Result<String, String> {
    // Named groups of PCRE; `\/` is a slash, and `\-` a hyphen.
    let pattern =
        pattern.replace("\\/", "/").replace("(?P'", "(?P<").replace("\\Z", "$").replace("\\h", "[ \\t]");
    let pattern = if ignore_case { format!("(?i){pattern}") } else { pattern };
    let built = regex::bytes::RegexBuilder::new(&pattern)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(1 << 20)
        .build();
    match built {
        Ok(_) => Ok(pattern),
        Err(error) => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or("").trim_start_matches("error: ").to_owned();
            Err(format!("Keepwarm's regular expressions differ: {last}"))
        }
    }
}

/// An expression on decoded paths as one on paths as requests have them; `None`: it has such a character in a class.
pub(crate) fn encoded(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut in_class = false;
    let mut is_escaped = false;
    for c in pattern.chars() {
        let is_plain = c.is_ascii_graphic() && c != '"';
        match (is_plain, in_class) {
            (true, _) => {
                match c {
                    's' | 'S' if is_escaped => return None,
                    '[' if !is_escaped => in_class = true,
                    ']' if !is_escaped => in_class = false,
                    _ => {}
                }
                is_escaped = c == '\\' && !is_escaped;
                out.push(c);
            }
            (false, true) => return None,
            (false, false) => {
                if is_escaped {
                    out.pop();
                }
                is_escaped = false;
                let mut bytes = [0; 4];
                let text: String =
                    c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect();
                out.push_str(&format!("(?:{text})"));
            }
        }
    }
    Some(out)
}

/// The parts of an expression with one negative look-ahead, `A(?!B)C`: `AC`, and `AB`, which must not match.
pub(crate) fn without_look_ahead(pattern: &str) -> Option<(String, String)> {
    let (before, rest) = pattern.split_once("(?!")?;
    let mut depth = 1;
    let end = rest.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    let (inside, after) = (rest.get(..end)?, rest.get(end + 1..)?);
    if after.contains("(?!") || before.ends_with('\\') {
        return None;
    }
    Some((format!("{before}{after}"), format!("{before}(?:{inside})")))
}

/// The text that every match of an anchored expression begins with: `^/api/(.*)` begins with `/api/`.
pub(crate) fn beginning(pattern: &str) -> Option<String> {
    let rest = pattern.strip_prefix('^')?;
    let mut out = String::new();
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        let literal = match c {
            '\\' => match chars.next() {
                Some(c) if !c.is_ascii_alphanumeric() => c,
                _ => break,
            },
            c if ".+*?()|[]{}^$".contains(c) => break,
            c => c,
        };
        // A repeated character need not be there.
        if chars.peek().is_some_and(|next| "?*{".contains(*next)) {
            break;
        }
        out.push(literal);
    }
    // An alternative may begin otherwise.
    if rest.contains('|') && !rest.contains('(') { Some(String::new()) } else { Some(out) }
}

/// The texts of which each match of an expression begins with one; `None`: there are too many, or it is none.
pub(crate) fn begins(pattern: &str) -> Option<Vec<String>> {
    let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()?;
    let found = regex_syntax::hir::literal::Extractor::new().extract(&parsed);
    found.literals()?.iter().map(|literal| String::from_utf8(literal.as_bytes().to_vec()).ok()).collect()
}

/// The same for an expression that is anchored at its beginning; `None`: it is not, or there are too many.
pub(crate) fn anchored_begins(pattern: &str) -> Option<Vec<String>> {
    let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()?;
    let is_anchored = parsed.properties().look_set_prefix().contains(regex_syntax::hir::Look::Start);
    if is_anchored { begins(pattern) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_pcre() {
        assert_eq!(check("\\.(jpg|png)$", true).as_deref(), Ok("(?i)\\.(jpg|png)$"));
        assert_eq!(check("^/a\\/b", false).as_deref(), Ok("^/a/b"));
        assert!(check("^/(?!admin)", false).unwrap_err().contains("look-around"));
        assert!(check("(a", false).is_err());
    }

    #[test]
    fn expressions_on_decoded_paths() {
        assert_eq!(encoded("^/a b/[a-z]+$").as_deref(), Some("^/a(?:%20)b/[a-z]+$"));
        assert_eq!(encoded("^/a\\ b").as_deref(), Some("^/a(?:%20)b"));
        assert_eq!(encoded("/é\\.php$").as_deref(), Some("/(?:%C3%A9)\\.php$"));
        assert_eq!(encoded("^/[a b]"), None);
        assert_eq!(encoded("^/a\\sb"), None);
    }

    #[test]
    fn a_look_ahead_is_a_second_expression() {
        let parts = without_look_ahead("/\\.(?!well-known).*").unwrap();
        assert_eq!(parts, ("/\\..*".to_owned(), "/\\.(?:well-known)".to_owned()));
        assert_eq!(without_look_ahead("/a(?=b)"), None);
        assert_eq!(without_look_ahead("(?!a)(?!b)"), None);
    }

    #[test]
    fn the_texts_that_matches_begin_with() {
        assert_eq!(begins("/(a|b)c"), Some(vec!["/ac".to_owned(), "/bc".to_owned()]));
        assert_eq!(begins("/\\.git"), Some(vec!["/.git".to_owned()]));
        assert_eq!(begins("[^/]+x"), None);
        assert_eq!(begins("("), None);
        assert_eq!(anchored_begins("^/(a|b)c"), Some(vec!["/ac".to_owned(), "/bc".to_owned()]));
        assert_eq!(anchored_begins("^/a|b"), None);
        assert_eq!(anchored_begins("(?i)^/a").map(|begins| begins.len()), Some(2));
    }

    #[test]
    fn expressions_begin_with_a_text() {
        for (pattern, begin) in [
            ("^/api/(.*)$", Some("/api/")),
            ("^/a\\.b$", Some("/a.b")),
            ("^/ab?c", Some("/a")),
            ("^/a|^/b", Some("")),
            ("\\.php$", None),
        ] {
            assert_eq!(beginning(pattern).as_deref(), begin, "{pattern}");
        }
    }
}
