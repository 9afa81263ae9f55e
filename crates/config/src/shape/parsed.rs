//! Strings that one function reads.

use super::fault::{Fault, settle};
use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Shape};
use crate::raw::{Directive, Value};

/// A string that `read` makes something of.
pub(crate) struct Parsed<V> {
    pub(crate) expected: &'static str,
    pub(crate) type_name: &'static str,
    /// What a schema can say of it.
    pub(crate) pattern: &'static str,
    /// What to write in place of a bare number or flag, if that is known.
    pub(crate) bare: fn(&str) -> Option<String>,
    pub(crate) read: fn(&str) -> Result<V, Fault>,
}

/// One such string, or a list of at least one.
pub(crate) struct ParsedList<V> {
    pub(crate) one: Parsed<V>,
    /// What to do in place of an empty list.
    pub(crate) empty: &'static str,
}

impl<V> Describe for Parsed<V> {
    fn expected(&self) -> String {
        self.expected.to_owned()
    }

    fn type_name(&self) -> String {
        self.type_name.to_owned()
    }

    fn schema(&self) -> Json {
        Json::pattern(self.pattern)
    }
}

impl<V> Shape for Parsed<V> {
    type Out = V;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<V> {
        if let Value::Integer(_) | Value::Float | Value::Flag(_) = directive.value {
            let problem = cx.wrong(directive.span, &format!("is {}", directive.type_name()));
            let meant = (self.bare)(cx.texts.slice(directive.span));
            cx.push(match meant {
                Some(meant) => problem.help(format!("write \"{meant}\"")),
                None => problem,
            });
            return None;
        }
        let text = cx.text(directive)?;
        settle((self.read)(&text.text), text, directive, cx)
    }
}

impl<V> Describe for ParsedList<V> {
    fn expected(&self) -> String {
        format!("{}, or a list of them", self.one.expected)
    }

    fn type_name(&self) -> String {
        format!("{} or a list", self.one.type_name)
    }

    fn schema(&self) -> Json {
        Json::one_or_many(self.one.schema())
    }
}

impl<V> Shape for ParsedList<V> {
    type Out = Vec<V>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<V>> {
        let items = cx.items(directive);
        if items.is_empty() {
            let problem = cx.wrong(directive.span, "is an empty list").help(self.empty);
            cx.push(problem);
            return None;
        }
        let read: Vec<Option<V>> = items.iter().map(|item| self.one.read(item, cx)).collect();
        read.into_iter().collect()
    }
}

/// Nothing is known to be meant by a bare number.
pub(crate) fn no_bare(_: &str) -> Option<String> {
    None
}
