use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::key::{Describe, join};
use crate::raw::{Directive, Span, Table, Text, Texts, Value, parse_loose};
use crate::report::Problem;
use crate::sources::{Found, Sources};

/// What a check works with: the outside, the texts, where it is, and what it has found so far.
pub(crate) struct Checker<'a> {
    pub(crate) sources: &'a dyn Sources,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) texts: Texts,
    /// Directory that relative paths count from; empty for the current one.
    pub(crate) base: String,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    frames: Vec<Frame>,
}

/// The key being read.
struct Frame {
    /// `app.NAME.workers`
    doc: String,
    /// `app.shop.workers`
    name: String,
    describe: &'static dyn Describe,
    right: &'static str,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(sources: &'a dyn Sources, base: String) -> Checker<'a> {
        Checker {
            sources,
            env: sources.env(),
            texts: Texts::default(),
            base,
            problems: Vec::new(),
            warnings: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Goes into a key: `doc` is its step in the documentation, `name` in this file.
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

    /// Goes into item `number` (from 1) of the present key.
    pub(crate) fn enter_item(&mut self, number: usize) {
        self.enter_within(|frame| (frame.doc.clone(), format!("{}[{number}]", frame.name)));
    }

    /// Goes into the section called `name` of the present key.
    pub(crate) fn enter_named(&mut self, name: &str) {
        self.enter_within(|frame| (format!("{}.NAME", frame.doc), format!("{}.{name}", frame.name)));
    }

    fn enter_within(&mut self, steps: impl FnOnce(&Frame) -> (String, String)) {
        let Some(frame) = self.frames.last() else { return };
        let (doc, name) = steps(frame);
        self.frames.push(Frame { doc, name, describe: frame.describe, right: frame.right });
    }

    pub(crate) fn leave(&mut self) {
        self.frames.pop();
    }

    /// Where we are, as `keepwarm explain` knows it.
    pub(crate) fn doc(&self) -> String {
        self.frames.last().map_or_else(String::new, |frame| frame.doc.clone())
    }

    /// Where we are, in this file.
    pub(crate) fn name(&self) -> String {
        self.frames.last().map_or_else(String::new, |frame| frame.name.clone())
    }

    /// A problem of the present key, to be completed and pushed.
    pub(crate) fn problem(&self, span: Span, message: impl Into<String>) -> Problem {
        Problem::new(message).at(self.texts.place(span)).key(self.doc())
    }

    /// "`app.shop.workers` …", with what the key wants.
    pub(crate) fn wrong(&self, span: Span, what: &str) -> Problem {
        let problem = self.problem(span, format!("`{}` {what}", self.name()));
        let Some(frame) = self.frames.last() else { return problem };
        let expected = frame.describe.expected();
        if frame.right.is_empty() || frame.right.contains('\n') {
            return problem.expected(expected);
        }
        problem.expected(format!("{expected}, for example {}", frame.right))
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(crate) fn warn(&mut self, problem: Problem) {
        self.warnings.push(problem);
    }

    /// Reports that a known thing is not served.
    pub(crate) fn not_served(&mut self, directive: &Directive, what: &str) {
        let problem = self
            .problem(directive.span, format!("{what} is not supported by this version yet"))
            .help("leave it out for now");
        self.push(problem);
    }

    /// Reports a value of the wrong type; silent when it was reported before.
    pub(crate) fn wrong_type(&mut self, directive: &Directive) {
        if !matches!(directive.value, Value::Broken) {
            let problem = self.wrong(directive.span, &format!("is {}", directive.type_name()));
            self.push(problem);
        }
    }

    /// The string this must be.
    pub(crate) fn text<'d>(&mut self, directive: &'d Directive) -> Option<&'d Text> {
        let Value::Text(text) = &directive.value else {
            self.wrong_type(directive);
            return None;
        };
        Some(text)
    }

    /// The list this must be; a single value that is no list counts as a list of one.
    pub(crate) fn items<'d>(&mut self, directive: &'d Directive) -> Cow<'d, [Directive]> {
        match &directive.value {
            Value::List(items) => Cow::Borrowed(items),
            Value::Text(text) if text.loose && text.text.trim_start().starts_with('[') => {
                match self.reread(directive, text).value {
                    Value::List(items) => Cow::Owned(items),
                    _ => Cow::Borrowed(std::slice::from_ref(directive)),
                }
            }
            _ => Cow::Borrowed(std::slice::from_ref(directive)),
        }
    }

    /// The table this must be.
    pub(crate) fn table<'d>(&mut self, directive: &'d Directive) -> Option<Cow<'d, Table>> {
        match &directive.value {
            Value::Table(table) => return Some(Cow::Borrowed(table)),
            // What a placeholder brought may be a secret, and so may not become keys, which messages show.
            Value::Text(text) if text.loose && !text.secret => {
                if let Value::Table(table) = self.reread(directive, text).value {
                    return Some(Cow::Owned(table));
                }
            }
            _ => {}
        }
        self.wrong_type(directive);
        None
    }

    /// A text from outside of the file as the TOML value it looks like, or as it was.
    pub(crate) fn reread(&self, directive: &Directive, text: &Text) -> Directive {
        let reread = text.loose.then(|| parse_loose(&text.text, directive.span)).flatten();
        let Some(mut value) = reread else { return directive.clone() };
        if text.secret {
            hide(&mut value, directive.span);
        }
        value
    }

    /// A text for a message, unless it may be a secret.
    pub(crate) fn quote(&self, text: &Text) -> String {
        if text.secret { "a hidden value".to_owned() } else { format!("`{}`", text.text) }
    }

    /// The path from the directory of the configuration.
    pub(crate) fn path(&self, path: &str) -> String {
        join_path(&self.base, path)
    }

    /// Whether the directory that is to hold `path` is there.
    pub(crate) fn has_parent(&self, path: &str) -> bool {
        let parent = match path.rsplit_once('/') {
            Some(("", _)) => "/",
            Some((parent, _)) => parent,
            None => ".",
        };
        self.sources.look(parent) == Found::Directory
    }
}

/// `path` from the directory `base`; an empty one is the current directory.
pub(crate) fn join_path(base: &str, path: &str) -> String {
    if base.is_empty() || path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}/{path}", base.trim_end_matches('/'))
}

/// Marks everything inside a filled-in value as standing where the placeholder stands, and as secret.
fn hide(directive: &mut Directive, span: Span) {
    directive.span = span;
    match &mut directive.value {
        Value::Text(text) => text.secret = true,
        Value::List(items) => items.iter_mut().for_each(|item| hide(item, span)),
        Value::Table(table) => {
            for entry in &mut table.entries {
                entry.key_span = span;
                hide(&mut entry.value, span);
            }
        }
        _ => {}
    }
}
