use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::nearest::suggestion;
use crate::raw::{Directive, Value};

/// One of a few words, each with its value.
pub(crate) struct Words<E: 'static>(pub(crate) &'static [(&'static str, E)]);

impl<E: Sync> Words<E> {
    fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(word, _)| *word).collect()
    }
}

impl<E: Sync> Describe for Words<E> {
    fn description(&self) -> Description {
        let quoted: Vec<String> = self.names().iter().map(|word| format!("\"{word}\"")).collect();
        let expected = format!("one of {}", quoted.join(", "));
        Description::new(expected.clone(), expected, Json::words(self.names()))
    }
}

impl<E: Sync + Copy> Shape for Words<E> {
    type Out = E;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<E> {
        let text = cx.text(directive)?;
        let found = self.0.iter().find(|(word, _)| *word == text.text);
        if found.is_none() {
            let quoted = cx.quote(text);
            let help = suggestion(&text.text, self.names()).filter(|_| !text.secret);
            cx.wrong(directive.span, &format!("is {quoted}")).maybe_help(help).report(cx);
        }
        found.map(|(_, meaning)| *meaning)
    }
}

/// A string that is not empty, or a list of such strings.
pub(crate) struct Strings {
    /// "a glob"
    pub(crate) one: &'static str,
    /// "globs"
    pub(crate) many: &'static str,
    /// Whether the list may be empty.
    pub(crate) may_be_empty: bool,
    /// The problem of a string, if there is one.
    pub(crate) fault: fn(&str) -> Option<&'static str>,
}

impl Describe for Strings {
    fn description(&self) -> Description {
        Description::new(
            format!("{}, or a list of {}", self.one, self.many),
            "string or list of strings",
            Json::one_or_many(Json::of_type("string")),
        )
    }
}

impl Shape for Strings {
    type Out = Vec<String>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<String>> {
        let items = cx.items(directive);
        if items.is_empty() && !self.may_be_empty {
            return cx.wrong(directive.span, "is an empty list").reject(cx);
        }
        cx.read_items(directive, |item, cx| self.one_of(item, cx))
    }
}

impl Strings {
    fn one_of(&self, item: &Directive, cx: &mut Checker<'_>) -> Option<String> {
        if let (Value::Integer(_) | Value::Boolean(_), true) = (&item.value, self.may_be_empty) {
            return cx
                .wrong(item.span, &format!("contains {}", item.type_name()))
                .help(format!("write it in quotes: \"{}\"", cx.source_map.slice(item.span)))
                .reject(cx);
        }
        let text = cx.text(item)?;
        let fault = if text.text.is_empty() {
            Some("is an empty string")
        } else if text.text.contains('\0') {
            Some("contains a NUL byte")
        } else {
            (self.fault)(&text.text)
        };
        let Some(fault) = fault else { return Some(text.text.clone()) };
        cx.wrong(item.span, fault).reject(cx)
    }
}

/// One of a few words, or a list of them; repetitions are dropped.
pub(crate) struct WordList<E: 'static>(pub(crate) Words<E>);

impl<E: Sync> Describe for WordList<E> {
    fn description(&self) -> Description {
        Description::new(
            format!("{}, or a list of them", self.0.expected()),
            "word or list of words",
            Json::one_or_many(self.0.schema()),
        )
    }
}

impl<E: Sync + Copy + PartialEq> Shape for WordList<E> {
    type Out = Vec<E>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<E>> {
        let items = cx.items(directive);
        let read: Vec<Option<E>> = items.iter().map(|item| self.word(item, cx)).collect();
        let mut kept: Vec<E> = Vec::new();
        for word in read {
            let word = word?;
            if !kept.contains(&word) {
                kept.push(word);
            }
        }
        Some(kept)
    }
}

impl<E: Sync + Copy> WordList<E> {
    /// A word that is a number must be in quotes.
    fn word(&self, item: &Directive, cx: &mut Checker<'_>) -> Option<E> {
        if let Value::Integer(number) = item.value {
            return cx
                .wrong(item.span, "contains a whole number")
                .help(format!("write it in quotes: \"{number}\""))
                .reject(cx);
        }
        self.0.read(item, cx)
    }
}
