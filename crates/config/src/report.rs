//! What is wrong, where, what was expected, and what to do: built by the checks, rendered here.

use std::fmt;

/// Everything that is wrong with a configuration, in the order of the sources.
///
/// `Display` is plain text; [`Report::coloured`] adds ANSI colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    problems: Vec<Problem>,
}

/// Something to know that does not stop the configuration from being used. `Display` as [`Report`]'s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    problem: Problem,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, in one line.
    pub message: String,
    /// The key it is about, as `keepwarm explain` knows it: `app.NAME.workers`.
    pub key: Option<String>,
    /// Where.
    pub place: Option<Place>,
    /// What would have been right.
    pub expected: Option<String>,
    /// What to do, the likeliest first.
    pub help: Vec<String>,
    /// Other places that have a part in it, each with what it is.
    pub related: Vec<(Place, String)>,
}

/// A place in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// A file's path, `$VARIABLE`, or `command line`.
    pub source: String,
    /// Line, from 1. 0: the source as a whole (it could not be read).
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The text of the line.
    pub text: String,
    /// Characters marked, from `column`; at least 1.
    pub width: usize,
    /// Position of the source among the sources, and of the place in it: what the report is sorted by.
    pub(crate) order: (usize, usize),
    /// Characters of a text line before the column, where the shown line has a prefix of ours (`NAME=` of a variable).
    pub(crate) numbered: bool,
}

impl Report {
    /// A report of problems, of which there is at least one.
    pub(crate) fn of(mut problems: Vec<Problem>) -> Report {
        problems.sort_by_key(|problem| problem.place.as_ref().map(|place| place.order));
        problems.dedup();
        Report { problems }
    }

    /// The problems, in the order of the sources; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The report with ANSI colours when `yes`.
    pub fn coloured(&self, yes: bool) -> impl fmt::Display + '_ {
        Rendered { problems: &self.problems, kind: "error", paint: Paint::new(yes) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.coloured(false).fmt(f)
    }
}

impl std::error::Error for Report {}

impl Warning {
    pub(crate) fn new(problem: Problem) -> Warning {
        Warning { problem }
    }

    /// What it is about.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The warning with ANSI colours when `yes`.
    pub fn coloured(&self, yes: bool) -> impl fmt::Display + '_ {
        Rendered { problems: std::slice::from_ref(&self.problem), kind: "warning", paint: Paint::new(yes) }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.coloured(false).fmt(f)
    }
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            key: None,
            place: None,
            expected: None,
            help: Vec::new(),
            related: Vec::new(),
        }
    }

    pub(crate) fn at(mut self, place: Place) -> Problem {
        self.place = Some(place);
        self
    }

    pub(crate) fn key(mut self, key: impl Into<String>) -> Problem {
        self.key = Some(key.into());
        self
    }

    pub(crate) fn expected(mut self, expected: impl Into<String>) -> Problem {
        self.expected = Some(expected.into());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Problem {
        self.help.push(help.into());
        self
    }

    pub(crate) fn maybe_help(self, help: Option<impl Into<String>>) -> Problem {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    pub(crate) fn related(mut self, place: Place, what: impl Into<String>) -> Problem {
        self.related.push((place, what.into()));
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.numbered) {
            (0, _) | (_, false) => Plain(&self.source).fmt(f),
            (line, true) => write!(f, "{}:{line}:{}", Plain(&self.source), self.column),
        }
    }
}

/// A text that may quote a file: what would speak to the terminal, or begin a new line of a log, is escaped.
struct Plain<'a>(&'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for c in self.0.chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

struct Rendered<'a> {
    problems: &'a [Problem],
    kind: &'static str,
    paint: Paint,
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            self.problem(f, problem)?;
        }
        Ok(())
    }
}

impl Rendered<'_> {
    fn problem(&self, f: &mut fmt::Formatter<'_>, problem: &Problem) -> fmt::Result {
        let Paint { bold, loud, quiet, off } = &self.paint;
        if let Some(place) = &problem.place {
            write!(f, "{bold}{place}:{off} ")?;
        }
        writeln!(f, "{loud}{}:{off} {bold}{}{off}", self.kind, Plain(&problem.message))?;
        let gutter = problem.gutter();
        if let Some(place) = &problem.place {
            self.snippet(f, place, gutter)?;
        }
        for (place, what) in &problem.related {
            writeln!(f, "{:gutter$} {quiet}::{off} {place}: {}", "", Plain(what))?;
            self.snippet(f, place, gutter)?;
        }
        if let Some(expected) = &problem.expected {
            writeln!(f, "{:gutter$} {quiet}={off} expected: {}", "", Plain(expected))?;
        }
        for help in &problem.help {
            writeln!(f, "{:gutter$} {quiet}={off} help: {}", "", Plain(help))?;
        }
        Ok(())
    }

    fn snippet(&self, f: &mut fmt::Formatter<'_>, place: &Place, gutter: usize) -> fmt::Result {
        // Nothing could be read, or it must not be shown.
        if place.line == 0 || place.text.is_empty() {
            return Ok(());
        }
        let Paint { loud, quiet, off, .. } = &self.paint;
        let number = if place.numbered { place.line.to_string() } else { String::new() };
        let (text, indent, width) = window(place);
        writeln!(f, "{quiet}{number:>gutter$} |{off} {text}")?;
        writeln!(f, "{:gutter$} {quiet}|{off} {:indent$}{loud}{:^<width$}{off}", "", "", "")
    }
}

impl Problem {
    /// Characters of the widest line number shown.
    fn gutter(&self) -> usize {
        let places = self.place.iter().chain(self.related.iter().map(|(place, _)| place));
        places.map(|place| place.line.to_string().len()).max().unwrap_or(1).max(3)
    }
}

/// The part of a line that is shown (long ones are cut around the mark), the mark's indent and its width.
fn window(place: &Place) -> (String, usize, usize) {
    let start = place.column.saturating_sub(1);
    let total = place.text.chars().count();
    let (from, lead) = if start > SHOWN / 2 && total > SHOWN { (start - SHOWN / 4, "…") } else { (0, "") };
    let mut text: String = lead.to_owned();
    // Control characters would move the caret (tab) or speak to the terminal (escape): one blank for each.
    text.extend(place.text.chars().skip(from).take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }));
    if total > from + SHOWN {
        text.push('…');
    }
    let indent = start - from + lead.chars().count();
    let room = text.chars().count().saturating_sub(indent).max(1);
    (text, indent, place.width.clamp(1, room))
}

/// Characters of a source line shown at most. Arbitrary: two lines of a terminal.
const SHOWN: usize = 160;

/// ANSI sequences, or nothing.
struct Paint {
    bold: &'static str,
    loud: &'static str,
    quiet: &'static str,
    off: &'static str,
}

impl Paint {
    fn new(yes: bool) -> Paint {
        if yes {
            Paint { bold: "\x1b[1m", loud: "\x1b[1;31m", quiet: "\x1b[1;34m", off: "\x1b[0m" }
        } else {
            Paint { bold: "", loud: "", quiet: "", off: "" }
        }
    }
}
