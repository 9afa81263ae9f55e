//! Errors in strings, for the shapes that parse one.

use crate::checker::Checker;
use crate::raw::{Directive, Text};

/// An error in a string, and how to correct it.
#[derive(Debug)]
pub(crate) struct ValueError {
    pub(crate) what: String,
    pub(crate) help: Option<String>,
}

impl ValueError {
    pub(crate) fn new(what: impl Into<String>) -> ValueError {
        ValueError { what: what.into(), help: None }
    }

    /// The error of a part of `text`, as an error of the whole.
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

/// The value, or `None` after the error was reported. A text that may be secret is not quoted.
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
