use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::checker::Checker;
use crate::key::{Key, Preset, Reload, Section, Set};
use crate::model::{App, AppKind, Program};
use crate::raw::{Span, Table};
use crate::shape::{
    Count, Directory, EntryPoint, EnvFile, EnvTable, Kinds, LocalPath, Runnable, Strings, Time, Workers,
};

/// `[app.NAME]` as it was read.
pub(crate) struct AppDraft {
    /// Of NAME.
    pub(crate) span: Span,
    /// Its `program` counts only after [`AppDraft::finish`].
    pub(crate) app: App,
    entry: Option<(String, Span)>,
    command: Option<Vec<String>>,
    env_file: BTreeMap<String, String>,
}

impl AppDraft {
    pub(crate) fn new(name: &str, span: Span, directory: PathBuf) -> AppDraft {
        let app = App::new(name.to_owned(), Program::Command(Vec::new()), directory);
        AppDraft { span, app, entry: None, command: None, env_file: BTreeMap::new() }
    }

    /// What no key can know of the others; afterwards the draft's `app` is whole, or there is a problem.
    pub(crate) fn finish(&mut self, table: &Table, cx: &mut Checker<'_>) {
        self.check_program(table, cx);
        // `env` goes over `env_file`.
        let mut env = std::mem::take(&mut self.env_file);
        env.append(&mut self.app.env);
        self.app.env = env;
        if let Some((entry, _)) = self.entry.take() {
            self.app.kind = self.app.kind.or_else(|| AppKind::of_entry(&entry));
            self.app.program = Program::Entry(entry);
        } else if let Some(command) = self.command.take() {
            self.app.kind = self.app.kind.or(Some(AppKind::Http));
            self.app.program = Program::Command(command);
        }
    }

    fn check_program(&self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        match (table.entry("entry"), table.entry("command")) {
            (None, None) => {
                let problem = cx
                    .problem(self.span, format!("`{name}` does not say what to run"))
                    .expected("`entry`, for example entry = \"shop.wsgi:application\"");
                cx.push(problem);
            }
            (Some(entry), Some(command)) => {
                let problem = cx
                    .problem(command.key_span, format!("`{name}` has both `entry` and `command`"))
                    .related(cx.texts.place(entry.key_span), "the other one")
                    .expected("one of the two")
                    .help("`entry` alone lets Keepwarm start the language's interpreter");
                cx.push(problem);
            }
            (Some(_), None) => self.check_entry(table, cx),
            (None, Some(_)) => {}
        }
        self.check_server(table, cx);
        for key in ["interpreter", "options"] {
            if let (Some(entry), Some(command)) = (table.entry(key), table.entry("command")) {
                let problem = cx
                    .problem(entry.key_span, format!("`{name}` has both `command` and `{key}`"))
                    .related(cx.texts.place(command.key_span), "the other one")
                    .help(format!("a `command` is the whole command line: put the {key} into it"));
                cx.push(problem);
            }
        }
    }

    /// What only servers have, and what they cannot have.
    fn check_server(&self, table: &Table, cx: &mut Checker<'_>) {
        let name = cx.name();
        let told = self.entry.as_ref().and_then(|(entry, _)| AppKind::of_entry(entry));
        let by_default = (self.entry.is_none() && self.command.is_some()).then_some(AppKind::Http);
        let is_server = self.app.kind.or(told).or(by_default) == Some(AppKind::Http);
        if let (Some((entry, span)), true) = (&self.entry, is_server) {
            let message = format!("`{name}` is a server of its own (kind \"http\"), and has an `entry`");
            let example = match entry.ends_with(".jar") {
                true => format!("command = [\"java\", \"-jar\", \"{entry}\"]"),
                false => format!("command = [\"node\", \"{entry}\"]"),
            };
            let problem = cx.problem(*span, message).expected(format!("`command`, for example {example}"));
            cx.push(problem);
        }
        if let (Some(health), false) = (table.entry("health"), is_server) {
            let message = format!("`{name}` has `health`, and is no server of its own");
            let problem = cx
                .problem(health.key_span, message)
                .expected("`health` with kind \"http\" only")
                .help("workers of other kinds are asked over the worker wire, without a request");
            cx.push(problem);
        }
    }

    fn check_entry(&self, table: &Table, cx: &mut Checker<'_>) {
        let Some((entry, span)) = &self.entry else { return };
        let told = AppKind::of_entry(entry).filter(|_| table.entry("kind").is_none());
        let Some(kind) = told.filter(|kind| !kind.is_served()) else { return };
        let name = cx.name();
        let message = format!(
            "`{name}` is an app of kind \"{}\", which is not served by this version yet",
            kind.word()
        );
        let problem = cx.problem(*span, message).expected("a WSGI or ASGI app");
        cx.push(problem);
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) static APP: Section<AppDraft> = Section {
    keys: &[
        Key {
            name: "entry",
            brief: "What a worker runs: `package.module:name`, or a file",
            long: "Without a name behind the colon, `application` and `app` are tried. A callable behind the name is enough; one that ends in `()` is called once and gives the app. An app has exactly one of `entry` and `command`.",
            default: Preset::Words("none; it or `command` must be set"),
            right: "entry = \"shop.wsgi:application\"",
            wrong: "entry = \"python app.py\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(EntryPoint, |draft: &mut AppDraft, entry| draft.entry = Some(entry)),
        },
        Key {
            name: "command",
            brief: "A whole command line, in place of `entry`",
            long: "A program that serves HTTP by itself, on 127.0.0.1 at the port in the variable `PORT`, or at the Unix socket whose path is in `KEEPWARM_SOCKET`: kind `\"http\"`, which is the default for a command. With another `kind`, a launcher of an adapter, which speaks the worker wire on the descriptor named in `KEEPWARM_FD`. No shell reads it: for `$PORT` among the words, write `[\"sh\", \"-c\", \"exec program --port $PORT\"]`.",
            default: Preset::Words("none; it or `entry` must be set"),
            right: "command = [\"node\", \"server.js\"]",
            wrong: "command = []",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(
                Strings {
                    one: "a program",
                    many: "words, the program first",
                    may_be_empty: false,
                    fault: |_| None,
                },
                |draft: &mut AppDraft, command| draft.command = Some(command),
            ),
        },
        Key {
            name: "kind",
            brief: "How the app is called",
            long: "`\"wsgi\"` (PEP 3333), `\"asgi\"` (ASGI 3) or `\"http\"` (a program that serves HTTP by itself).",
            default: Preset::Words(
                "`\"http\"` with `command`; else told by the app's signature when it has been loaded",
            ),
            right: "kind = \"asgi\"",
            wrong: "kind = \"asig\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Kinds, |draft: &mut AppDraft, kind| draft.app.kind = Some(kind)),
        },
        Key {
            name: "directory",
            brief: "Working directory of the workers, and where imports begin",
            long: "A relative path counts from the directory of the main configuration file.",
            default: Preset::Words("the directory of the main configuration file"),
            right: "directory = \"/srv/shop\"",
            wrong: "directory = \"/no/such/directory\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Directory, |draft: &mut AppDraft, directory| draft.app.directory = directory),
        },
        Key {
            name: "env",
            brief: "Variables for the workers, over those of Keepwarm's own environment",
            long: "Names that begin with `KEEPWARM_` are Keepwarm's own.",
            default: Preset::Words("none"),
            right: "env = { DATABASE_URL = \"${file:/run/secrets/db}\" }",
            wrong: "env = { PORT = 8080 }",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(EnvTable, |draft: &mut AppDraft, env| draft.app.env = env),
        },
        Key {
            name: "env_file",
            brief: "A file of `NAME=value` lines, under `env`",
            long: "Comments begin with `#`; `export` in front of a name and quotes around a value are taken off; values are taken as they are otherwise. Read anew at each reload.",
            default: Preset::Words("none"),
            right: "env_file = \"/srv/shop/.env\"",
            wrong: "env_file = \"/no/such/file\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(EnvFile, |draft: &mut AppDraft, env| draft.env_file = env),
        },
        Key {
            name: "interpreter",
            brief: "The language's interpreter",
            long: "A path, or a name that is looked up in `PATH`. A relative path counts from the directory of the main configuration file.",
            default: Preset::Words(
                "the virtual environment that is active or stands beside the app, then `python3`",
            ),
            right: "interpreter = \"/srv/shop/.venv/bin/python\"",
            wrong: "interpreter = \"/no/such/python\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Runnable, |draft: &mut AppDraft, path| draft.app.interpreter = Some(path)),
        },
        Key {
            name: "options",
            brief: "Arguments for the interpreter",
            long: "They stand before those Keepwarm gives it.",
            default: Preset::Value("[]"),
            right: "options = [\"-X\", \"dev\"]",
            wrong: "options = [1]",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(
                Strings { one: "an argument", many: "arguments", may_be_empty: true, fault: |_| None },
                |draft: &mut AppDraft, options| draft.app.options = options,
            ),
        },
        Key {
            name: "workers",
            brief: "Worker processes",
            long: "A blocking app (WSGI) serves as many requests at once as it has workers. One per core suits apps that compute; more suit apps that wait.",
            default: Preset::Words("`\"auto\"`: one per core"),
            right: "workers = 4",
            wrong: "workers = 0",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Workers, |draft: &mut AppDraft, workers| draft.app.workers = workers),
        },
        Key {
            name: "request_timeout",
            brief: "The app's time for one request; past it the worker is killed and the answer is 504",
            long: "Time the client takes to send its body or to take its answer does not count.",
            default: Preset::Value("\"30s\""),
            right: "request_timeout = \"30s\"",
            wrong: "request_timeout = 30",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Time { min: MILLISECOND, max: DAY }, |draft: &mut AppDraft, time| {
                draft.app.request_timeout = time
            }),
        },
        Key {
            name: "boot_timeout",
            brief: "Time for a worker to become ready; past it the worker is killed and tried again",
            long: "",
            default: Preset::Value("\"60s\""),
            right: "boot_timeout = \"2m\"",
            wrong: "boot_timeout = \"2 m\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Time { min: MILLISECOND, max: DAY }, |draft: &mut AppDraft, time| {
                draft.app.boot_timeout = time
            }),
        },
        Key {
            name: "drain_timeout",
            brief: "How long a worker that is to end may finish what it holds",
            long: "Streams and WebSockets included. Past it the worker is killed.",
            default: Preset::Value("\"30s\""),
            right: "drain_timeout = \"10s\"",
            wrong: "drain_timeout = \"-10s\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Time { min: Duration::ZERO, max: DAY }, |draft: &mut AppDraft, time| {
                draft.app.drain_timeout = time
            }),
        },
        Key {
            name: "start_retries",
            brief: "Failed starts in a row before the app is given up",
            long: "Starts are spaced by a back-off that doubles. An app that was given up answers 503 until the next reload; other apps do not notice.",
            default: Preset::Value("5"),
            right: "start_retries = 10",
            wrong: "start_retries = 1.5",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Count { min: 0, max: 1_000_000 }, |draft: &mut AppDraft, retries| {
                draft.app.start_retries = retries
            }),
        },
        Key {
            name: "concurrency",
            brief: "Requests at once in a worker",
            long: "For kind `\"http\"`: how many requests one process is given at a time; streams and WebSockets count for as long as they live. Requests beyond it wait in the queue for the first worker that has room. A server that works on one request at a time has 1.",
            default: Preset::Words("1000 for kind `\"http\"`"),
            right: "concurrency = 64",
            wrong: "concurrency = 0",
            reload: Reload::Recycle,
            since: "0.2.0",
            value: &Set(Count { min: 1, max: 1_000_000 }, |draft: &mut AppDraft, count| {
                draft.app.concurrency = Some(count)
            }),
        },
        Key {
            name: "health",
            brief: "The path that a worker is asked for to see whether it is well",
            long: "For kind `\"http\"`. A worker is ready when it has answered `GET` of this path with a status from 200 to 399. It is asked again every 10 s while it has nothing to do, and when a request has timed out: a worker that does not answer is replaced.",
            default: Preset::Words("`/`, and any answer will do"),
            right: "health = \"/healthz\"",
            wrong: "health = \"healthz\"",
            reload: Reload::Live,
            since: "0.2.0",
            value: &Set(LocalPath, |draft: &mut AppDraft, path| draft.app.health = Some(path)),
        },
        Key {
            name: "queue",
            brief: "Requests that may wait for a worker; more are answered with 503",
            long: "With `Retry-After`. A long queue only makes everybody wait: as many as the workers serve within `queue_timeout` is enough.",
            default: Preset::Value("512"),
            right: "queue = 128",
            wrong: "queue = \"long\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Count { min: 0, max: 1_000_000 }, |draft: &mut AppDraft, queue| {
                draft.app.queue = queue
            }),
        },
        Key {
            name: "queue_timeout",
            brief: "How long a request may wait for a worker; longer is answered with 503",
            long: "",
            default: Preset::Value("\"5s\""),
            right: "queue_timeout = \"2s\"",
            wrong: "queue_timeout = \"2sec\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                Time { min: MILLISECOND, max: Duration::from_secs(3600) },
                |draft: &mut AppDraft, time| draft.app.queue_timeout = time,
            ),
        },
        Key {
            name: "watch",
            brief: "Development: recycle the workers when one of these files changes",
            long: "Globs, relative to `directory`; `**` is any number of directories.",
            default: Preset::Words("`[]`: off"),
            right: "watch = [\"src/**/*.py\"]",
            wrong: "watch = [\"/srv/shop/*.py\"]",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                Strings {
                    one: "a relative glob",
                    many: "relative globs",
                    may_be_empty: true,
                    fault: glob_fault,
                },
                |draft: &mut AppDraft, watch| draft.app.watch = watch,
            ),
        },
        Key::later("user", "User of the workers"),
        Key::later("group", "Group of the workers"),
        Key::later("umask", "File mode mask of the workers"),
        Key::later("threads", "Threads of a worker"),
        Key::later("preload", "Load once, then fork"),
        Key::later("max_requests", "Recycle after so many requests"),
        Key::later("max_age", "Recycle after this time"),
        Key::later("max_memory", "Recycle above this size"),
        Key::later("kill_memory", "Kill above this size"),
        Key::later("slow_log", "Log requests slower than this"),
    ],
};

fn glob_fault(glob: &str) -> Option<&'static str> {
    if glob.starts_with('/') {
        Some("holds an absolute path")
    } else if glob.split('/').any(|step| step == "..") {
        Some("leaves the app's directory with `..`")
    } else if glob.matches('[').count() != glob.matches(']').count() {
        Some("has a bracket without its other half")
    } else {
        None
    }
}
