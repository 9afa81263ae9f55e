//! The syntax of nginx: words, quotes, blocks, includes.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::files::Files;
use crate::ledger::{Ledger, Origin};

/// `name args… ;` or `name args… { block }`.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    pub(crate) block: Option<Vec<Directive>>,
    pub(crate) origin: Origin,
}

impl Directive {
    pub(crate) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    pub(crate) fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or(&[])
    }
}

/// Blocks whose lines are data: they have no entries of their own.
const DATA_BLOCKS: [&str; 5] = ["types", "map", "geo", "split_clients", "charset_map"];

/// Files of packages that fragments include, for where they are not at hand.
const WELL_KNOWN: [(&str, &str); 7] = [
    ("mime.types", ""),
    ("fastcgi_params", "fastcgi_param QUERY_STRING $query_string;"),
    ("fastcgi.conf", "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;"),
    (
        "fastcgi-php.conf",
        "fastcgi_split_path_info ^(.+?\\.php)(/.*)$; try_files $fastcgi_script_name =404; fastcgi_index index.php; \
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;",
    ),
    (
        "proxy_params",
        "proxy_set_header Host $http_host; proxy_set_header X-Real-IP $remote_addr; \
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme;",
    ),
    ("uwsgi_params", ""),
    ("options-ssl-nginx.conf", "ssl_protocols TLSv1.2 TLSv1.3;"),
];

/// Includes within includes.
const DEPTH_LIMIT: usize = 16;

pub(super) struct Parser<'a> {
    pub(super) files: &'a Files,
    pub(super) ledger: &'a mut Ledger,
}

impl Parser<'_> {
    /// Reads a file and what it includes.
    pub(super) fn file(&mut self, path: &Path) -> Result<Vec<Directive>, Error> {
        let text = self.files.read(path)?;
        self.text(&text, path, &prefix_of(path), 0)
    }

    fn text(
        &mut self,
        text: &str,
        path: &Path,
        prefix: &Path,
        depth: usize,
    ) -> Result<Vec<Directive>, Error> {
        let name = self.files.shown(path);
        let tokens = tokens(text, &name)?;
        let mut source = Source { tokens, at: 0, name, prefix: prefix.to_owned(), depth };
        self.block(&mut source, None)
    }

    /// The directives up to `}` or the end of the file. `opened`: the line of the block's `{`.
    fn block(&mut self, source: &mut Source, opened: Option<(usize, &str)>) -> Result<Vec<Directive>, Error> {
        let mut directives = Vec::new();
        loop {
            let token = source.tokens.get(source.at).cloned();
            source.at += 1;
            match token {
                None => match opened {
                    None => return Ok(directives),
                    Some((line, name)) => {
                        let message =
                            format!("`{name} {{` is not closed: expected `}}` before the end of the file");
                        return Err(Error::at(&source.name, line, message));
                    }
                },
                Some(Token { kind: Kind::Close, line }) => match opened {
                    Some(_) => return Ok(directives),
                    None => {
                        return Err(Error::at(
                            &source.name,
                            line,
                            "unexpected `}`: there is no block to close",
                        ));
                    }
                },
                Some(Token { kind: Kind::Word(name), line }) => {
                    self.directive(name, line, source, &mut directives, opened)?;
                }
                Some(Token { kind, line }) => {
                    let message = format!("expected the name of a directive, found `{}`", kind.text());
                    return Err(Error::at(&source.name, line, message));
                }
            }
        }
    }

    fn directive(
        &mut self,
        name: String,
        line: usize,
        source: &mut Source,
        out: &mut Vec<Directive>,
        outer: Option<(usize, &str)>,
    ) -> Result<(), Error> {
        let mut args = Vec::new();
        loop {
            let token = source.tokens.get(source.at).cloned();
            source.at += 1;
            match token.map(|token| token.kind) {
                Some(Kind::Word(word)) => args.push(word),
                Some(Kind::End) => break,
                Some(Kind::Open) => {
                    let origin = self.open(&name, &args, source, line, outer, " {");
                    let block = self.block(source, Some((line, &name)))?;
                    out.push(Directive { name, args, block: Some(block), origin: origin? });
                    return Ok(());
                }
                Some(Kind::Raw) => {
                    let origin = self.open(&name, &args, source, line, outer, " {")?;
                    out.push(Directive { name, args, block: None, origin });
                    return Ok(());
                }
                found @ (None | Some(Kind::Close)) => {
                    let found =
                        found.map_or("the end of the file".to_owned(), |kind| format!("`{}`", kind.text()));
                    let message = format!("expected `;` or `{{` after `{name}`, found {found}");
                    return Err(Error::at(&source.name, line, message));
                }
            }
        }
        let origin = self.open(&name, &args, source, line, outer, "")?;
        if name == "include" {
            return self.include(&args, line, source, origin, out);
        }
        out.push(Directive { name, args, block: None, origin });
        Ok(())
    }

    /// Opens an entry; lines of data share that of their block.
    fn open(
        &mut self,
        name: &str,
        args: &[String],
        source: &Source,
        line: usize,
        outer: Option<(usize, &str)>,
        end: &str,
    ) -> Result<Origin, Error> {
        if outer.is_some_and(|(_, outer)| DATA_BLOCKS.contains(&outer)) {
            return Ok(self.ledger.open_hidden());
        }
        let mut text = name.to_owned();
        for arg in args {
            text.push(' ');
            text.push_str(if arg.is_empty() { "\"\"" } else { arg });
        }
        text.push_str(end);
        Ok(self.ledger.open(&source.name, line, &text))
    }

    fn include(
        &mut self,
        args: &[String],
        line: usize,
        source: &Source,
        origin: Origin,
        out: &mut Vec<Directive>,
    ) -> Result<(), Error> {
        let [pattern] = args else {
            return Err(Error::at(
                &source.name,
                line,
                "`include` takes one path, a file or a pattern such as conf.d/*.conf",
            ));
        };
        if source.depth >= DEPTH_LIMIT {
            return Err(Error::at(
                &source.name,
                line,
                format!("includes are nested more than {DEPTH_LIMIT} deep"),
            ));
        }
        let path = source.prefix.join(pattern);
        let is_pattern = pattern.contains(['*', '?', '[']);
        let found = self.files.glob(&path);
        if found.is_empty() && !is_pattern {
            return self.well_known(pattern, line, source, origin, out);
        }
        match found.is_empty() {
            true => self.ledger.ignored(origin, "no file matches it"),
            false => self.ledger.ignored(origin, "its files were read"),
        }
        for file in found {
            let text = self.files.read(&file)?;
            out.extend(self.text(&text, &file, &source.prefix, source.depth + 1)?);
        }
        Ok(())
    }

    /// A file that is not here, but whose content is known.
    fn well_known(
        &mut self,
        pattern: &str,
        line: usize,
        source: &Source,
        origin: Origin,
        out: &mut Vec<Directive>,
    ) -> Result<(), Error> {
        let name = Path::new(pattern).file_name().and_then(|name| name.to_str()).unwrap_or("");
        let Some((_, text)) = WELL_KNOWN.iter().find(|(known, _)| *known == name) else {
            let message = format!(
                "includes {pattern}, which is not there (looked for {}); give `--root DIR` if the files are of another \
                 machine, or remove the line",
                self.files.shown(&source.prefix.join(pattern))
            );
            return Err(Error::at(&source.name, line, message));
        };
        self.ledger
            .differs(origin, "the file is not there: what packages install under this name is assumed");
        let usual = self.text(text, Path::new(name), &source.prefix, source.depth + 1)?;
        out.extend(usual);
        Ok(())
    }
}

/// What relative includes are relative to: the directory of nginx.conf.
fn prefix_of(path: &Path) -> PathBuf {
    let directory = path.parent().unwrap_or(Path::new(""));
    const FRAGMENTS: [&str; 5] = ["sites-enabled", "sites-available", "conf.d", "snippets", "http.d"];
    match directory.file_name().and_then(|name| name.to_str()) {
        Some(name) if FRAGMENTS.contains(&name) => directory.parent().unwrap_or(Path::new("")).to_owned(),
        _ => directory.to_owned(),
    }
}

struct Source {
    tokens: Vec<Token>,
    at: usize,
    name: String,
    prefix: PathBuf,
    depth: usize,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    line: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    Word(String),
    End,
    Open,
    Close,
    /// The block of a program in another language, as it is.
    Raw,
}

impl Kind {
    fn text(&self) -> &str {
        match self {
            Kind::Word(word) => word,
            Kind::End => ";",
            Kind::Open | Kind::Raw => "{",
            Kind::Close => "}",
        }
    }
}

fn tokens(text: &str, file: &str) -> Result<Vec<Token>, Error> {
    let mut lexer = Lexer { text, at: 0, line: 1, file };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next(&tokens)? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    file: &'a str,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn next(&mut self, before: &[Token]) -> Result<Option<Token>, Error> {
        loop {
            match self.peek() {
                None => return Ok(None),
                Some(c) if c.is_whitespace() || c == '\u{feff}' => _ = self.bump(),
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.bump();
                    }
                }
                Some(_) => break,
            }
        }
        let line = self.line;
        let kind = match self.peek() {
            Some(';') => self.single(Kind::End),
            Some('}') => self.single(Kind::Close),
            Some('{') if is_program(before) => self.raw(line)?,
            Some('{') => self.single(Kind::Open),
            Some(quote @ ('"' | '\'')) => Kind::Word(self.quoted(quote, line)?),
            _ => Kind::Word(self.word()),
        };
        Ok(Some(Token { kind, line }))
    }

    fn single(&mut self, kind: Kind) -> Kind {
        self.bump();
        kind
    }

    fn quoted(&mut self, quote: char, line: usize) -> Result<String, Error> {
        self.bump();
        let mut word = String::new();
        loop {
            match self.bump() {
                None => return Err(Error::at(self.file, line, format!("the {quote} is not closed"))),
                Some(c) if c == quote => break,
                Some('\\') => match self.bump() {
                    Some(c @ ('"' | '\'' | '\\')) => word.push(c),
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some(c) => word.extend(['\\', c]),
                    None => {}
                },
                Some(c) => word.push(c),
            }
        }
        match self.peek() {
            Some(c) if !c.is_whitespace() && !";{)".contains(c) => Err(Error::at(
                self.file,
                self.line,
                format!("expected a space, `;` or `{{` after the closing {quote}, found `{c}`"),
            )),
            _ => Ok(word),
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            match c {
                // `${name}`
                '{' if word.ends_with('$') => {
                    while let Some(c) = self.bump() {
                        word.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
                c if c.is_whitespace() || ";{}".contains(c) => break,
                '\\' => {
                    self.bump();
                    match self.bump() {
                        Some(c @ ('"' | '\'' | '\\')) => word.push(c),
                        Some(c) => word.extend(['\\', c]),
                        None => word.push('\\'),
                    }
                }
                c => {
                    self.bump();
                    word.push(c);
                }
            }
        }
        word
    }

    /// A block in another language: up to its closing brace.
    fn raw(&mut self, line: usize) -> Result<Kind, Error> {
        let mut depth = 0;
        while let Some(c) = self.bump() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(Kind::Raw);
            }
        }
        Err(Error::at(self.file, line, "the block is not closed: expected `}` before the end of the file"))
    }
}

/// Whether the next block is a program: `content_by_lua_block {`.
fn is_program(before: &[Token]) -> bool {
    let start = before.iter().rposition(|token| !matches!(token.kind, Kind::Word(_))).map_or(0, |at| at + 1);
    matches!(before.get(start).map(|token| &token.kind), Some(Kind::Word(name)) if name.ends_with("_by_lua_block"))
}
