//! What is wrong with a string, for those that read one.

use crate::checker::Checker;
use crate::raw::{Directive, Text};

/// What is wrong with a string, and what to write.
pub(crate) struct Fault {
    what: String,
    help: Option<String>,
}

impl Fault {
    pub(crate) fn new(what: impl Into<String>) -> Fault {
        Fault { what: what.into(), help: None }
    }

    /// What was said of a part, of the whole `text`.
    pub(crate) fn within(self, text: &str) -> Fault {
        Fault { what: format!("is `{text}`: {}", self.what), ..self }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Fault {
        self.help = Some(help.into());
        self
    }
}

/// What was read, or `None` after its fault has been given to `cx`.
pub(crate) fn settle<V>(
    read: Result<V, Fault>,
    text: &Text,
    at: &Directive,
    cx: &mut Checker<'_>,
) -> Option<V> {
    let fault = match read {
        Ok(value) => return Some(value),
        Err(fault) => fault,
    };
    let problem = if text.text.is_empty() {
        cx.wrong(at.span, "is an empty string")
    } else if text.secret {
        cx.wrong(at.span, "has an invalid value")
    } else {
        let problem = cx.wrong(at.span, &fault.what);
        match fault.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    };
    cx.push(problem);
    None
}

/// One string, or a list of at least one. `empty` is what to do in place of an empty list.
pub(crate) fn each<V>(
    directive: &Directive,
    cx: &mut Checker<'_>,
    empty: &str,
    read: fn(&str) -> Result<V, Fault>,
) -> Option<Vec<V>> {
    let items = cx.items(directive);
    if items.is_empty() {
        let problem = cx.wrong(directive.span, "is an empty list").help(empty);
        cx.push(problem);
        return None;
    }
    let mut values = Vec::with_capacity(items.len());
    for item in items.iter() {
        let value = cx.text(item).and_then(|text| settle(read(&text.text), text, item, cx));
        values.push(value);
    }
    values.into_iter().collect()
}
