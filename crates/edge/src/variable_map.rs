//! Variables that are looked up in a table by another text: `map`.
//!
//! An equal text comes first, then patterns with `*` (longer ones first), then regular expressions in their order, then the default: the order of nginx.
//! Case of ASCII letters does not count, except in regular expressions.
//!
//! A lookup costs the same with 10 and with 10,000 texts: they are hashed. Patterns that begin or end with a fixed text are found by it
//! ([`PatternIndex`]); all others are compared one by one.

mod pattern_index;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use keepwarm_serve::Request;

use self::pattern_index::PatternIndex;
use crate::matcher::{Glob, ValuePattern};
use crate::template::{Template, Values, Variable};

/// A table of values.
#[derive(Debug)]
pub struct VariableMap {
    /// What is looked up.
    source: Template,
    /// In lower case, each with the number of its value.
    exact: HashMap<Box<[u8]>, usize>,
    patterns: PatternIndex,
    values: Vec<Template>,
    default: Template,
}

impl VariableMap {
    /// A table of `values`; texts that match none of their patterns have the value `default`.
    #[must_use]
    pub fn new(source: Template, values: Vec<(ValuePattern, Template)>, default: Template) -> Self {
        let mut exact = HashMap::new();
        let (mut globs, mut expressions) = (Vec::new(), Vec::new());
        let mut templates = Vec::with_capacity(values.len());
        for (number, (pattern, value)) in values.into_iter().enumerate() {
            templates.push(value);
            match pattern {
                ValuePattern::Exact(text) => {
                    exact.entry(text.to_ascii_lowercase().into()).or_insert(number);
                }
                ValuePattern::Glob(glob) => {
                    globs.push((Glob::new(&glob.to_string().to_ascii_lowercase()), number));
                }
                ValuePattern::Regex(regex) => expressions.push((regex, number)),
            }
        }
        // Of patterns of equal length, the first.
        globs.sort_by_key(|(glob, _)| std::cmp::Reverse(glob.literal_length()));
        Self { source, exact, patterns: PatternIndex::new(globs, expressions), values: templates, default }
    }

    /// The value for a request, and what `$1` to `$9` in it are.
    pub(crate) fn value(&self, request: &Request) -> (&Template, Vec<Vec<u8>>) {
        let mut text = Vec::new();
        self.source.push(Values { request, captures: &[] }, &mut text);
        self.look_up(&text)
    }

    fn look_up(&self, text: &[u8]) -> (&Template, Vec<Vec<u8>>) {
        let folded = text.to_ascii_lowercase();
        if let Some(value) = self.exact.get(folded.as_slice()) {
            return (self.value_of(*value), Vec::new());
        }
        match self.patterns.find(text, &folded) {
            Some(found) => {
                let value = self.value_of(found.value());
                let captures = if value.uses_captures() { found.captures(text) } else { Vec::new() };
                (value, captures)
            }
            None => (&self.default, Vec::new()),
        }
    }

    fn value_of(&self, number: usize) -> &Template {
        self.values.get(number).unwrap_or(&self.default)
    }

    /// Whether one of its values, or of the maps in them, has this variable.
    pub(crate) fn has(&self, variable: &Variable) -> bool {
        self.values.iter().chain([&self.default]).any(|value| value.has(variable))
    }
}

/// A map is itself alone: two of the same content do not come up.
impl PartialEq for VariableMap {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for VariableMap {}
