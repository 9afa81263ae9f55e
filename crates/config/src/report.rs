//! Problems, with their locations, expected values and advice, as text for a terminal.

use std::fmt;

/// All problems of a configuration, in the order of the sources.
///
/// `Display` is plain text; [`Report::colored`] adds ANSI colors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    problems: Vec<Problem>,
}

/// A problem that does not make the configuration invalid. `Display` is that of [`Report`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    problem: Problem,
}

/// A problem of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The problem, in one line.
    pub message: String,
    /// The key, as `keepwarm explain` knows it: `app.NAME.workers`.
    pub key: Option<String>,
    /// The location.
    pub location: Option<Location>,
    /// The expected value.
    pub expected: Option<String>,
    /// Advice, the most likely first.
    pub help: Vec<String>,
    /// Other locations that are involved, each with an explanation.
    pub related: Vec<(Location, String)>,
}

/// A location in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// A file's path, `$VARIABLE`, or `command line`.
    pub source: String,
    /// Line, from 1. 0: the whole source (it could not be read).
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The text of the line.
    pub text: String,
    /// Number of characters to mark from `column`, at least 1.
    pub width: usize,
    /// Position of the source among the sources, and of the location in it, for sorting the report.
    pub(crate) order: (usize, usize),
    /// Whether the line and column are shown. Not for a variable or an argument, which is one line.
    pub(crate) numbered: bool,
}

impl Report {
    /// A report of at least one problem.
    pub(crate) fn of(mut problems: Vec<Problem>) -> Report {
        problems.sort_by_key(|problem| problem.location.as_ref().map(|location| location.order));
        problems.dedup();
        Report { problems }
    }

    /// A report of something beside the configuration that keeps it from being used.
    pub fn of_message(message: impl Into<String>) -> Report {
        Report { problems: vec![Problem::new(message)] }
    }

    /// The problems, in the order of the sources; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The report with ANSI colors when `yes`.
    pub fn colored(&self, yes: bool) -> impl fmt::Display + '_ {
        ProblemDisplay { problems: &self.problems, kind: "error", style: Style::new(yes) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.colored(false).fmt(f)
    }
}

impl std::error::Error for Report {}

impl Warning {
    pub(crate) fn new(problem: Problem) -> Warning {
        Warning { problem }
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The warning with ANSI colors when `yes`.
    pub fn colored(&self, yes: bool) -> impl fmt::Display + '_ {
        ProblemDisplay {
            problems: std::slice::from_ref(&self.problem),
            kind: "warning",
            style: Style::new(yes),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.colored(false).fmt(f)
    }
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            key: None,
            location: None,
            expected: None,
            help: Vec::new(),
            related: Vec::new(),
        }
    }

    pub(crate) fn at(mut self, location: Location) -> Problem {
        self.location = Some(location);
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

    pub(crate) fn related(mut self, location: Location, what: impl Into<String>) -> Problem {
        self.related.push((location, what.into()));
        self
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.numbered) {
            (0, _) | (_, false) => Escape(&self.source).fmt(f),
            (line, true) => write!(f, "{}:{line}:{}", Escape(&self.source), self.column),
        }
    }
}

/// A text that may quote a file, with control characters escaped: they could control the terminal or forge a line of
/// a log.
struct Escape<'a>(&'a str);

impl fmt::Display for Escape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for c in self.0.chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

struct ProblemDisplay<'a> {
    problems: &'a [Problem],
    kind: &'static str,
    style: Style,
}

impl fmt::Display for ProblemDisplay<'_> {
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

impl ProblemDisplay<'_> {
    fn problem(&self, f: &mut fmt::Formatter<'_>, problem: &Problem) -> fmt::Result {
        let Style { bold, red, blue, off } = &self.style;
        if let Some(location) = &problem.location {
            write!(f, "{bold}{location}:{off} ")?;
        }
        writeln!(f, "{red}{}:{off} {bold}{}{off}", self.kind, Escape(&problem.message))?;
        let gutter = problem.gutter();
        if let Some(location) = &problem.location {
            self.snippet(f, location, gutter)?;
        }
        for (location, what) in &problem.related {
            writeln!(f, "{:gutter$} {blue}::{off} {location}: {}", "", Escape(what))?;
            self.snippet(f, location, gutter)?;
        }
        if let Some(expected) = &problem.expected {
            writeln!(f, "{:gutter$} {blue}={off} expected: {}", "", Escape(expected))?;
        }
        for help in &problem.help {
            writeln!(f, "{:gutter$} {blue}={off} help: {}", "", Escape(help))?;
        }
        Ok(())
    }

    fn snippet(&self, f: &mut fmt::Formatter<'_>, location: &Location, gutter: usize) -> fmt::Result {
        // The text could not be read, or it is secret.
        if location.line == 0 || location.text.is_empty() {
            return Ok(());
        }
        let Style { red, blue, off, .. } = &self.style;
        let number = if location.numbered { location.line.to_string() } else { String::new() };
        let (text, indent, width) = window(location);
        writeln!(f, "{blue}{number:>gutter$} |{off} {text}")?;
        writeln!(f, "{:gutter$} {blue}|{off} {:indent$}{red}{:^<width$}{off}", "", "", "")
    }
}

impl Problem {
    /// The width of the widest line number.
    fn gutter(&self) -> usize {
        let places = self.location.iter().chain(self.related.iter().map(|(location, _)| location));
        places.map(|location| location.line.to_string().len()).max().unwrap_or(1).max(3)
    }
}

/// The part of a line to show (long lines are cut around the mark), the indent of the mark, and its width.
fn window(location: &Location) -> (String, usize, usize) {
    let start = location.column.saturating_sub(1);
    let total = location.text.chars().count();
    let (from, lead) =
        if start > MAX_LINE / 2 && total > MAX_LINE { (start - MAX_LINE / 4, "…") } else { (0, "") };
    let mut text: String = lead.to_owned();
    // Control characters would move the mark (tab) or control the terminal (escape): one space replaces each.
    text.extend(
        location.text.chars().skip(from).take(MAX_LINE).map(|c| if c.is_control() { ' ' } else { c }),
    );
    if total > from + MAX_LINE {
        text.push('…');
    }
    let indent = start - from + lead.chars().count();
    let room = text.chars().count().saturating_sub(indent).max(1);
    (text, indent, location.width.clamp(1, room))
}

/// Maximum number of characters of a source line. Arbitrary: two lines of a terminal.
const MAX_LINE: usize = 160;

/// ANSI sequences, or empty strings.
struct Style {
    bold: &'static str,
    red: &'static str,
    blue: &'static str,
    off: &'static str,
}

impl Style {
    fn new(yes: bool) -> Style {
        if yes {
            Style { bold: "\x1b[1m", red: "\x1b[1;31m", blue: "\x1b[1;34m", off: "\x1b[0m" }
        } else {
            Style { bold: "", red: "", blue: "", off: "" }
        }
    }
}
