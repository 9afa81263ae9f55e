//! From a path to checked values: read, replace placeholders, include, apply variables, check.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::check;
use crate::checker::Checker;
use crate::key::Shape;
use crate::model::{Config, Server};
use crate::raw::{PlaceholderValues, SourceMap, Span, Table, apply_overrides, expand, merge, parse_file};
use crate::report::{Problem, Report, Warning};
use crate::sections::{AcmeDraft, INCLUDE, ROOT, Root, all_keys};
use crate::sources::Sources;

/// Reads and checks the configuration whose main file is `root`.
///
/// Relative paths in it are resolved against the directory of `root`; if `root` is relative, the checked paths are
/// relative to the current directory.
///
/// # Errors
/// All problems at once. If a file is not TOML, only the syntax errors of all files are reported: values are checked
/// once the
/// files can be parsed.
pub fn load(sources: &dyn Sources, root: &str) -> Result<(Config, Vec<Warning>), Report> {
    let base =
        root.rsplit_once('/').map_or("", |(directory, _)| if directory.is_empty() { "/" } else { directory });
    let mut cx = Checker::new(sources, base.to_owned(), all_keys);
    let Some(mut file) = read(root, None, &mut cx) else {
        return Err(report(cx));
    };
    let mut is_complete = file.is_complete;
    let includes = file.table.remove("include");
    if let Some(entry) = includes {
        for (path, span) in included(&entry.value, root, &mut cx) {
            let Some(more) = read(&path, Some(span), &mut cx) else { continue };
            is_complete &= more.is_complete;
            reject_nested(&more.table, &mut cx);
            merge(&mut file.table, more.table, &cx.source_map, &mut cx.problems);
        }
    }
    if !is_complete {
        return Err(report(cx));
    }
    check_table(file.table, Some(root), cx)
}

/// Applies variables to a table and checks it. A missing section is reported for `file`.
pub(crate) fn check_table(
    mut table: Table,
    file: Option<&str>,
    mut cx: Checker<'_>,
) -> Result<(Config, Vec<Warning>), Report> {
    apply_overrides(&mut table, &cx.env, &mut cx.source_map, &mut cx.problems);
    let directory = if cx.base.is_empty() { PathBuf::from(".") } else { PathBuf::from(&cx.base) };
    let mut root = Root {
        server: Server::default(),
        admin: None,
        otlp: None,
        acme: AcmeDraft::default(),
        maps: Vec::new(),
        listeners: Vec::new(),
        apps: Vec::new(),
        processes: Vec::new(),
        upstreams: Vec::new(),
        rate_limits: Vec::new(),
        directory,
    };
    ROOT.read(&mut root, &table, &mut cx);
    let config = check::finish(root, &table, file, &mut cx);
    if cx.problems.is_empty() {
        return Ok((config, cx.warnings.into_iter().map(Warning::new).collect()));
    }
    Err(report(cx))
}

/// Every caller has reported a problem before.
pub(crate) fn report(cx: Checker<'_>) -> Report {
    Report::of(cx.problems)
}

struct ConfigFile {
    table: Table,
    is_complete: bool,
}

/// The table of a file with its placeholders replaced; `None` if the file cannot be read.
fn read(path: &str, named_at: Option<Span>, cx: &mut Checker<'_>) -> Option<ConfigFile> {
    let bytes = match cx.sources.read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let problem = Problem::new(format!("`{path}` cannot be read: {error}"));
            return match named_at {
                Some(span) => problem.at(cx.source_map.location(span)).key("include").expected(
                    "a file this user can read; its path is relative to the directory of the main file",
                ),
                None => problem
                    .at(SourceMap::unreadable(path))
                    .help("name the file with --config FILE; `keepwarm run TARGET` needs none"),
            }
            .reject(cx);
        }
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let bytes = error.into_bytes();
            let source = cx.source_map.add_file(path, String::from_utf8_lossy(&bytes).into_owned());
            let span = Span { source, start: good, end: good + 1 };
            Problem::new("TOML syntax error: bytes that are not UTF-8")
                .at(cx.source_map.location(span))
                .expected("text in UTF-8")
                .report(cx);
            return Some(ConfigFile { table: Table::default(), is_complete: false });
        }
    };
    let source = cx.source_map.add_file(path, text.clone());
    let parsed = parse_file(&cx.source_map, source, &text);
    cx.problems.extend(parsed.problems);
    let mut table = parsed.table;
    if parsed.is_complete {
        let outside = PlaceholderSources { env: &cx.env, sources: cx.sources, base: &cx.base };
        expand(&mut table, &cx.source_map, &outside, &mut cx.problems);
    }
    Some(ConfigFile { table, is_complete: parsed.is_complete })
}

/// The files of an `include` in the order in which they are read, with the spans of their paths.
fn included(directive: &crate::raw::Directive, root: &str, cx: &mut Checker<'_>) -> Vec<(String, Span)> {
    let Some(key) = ROOT.key("include") else { return Vec::new() };
    cx.enter("include", "include", key.value.describe(), key.right);
    let mut paths = Vec::new();
    // Reading the whole list first reports every item that is not a string.
    if INCLUDE.read(directive, cx).is_some() {
        for item in cx.items(directive).iter() {
            let Some(text) = cx.text(item) else { continue };
            let pattern = cx.path(&text.text);
            if !text.text.contains(['*', '?']) {
                paths.push((pattern, item.span));
                continue;
            }
            match cx.sources.glob(&pattern) {
                Ok(mut found) => {
                    found.sort();
                    found.retain(|path| path != root);
                    paths.extend(found.into_iter().map(|path| (path, item.span)));
                }
                Err(error) => {
                    cx.wrong(item.span, &format!("cannot be listed: {error} ({pattern})")).report(cx);
                }
            }
        }
    }
    cx.leave();
    paths
}

fn reject_nested(table: &Table, cx: &mut Checker<'_>) {
    if let Some(entry) = table.entry("include") {
        Problem::new("an included file includes another file")
            .key("include")
            .at(cx.source_map.location(entry.key_span))
            .expected("`include` in the main file only")
            .help("put the file into the main file's `include`")
            .report(cx);
    }
}

/// The values of placeholders: variables and files.
struct PlaceholderSources<'a> {
    env: &'a BTreeMap<String, String>,
    sources: &'a dyn Sources,
    base: &'a str,
}

impl PlaceholderValues for PlaceholderSources<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn file(&self, path: &str) -> Result<String, String> {
        let path = crate::checker::join_path(self.base, path);
        let bytes = self.sources.read(&path).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        // Editors and `echo` end a file with a line break, which is not part of the value.
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
    }
}
