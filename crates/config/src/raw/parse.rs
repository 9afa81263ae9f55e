//! TOML text to directives. The parser recovers, so that one syntax error does not hide the next.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Directive, Entry, SourceMap, Span, Table, Text, Value};
use crate::report::Problem;

/// A parsed file.
pub(crate) struct Document {
    pub(crate) table: Table,
    /// Syntax errors.
    pub(crate) problems: Vec<Problem>,
    /// No error except duplicate keys: the table is complete and can be checked.
    pub(crate) is_complete: bool,
}

/// Parses a file that is `source` in `source_map`.
pub(crate) fn parse_file(source_map: &SourceMap, source: usize, text: &str) -> Document {
    let (root, errors) = DeTable::parse_recoverable(text);
    let is_complete = errors.iter().all(|error| error.message() == DUPLICATE);
    let problems = errors.iter().map(|error| syntax_problem(source_map, source, text, error)).collect();
    let table = Converter { source, offset: 0 }.table(root.into_inner());
    Document { table, problems, is_complete }
}

/// Parses the text of a variable or an argument as a TOML value; `None` if it is not one.
pub(crate) fn parse_value(text: &str, span: Span) -> Option<Directive> {
    let line = format!("{VALUE_PREFIX}{text}");
    let parsed = DeTable::parse(&line).ok()?;
    // Spans of the line start before `x = `, those of the source at the value.
    let converter = Converter { source: span.source, offset: span.start };
    let mut table = converter.table(parsed.into_inner());
    if table.entries.len() > 1 {
        return None;
    }
    let mut value = table.entries.pop()?.value;
    shift(&mut value, VALUE_PREFIX.len());
    Some(value)
}

const VALUE_PREFIX: &str = "x = ";
const DUPLICATE: &str = "duplicate key";

struct Converter {
    source: usize,
    offset: usize,
}

impl Converter {
    fn table(&self, table: DeTable<'_>) -> Table {
        let mut entries: Vec<Entry> = table
            .into_iter()
            .map(|(key, value)| {
                let key_span = self.span(key.span());
                Entry { key: key.into_inner().into_owned(), key_span, value: self.directive(value) }
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_span.start);
        Table { entries }
    }

    fn directive(&self, value: Spanned<DeValue<'_>>) -> Directive {
        let span = self.span(value.span());
        let value = match value.into_inner() {
            DeValue::String(text) => {
                Value::String(Text { text: text.into_owned(), untyped: false, secret: false })
            }
            // A number above 128 bits is too large for every key.
            DeValue::Integer(number) => {
                Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX))
            }
            DeValue::Float(_) => Value::Float,
            DeValue::Boolean(flag) => Value::Boolean(flag),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(items) => {
                Value::Array(items.into_iter().map(|item| self.directive(item)).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table)),
        };
        Directive { value, span }
    }

    fn span(&self, range: std::ops::Range<usize>) -> Span {
        Span { source: self.source, start: self.offset + range.start, end: self.offset + range.end }
    }
}

/// Moves the spans of a value and everything in it `by` bytes to the left.
fn shift(directive: &mut Directive, by: usize) {
    let left = |span: &mut Span| {
        span.start = span.start.saturating_sub(by);
        span.end = span.end.saturating_sub(by);
    };
    left(&mut directive.span);
    match &mut directive.value {
        Value::Array(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Value::Table(table) => {
            for entry in &mut table.entries {
                left(&mut entry.key_span);
                shift(&mut entry.value, by);
            }
        }
        _ => {}
    }
}

/// An error of the parser as a problem.
fn syntax_problem(source_map: &SourceMap, source: usize, text: &str, error: &toml::de::Error) -> Problem {
    let range = error.span().unwrap_or(text.len()..text.len());
    let span = Span { source, start: range.start, end: range.end };
    if error.message() == DUPLICATE {
        return Problem::new(format!("`{}` is set a second time", source_map.slice(span).trim()))
            .at(source_map.location(span))
            .expected("each key and each [section] once")
            .help("remove one of the two");
    }
    let word = word_at(text, range.start);
    if let Some(straight) = straightened(word) {
        return Problem::new("TOML syntax error: curly quotes")
            .at(source_map.location(span))
            .expected("straight quotes: \" or '")
            .help(format!("write \"{straight}\""));
    }
    if is_address(word) {
        return Problem::new("TOML syntax error: an address without quotes")
            .at(source_map.location(span))
            .expected("the address in quotes")
            .help(format!("write \"{word}\""));
    }
    let (said, expected) = match error.message().split_once(", expected ") {
        // The parser has this message for everything that is not a value.
        Some(("string values must be quoted", _)) => {
            let empty = source_map.slice(span).trim().is_empty();
            (if empty { "the value is missing" } else { "text without quotes" }, Some(VALUES))
        }
        Some((said, expected)) => (said, Some(expected)),
        None => (error.message(), None),
    };
    let mut problem = Problem::new(format!("TOML syntax error: {said}")).at(source_map.location(span));
    problem.expected = expected.map(str::to_owned);
    if let Some(word) = bare_quantity(text, range.start) {
        problem = problem.help(format!("write times and sizes in quotes: \"{word}\""));
    }
    problem
}

const VALUES: &str = "\"text\", a number, true or false, a [list] or a { table }";

/// The word at `at`, up to a space, a comma or a bracket on either side.
fn word_at(text: &str, at: usize) -> &str {
    let ends = |c: char| c.is_whitespace() || ",=[]{}#".contains(c);
    let (Some(before), Some(after)) = (text.get(..at), text.get(at..)) else { return "" };
    let start = before
        .rfind(ends)
        .map_or(0, |found| found + before[found..].chars().next().map_or(1, char::len_utf8));
    let end = at + after.find(ends).unwrap_or(after.len());
    text.get(start..end).unwrap_or_default()
}

/// The text inside of curly quotes.
fn straightened(word: &str) -> Option<&str> {
    const CURLY: [char; 6] = ['“', '”', '„', '‘', '’', '‚'];
    word.starts_with(CURLY).then(|| word.trim_matches(CURLY))
}

/// `127.0.0.1:8080`, `0.0.0.0`, `localhost:8080`
fn is_address(word: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.parse::<u16>().is_ok();
    let is_name = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
    };
    word.parse::<std::net::IpAddr>().is_ok()
        || word.rsplit_once(':').is_some_and(|(host, port)| is_name(host) && is_port(port))
}

/// The word at `at` if it is a number with a unit, such as `30s`.
fn bare_quantity(text: &str, at: usize) -> Option<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let before = text.get(..at)?;
    let start = before.len() - before.chars().rev().take_while(|c| is_word(*c)).count();
    let rest = text.get(start..)?;
    let word = rest.get(..rest.find(|c| !is_word(c)).unwrap_or(rest.len()))?;
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let known = ["ms", "s", "m", "h", "B", "KiB", "MiB", "GiB"].contains(&unit);
    (known && unit.len() < word.len()).then_some(word)
}
