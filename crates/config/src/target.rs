//! A configuration without a file, from the command line of `keepwarm run TARGET`.

use crate::checker::Checker;
use crate::folder;
use crate::load::{check_table, report};
use crate::model::{AppKind, Config};
use crate::raw::{Directive, Entry, Span, Table, Value};
use crate::report::{Problem, Report, Warning};
use crate::sections::all_keys;
use crate::sources::Sources;

/// The command line of `keepwarm run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// `shop.wsgi:application`, `app.py`, a directory; empty if `command` is set.
    pub entry: String,
    /// The arguments after `--`; empty if `entry` is set.
    pub command: Vec<String>,
    /// `--bind`, which may be repeated. Empty: 127.0.0.1:8080.
    pub bind: Vec<String>,
    /// `--domain`, which may be repeated: then `bind` is by default what `domains` of a listener means.
    pub domains: Vec<String>,
    /// `--workers`
    pub workers: Option<String>,
    /// `--watch`
    pub watch: bool,
}

impl Config {
    /// The configuration of `keepwarm run TARGET`: one listener `main`, one app named after the target, every other
    /// key at its default. `KEEPWARM_SECTION__NAME__KEY` applies here too; options of the command line override it.
    ///
    /// # Errors
    /// As [`crate::load()`], with `command line` as the source.
    pub fn for_target(sources: &dyn Sources, target: &Target) -> Result<(Config, Vec<Warning>), Report> {
        let mut cx = Checker::new(sources, String::new(), all_keys);
        if target.entry.is_empty() && target.command.is_empty() {
            Problem::new("there is nothing to run")
                .expected("a target, for example `keepwarm run shop.wsgi:application`, or --config FILE")
                .report(&mut cx);
            return Err(report(cx));
        }
        let name = app_name(target);
        cx.env.retain(|variable, _| !is_overruled(variable, &name, target));
        let entry = match folder::entry_in(sources, &target.entry) {
            Ok(entry) => entry,
            Err(problem) => {
                problem.report(&mut cx);
                return Err(report(cx));
            }
        };
        let root = table(target, entry, &name, &mut cx);
        check_table(root, None, cx)
    }
}

/// Whether an option of the command line overrides a variable.
fn is_overruled(variable: &str, name: &str, target: &Target) -> bool {
    let Some(path) = variable.strip_prefix("KEEPWARM_") else { return false };
    let app = format!("APP__{}__", name.to_ascii_uppercase().replace('-', "_"));
    let key = path.strip_prefix(&app);
    (path == "LISTEN__MAIN__BIND" && !target.bind.is_empty())
        || (key == Some("WORKERS") && target.workers.is_some())
        || (key == Some("WATCH") && target.watch)
        || (key == Some("ENTRY") || key == Some("COMMAND"))
}

/// `found`: the entry in the directory that is the target.
fn table(target: &Target, found: Option<&str>, name: &str, cx: &mut Checker<'_>) -> Table {
    let mut root = Table::default();
    let span_of_command = cx.source_map.add_argument("keepwarm run ", &command_line(target));

    let mut app = Table::default();
    if let Some(entry) = found {
        insert(&mut app, "entry", Directive::untyped(entry, span_of_command));
        let directory = match target.entry.trim_end_matches('/') {
            "" => "/",
            directory => directory,
        };
        insert(&mut app, "directory", Directive::untyped(directory, span_of_command));
    } else if target.command.is_empty() {
        insert(&mut app, "entry", Directive::untyped(&target.entry, span_of_command));
    } else {
        let words = target.command.iter().map(|word| Directive::untyped(word, span_of_command)).collect();
        insert(&mut app, "command", Directive { value: Value::Array(words), span: span_of_command });
    }
    if let Some(workers) = &target.workers {
        let span = cx.source_map.add_argument("--workers ", workers);
        insert(&mut app, "workers", Directive::untyped(workers, span));
    }
    if target.watch {
        let span = cx.source_map.add_argument("", "--watch");
        let globs = watch_globs(target, found).iter().map(|glob| Directive::untyped(glob, span)).collect();
        insert(&mut app, "watch", Directive { value: Value::Array(globs), span });
    }

    let mut binds = Vec::new();
    for bind in &target.bind {
        let span = cx.source_map.add_argument("--bind ", bind);
        binds.push(Directive::untyped(bind, span));
    }
    let domains: Vec<Directive> = target
        .domains
        .iter()
        .map(|name| {
            let span = cx.source_map.add_argument("--domain ", name);
            Directive::untyped(name, span)
        })
        .collect();
    if binds.is_empty() && domains.is_empty() {
        binds.push(Directive::untyped(DEFAULT_BIND, span_of_command));
    }
    let mut listen = Table::default();
    for (key, values) in [("bind", binds), ("domains", domains)] {
        if !values.is_empty() {
            insert(&mut listen, key, Directive { value: Value::Array(values), span: span_of_command });
        }
    }

    for (section, name, table) in [("app", name, app), ("listen", "main", listen)] {
        let mut named = Table::default();
        insert(&mut named, name, Directive { value: Value::Table(table), span: span_of_command });
        insert(&mut root, section, Directive { value: Value::Table(named), span: span_of_command });
    }
    root
}

const DEFAULT_BIND: &str = "127.0.0.1:8080";

/// The globs of `--watch`: source files of the language, and the program if it belongs to the app.
fn watch_globs(target: &Target, found: Option<&str>) -> Vec<String> {
    let entry = found.unwrap_or(&target.entry);
    let endings: &[&str] = match (target.command.is_empty(), AppKind::of_entry(entry)) {
        (false, _) => endings_of(&target.command),
        (true, Some(AppKind::Php)) => PHP,
        (true, Some(AppKind::Rack)) => RUBY,
        (true, _) => PYTHON,
    };
    let own = target.command.first().filter(|program| program.contains('/') && !program.starts_with('/'));
    let own = own.map(|program| program.trim_start_matches("./").to_owned());
    endings.iter().map(|ending| format!("**/*.{ending}")).chain(own).collect()
}

const PHP: &[&str] = &["php"];
const PYTHON: &[&str] = &["py"];
const RUBY: &[&str] = &["rb", "ru"];
const SCRIPT: &[&str] = &["js", "mjs", "cjs", "ts", "json"];

/// Extensions of source files, from the program or from a file among its arguments.
fn endings_of(command: &[String]) -> &'static [&'static str] {
    command
        .iter()
        .find_map(|word| {
            let name = word.rsplit('/').next().unwrap_or(word);
            let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
            let program = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            match (program, ending) {
                ("node" | "nodejs" | "npm" | "npx" | "yarn" | "pnpm" | "deno" | "bun", _)
                | (_, "js" | "mjs" | "cjs" | "ts") => Some(SCRIPT),
                ("python" | "gunicorn" | "uvicorn" | "hypercorn" | "granian", _) | (_, "py") => Some(PYTHON),
                ("ruby" | "puma" | "rackup" | "rails" | "bundle", _) | (_, "rb" | "ru") => Some(RUBY),
                ("php", _) | (_, "php") => Some(PHP),
                _ => None,
            }
        })
        .unwrap_or_default()
}

fn insert(table: &mut Table, key: &str, value: Directive) {
    let key_span: Span = value.span;
    table.entries.push(Entry { key: key.to_owned(), key_span, value });
}

fn command_line(target: &Target) -> String {
    if target.command.is_empty() { target.entry.clone() } else { format!("-- {}", target.command.join(" ")) }
}

/// `shop` of `shop.wsgi:application`, `app` of `src/app.py`.
fn app_name(target: &Target) -> String {
    let command = target.command.first().map_or("", String::as_str);
    let what = if target.command.is_empty() { target.entry.as_str() } else { command };
    let module = what.split(':').next().unwrap_or("");
    let file = module.rsplit('/').next().unwrap_or("");
    let first = file.split('.').find(|part| !part.is_empty()).unwrap_or("");
    let kept: String =
        first.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(64).collect();
    if kept.is_empty() || kept.contains("__") { "app".to_owned() } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_are_named_after_the_target() {
        let name = |entry: &str| app_name(&Target { entry: entry.to_owned(), ..Target::default() });
        let cases = [
            ("shop.wsgi:application", "shop"),
            ("src/app.py", "app"),
            ("./main.py:app", "main"),
            ("config.ru", "config"),
            ("__init__:app", "app"),
            (":x", "app"),
            ("é", "app"),
        ];
        for (entry, wanted) in cases {
            assert_eq!(name(entry), wanted, "{entry}");
        }
        let node = Target { command: vec!["node".to_owned(), "server.js".to_owned()], ..Target::default() };
        assert_eq!(app_name(&node), "node");
    }
}
