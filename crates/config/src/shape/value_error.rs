//! What is wrong with a string, for those that read one.

use crate::checker::Checker;
use crate::raw::{Directive, Text};

/// What is wrong with a string, and what to write.
#[derive(Debug)]
pub(crate) struct ValueError {
    pub(super) what: String,
    pub(super) help: Option<String>,
}

impl ValueError {
    pub(crate) fn new(what: impl Into<String>) -> ValueError {
        ValueError { what: what.into(), help: None }
    }

    /// What was said of a part, of the whole `text`.
    pub(crate) fn within(self, text: &str) -> ValueError {
        ValueError { what: format!("is `{text}`: {}", self.what), ..self }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> ValueError {
        ValueError { help: Some(help.into()), ..self }
    }

    pub(crate) fn maybe_help(self, help: Option<String>) -> ValueError {
        ValueError { help, ..self }
    }
}

/// What was read, or `None` after its fault has been given to `cx`.
pub(crate) fn value_or_report<V>(
    read: Result<V, ValueError>,
    text: &Text,
    at: &Directive,
    cx: &mut Checker<'_>,
) -> Option<V> {
    let error = match read {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let problem = if text.text.is_empty() {
        cx.wrong(at.span, "is an empty string")
    } else if text.secret {
        cx.wrong(at.span, "has an invalid value")
    } else {
        cx.wrong(at.span, &error.what).maybe_help(error.help)
    };
    problem.reject(cx)
}
