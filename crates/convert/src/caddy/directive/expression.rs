//! Expressions of matchers (CEL): calls of matchers, and comparisons of placeholders with texts, with `&&`, `||` and `!`.

use super::matcher::conditions;
use crate::reach::{Condition, Sets, Test, opposite, product};

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    /// `{path}`
    Placeholder(String),
    Word(String),
    /// `&&`, `(`, …
    Sign(&'static str),
}

/// The sets of conditions; `None`: it has something else.
pub(super) fn parse(text: &str) -> Option<Sets> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens };
    let sets = parser.either()?;
    parser.tokens.is_empty().then_some(sets)
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let sign = ["&&", "||", "==", "!=", "(", ")", "[", "]", ",", "!", "."]
            .into_iter()
            .find(|sign| rest.starts_with(sign));
        rest = match (c, sign) {
            ('"' | '\'' | '`', _) => {
                let (inside, after) = rest.get(1..)?.split_once(c)?;
                // `\\.` of a text is `\.`.
                let is_escaped = c != '`' && inside.contains('\\');
                let inside = if is_escaped { inside.replace("\\\\", "\\") } else { inside.to_owned() };
                tokens.push(Token::Text(inside));
                after
            }
            ('{', _) => {
                let (inside, after) = rest.get(1..)?.split_once('}')?;
                tokens.push(Token::Placeholder(inside.to_owned()));
                after
            }
            (_, Some(sign)) => {
                tokens.push(Token::Sign(sign));
                rest.get(sign.len()..)?
            }
            (c, None) if c.is_ascii_alphabetic() => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                tokens.push(Token::Word(word.to_owned()));
                after
            }
            _ => return None,
        }
        .trim_start();
    }
    Some(tokens)
}

struct Parser<'a> {
    tokens: &'a [Token],
}

impl Parser<'_> {
    fn next(&mut self) -> Option<&Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.tokens.first(), Some(Token::Sign(next)) if *next == sign);
        if is_next {
            self.next();
        }
        is_next
    }

    fn either(&mut self) -> Option<Sets> {
        let mut sets = self.all()?;
        while self.takes("||") {
            sets.extend(self.all()?);
        }
        Some(sets)
    }

    fn all(&mut self) -> Option<Sets> {
        let mut sets = self.one()?;
        while self.takes("&&") {
            let more = self.one()?;
            sets = product(&sets, &more)?;
        }
        Some(sets)
    }

    fn one(&mut self) -> Option<Sets> {
        if self.takes("!") {
            return opposite(&self.one()?);
        }
        if self.takes("(") {
            let sets = self.either()?;
            return self.takes(")").then_some(sets);
        }
        match self.next()?.clone() {
            Token::Word(name) if self.takes("(") => {
                let args = self.texts(")")?;
                // Of two arguments, the first is a name.
                Some(vec![conditions(&name, &args)?])
            }
            Token::Placeholder(name) => {
                let before = self.tokens;
                if let Some(sets) = self.comparison(&name) {
                    return Some(sets);
                }
                // The rest of the expression says which requests it may be for.
                self.tokens = before;
                self.skip_comparison()
            }
            _ => None,
        }
    }

    /// Texts up to a closing sign.
    fn texts(&mut self, end: &str) -> Option<Vec<String>> {
        let mut texts = Vec::new();
        while let Some(Token::Text(text)) = self.tokens.first() {
            texts.push(text.clone());
            self.next();
            if !self.takes(",") {
                break;
            }
        }
        self.takes(end).then_some(texts)
    }

    /// `{vars.x} == "y"`
    fn skip_comparison(&mut self) -> Option<Sets> {
        let is_compared = self.takes("==") || self.takes("!=");
        let is_text = matches!(self.next(), Some(Token::Text(_) | Token::Placeholder(_)));
        (is_compared && is_text).then(|| vec![vec![Condition { test: Test::Unknown, negated: false }]])
    }

    /// `{path} == "/x"`, `{path}.startsWith("/x")`, `{method} in ["GET"]`.
    fn comparison(&mut self, name: &str) -> Option<Sets> {
        let name = name.trim_start_matches("http.request.").trim_start_matches("uri.");
        if self.takes(".") {
            let Some(Token::Word(call)) = self.next().cloned() else { return None };
            let args = if self.takes("(") { self.texts(")")? } else { return None };
            // Without case in Keepwarm's patterns would be another test.
            let [text] = args.as_slice() else { return None };
            let text = crate::model::escape(&crate::model::encoded(text));
            let expression = match (name, call.as_str()) {
                ("path", "startsWith") => format!("^{text}"),
                ("path", "endsWith") => format!("{text}$"),
                ("path", "contains") => text,
                _ => return None,
            };
            return Some(vec![vec![Condition {
                test: Test::Regex(String::new(), expression),
                negated: false,
            }]]);
        }
        let negated = self.takes("!=");
        let texts = match negated || self.takes("==") {
            true => match self.next()?.clone() {
                Token::Text(text) => vec![text],
                _ => return None,
            },
            false => {
                let is_in = matches!(self.next()?, Token::Word(word) if word == "in");
                if !is_in || !self.takes("[") {
                    return None;
                }
                self.texts("]")?
            }
        };
        if texts.is_empty() || texts.iter().any(|text| text.contains('*') || text.starts_with(['!', '~'])) {
            return None;
        }
        let test = match name {
            "method" => Test::Method(texts),
            "path" => {
                let escaped: Vec<String> =
                    texts.iter().map(|text| crate::model::escape(&crate::model::encoded(text))).collect();
                Test::Regex(String::new(), format!("^(?:{})$", escaped.join("|")))
            }
            "host" => Test::Value("host", String::new(), texts),
            "scheme" => match texts.as_slice() {
                [scheme] if matches!(scheme.as_str(), "http" | "https") => Test::Scheme(scheme.clone()),
                _ => return None,
            },
            // Only the first value of several counts there, so that these are no opposite of each other.
            _ => match name.strip_prefix("header.") {
                Some(header) if !texts.iter().any(String::is_empty) => {
                    Test::Value("header", header.to_owned(), texts)
                }
                _ => return None,
            },
        };
        Some(vec![vec![Condition { test, negated }]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_sets_of_conditions() {
        let sets = parse("path('/a/*') && (method('GET') || !header('X-A', \"b\"))").unwrap();
        assert_eq!(sets.len(), 2);
        assert_eq!(parse("{method} == 'PUT'").unwrap().len(), 1);
        assert!(parse("{method} in ['PUT', 'GET']").is_some());
        assert_eq!(parse("!(path('/a') && method('GET'))").unwrap().len(), 2);
        assert_eq!(parse("{vars.x} == 'x' && path('/a')").unwrap().concat().len(), 2);
        for unknown in ["path('/a') ? true : false", "path('/a'", "", "{path}.size() == 1"] {
            assert!(parse(unknown).is_none(), "{unknown}");
        }
    }
}
