//! The syntax of HAProxy: sections, lines, words.

use crate::Error;
use crate::ledger::{Ledger, Origin};

#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) lines: Vec<Line>,
    /// The section `defaults` that it is `from`.
    pub(super) from: Option<String>,
    /// The lines of the section `defaults` that applies to it.
    pub(super) defaults: Vec<Line>,
    /// That section itself: its rules have conditions of its own, and come first.
    pub(super) around: Option<Box<Section>>,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) words: Vec<String>,
    pub(super) origin: Origin,
}

impl Line {
    pub(super) fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    pub(super) fn after(&self, index: usize) -> &[String] {
        self.words.get(index..).unwrap_or(&[])
    }
}

const KINDS: [&str; 16] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "resolvers",
    "peers",
    "mailers",
    "program",
    "http-errors",
    "ring",
    "log-forward",
    "cache",
    "fcgi-app",
    "crt-store",
];

pub(super) fn read(text: &str, file: &str, ledger: &mut Ledger) -> Result<Vec<Section>, Error> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let words = words(raw).map_err(|message| Error::at(file, index + 1, message))?;
        let Some(first) = words.first() else { continue };
        let origin = ledger.open(file, index + 1, &words.join(" "));
        if KINDS.contains(&first.as_str()) && !raw.starts_with([' ', '\t']) {
            let name = words.get(1).cloned().unwrap_or_default();
            if name.is_empty() && matches!(first.as_str(), "frontend" | "backend" | "listen") {
                return Err(Error::at(file, index + 1, format!("expected a name after `{first}`")));
            }
            let from = words.iter().position(|word| word == "from").and_then(|at| words.get(at + 1).cloned());
            sections.push(Section {
                kind: first.clone(),
                name,
                origin,
                lines: Vec::new(),
                from,
                defaults: Vec::new(),
                around: None,
            });
            continue;
        }
        match sections.last_mut() {
            Some(section) => section.lines.push(Line { words, origin }),
            None => {
                let message = format!("expected a section such as `frontend NAME`, found `{first}`");
                return Err(Error::at(file, index + 1, message));
            }
        }
    }
    inherit(&mut sections);
    Ok(sections)
}

/// A section has the lines of the `defaults` that it names, else of those before it; `defaults` have those they name.
fn inherit(sections: &mut [Section]) {
    let mut known: Vec<(String, Vec<Line>)> = Vec::new();
    for section in sections {
        let is_defaults = section.kind == "defaults";
        let found = match &section.from {
            Some(from) => known.iter().rfind(|(name, _)| name == from),
            None if is_defaults => None,
            None => known.last(),
        };
        section.defaults = found.map(|(_, lines)| lines.clone()).unwrap_or_default();
        section.around = (!is_defaults && found.is_some()).then(|| {
            Box::new(Section {
                kind: "defaults".to_owned(),
                name: String::new(),
                origin: section.origin,
                lines: section.defaults.clone(),
                from: None,
                defaults: Vec::new(),
                around: None,
            })
        });
        if is_defaults {
            let all = section.defaults.iter().chain(&section.lines).cloned().collect();
            known.push((section.name.clone(), all));
        }
    }
}

/// What follows a backslash; where it escapes nothing, it stays: `\\.` of an expression.
fn escaped(chars: &mut std::str::Chars<'_>, word: &mut String) {
    match chars.next() {
        Some(c) if c.is_whitespace() || "\\#'\"$".contains(c) => word.push(c),
        Some('t') => word.push('\t'),
        Some('n') => word.push('\n'),
        Some('r') => word.push('\r'),
        Some(c) => word.extend(['\\', c]),
        None => {}
    }
}

/// The words of a line; quotes as in a shell, `#` begins a comment.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_none() => break,
            c if c.is_whitespace() => words.extend(word.take()),
            '\\' => escaped(&mut chars, word.get_or_insert_default()),
            quote @ ('"' | '\'') => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err(format!("the {quote} is not closed")),
                        Some(c) if c == quote => break,
                        Some('\\') if quote == '"' => escaped(&mut chars, word),
                        Some(c) => word.push(c),
                    }
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}
