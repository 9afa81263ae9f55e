//! What was said: directives with the place of each, before anyone asks whether they make sense.
//!
//! Rules of these files: they know TOML, includes, placeholders and variables; they know no key.

mod expand;
mod merge;
mod overrides;
mod parse;
mod text;

pub(crate) use expand::{Values, expand};
pub(crate) use merge::merge;
pub(crate) use overrides::{PREFIX, apply_overrides};
pub(crate) use parse::{parse_file, parse_loose};
pub(crate) use text::{Span, Texts};

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Text),
    /// Wider than any key takes, so that "too large" can be said of it.
    Integer(i128),
    Float,
    Flag(bool),
    Date,
    List(Vec<Directive>),
    Table(Table),
    /// Already complained about: whoever reads it stays silent.
    Broken,
}

#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// From a variable, an argument or a placeholder: where a number, a list or a table is wanted, the text is read as one.
    pub(crate) loose: bool,
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
    pub(crate) fn loose(text: &str, span: Span) -> Directive {
        let text = Text { text: text.to_owned(), loose: true, secret: false };
        Directive { value: Value::Text(text), span }
    }

    /// What it is, for "… is a list".
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) => "a whole number",
            Value::Float => "a number with a fraction",
            Value::Flag(_) => "a boolean",
            Value::Date => "a date or time of day",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Broken => "broken",
        }
    }
}
