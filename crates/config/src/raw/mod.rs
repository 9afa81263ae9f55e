//! The unchecked configuration: directives with their spans.
//!
//! Rules of these files: they know TOML, includes, placeholders and variables, but no keys.

mod expand;
mod merge;
mod overrides;
mod parse;
mod source_map;

pub(crate) use expand::{PlaceholderValues, expand};
pub(crate) use merge::merge;
pub(crate) use overrides::{PREFIX, apply_overrides};
pub(crate) use parse::{parse_file, parse_value};
pub(crate) use source_map::{SourceMap, Span};

/// A value with its span.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    String(Text),
    /// Wider than any key accepts, so that a number can be reported as too large.
    Integer(i128),
    Float,
    Boolean(bool),
    Datetime,
    Array(Vec<Directive>),
    Table(Table),
    /// The problem of this value was reported already, so readers do not report it again.
    Invalid,
}

#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// From a variable, an argument or a placeholder: read as TOML if the key expects a number, a list or a table.
    pub(crate) untyped: bool,
    /// The value of a placeholder, which messages never show.
    pub(crate) secret: bool,
}

/// A table, its entries in the order of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Directive,
}

impl Table {
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn entry_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }
}

impl Directive {
    /// A text from a variable or an argument.
    pub(crate) fn untyped(text: &str, span: Span) -> Directive {
        let text = Text { text: text.to_owned(), untyped: true, secret: false };
        Directive { value: Value::String(text), span }
    }

    /// The type of the value, for "… is a list".
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.value {
            Value::String(_) => "a string",
            Value::Integer(_) => "a whole number",
            Value::Float => "a number with a fraction",
            Value::Boolean(_) => "a boolean",
            Value::Datetime => "a date or time of day",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
            Value::Invalid => "broken",
        }
    }
}
