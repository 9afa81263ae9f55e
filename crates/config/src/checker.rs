//! The state of a check: the sources, the key that is read, and the problems found so far.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::description::{Describe, KeyInfo, join};
use crate::model::VariableMap;
use crate::raw::{Directive, Entry, SourceMap, Span, Table, Text, Value, parse_value};
use crate::report::Problem;
use crate::sources::{PathKind, Sources};

/// The state of a check.
pub(crate) struct Checker<'a> {
    pub(crate) sources: &'a dyn Sources,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) source_map: SourceMap,
    /// The directory that relative paths are resolved against; empty for the current directory.
    pub(crate) base: String,
    /// The keys of all sections, to find a misspelled one in another section. A function, because the list is rarely
    /// needed, and because it is made above this module.
    pub(crate) all_keys: fn() -> &'static [KeyInfo],
    /// The maps of the file, which are read before whatever uses them.
    pub(crate) maps: Vec<VariableMap>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    frames: Vec<Frame>,
}

/// A key that is being read.
struct Frame {
    /// `app.NAME.workers`
    doc: String,
    /// `app.shop.workers`
    name: String,
    describe: &'static dyn Describe,
    right: &'static str,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(
        sources: &'a dyn Sources,
        base: String,
        all_keys: fn() -> &'static [KeyInfo],
    ) -> Checker<'a> {
        Checker {
            sources,
            env: sources.env(),
            source_map: SourceMap::default(),
            base,
            all_keys,
            maps: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Enters a key: `doc` is its name in the documentation, `name` its name in the file.
    pub(crate) fn enter(
        &mut self,
        doc: &str,
        name: &str,
        describe: &'static dyn Describe,
        right: &'static str,
    ) {
        let doc = join(&self.doc(), doc);
        let name = join(&self.name(), name);
        self.frames.push(Frame { doc, name, describe, right });
    }

    /// Enters item `number` (from 1) of the current key.
    pub(crate) fn enter_item(&mut self, number: usize) {
        self.enter_within(|frame| (frame.doc.clone(), format!("{}[{number}]", frame.name)));
    }

    /// Enters the section `name` of the current key.
    pub(crate) fn enter_named(&mut self, name: &str) {
        self.enter_within(|frame| (format!("{}.NAME", frame.doc), format!("{}.{name}", frame.name)));
    }

    fn enter_within(&mut self, names: impl FnOnce(&Frame) -> (String, String)) {
        let Some(frame) = self.frames.last() else { return };
        let (doc, name) = names(frame);
        self.frames.push(Frame { doc, name, describe: frame.describe, right: frame.right });
    }

    pub(crate) fn leave(&mut self) {
        self.frames.pop();
    }

    /// The current key, as `keepwarm explain` knows it.
    pub(crate) fn doc(&self) -> String {
        self.frames.last().map_or_else(String::new, |frame| frame.doc.clone())
    }

    /// The current key, as the file names it.
    pub(crate) fn name(&self) -> String {
        self.frames.last().map_or_else(String::new, |frame| frame.name.clone())
    }

    /// A problem of the current key.
    pub(crate) fn problem(&self, span: Span, message: impl Into<String>) -> Problem {
        Problem::new(message).at(self.source_map.location(span)).key(self.doc())
    }

    /// "`app.shop.workers` …", with what the key expects.
    pub(crate) fn wrong(&self, span: Span, what: &str) -> Problem {
        let problem = self.problem(span, format!("`{}` {what}", self.name()));
        let Some(frame) = self.frames.last() else { return problem };
        let expected = frame.describe.expected();
        if frame.right.is_empty() || frame.right.contains('\n') {
            return problem.expected(expected);
        }
        problem.expected(format!("{expected}, for example {}", frame.right))
    }

    /// "`app.shop` has both `entry` and `command`", where the two exclude each other.
    pub(crate) fn both(&self, first: &Entry, second: &Entry) -> Problem {
        let message = format!("`{}` has both `{}` and `{}`", self.name(), first.key, second.key);
        self.problem(second.key_span, message)
            .related(self.source_map.location(first.key_span), "the other one")
    }

    /// "`listen.public` has no `bind`", which is required; `example` is a line that sets it.
    pub(crate) fn missing(&self, span: Span, example: &str) -> Problem {
        let key = example.split(' ').next().unwrap_or(example);
        self.problem(span, format!("`{}` has no `{key}`", self.name()))
            .expected(format!("`{key}`, for example {example}"))
    }

    /// Reports a value of the wrong type, unless that was done before.
    pub(crate) fn wrong_type<V>(&mut self, directive: &Directive) -> Option<V> {
        if !matches!(directive.value, Value::Invalid) {
            self.wrong(directive.span, &format!("is {}", directive.type_name())).report(self);
        }
        None
    }

    /// The string, or `None` after another type was reported.
    pub(crate) fn text<'d>(&mut self, directive: &'d Directive) -> Option<&'d Text> {
        match &directive.value {
            Value::String(text) => Some(text),
            _ => self.wrong_type(directive),
        }
    }

    /// The items of a list; a single value is a list of one.
    pub(crate) fn items<'d>(&mut self, directive: &'d Directive) -> Cow<'d, [Directive]> {
        match &directive.value {
            Value::Array(items) => Cow::Borrowed(items),
            Value::String(text) if text.untyped && text.text.trim_start().starts_with('[') => {
                match self.typed(directive).value {
                    Value::Array(items) => Cow::Owned(items),
                    _ => Cow::Borrowed(std::slice::from_ref(directive)),
                }
            }
            _ => Cow::Borrowed(std::slice::from_ref(directive)),
        }
    }

    /// What `read` returns for each item of a list, or `None` after the problems of all items were reported.
    pub(crate) fn read_items<V>(
        &mut self,
        directive: &Directive,
        read: impl Fn(&Directive, &mut Self) -> Option<V>,
    ) -> Option<Vec<V>> {
        let values: Vec<Option<V>> = self.items(directive).iter().map(|item| read(item, self)).collect();
        values.into_iter().collect()
    }

    /// Calls `read` within each item of a list of 1 to `most` items. A list of another length is reported.
    pub(crate) fn each_item(
        &mut self,
        directive: &Directive,
        most: usize,
        mut read: impl FnMut(&Directive, &mut Self),
    ) {
        let items = self.items(directive);
        let fault = match items.len() {
            0 => Some("is an empty list".to_owned()),
            count if count > most => Some(format!("has {count} items, more than {most}")),
            _ => None,
        };
        if let Some(fault) = fault {
            self.wrong(directive.span, &fault).report(self);
            return;
        }
        for (index, item) in items.iter().enumerate() {
            self.enter_item(index + 1);
            read(item, self);
            self.leave();
        }
    }

    /// The table, or `None` after another type was reported.
    pub(crate) fn table<'d>(&mut self, directive: &'d Directive) -> Option<Cow<'d, Table>> {
        match &directive.value {
            Value::Table(table) => return Some(Cow::Borrowed(table)),
            // The value of a placeholder may be secret: it must not become keys, which messages show.
            Value::String(text) if text.untyped && !text.secret => {
                if let Value::Table(table) = self.typed(directive).value {
                    return Some(Cow::Owned(table));
                }
            }
            _ => {}
        }
        self.wrong_type(directive)
    }

    /// A text from outside of the file as the TOML value that it looks like, if it looks like one.
    pub(crate) fn typed(&self, directive: &Directive) -> Directive {
        let Value::String(text) = &directive.value else { return directive.clone() };
        let typed = text.untyped.then(|| parse_value(&text.text, directive.span)).flatten();
        let Some(mut value) = typed else { return directive.clone() };
        if text.secret {
            hide(&mut value, directive.span);
        }
        value
    }

    /// A text for a message, hidden if it may be secret.
    pub(crate) fn quote(&self, text: &Text) -> String {
        if text.secret { "a hidden value".to_owned() } else { format!("`{}`", text.text) }
    }

    /// A path, resolved against the directory of the configuration.
    pub(crate) fn path(&self, path: &str) -> String {
        join_path(&self.base, path)
    }

    /// Whether the directory that contains `path` exists.
    pub(crate) fn has_parent(&self, path: &str) -> bool {
        let parent = match path.rsplit_once('/') {
            Some(("", _)) => "/",
            Some((parent, _)) => parent,
            None => ".",
        };
        self.sources.path_kind(parent) == PathKind::Directory
    }
}

impl Problem {
    /// Adds the problem to those found.
    pub(crate) fn report(self, cx: &mut Checker<'_>) {
        cx.problems.push(self);
    }

    /// Adds the problem to those found, and is the `None` of a value that cannot be used.
    pub(crate) fn reject<V>(self, cx: &mut Checker<'_>) -> Option<V> {
        self.report(cx);
        None
    }

    /// Adds the problem to the warnings.
    pub(crate) fn warn(self, cx: &mut Checker<'_>) {
        cx.warnings.push(self);
    }
}

/// `path`, resolved against the directory `base`, which is the current directory if it is empty.
pub(crate) fn join_path(base: &str, path: &str) -> String {
    if base.is_empty() || path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}/{path}", base.trim_end_matches('/'))
}

/// Marks the value of a placeholder as secret, and gives all of it the span of the placeholder.
fn hide(directive: &mut Directive, span: Span) {
    directive.span = span;
    match &mut directive.value {
        Value::String(text) => text.secret = true,
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, span)),
        Value::Table(table) => {
            for entry in &mut table.entries {
                entry.key_span = span;
                hide(&mut entry.value, span);
            }
        }
        _ => {}
    }
}
