//! Puma's configuration of a Ruby app, in place of keys that Keepwarm's own does not have: `config/puma.rb`, and the variables that Puma reads.
//!
//! The file is a program. The app's Ruby evaluates it, as the app's user, with the adapter's directives (`adapters/ruby/lib/keepwarm/puma_directives.rb`), and
//! reports the result; workers evaluate it again for its hooks. A file that fails does not keep the app from being served.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use keepwarm_config::{App, AppKind, Config, Program, PumaConfig, Workers};

use crate::run_as::{self, UserChoice};
use crate::{adapter, language, program_output};

/// How long the file may take. It defines blocks and reads variables: this is a hundred times what Ruby itself takes to start, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most bytes read of the report. This number is arbitrary: a remark for each line of a file that has 1,000.
const REPORT: u64 = 256 << 10;
/// The bounds of the keys (`crates/config/src/sections/app/keys.rs`).
const MOST_WORKERS: u32 = 1024;
const MOST_THREADS: u32 = 1000;
/// Puma's `worker_timeout` ends a process that does nothing at all, and Keepwarm's `request_timeout` a request: it never gets shorter than by default.
const LEAST_REQUEST_TIMEOUT: u64 = 30;
const MOST_SECONDS: u64 = 24 * 3600;

/// Fills in what Ruby apps have in Puma's configuration. Returns the remarks to report.
pub(crate) fn settle(config: &mut Config) -> Vec<String> {
    let mut remarks = Vec::new();
    for app in &mut config.apps {
        if app.kind == Some(AppKind::Rack) && matches!(app.program, Program::Entry(_)) {
            settle_app(app, &mut remarks);
        }
    }
    remarks
}

fn settle_app(app: &mut App, remarks: &mut Vec<String>) {
    let file = find(app);
    app.puma_config = file.clone().map_or(PumaConfig::Disabled, PumaConfig::File);
    if let Some(file) = file {
        match read(app, &file) {
            Ok(report) => adopt(app, &file, &report, remarks),
            Err(why) => {
                app.puma_config = PumaConfig::Disabled;
                remarks.push(format!("{} is not used: {why}", file.display()));
            }
        }
    }
    adopt_variables(app, remarks);
    adopt_development(app);
}

/// One worker: what a developer's tools keep between two requests (a console on an error page, the messages of `async` cables) is in its memory.
fn adopt_development(app: &mut App) {
    let names = ["RAILS_ENV", "RACK_ENV", "APP_ENV"];
    let found = names.iter().find_map(|name| Some((name, variable(app, name)?)));
    if let Some((name, _)) =
        found.filter(|(_, value)| value == "development" && !app.keys.contains("workers"))
    {
        app.workers = Workers::Fixed(1);
        app.external_settings.push(format!("{name} = development: workers = 1"));
    }
}

/// The file, as Puma looks for it.
fn find(app: &App) -> Option<PathBuf> {
    match &app.puma_config {
        PumaConfig::Disabled => None,
        PumaConfig::File(file) => Some(file.clone()),
        PumaConfig::DefaultPath => {
            let environment =
                ["RACK_ENV", "APP_ENV", "RAILS_ENV"].iter().find_map(|name| variable(app, name));
            let environment = environment.unwrap_or_else(|| "production".to_owned());
            let usual = [format!("config/puma/{environment}.rb"), "config/puma.rb".to_owned()];
            usual.iter().map(|file| app.directory.join(file)).find(|file| file.is_file())
        }
    }
}

/// A variable as the app will see it.
fn variable(app: &App, name: &str) -> Option<String> {
    let value = app.env.get(name).cloned().or_else(|| std::env::var(name).ok());
    value.filter(|value| !value.is_empty())
}

/// One entry of the report on a Puma configuration.
#[derive(Debug, PartialEq, Eq)]
enum PumaEntry {
    Set(String, String),
    Hooks(usize),
    Remark(String),
}

/// Makes the app's Ruby evaluate the file.
fn read(app: &App, file: &Path) -> Result<Vec<PumaEntry>, String> {
    let mut command = command(app, file).map_err(|error| error.to_string())?;
    let said = program_output::printed(&mut command, REPORT, PATIENCE)
        .map_err(|error| format!("cannot start {}: {error}", language::interpreter(app).display()))?
        .ok_or_else(|| format!("it was not evaluated within {} s", PATIENCE.as_secs()))?;
    let report = String::from_utf8(said).ok().and_then(|said| parse(&said));
    report.ok_or_else(|| "it could not be evaluated".to_owned())
}

/// As a worker of the app would be started.
fn command(app: &App, file: &Path) -> std::io::Result<Command> {
    let start = language::start(app)?;
    let mut command = program_output::command(&language::interpreter(app), app);
    command.args(&app.options).arg(adapter::RUBY.folder()?.join("exe/keepwarm-worker"));
    command.arg("--read-puma").arg(std::path::absolute(file)?);
    let choice = run_as::choose(app, &start);
    let user = match &choice {
        UserChoice::Default(account) => Some(account),
        UserChoice::Given | UserChoice::Root(_) => app.run_as.as_ref(),
    };
    if let Some(user) = user {
        command.env("HOME", &user.home).env("USER", &user.name).env("LOGNAME", &user.name);
        // Root's further groups are left behind, too.
        command.gid(user.gid).uid(user.uid);
    }
    command.envs(&app.env);
    Ok(command)
}

/// `None`: the report is not complete.
fn parse(report: &str) -> Option<Vec<PumaEntry>> {
    let mut lines = Vec::new();
    for line in report.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        match parts.as_slice() {
            ["set", key, value] => lines.push(PumaEntry::Set((*key).to_owned(), (*value).to_owned())),
            ["hooks", count] => lines.push(PumaEntry::Hooks(count.parse().ok()?)),
            ["remark", file, "0", text] => lines.push(PumaEntry::Remark(format!("{file}: {text}"))),
            ["remark", file, line, text] => lines.push(PumaEntry::Remark(format!("{file}:{line}: {text}"))),
            ["end"] => return Some(lines),
            _ => return None,
        }
    }
    None
}

/// Takes what the configuration does not say by itself.
fn adopt(app: &mut App, file: &Path, report: &[PumaEntry], remarks: &mut Vec<String>) {
    let shown = file.strip_prefix(&app.directory).unwrap_or(file).display().to_string();
    let mut taken = Vec::new();
    for line in report {
        match line {
            PumaEntry::Remark(text) => remarks.push(text.clone()),
            PumaEntry::Hooks(0) => {}
            PumaEntry::Hooks(1) => taken.push("1 hook".to_owned()),
            PumaEntry::Hooks(count) => taken.push(format!("{count} hooks")),
            PumaEntry::Set(directive, value) => match adopt_one(app, directive, value) {
                Ok(words) => taken.extend(words),
                Err(why) => remarks.push(format!("{}: {why}", file.display())),
            },
        }
    }
    if !taken.is_empty() {
        app.external_settings.push(format!("{shown}: {}", taken.join(", ")));
    }
}

/// The adopted directive, in words; `None`: the configuration has its own.
fn adopt_one(app: &mut App, directive: &str, value: &str) -> Result<Option<String>, String> {
    let key = match directive {
        "worker_timeout" => "request_timeout",
        "environment" => "env",
        other => other,
    };
    let is_here = match directive {
        "environment" => app.env.contains_key("RACK_ENV"),
        _ => app.keys.contains(key),
    };
    if is_here {
        return Ok(None);
    }
    let words = match directive {
        "workers" if value == "auto" => {
            app.workers = Workers::Auto;
            "workers = \"auto\"".to_owned()
        }
        "workers" => {
            let workers = count(directive, value, MOST_WORKERS)?;
            app.workers = Workers::Fixed(workers);
            format!("workers = {workers}")
        }
        "threads" => {
            app.threads = count(directive, value, MOST_THREADS)?;
            format!("threads = {}", app.threads)
        }
        "preload" => {
            app.preload = value == "true";
            format!("preload = {value}")
        }
        "environment" => {
            app.env.insert("RACK_ENV".to_owned(), value.to_owned());
            format!("RACK_ENV = {value}")
        }
        "directory" => match adopt_directory(app, value)? {
            Some(words) => words,
            None => return Ok(None),
        },
        "worker_timeout" | "boot_timeout" | "drain_timeout" => adopt_time(app, directive, key, value)?,
        _ => return Ok(None),
    };
    app.keys.insert(key.to_owned());
    Ok(Some(words))
}

fn adopt_time(app: &mut App, directive: &str, key: &str, value: &str) -> Result<String, String> {
    let seconds = value.parse::<u64>().ok().filter(|&number| number <= MOST_SECONDS);
    let seconds = seconds.ok_or_else(|| {
        format!("`{directive} {value}` is not used: expected seconds, up to {MOST_SECONDS}")
    })?;
    let (place, least) = match key {
        "request_timeout" => (&mut app.request_timeout, LEAST_REQUEST_TIMEOUT),
        "boot_timeout" => (&mut app.boot_timeout, 1),
        _ => (&mut app.drain_timeout, 0),
    };
    let seconds = seconds.max(least);
    *place = Duration::from_secs(seconds);
    Ok(format!("{key} = \"{seconds}s\""))
}

fn count(name: &str, value: &str, most: u32) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("`{name} {value}` is not used: expected a number from 1 to {most}"))
}

/// Where the app is loaded from, unless that is here.
fn adopt_directory(app: &mut App, value: &str) -> Result<Option<String>, String> {
    let there = std::fs::canonicalize(value)
        .map_err(|error| format!("`directory \"{value}\"` is not used: {error}"))?;
    if !there.is_dir() {
        return Err(format!("`directory \"{value}\"` is not used: it is not a directory"));
    }
    if std::fs::canonicalize(&app.directory).is_ok_and(|here| here == there) {
        return Ok(None);
    }
    // A link to the deployed release stays a link.
    app.directory = PathBuf::from(value);
    Ok(Some(format!("directory = \"{value}\"")))
}

/// The variables that Puma reads, where neither the configuration nor the file has a value.
fn adopt_variables(app: &mut App, remarks: &mut Vec<String>) {
    let mut taken = Vec::new();
    for (key, names) in [
        ("workers", &["WEB_CONCURRENCY"][..]),
        ("threads", &["PUMA_MAX_THREADS", "RAILS_MAX_THREADS", "MAX_THREADS"][..]),
    ] {
        let found = names.iter().find_map(|name| Some((name, variable(app, name)?)));
        let Some((name, value)) = found.filter(|_| !app.keys.contains(key)) else { continue };
        // Puma's 0 is a process that starts no others: one worker.
        let value = if value.trim() == "0" { "1" } else { value.trim() };
        match adopt_one(app, key, value) {
            Ok(words) => taken.extend(words.map(|words| format!("{name}: {words}"))),
            Err(_) => {
                remarks.push(format!("the variable {name} is not used: {value:?} is not a number in range"))
            }
        }
    }
    app.external_settings.append(&mut taken);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> App {
        App::new("shop".to_owned(), Program::Entry("config.ru".to_owned()), ".".into())
    }

    #[test]
    fn a_report_without_an_end_is_not_believed() {
        let line = PumaEntry::Set("threads".to_owned(), "3".to_owned());
        assert_eq!(parse("set\tthreads\t3\nend\n"), Some(vec![line]));
        for report in ["", "set\tthreads\t3\n", "set\tthreads\nend\n", "what\nend\n"] {
            assert_eq!(parse(report), None, "{report:?}");
        }
    }

    #[test]
    fn keys_of_the_configuration_go_before_the_file() {
        let mut app = app();
        app.keys.insert("threads".to_owned());
        app.threads = 7;
        assert_eq!(adopt_one(&mut app, "threads", "3"), Ok(None));
        assert_eq!(app.threads, 7);
        assert_eq!(adopt_one(&mut app, "workers", "3"), Ok(Some("workers = 3".to_owned())));
        assert_eq!(app.workers, Workers::Fixed(3));
    }

    #[test]
    fn a_developer_has_one_worker_unless_somebody_says_otherwise() {
        let mut app = app();
        app.env.insert("RAILS_ENV".to_owned(), "development".to_owned());
        adopt_development(&mut app);
        assert_eq!((app.workers, app.external_settings.len()), (Workers::Fixed(1), 1));
        app.keys.insert("workers".to_owned());
        app.workers = Workers::Fixed(3);
        adopt_development(&mut app);
        assert_eq!(app.workers, Workers::Fixed(3));
    }

    #[test]
    fn a_request_never_gets_less_time_than_by_default() {
        for (seconds, wanted) in [("5", 30), ("3600", 3600)] {
            let mut app = app();
            adopt_one(&mut app, "worker_timeout", seconds).unwrap();
            assert_eq!(app.request_timeout, Duration::from_secs(wanted));
        }
    }

    #[test]
    fn numbers_out_of_bounds_are_refused_by_name() {
        let mut app = app();
        let refused = adopt_one(&mut app, "workers", "100000").unwrap_err();
        assert!(refused.contains("`workers 100000` is not used"), "{refused}");
        adopt_one(&mut app, "boot_timeout", "-1").unwrap_err();
        adopt_one(&mut app, "directory", "/no/such/folder").unwrap_err();
    }
}
