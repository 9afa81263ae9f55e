//! The statements of a Python file, without running it: logical lines, with the line each begins at and whether it runs when the module is imported.

/// A logical line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// From 1.
    pub(super) line: usize,
    /// Without comments; strings as they are, except that their line ends are spaces.
    pub(super) text: String,
    /// Where it stands.
    pub(super) level: Level,
}

/// Where a statement stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// It runs when the module is imported: at the left margin, or beneath `if`, `try`, `with` or `for` there.
    Module,
    /// In the function whose `def` is the statement at this index.
    Function(usize),
    /// In a class, a nested function, or beneath `if __name__ == "__main__"` or `if TYPE_CHECKING`.
    Elsewhere,
}

/// The statements of a text, in order. A text that is not Python gives statements without meaning, never an error.
pub(super) fn statements(text: &str) -> Vec<Statement> {
    let mut found: Vec<Statement> = Vec::new();
    // The open blocks: their indentation, and where the statements in them stand.
    let mut blocks: Vec<(usize, Level)> = Vec::new();
    for logical in logical_lines(text) {
        while blocks.last().is_some_and(|(indent, _)| *indent >= logical.indent) {
            blocks.pop();
        }
        let level = blocks.last().map_or(Level::Module, |(_, level)| *level);
        let index = found.len();
        if let Some(inner) = level_within(&logical.text, level, index) {
            blocks.push((logical.indent, inner));
        }
        found.push(Statement { line: logical.line, text: logical.text, level });
    }
    found
}

/// Where the statements beneath a statement stand; `None`: it opens no block.
fn level_within(text: &str, outer: Level, index: usize) -> Option<Level> {
    if !text.ends_with(':') {
        return None;
    }
    let word = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_function = word == "def"
        || (word == "async" && text.trim_start_matches("async").trim_start().starts_with("def "));
    Some(match (is_function, outer) {
        (true, Level::Module) => Level::Function(index),
        (true, _) => Level::Elsewhere,
        (false, Level::Module) if word == "class" => Level::Elsewhere,
        (false, Level::Module)
            if word == "if" && (text.contains("__name__") || text.contains("TYPE_CHECKING")) =>
        {
            Level::Elsewhere
        }
        (false, Level::Function(_)) if word == "class" => Level::Elsewhere,
        (false, outer) => outer,
    })
}

struct LogicalLine {
    line: usize,
    indent: usize,
    text: String,
}

/// Joins what brackets, backslashes and triple quotes continue.
fn logical_lines(text: &str) -> Vec<LogicalLine> {
    let mut scanner = Scanner { rest: text.char_indices().peekable(), text, line: 1, depth: 0 };
    let mut lines = Vec::new();
    while let Some(line) = scanner.next_line() {
        if !line.text.is_empty() {
            lines.push(line);
        }
    }
    lines
}

struct Scanner<'a> {
    rest: std::iter::Peekable<std::str::CharIndices<'a>>,
    text: &'a str,
    line: usize,
    /// Of open brackets.
    depth: usize,
}

impl Scanner<'_> {
    fn next_line(&mut self) -> Option<LogicalLine> {
        self.rest.peek()?;
        self.depth = 0;
        let indent = self.indent();
        let begin = self.line;
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '#' => self.skip_comment(),
                '\n' if self.depth == 0 => break,
                '\n' | '\r' => text.push(' '),
                '\\' if self.rest.peek().is_some_and(|(_, c)| matches!(c, '\n' | '\r')) => {
                    while self.next().is_some_and(|c| c == '\r') {}
                    text.push(' ');
                }
                '\'' | '"' => self.string(c, &mut text),
                _ => {
                    match c {
                        '(' | '[' | '{' => self.depth += 1,
                        ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    text.push(c);
                }
            }
        }
        Some(LogicalLine { line: begin, indent, text: text.trim().to_owned() })
    }

    fn next(&mut self) -> Option<char> {
        let (_, c) = self.rest.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    /// Columns of white space; a tab goes to the next multiple of eight, as in Python.
    fn indent(&mut self) -> usize {
        let mut columns = 0;
        while let Some((_, c @ (' ' | '\t' | '\u{c}'))) = self.rest.peek().copied() {
            columns = match c {
                '\t' => (columns / 8 + 1) * 8,
                ' ' => columns + 1,
                _ => 0,
            };
            self.next();
        }
        columns
    }

    fn skip_comment(&mut self) {
        while self.rest.peek().is_some_and(|(_, c)| *c != '\n') {
            self.next();
        }
    }

    /// A string, of which the first quote is read.
    fn string(&mut self, quote: char, out: &mut String) {
        let triple = match quote {
            '"' => "\"\"",
            _ => "''",
        };
        out.push(quote);
        let is_triple = self.ahead().starts_with(triple);
        if is_triple {
            self.next();
            self.next();
        }
        while let Some(c) = self.next() {
            match c {
                '\\' => {
                    out.push(c);
                    out.extend(self.next().map(|c| if c == '\n' { ' ' } else { c }));
                }
                _ if c == quote && is_triple && self.ahead().starts_with(triple) => {
                    self.next();
                    self.next();
                    break;
                }
                _ if c == quote && !is_triple => break,
                // A string that was never closed ends with its line.
                '\n' if !is_triple => break,
                '\n' => out.push(' '),
                _ => out.push(c),
            }
        }
        out.push(quote);
    }

    fn ahead(&mut self) -> &str {
        let at = self.rest.peek().map_or(self.text.len(), |(at, _)| *at);
        self.text.get(at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, statements};

    fn texts(source: &str) -> Vec<(usize, String, Level)> {
        statements(source).into_iter().map(|one| (one.line, one.text, one.level)).collect()
    }

    #[test]
    fn lines_are_joined_and_comments_are_dropped() {
        let source = "# c\n\"\"\"doc\n# no comment\n\"\"\"\nx = f(1,  # one\n      2)\ny = 'a # b' \\\n  + \"(\"\nz = 1\n";
        assert_eq!(
            texts(source),
            [
                (2, "\"doc # no comment \"".to_owned(), Level::Module),
                (5, "x = f(1,         2)".to_owned(), Level::Module),
                (7, "y = 'a # b'    + \"(\"".to_owned(), Level::Module),
                (9, "z = 1".to_owned(), Level::Module),
            ]
        );
    }

    #[test]
    fn statements_know_whether_an_import_runs_them() {
        let source = "try:\n    import a\nexcept ImportError:\n    import b\ndef f():\n    x = 1\n    if x:\n        y = 2\n    def g():\n        z = 3\n\
                      class C:\n    w = 4\nif __name__ == '__main__':\n    app = 5\nasync def h():\n\tv = 6\nlast = 7\n";
        let levels: Vec<(String, Level)> =
            texts(source).into_iter().map(|(_, text, level)| (text, level)).collect();
        let of = |wanted: &str| levels.iter().find(|(text, _)| text == wanted).unwrap().1;
        assert_eq!(of("import a"), Level::Module);
        assert_eq!(of("import b"), Level::Module);
        assert_eq!(of("x = 1"), Level::Function(4));
        assert_eq!(of("y = 2"), Level::Function(4));
        assert_eq!(of("z = 3"), Level::Elsewhere);
        assert_eq!(of("w = 4"), Level::Elsewhere);
        assert_eq!(of("app = 5"), Level::Elsewhere);
        assert!(matches!(of("v = 6"), Level::Function(_)));
        assert_eq!(of("last = 7"), Level::Module);
    }

    #[test]
    fn what_is_not_python_ends() {
        for source in [
            "'",
            "\"\"\"",
            "\\",
            "((((",
            "))))",
            "\u{feff}x = 1",
            "def\n\t \n",
            "async",
            "x = 'é\\",
            "\r\n\r",
            "",
        ] {
            let _ = statements(source);
        }
    }
}
