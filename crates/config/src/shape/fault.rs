//! What is wrong with a string, for those that read one.

use crate::checker::Checker;
use crate::raw::{Directive, Text};

/// What is wrong with a string, and what to write.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(super) what: String,
    pub(super) help: Option<String>,
}

impl Fault {
    pub(crate) fn new(what: impl Into<String>) -> Fault {
        Fault { what: what.into(), help: None }
    }

    /// What was said of a part, of the whole `text`.
    pub(crate) fn within(self, text: &str) -> Fault {
        Fault { what: format!("is `{text}`: {}", self.what), ..self }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Fault {
        Fault { help: Some(help.into()), ..self }
    }

    pub(crate) fn maybe_help(self, help: Option<String>) -> Fault {
        Fault { help, ..self }
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
        cx.wrong(at.span, &fault.what).maybe_help(fault.help)
    };
    problem.reject(cx)
}
