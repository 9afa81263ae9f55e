//! What was said: directives with the place of each, before anyone asks whether they make sense.
//!
//! Rules of these files: they know TOML, includes, placeholders and variables; they know no key.

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

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    String(Text),
    /// Wider than any key takes, so that "too large" can be said of it.
    Integer(i128),
    Float,
    Boolean(bool),
    Datetime,
    Array(Vec<Directive>),
    Table(Table),
    /// Already complained about: whoever reads it stays silent.
    Invalid,
}

#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// From a variable, an argument or a placeholder: where a number, a list or a table is wanted, the text is read as one.
    pub(crate) untyped: bool,
    /// Holds something that is not in the file: never shown.
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
    /// A text that a person typed outside of a file.
    pub(crate) fn untyped(text: &str, span: Span) -> Directive {
        let text = Text { text: text.to_owned(), untyped: true, secret: false };
        Directive { value: Value::String(text), span }
    }

    /// What it is, for "… is a list".
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
