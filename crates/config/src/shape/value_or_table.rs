//! Keys that take a table, or a plain value as its short form.

use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{Section, Shape};
use crate::raw::{Directive, Table, Value};

/// A table of `section`, whose missing keys are those of `T::default()`.
pub(crate) struct TableShape<T: 'static> {
    pub(crate) section: &'static Section<T>,
    /// A check that involves several keys of the table; `false` after a problem was reported.
    pub(crate) check: fn(&T, &Table, &Directive, &mut Checker<'_>) -> bool,
}

/// The value of `plain`, or a table.
pub(crate) struct ValueOrTable<S: Shape, T: 'static> {
    pub(crate) plain: S,
    /// The table that the plain value stands for, or `None` after a problem was reported.
    pub(crate) from_plain: fn(S::Out, &Directive, &mut Checker<'_>) -> Option<T>,
    pub(crate) table: TableShape<T>,
}

impl<T> Describe for TableShape<T> {
    fn description(&self) -> Description {
        let names: Vec<&str> = self.section.keys.iter().map(|key| key.name).collect();
        Description::new(format!("a table {{ {} }}", names.join(", ")), "table", self.section.schema())
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        self.section.infos(path)
    }
}

impl<T: Default> Shape for TableShape<T> {
    type Out = T;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<T> {
        let table = cx.table(directive)?;
        let mut value = T::default();
        self.section.read(&mut value, &table, cx);
        (self.check)(&value, &table, directive, cx).then_some(value)
    }
}

impl<S: Shape, T> Describe for ValueOrTable<S, T> {
    fn description(&self) -> Description {
        Description::new(
            format!("{}, or {}", self.plain.expected(), self.table.expected()),
            format!("{} or table", self.plain.type_name()),
            Json::any(vec![self.plain.schema(), self.table.schema()]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        self.table.children(path)
    }
}

impl<S: Shape, T: Default> Shape for ValueOrTable<S, T> {
    type Out = T;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<T> {
        if is_table_like(directive) {
            return self.table.read(directive, cx);
        }
        let plain = self.plain.read(directive, cx)?;
        (self.from_plain)(plain, directive, cx)
    }
}

/// Whether the value is a table, or a text from outside of the file that looks like one.
pub(crate) fn is_table_like(directive: &Directive) -> bool {
    match &directive.value {
        Value::Table(_) => true,
        Value::String(text) => text.untyped && text.text.trim_start().starts_with('{'),
        _ => false,
    }
}

/// No check.
pub(crate) fn no_check<T>(_: &T, _: &Table, _: &Directive, _: &mut Checker<'_>) -> bool {
    true
}
