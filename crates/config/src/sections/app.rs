//! `[app.NAME]` as a whole: checks that involve several keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::checker::Checker;
use crate::folder::is_site;
use crate::model::{App, AppKind, Program, Server, Workers};
use crate::php::returns_app;
use crate::raw::{Span, Table};
use crate::sections::process_limits::check_memory;
use crate::sections::run_as::RunAsDraft;
use crate::sources::PathKind;

mod keys;

pub(crate) use keys::{APP, GLOBS, MEMORY};

/// `[app.NAME]` before the checks.
pub(crate) struct AppDraft {
    /// The span of NAME.
    pub(crate) span: Span,
    /// `program` is valid only after [`AppDraft::finish`].
    pub(crate) app: App,
    entry: Option<(String, Span)>,
    command: Option<Vec<String>>,
    /// Whether `address` is set.
    has_address: bool,
    env_file: BTreeMap<String, String>,
    run_as: RunAsDraft,
}

impl AppDraft {
    pub(crate) fn new(name: &str, span: Span, directory: PathBuf, server: &Server) -> AppDraft {
        let app = App::new(name.to_owned(), Program::Command(Vec::new()), directory);
        AppDraft {
            span,
            app,
            entry: None,
            command: None,
            has_address: false,
            env_file: BTreeMap::new(),
            run_as: RunAsDraft::new(server),
        }
    }

    /// Checks that involve several keys. Afterwards the draft's `app` is complete, or a problem was reported.
    pub(crate) fn finish(&mut self, table: &Table, cx: &mut Checker<'_>) {
        self.app.keys = table.entries.iter().map(|entry| entry.key.clone()).collect();
        // Also if its value is invalid, so that one mistake is reported once.
        self.has_address = table.entry("address").is_some();
        if self.has_address {
            self.app.kind = self.app.kind.or(Some(AppKind::FastCgi));
        }
        self.check_program(table, cx);
        if let Some((entry, _)) = &self.entry {
            self.app.kind = self.app.kind.or_else(|| detect_kind(entry, &self.app.directory, cx));
        }
        let runs = format!("the workers of `{}`", cx.name());
        self.app.run_as = self.run_as.resolve(&runs, &self.app.directory, self.span, table, cx);
        check_memory((self.app.max_memory, self.app.kill_memory), "a worker is replaced", table, cx);
        self.check_capacity(table, cx);
        self.check_preload(table, cx);
        self.check_leaks(table, cx);
        self.check_puma(table, cx);
        self.check_asgi(table, cx);
        self.check_vendor(table, cx);
        self.check_address(table, cx);
        // `env` overrides `env_file`.
        let mut env = std::mem::take(&mut self.env_file);
        env.append(&mut self.app.env);
        self.app.env = env;
        if let Some((entry, _)) = self.entry.take() {
            self.app.program = Program::Entry(entry);
        } else if let Some(command) = self.command.take() {
            self.app.kind = self.app.kind.or(Some(AppKind::Http));
            self.app.program = Program::Command(command);
            // Many servers are made to run once: their sessions are in memory, or they lock their data.
            if self.app.kind == Some(AppKind::Http) && table.entry("workers").is_none() {
                self.app.workers = Workers::Fixed(1);
            }
        }
    }

    /// What the path of an entry leads to.
    fn entry_kind(&self, entry: &str, cx: &Checker<'_>) -> PathKind {
        cx.sources.path_kind(&self.app.directory.join(entry.trim_end_matches('/')).to_string_lossy())
    }

    fn check_program(&self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        match (table.entry("entry"), table.entry("command")) {
            (None, None) => {
                cx.problem(self.span, format!("`{name}` has neither `entry` nor `command`"))
                    .expected("`entry`, for example entry = \"shop.wsgi:application\"")
                    .report(cx);
            }
            (Some(entry), Some(command)) => {
                cx.both(entry, command)
                    .expected("one of the two")
                    .help("with `entry` alone, Keepwarm starts the language's interpreter")
                    .report(cx);
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        self.check_server(table, cx);
        self.check_script(table, cx);
        for key in ["interpreter", "options", "preload", "puma_config", "loop", "lifespan"] {
            if let (Some(entry), Some(command)) = (table.entry(key), table.entry("command")) {
                let help = match key {
                    "puma_config" => "a `command` starts its own server, which reads its own configuration",
                    "preload" => "`preload` needs an `entry`, because Keepwarm's adapter loads the app",
                    _ => &format!("a `command` is the whole command line: put the {key} there"),
                };
                cx.both(command, entry).help(help).report(cx);
            }
        }
    }

    /// Keys that only servers have, and keys that they cannot have.
    fn check_server(&self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        let detect_kind = self.entry.as_ref().and_then(|(entry, _)| AppKind::of_entry(entry));
        let by_default = (self.entry.is_none() && self.command.is_some()).then_some(AppKind::Http);
        let is_server = self.app.kind.or(detect_kind).or(by_default) == Some(AppKind::Http);
        if let (Some((entry, span)), true) = (&self.entry, is_server) {
            let message = format!("`{name}` is a server (kind \"http\"), but has an `entry`");
            let example = match entry.ends_with(".jar") {
                true => format!("command = [\"java\", \"-jar\", \"{entry}\"]"),
                false => format!("command = [\"node\", \"{entry}\"]"),
            };
            cx.problem(*span, message).expected(format!("`command`, for example {example}")).report(cx);
        }
        let only_servers = [
            (
                "protocol",
                "leave it out: clients choose their version of HTTP, and workers of other kinds use the worker wire or FastCGI",
            ),
            (
                "proxy_protocol",
                "leave it out: workers of other kinds learn the client's address with each request",
            ),
            ("health", "workers of other kinds are checked over the worker wire, without a request"),
        ];
        for (key, help) in only_servers {
            let Some(entry) = table.entry(key).filter(|_| !is_server) else { continue };
            let message = format!("`{name}` has `{key}`, but is not a server (kind \"http\")");
            cx.problem(entry.key_span, message)
                .expected(format!("`{key}` with kind \"http\" only"))
                .help(help)
                .report(cx);
        }
    }

    /// `threads` is for blocking kinds, `concurrency` for concurrent kinds.
    fn check_capacity(&self, table: &Table, cx: &mut Checker<'_>) {
        let threaded = matches!(self.app.kind, None | Some(AppKind::Wsgi | AppKind::Rack));
        let many = matches!(self.app.kind, None | Some(AppKind::Asgi | AppKind::Http));
        let word = self.app.kind.map_or("", AppKind::word);
        for (key, fits, other) in [("threads", threaded, "concurrency"), ("concurrency", many, "threads")] {
            let Some(entry) = table.entry(key).filter(|_| !fits) else { continue };
            let message = format!("`{key}` does not apply to an app of kind \"{word}\"");
            let help = match (threaded, many) {
                (false, false) => "each of its workers serves one request at a time: set `workers`",
                _ => &format!("use `{other}` for the number of requests that one worker takes at once"),
            };
            cx.problem(entry.key_span, message).help(help).report(cx);
        }
        if let (Some(entry), Some(command)) = (table.entry("threads"), table.entry("command")) {
            let help = "a `command` is the whole command line: put `--threads` there";
            cx.both(command, entry).help(help).report(cx);
        }
    }

    /// Only ASGI has event loops and the lifespan protocol.
    fn check_asgi(&self, table: &Table, cx: &mut Checker<'_>) {
        let Some(kind) = self.app.kind.filter(|kind| *kind != AppKind::Asgi) else { return };
        for key in ["loop", "lifespan"] {
            let Some(entry) = table.entry(key).filter(|_| table.entry("command").is_none()) else { continue };
            let message = format!("`{key}` does not apply to an app of kind \"{}\"", kind.word());
            let help = format!("leave it out: `{key}` is for ASGI apps");
            cx.problem(entry.key_span, message).help(help).report(cx);
        }
    }

    /// PHP cannot fork a process that is ready: the processes would share its connections and its opcache.
    fn check_preload(&self, table: &Table, cx: &mut Checker<'_>) {
        let php = matches!(self.app.kind, Some(AppKind::Php | AppKind::FastCgi));
        let Some(entry) = table.entry("preload").filter(|_| php && self.app.preload) else { return };
        let word = self.app.kind.map_or("", AppKind::word);
        let message = format!("`preload` does not apply to an app of kind \"{word}\"");
        let help = "leave it out: each worker loads the app by itself, before it is ready";
        cx.problem(entry.key_span, message).help(help).report(cx);
    }

    /// An adapter counts what its worker holds; a server of its own has none.
    fn check_leaks(&self, table: &Table, cx: &mut Checker<'_>) {
        let by_itself = table.entry("command").is_some();
        let kind = self.app.kind.or_else(|| by_itself.then_some(AppKind::Http));
        let Some(kind @ (AppKind::Http | AppKind::FastCgi)) = kind else { return };
        let Some(entry) = table.entry("leaks").filter(|_| self.app.leaks && !self.has_address) else {
            return;
        };
        let message = format!("`leaks` does not apply to an app of kind \"{}\"", kind.word());
        let help = "leave it out: only Keepwarm's adapters for Python, Ruby and PHP tell what a worker keeps";
        cx.problem(entry.key_span, message).help(help).report(cx);
    }

    fn check_puma(&self, table: &Table, cx: &mut Checker<'_>) {
        let Some(entry) = table.entry("puma_config").filter(|_| self.app.kind != Some(AppKind::Rack)) else {
            return;
        };
        let message = format!("`{}` has a `puma_config`, but is not a Ruby app", cx.name());
        cx.problem(entry.key_span, message).expected("`puma_config` with kind \"rack\" only").report(cx);
    }

    /// Only PHP apps have a `vendor/` directory that Keepwarm hides.
    fn check_vendor(&self, table: &Table, cx: &mut Checker<'_>) {
        let php = matches!(self.app.kind, Some(AppKind::Php | AppKind::FastCgi));
        let Some(entry) = table.entry("serve_vendor").filter(|_| !php) else { return };
        let message = format!("`{}` has `serve_vendor`, but is not a PHP app", cx.name());
        let expected = "`serve_vendor` with kind \"php\" or \"fastcgi\" only";
        cx.problem(entry.key_span, message).expected(expected).report(cx);
    }

    /// Keepwarm does not start, limit or replace a server that is already running.
    fn check_address(&self, table: &Table, cx: &mut Checker<'_>) {
        let Some(address) = table.entry("address") else { return };
        let name = cx.name();
        if self.app.kind != Some(AppKind::FastCgi) {
            cx.problem(address.key_span, format!("`{name}` has an `address`, but is not classic PHP"))
                .expected("`address` with kind \"fastcgi\" only")
                .help("an HTTP server that is already running is not an app, but an upstream")
                .report(cx);
        }
        const PROCESS_KEYS: [&str; 20] = [
            "before_start",
            "before_start_timeout",
            "interpreter",
            "options",
            "env",
            "env_file",
            "user",
            "group",
            "umask",
            "limits",
            "boot_timeout",
            "drain_timeout",
            "start_retries",
            "max_requests",
            "max_age",
            "max_memory",
            "kill_memory",
            "slow_log",
            "watch",
            "leaks",
        ];
        for entry in PROCESS_KEYS.iter().filter_map(|key| table.entry(key)) {
            let help = "Keepwarm does not start the server at this address: set this in the server's own configuration";
            cx.both(address, entry).help(help).report(cx);
        }
        if let (Some(workers), Workers::Dynamic { .. }) = (table.entry("workers"), self.app.workers) {
            cx.problem(
                workers.key_span,
                format!("`{name}` has an `address`, but `workers` that follow the load"),
            )
            .expected("a number: how many requests the server gets at once")
            .report(cx);
        }
    }

    /// Classic PHP needs a script that exists, whose directory is the site, or that directory.
    fn check_script(&self, table: &Table, cx: &mut Checker<'_>) {
        if self.app.kind != Some(AppKind::FastCgi) {
            return;
        }
        let name = cx.name();
        if let Some(command) = table.entry("command") {
            let message = format!("`{name}` is classic PHP (kind \"fastcgi\"), but has a `command`");
            let help = "set `interpreter` to the server that runs its scripts: \"php-cgi\", or the path of a php-fpm";
            cx.problem(command.key_span, message)
                .expected("`entry`, for example entry = \"public/index.php\"")
                .help(help)
                .report(cx);
        }
        let Some((entry, span)) = &self.entry else { return };
        let path = self.app.directory.join(entry).to_string_lossy().into_owned();
        let fault = match (self.entry_kind(entry, cx), entry.ends_with(".php")) {
            (PathKind::Directory, _) | (PathKind::File, true) => return,
            (PathKind::File, false) => "is not a PHP file".to_owned(),
            _ => format!("does not exist ({path})"),
        };
        let expected = "the PHP file that serves every request for which there is no file, in the directory of the site; or that directory, if it has no such file";
        cx.problem(*span, format!("`{name}.entry` {fault}"))
            .expected(expected)
            .help("the path is relative to the app's `directory`")
            .report(cx);
    }
}

/// The kind of an entry, from its extension, and for PHP from the content of the file, or of the directory.
fn detect_kind(entry: &str, directory: &Path, cx: &Checker<'_>) -> Option<AppKind> {
    let path = directory.join(entry).to_string_lossy().into_owned();
    let Some(kind) = AppKind::of_entry(entry) else {
        return is_site(cx.sources, &path).then_some(AppKind::FastCgi);
    };
    if kind != AppKind::Php {
        return Some(kind);
    }
    // A missing file is not an error here, because a deploy may create it. The worker reports it.
    let script = cx.sources.read(&path).is_ok_and(|text| !returns_app(&text));
    Some(if script { AppKind::FastCgi } else { AppKind::Php })
}
