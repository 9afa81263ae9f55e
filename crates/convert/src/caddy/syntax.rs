//! The syntax of Caddyfiles: tokens, blocks, snippets, imports, placeholders of the environment.

use std::path::Path;

use crate::Error;
use crate::files::Files;
use crate::ledger::{Ledger, Origin};

/// A site, or the global options (without an address).
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) addresses: Vec<String>,
    pub(super) lines: Vec<Line>,
    pub(super) origin: Origin,
}

/// A directive, with its block.
#[derive(Clone, Debug)]
pub(super) struct Line {
    words: Vec<String>,
    pub(super) inner: Vec<Line>,
    pub(super) origin: Origin,
}

impl Line {
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub(super) fn args(&self) -> &[String] {
        self.words.get(1..).unwrap_or(&[])
    }

    pub(super) fn arg(&self, index: usize) -> &str {
        self.args().get(index).map_or("", String::as_str)
    }

    pub(super) fn child(&self, name: &str) -> Option<&Line> {
        self.inner.iter().find(|line| line.name() == name)
    }

    pub(super) fn settle_inner(&self, ledger: &mut Ledger) {
        for line in &self.inner {
            if !ledger.is_settled(line.origin) {
                ledger
                    .ignored(line.origin, "a part of a block that is not converted, or has no meaning here");
            }
            line.settle_inner(ledger);
        }
    }

    /// It stays unsettled: unknown. Its block is a part of it.
    pub(super) fn settle_unknown(&self, ledger: &mut Ledger) {
        self.settle_inner(ledger);
    }
}

#[derive(Clone, Debug)]
struct Token {
    text: String,
    line: usize,
    /// The first of its line.
    first: bool,
    quoted: bool,
}

struct Parser<'a> {
    files: &'a Files,
    ledger: &'a mut Ledger,
    snippets: Vec<(String, Vec<Token>, String)>,
}

/// Imports within imports.
const DEPTH_LIMIT: usize = 16;

pub(super) fn parse(path: &Path, files: &Files, ledger: &mut Ledger) -> Result<Vec<Block>, Error> {
    let (text, shown) = (files.read(path)?, files.shown(path));
    let tokens = tokens(&text, &shown)?;
    let mut parser = Parser { files, ledger, snippets: Vec::new() };
    parser.blocks(&tokens, &shown, path)
}

impl Parser<'_> {
    fn blocks(&mut self, tokens: &[Token], shown: &str, path: &Path) -> Result<Vec<Block>, Error> {
        let mut blocks = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let line = token.line;
            if token.text == "import" && !token.quoted {
                let pattern = tokens.get(at + 1).map(|token| token.text.clone()).unwrap_or_default();
                let origin = self.ledger.open(shown, line, &format!("import {pattern}"));
                self.ledger.ignored(origin, "its files were read");
                for file in self.files.glob(&path.parent().unwrap_or(Path::new("")).join(&pattern)) {
                    blocks.extend(parse(&file, self.files, self.ledger)?);
                }
                at += 2;
                continue;
            }
            let start = at;
            while tokens.get(at).is_some_and(|token| token.text != "{" || token.quoted) {
                at += 1;
            }
            let head: Vec<String> =
                tokens.get(start..at).unwrap_or(&[]).iter().map(|token| token.text.clone()).collect();
            if tokens.get(at).is_none() {
                // One site without braces: its address is the first line.
                let own = tokens.get(start..).unwrap_or(&[]);
                let body = own.iter().skip(1).position(|token| token.first).map_or(own.len(), |at| at + 1);
                let (head, body) = own.split_at(body);
                return self.bare_site(head, body, shown, path, blocks);
            }
            let end = closing(tokens, at).ok_or_else(|| {
                Error::at(
                    shown,
                    line,
                    format!(
                        "`{} {{` is not closed: expected `}}` before the end of the file",
                        head.join(" ")
                    ),
                )
            })?;
            let body = tokens.get(at + 1..end).unwrap_or(&[]);
            at = end + 1;
            if let Some(name) = head.first().and_then(|head| head.strip_prefix('(')?.strip_suffix(')')) {
                self.snippets.push((name.to_owned(), body.to_vec(), shown.to_owned()));
                continue;
            }
            let origin = self.ledger.open(shown, line, &format!("{} {{", head.join(" ")));
            let lines = self.lines(body, shown, path, 0)?;
            let addresses: Vec<String> = head
                .iter()
                .flat_map(|word| word.split(','))
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect();
            if addresses.is_empty() {
                self.ledger.carried(origin);
            }
            blocks.push(Block { addresses, lines, origin });
        }
        Ok(blocks)
    }

    fn bare_site(
        &mut self,
        head: &[Token],
        body: &[Token],
        shown: &str,
        path: &Path,
        mut blocks: Vec<Block>,
    ) -> Result<Vec<Block>, Error> {
        let line = head.first().map_or(1, |token| token.line);
        if body.is_empty() {
            return Err(Error::at(shown, line, "expected directives, or `{`, after the address of a site"));
        }
        let addresses: Vec<String> =
            head.iter().map(|token| token.text.trim_end_matches(',').to_owned()).collect();
        let origin = self.ledger.open(shown, line, &addresses.join(" "));
        let lines = self.lines(body, shown, path, 0)?;
        blocks.push(Block { addresses, lines, origin });
        Ok(blocks)
    }

    fn lines(
        &mut self,
        tokens: &[Token],
        shown: &str,
        path: &Path,
        depth: usize,
    ) -> Result<Vec<Line>, Error> {
        let mut lines = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            if token.text == "}" && !token.quoted {
                return Err(Error::at(shown, token.line, "unexpected `}`: there is no block to close"));
            }
            let mut words = vec![token.text.clone()];
            at += 1;
            while let Some(next) =
                tokens.get(at).filter(|next| !next.first && (next.quoted || next.text != "{"))
            {
                words.push(next.text.clone());
                at += 1;
            }
            let mut inner = &[][..];
            if tokens.get(at).is_some_and(|next| next.text == "{" && !next.quoted && !next.first) {
                let end = closing(tokens, at).ok_or_else(|| {
                    Error::at(shown, token.line, format!("`{} {{` is not closed", words.join(" ")))
                })?;
                inner = tokens.get(at + 1..end).unwrap_or(&[]);
                at = end + 1;
            }
            let origin = self.ledger.open(shown, token.line, &words.join(" "));
            if words.first().is_some_and(|name| name == "import") {
                lines.extend(self.import(&words, origin, shown, token.line, path, depth)?);
                continue;
            }
            let inner = self.lines(inner, shown, path, depth)?;
            lines.push(Line { words, inner, origin });
        }
        Ok(lines)
    }

    /// A snippet, or files.
    fn import(
        &mut self,
        words: &[String],
        origin: Origin,
        shown: &str,
        line: usize,
        path: &Path,
        depth: usize,
    ) -> Result<Vec<Line>, Error> {
        if depth >= DEPTH_LIMIT {
            return Err(Error::at(shown, line, format!("imports are nested more than {DEPTH_LIMIT} deep")));
        }
        let name = words.get(1).map_or("", String::as_str);
        self.ledger.ignored(origin, "what it imports was read");
        if let Some((_, tokens, file)) = self.snippets.iter().find(|(known, ..)| known == name).cloned() {
            let args = words.get(2..).unwrap_or(&[]);
            let filled: Vec<Token> = tokens
                .into_iter()
                .map(|mut token| {
                    for (index, arg) in args.iter().enumerate() {
                        token.text = token
                            .text
                            .replace(&format!("{{args[{index}]}}"), arg)
                            .replace(&format!("{{args.{index}}}"), arg);
                    }
                    token
                })
                .collect();
            return self.lines(&filled, &file, path, depth + 1);
        }
        let found = self.files.glob(&path.parent().unwrap_or(Path::new("")).join(name));
        if found.is_empty() && !name.contains('*') {
            let message = format!("imports `{name}`, which is neither a snippet nor a file that is there");
            return Err(Error::at(shown, line, message));
        }
        let mut lines = Vec::new();
        for file in found {
            let (text, shown) = (self.files.read(&file)?, self.files.shown(&file));
            let tokens = tokens_of(&text, &shown)?;
            lines.extend(self.lines(&tokens, &shown, &file, depth + 1)?);
        }
        Ok(lines)
    }
}

/// The `}` of the `{` at an index.
fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" if !token.quoted => depth += 1,
            "}" if !token.quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn tokens_of(text: &str, file: &str) -> Result<Vec<Token>, Error> {
    tokens(text, file)
}

fn tokens(text: &str, file: &str) -> Result<Vec<Token>, Error> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    let mut first = true;
    while let Some(&c) = chars.peek() {
        match c {
            '\n' => {
                line += 1;
                first = true;
                chars.next();
            }
            c if c.is_whitespace() => _ = chars.next(),
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '\\' if text_after(&mut chars.clone()) => {
                // A continued line.
                chars.next();
                while chars.next_if(|c| *c != '\n').is_some() {}
                chars.next();
                line += 1;
            }
            quote @ ('"' | '`') => {
                let opened = line;
                chars.next();
                let mut word = String::new();
                loop {
                    match chars.next() {
                        None => return Err(Error::at(file, opened, format!("the {quote} is not closed"))),
                        Some(c) if c == quote => break,
                        Some('\\') if quote == '"' => match chars.next() {
                            Some('"') => word.push('"'),
                            Some(c) => word.extend(['\\', c]),
                            None => {}
                        },
                        Some(c) => {
                            line += usize::from(c == '\n');
                            word.push(c);
                        }
                    }
                }
                tokens.push(Token { text: environment(&word), line: opened, first, quoted: true });
                first = false;
            }
            _ => {
                let mut word = String::new();
                while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
                    word.push(c);
                }
                tokens.push(Token { text: environment(&word), line, first, quoted: false });
                first = false;
            }
        }
    }
    Ok(tokens)
}

/// Whether a backslash ends its line.
fn text_after(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    chars.next();
    matches!(chars.peek(), Some('\n' | '\r'))
}

/// `{$NAME:default}` is a variable of the environment, here or its default.
fn environment(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once("{$") {
        let Some((name, behind)) = after.split_once('}') else { break };
        let (name, default) = name.split_once(':').map_or((name, ""), |(name, default)| (name, default));
        out.push_str(before);
        match default.is_empty() {
            true => out.push_str(&std::env::var(name).unwrap_or_default()),
            false => out.push_str(&std::env::var(name).unwrap_or_else(|_| default.to_owned())),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}
