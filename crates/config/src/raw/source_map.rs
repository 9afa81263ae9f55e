use crate::report::Location;

/// The texts that the configuration was read from, with their names.
#[derive(Debug, Default)]
pub(crate) struct SourceMap {
    sources: Vec<SourceText>,
}

#[derive(Debug)]
struct SourceText {
    name: String,
    text: String,
    kind: SourceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceKind {
    /// A file, whose lines have numbers.
    File,
    /// A variable or an argument.
    Value,
    /// A file of secrets: its lines have numbers, but their text is not shown.
    SecretFile,
}

/// Bytes `start..end` of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) source: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl SourceMap {
    pub(crate) fn add_file(&mut self, name: &str, text: String) -> usize {
        self.add(name.to_owned(), text, SourceKind::File)
    }

    /// A file whose text must not appear in a message.
    pub(crate) fn add_secrets(&mut self, name: &str, text: String) -> usize {
        self.add(name.to_owned(), text, SourceKind::SecretFile)
    }

    /// An environment variable; the span is that of its value.
    pub(crate) fn add_variable(&mut self, name: &str, value: &str) -> Span {
        self.add_single(format!("${name}"), format!("{name}="), value)
    }

    /// An argument of the command line; the span is that of its value.
    pub(crate) fn add_argument(&mut self, option: &str, value: &str) -> Span {
        self.add_single("command line".to_owned(), option.to_owned(), value)
    }

    fn add_single(&mut self, name: String, lead: String, value: &str) -> Span {
        let start = lead.len();
        let text = lead + value;
        let end = text.len();
        Span { source: self.add(name, text, SourceKind::Value), start, end }
    }

    fn add(&mut self, name: String, text: String, kind: SourceKind) -> usize {
        self.sources.push(SourceText { name, text, kind });
        self.sources.len() - 1
    }

    /// The name of the environment variable that contains a span, if one does.
    pub(crate) fn variable(&self, span: Span) -> Option<&str> {
        self.sources.get(span.source)?.name.strip_prefix('$')
    }

    /// The text of a span.
    pub(crate) fn slice(&self, span: Span) -> &str {
        let source = self.sources.get(span.source);
        source.and_then(|source| source.text.get(span.start..span.end)).unwrap_or("")
    }

    /// The location of a source whose text cannot be read.
    pub(crate) fn unreadable(name: &str) -> Location {
        Location {
            source: name.to_owned(),
            line: 0,
            column: 0,
            text: String::new(),
            width: 1,
            order: (0, 0),
            numbered: true,
        }
    }

    /// Line, column and text of a span.
    pub(crate) fn location(&self, span: Span) -> Location {
        let Some(source) = self.sources.get(span.source) else {
            return Location { order: (span.source, 0), ..SourceMap::unreadable("") };
        };
        let text = source.text.as_str();
        let start = span.start.min(text.len());
        let before = text.get(..start).unwrap_or(text);
        let from = before.rfind('\n').map_or(0, |at| at + 1);
        let to = text.get(start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| start + at);
        let line = text.get(from..to).unwrap_or("").trim_end_matches('\r');
        let marked = text.get(start..span.end.clamp(start, to)).unwrap_or("");
        Location {
            source: source.name.clone(),
            line: before.matches('\n').count() + 1,
            column: before.get(from..).unwrap_or("").chars().count() + 1,
            text: if source.kind == SourceKind::SecretFile { String::new() } else { line.to_owned() },
            width: marked.trim_end().chars().count().max(1),
            order: (span.source, span.start),
            numbered: source.kind != SourceKind::Value,
        }
    }
}

impl Span {
    /// The part of this span that begins `offset` bytes in and is `length` long.
    pub(crate) fn part(self, offset: usize, length: usize) -> Span {
        let start = (self.start + offset).min(self.end);
        Span { source: self.source, start, end: (start + length).min(self.end) }
    }
}
