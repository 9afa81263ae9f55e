//! The syntax of Apache: lines, sections, includes, `Define`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::files::Files;
use crate::ledger::{Ledger, Origin};

/// A directive, or a section with what is in it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// In lower case.
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) inner: Vec<Node>,
    pub(super) origin: Origin,
}

impl Node {
    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }
}

/// A section that is open.
struct Open {
    name: String,
    args: Vec<String>,
    origin: Origin,
    line: usize,
    inner: Vec<Node>,
}

struct Parser<'a> {
    files: &'a Files,
    ledger: &'a mut Ledger,
    defined: BTreeMap<String, String>,
    root: PathBuf,
}

const DEPTH_LIMIT: usize = 16;

pub(super) fn parse(path: &Path, files: &Files, ledger: &mut Ledger) -> Result<Vec<Node>, Error> {
    let usual = [
        ("APACHE_LOG_DIR", "/var/log/apache2"),
        ("APACHE_RUN_USER", "www-data"),
        ("APACHE_RUN_GROUP", "www-data"),
        ("APACHE_RUN_DIR", "/run/apache2"),
        ("APACHE_PID_FILE", "/run/apache2/apache2.pid"),
        ("APACHE_LOCK_DIR", "/run/lock/apache2"),
    ];
    let defined = usual.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let directory = path.parent().unwrap_or(Path::new(""));
    const FRAGMENTS: [&str; 6] =
        ["sites-enabled", "sites-available", "conf-enabled", "conf-available", "conf.d", "mods-enabled"];
    let root = match directory.file_name().and_then(|name| name.to_str()) {
        Some(name) if FRAGMENTS.contains(&name) => directory.parent().unwrap_or(Path::new("")).to_owned(),
        _ => directory.to_owned(),
    };
    Parser { files, ledger, defined, root }.file(path, 0)
}

impl Parser<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Node>, Error> {
        let (text, shown) = (self.files.read(path)?, self.files.shown(path));
        // The innermost last.
        let mut open: Vec<Open> = Vec::new();
        let mut top = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, raw)) = lines.next() {
            let number = index + 1;
            let mut line = raw.trim().to_owned();
            while line.ends_with('\\') {
                line.pop();
                line.push_str(lines.next().map_or("", |(_, more)| more.trim()));
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix("</") {
                let name = name.trim_end_matches('>').trim().to_ascii_lowercase();
                let Some(Open { name: opened, args, origin, line: at, inner }) = open.pop() else {
                    return Err(Error::at(
                        &shown,
                        number,
                        format!("unexpected `</{name}>`: there is no section to close"),
                    ));
                };
                if opened != name {
                    return Err(Error::at(
                        &shown,
                        number,
                        format!("expected `</{opened}>` for line {at}, found `</{name}>`"),
                    ));
                }
                let node = Node { name: opened, args, inner, origin };
                open.last_mut().map_or(&mut top, |section| &mut section.inner).extend(self.unwrapped(node));
                continue;
            }
            let is_section = line.starts_with('<');
            let body = line.trim_start_matches('<').trim_end_matches(if is_section { '>' } else { '\0' });
            let words = words(&self.filled(body)).map_err(|message| Error::at(&shown, number, message))?;
            let Some((name, args)) = words.split_first() else { continue };
            let (name, args) = (name.to_ascii_lowercase(), args.to_vec());
            let origin = self.ledger.open(&shown, number, &line);
            if is_section {
                if !line.ends_with('>') {
                    return Err(Error::at(&shown, number, format!("expected `>` at the end of `{line}`")));
                }
                open.push(Open { name, args, origin, line: number, inner: Vec::new() });
                continue;
            }
            let nodes = match name.as_str() {
                "include" | "includeoptional" => {
                    self.include(&args, origin, name == "include", &shown, number, depth)?
                }
                "define" => {
                    self.defined.insert(
                        args.first().cloned().unwrap_or_default(),
                        args.get(1).cloned().unwrap_or_default(),
                    );
                    self.ledger.carried(origin);
                    Vec::new()
                }
                "serverroot" => {
                    if self.files.here(Path::new(args.first().map_or("", String::as_str))).is_dir() {
                        self.root = PathBuf::from(args.first().cloned().unwrap_or_default());
                    }
                    vec![Node { name, args, inner: Vec::new(), origin }]
                }
                _ => vec![Node { name, args, inner: Vec::new(), origin }],
            };
            open.last_mut().map_or(&mut top, |section| &mut section.inner).extend(nodes);
        }
        match open.pop() {
            Some(Open { name, line: at, .. }) => Err(Error::at(
                &shown,
                at,
                format!("`<{name}>` is not closed: expected `</{name}>` before the end of the file"),
            )),
            None => Ok(top),
        }
    }

    /// Sections whose condition is known are replaced by what is in them.
    fn unwrapped(&mut self, node: Node) -> Vec<Node> {
        let first = node.arg(0).to_owned();
        let (negated, what) = first.strip_prefix('!').map_or((false, first.as_str()), |what| (true, what));
        let holds = match node.name.as_str() {
            // Old versions of the same: rules of Apache 2.2.
            "ifmodule" => {
                matches!(what, "mod_access_compat.c" | "mod_authz_host.c").then_some(false).unwrap_or(true)
                    != negated
            }
            "ifdefine" => self.defined.contains_key(what) != negated,
            "ifversion" => node.args.iter().any(|arg| arg.starts_with('<')) == negated,
            _ => return vec![node],
        };
        match holds {
            true => {
                self.ledger.ignored(node.origin, "its condition holds");
                node.inner
            }
            false => {
                self.ledger.ignored(node.origin, "its condition does not hold");
                ignore(&node.inner, self.ledger);
                Vec::new()
            }
        }
    }

    fn include(
        &mut self,
        args: &[String],
        origin: Origin,
        required: bool,
        shown: &str,
        line: usize,
        depth: usize,
    ) -> Result<Vec<Node>, Error> {
        if depth >= DEPTH_LIMIT {
            return Err(Error::at(shown, line, format!("includes are nested more than {DEPTH_LIMIT} deep")));
        }
        let pattern = self.root.join(args.first().map_or("", String::as_str));
        let found = self.files.glob(&pattern);
        if found.is_empty() && required && !pattern.to_string_lossy().contains('*') {
            let message = format!(
                "includes {}, which is not there; give `--root DIR` if the files are of another machine, or remove the line",
                self.files.shown(&pattern)
            );
            return Err(Error::at(shown, line, message));
        }
        self.ledger
            .ignored(origin, if found.is_empty() { "no file matches it" } else { "its files were read" });
        let mut nodes = Vec::new();
        for file in found {
            nodes.extend(self.file(&file, depth + 1)?);
        }
        Ok(nodes)
    }

    fn filled(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.defined {
            out = out.replace(&format!("${{{name}}}"), value);
        }
        out
    }
}

pub(super) fn ignore(nodes: &[Node], ledger: &mut Ledger) {
    for node in nodes {
        if !ledger.is_settled(node.origin) {
            ledger.ignored(node.origin, "a part of a section that is not converted");
        }
        ignore(&node.inner, ledger);
    }
}

fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    while let Some(&c) = chars.peek() {
        if c.is_whitespace() {
            chars.next();
            continue;
        }
        let mut word = String::new();
        if c == '"' || c == '\'' {
            chars.next();
            loop {
                match chars.next() {
                    None => return Err(format!("the {c} is not closed")),
                    Some(end) if end == c => break,
                    Some('\\') if chars.peek() == Some(&c) => word.extend(chars.next()),
                    Some(other) => word.push(other),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
        }
        words.push(word);
    }
    Ok(words)
}
