use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::process::PROCESS_LIMITS;
use crate::checker::Checker;
use crate::key::{Key, Preset, Reload, Section, Set, Sub};
use crate::model::{App, AppKind, Program, Server};
use crate::php::returns_app;
use crate::raw::{Span, Table};
use crate::shape::{
    Count, Directory, EntryPoint, EnvFile, EnvTable, Flag, Groups, Kinds, LocalPath, Mask, OrWord, Runnable,
    Size, Strings, Time, Users, WorkerCount,
};
use crate::sources::{Account, Found};

/// `[app.NAME]` as it was read.
pub(crate) struct AppDraft {
    /// Of NAME.
    pub(crate) span: Span,
    /// Its `program` counts only after [`AppDraft::finish`].
    pub(crate) app: App,
    entry: Option<(String, Span)>,
    command: Option<Vec<String>>,
    env_file: BTreeMap<String, String>,
    user: Option<(Account, Span)>,
    group: Option<(u32, Span)>,
    /// Those of `[server]`.
    default_user: Option<Account>,
    default_group: Option<u32>,
}

impl AppDraft {
    pub(crate) fn new(name: &str, span: Span, directory: PathBuf, server: &Server) -> AppDraft {
        let app = App::new(name.to_owned(), Program::Command(Vec::new()), directory);
        AppDraft {
            span,
            app,
            entry: None,
            command: None,
            env_file: BTreeMap::new(),
            user: None,
            group: None,
            default_user: server.user.clone(),
            default_group: server.group,
        }
    }

    /// What no key can know of the others; afterwards the draft's `app` is whole, or there is a problem.
    pub(crate) fn finish(&mut self, table: &Table, cx: &mut Checker<'_>) {
        self.check_program(table, cx);
        if let Some((entry, _)) = &self.entry {
            self.app.kind = self.app.kind.or_else(|| told(entry, &self.app.directory, cx));
        }
        self.settle_user(table, cx);
        self.check_memory(table, cx);
        self.check_capacity(table, cx);
        self.check_preload(table, cx);
        // `env` goes over `env_file`.
        let mut env = std::mem::take(&mut self.env_file);
        env.append(&mut self.app.env);
        self.app.env = env;
        if let Some((entry, _)) = self.entry.take() {
            self.app.program = Program::Entry(entry);
        } else if let Some(command) = self.command.take() {
            self.app.kind = self.app.kind.or(Some(AppKind::Http));
            self.app.program = Program::Command(command);
        }
    }

    /// Whom the workers run as, if that is somebody else than this process, and whether they can.
    fn settle_user(&mut self, table: &Table, cx: &mut Checker<'_>) {
        let own = cx.sources.process();
        let user = self.user.as_ref().map(|(user, _)| user).or(self.default_user.as_ref()).cloned();
        // The group of `[server]` is for its user: an app with a user of its own has that user's.
        let default_group = self.default_group.filter(|_| self.user.is_none());
        let group = self.group.map(|(group, _)| group).or(default_group);
        if user.is_none() && group.is_none() {
            return;
        }
        let span = self.user.as_ref().map(|(_, span)| *span).or(self.group.map(|(_, span)| span));
        let mut account = user.unwrap_or_else(|| {
            cx.sources.user(&own.uid.to_string()).unwrap_or_else(|| Account::numbered(own.uid))
        });
        account.gid = group.unwrap_or(account.gid);
        if (account.uid, account.gid) == (own.uid, own.gid) && !own.may_change {
            // That is who this process is, with the groups that it was given.
            return;
        }
        let name = cx.name();
        if !own.may_change {
            let whom = match account.uid == own.uid {
                true => "in another group than Keepwarm's".to_owned(),
                false => format!("as `{}`", account.name),
            };
            let message = format!("the workers of `{name}` are to run {whom}, which takes root to start");
            let problem = cx
                .problem(span.unwrap_or(self.span), message)
                .expected("no `user` and no `group`, or those that Keepwarm itself runs as")
                .help("start Keepwarm as root: its workers run as whom they are told to");
            cx.push(problem);
            return;
        }
        let directory = self.app.directory.to_string_lossy().into_owned();
        if !cx.sources.may_enter(&directory, &account) {
            let at = table.entry("directory").map(|entry| entry.value.span).or(span).unwrap_or(self.span);
            let problem = cx
                .problem(
                    at,
                    format!(
                        "the user `{}` of `{name}` may not enter its directory ({directory})",
                        account.name
                    ),
                )
                .expected("a directory that this user may enter, and all above it")
                .help("`chmod o+x` or a group of that user opens a directory for it");
            cx.push(problem);
        }
        self.app.run_as = Some(account);
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
            (Some(_), None) | (None, Some(_)) => {}
        }
        self.check_server(table, cx);
        self.check_script(table, cx);
        for key in ["interpreter", "options", "preload"] {
            if let (Some(entry), Some(command)) = (table.entry(key), table.entry("command")) {
                let problem = cx
                    .problem(entry.key_span, format!("`{name}` has both `command` and `{key}`"))
                    .related(cx.texts.place(command.key_span), "the other one")
                    .help(match key {
                        "preload" => "Keepwarm's adapter loads the app: that takes an `entry`".to_owned(),
                        _ => format!("a `command` is the whole command line: put the {key} into it"),
                    });
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

    fn check_memory(&self, table: &Table, cx: &mut Checker<'_>) {
        let (Some(soft), Some(hard)) = (table.entry("max_memory"), table.entry("kill_memory")) else {
            return;
        };
        // What could not be read has been complained of.
        let read = self.app.max_memory.zip(self.app.kill_memory);
        if read.is_none_or(|(soft, hard)| hard > soft) {
            return;
        }
        let name = cx.name();
        let problem = cx
            .problem(hard.key_span, format!("`{name}.kill_memory` is not above `{name}.max_memory`"))
            .related(cx.texts.place(soft.key_span), "the other one")
            .expected(
                "more than `max_memory`: a worker is replaced first, and killed when that comes too late",
            );
        cx.push(problem);
    }

    /// A kind serves several requests at once in one way or the other.
    fn check_capacity(&self, table: &Table, cx: &mut Checker<'_>) {
        let threaded = matches!(self.app.kind, None | Some(AppKind::Wsgi | AppKind::Rack));
        let many = matches!(self.app.kind, None | Some(AppKind::Asgi | AppKind::Http));
        let word = self.app.kind.map_or("", AppKind::word);
        for (key, fits, other) in [("threads", threaded, "concurrency"), ("concurrency", many, "threads")] {
            let Some(entry) = table.entry(key).filter(|_| !fits) else { continue };
            let message = format!("`{key}` means nothing to an app of kind \"{word}\"");
            let problem = cx.problem(entry.key_span, message);
            cx.push(match (threaded, many) {
                (false, false) => {
                    problem.help("it serves one request at a time in each worker: set `workers`")
                }
                _ => {
                    problem.help(format!("`{other}` says how many requests one of its workers takes at once"))
                }
            });
        }
        if let (Some(entry), Some(command)) = (table.entry("threads"), table.entry("command")) {
            let problem = cx
                .problem(entry.key_span, format!("`{}` has both `command` and `threads`", cx.name()))
                .related(cx.texts.place(command.key_span), "the other one")
                .help("a `command` is the whole command line: put `--threads` into it");
            cx.push(problem);
        }
    }

    /// PHP cannot fork a process that is ready: its connections and its opcache would be shared.
    fn check_preload(&self, table: &Table, cx: &mut Checker<'_>) {
        let php = matches!(self.app.kind, Some(AppKind::Php | AppKind::FastCgi));
        let Some(entry) = table.entry("preload").filter(|_| php && self.app.preload) else { return };
        let word = self.app.kind.map_or("", AppKind::word);
        let message = format!("`preload` means nothing to an app of kind \"{word}\"");
        let problem = cx.problem(entry.key_span, message);
        cx.push(problem.help("leave it out: each worker loads the app by itself, before it is ready"));
    }

    /// What classic PHP needs: a script that is there, whose folder is the site.
    fn check_script(&self, table: &Table, cx: &mut Checker<'_>) {
        if self.app.kind != Some(AppKind::FastCgi) {
            return;
        }
        let name = cx.name();
        if let Some(command) = table.entry("command") {
            let problem = cx
                .problem(command.key_span, format!("`{name}` is classic PHP (kind \"fastcgi\"), and has a `command`"))
                .expected("`entry`, for example entry = \"public/index.php\"")
                .help("`interpreter` says by which server its scripts are run: \"php-cgi\", or the path of a php-fpm");
            cx.push(problem);
        }
        let Some((entry, span)) = &self.entry else { return };
        let path = self.app.directory.join(entry).to_string_lossy().into_owned();
        let fault = match entry.ends_with(".php") {
            false => "is no PHP file".to_owned(),
            true if cx.sources.look(&path) != Found::File => format!("does not exist ({path})"),
            true => return,
        };
        let problem = cx
            .problem(*span, format!("`{name}.entry` {fault}"))
            .expected("the PHP file that answers what is no other file's address, in the folder of the site")
            .help("it counts from the app's `directory`");
        cx.push(problem);
    }
}

/// The kind that an entry tells: by its ending, and of PHP by what is in the file.
fn told(entry: &str, directory: &Path, cx: &Checker<'_>) -> Option<AppKind> {
    let kind = AppKind::of_entry(entry)?;
    if kind != AppKind::Php {
        return Some(kind);
    }
    // A file that is not there is the worker's to complain of: it may come with a deploy.
    let script =
        cx.sources.read(&directory.join(entry).to_string_lossy()).is_ok_and(|text| !returns_app(&text));
    Some(if script { AppKind::FastCgi } else { AppKind::Php })
}

const MILLISECOND: Duration = Duration::from_millis(1);
/// An interpreter alone holds more than the least; the most is more than machines have.
const MEMORY: Size = Size { min: 1 << 20, max: 1 << 44 };
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
            long: "`\"wsgi\"` (PEP 3333) or `\"asgi\"` (ASGI 3) for Python; `\"rack\"` for Ruby (Rack 2 and 3); `\"php\"` for a PHP file that returns its application, which is then kept between requests; `\"fastcgi\"` for classic PHP: scripts that run from the top for each request; `\"http\"` for a program that serves HTTP by itself.",
            default: Preset::Words(
                "Rack for an entry that ends in `.ru` or `.rb`; for one that ends in `.php` told by what it returns; `\"http\"` for a `command`; else told by the app's signature when it has been loaded",
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
            name: "user",
            brief: "User of the workers",
            long: "A name, or a number in quotes. With it come the user's groups, and `HOME`, `USER` and `LOGNAME`. Needs root, unless it is the user that Keepwarm runs as.",
            default: Preset::Words("`server.user`, else that of Keepwarm"),
            right: "user = \"shop\"",
            wrong: "user = \"nobody-of-that-name\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Users, |draft: &mut AppDraft, user| draft.user = Some(user)),
        },
        Key {
            name: "group",
            brief: "Group of the workers, in place of the user's own",
            long: "A name, or a number in quotes. The user's further groups stay.",
            default: Preset::Words("that of the user"),
            right: "group = \"www\"",
            wrong: "group = \"no-group-of-that-name\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Groups, |draft: &mut AppDraft, group| draft.group = Some(group)),
        },
        Key {
            name: "umask",
            brief: "Permissions that files made by the workers do not get",
            long: "",
            default: Preset::Words("that of Keepwarm"),
            right: "umask = \"027\"",
            wrong: "umask = 27",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Mask, |draft: &mut AppDraft, mask| draft.app.umask = Some(mask)),
        },
        Key {
            name: "limits",
            brief: "What a worker process may use of the system",
            long: "",
            default: Preset::Words("as each key says"),
            right: "limits = { files = 1024, core = 0 }",
            wrong: "limits = 1024",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Sub(&PROCESS_LIMITS, |draft: &mut AppDraft| &mut draft.app.limits),
        },
        Key {
            name: "interpreter",
            brief: "The language's interpreter",
            long: "A path, or a name that is looked up in `PATH`. A relative path counts from the directory of the main configuration file. Of classic PHP: the server that runs its scripts, `php-cgi`, or a php-fpm (its name begins so), which then has as many processes as `workers` says.",
            default: Preset::Words(
                "for Python the virtual environment that is active or stands beside the app, then `python3`; for Ruby `ruby`; for PHP `php`, for its classic scripts `php-cgi`",
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
            brief: "Worker processes, or between how many their number follows the load",
            long: "With a table it grows by one when requests have waited for 100 ms, and shrinks to what was needed within `idle`. A blocking app (WSGI) serves as many requests at once as it has workers. One per core suits apps that compute; more suit apps that wait.",
            default: Preset::Words("`\"auto\"`: one per core"),
            right: "workers = 4",
            wrong: "workers = 0",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(WorkerCount, |draft: &mut AppDraft, workers| draft.app.workers = workers),
        },
        Key {
            name: "preload",
            brief: "Load the app once, in a process of its own, and fork the workers from it",
            long: "A replacement is ready within milliseconds, and what was loaded is in memory once for all workers. The app must not start threads while it is loaded: it is refused then, with their names. `keepwarm.hooks` has hooks around the fork.",
            default: Preset::Value("false"),
            right: "preload = true",
            wrong: "preload = \"yes\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Flag, |draft: &mut AppDraft, preload| draft.app.preload = preload),
        },
        Key {
            name: "threads",
            brief: "Threads of a worker of a blocking kind: so many requests at once",
            long: "For apps that wait more than they compute, and whose code is safe in threads. A request that times out ends its worker, and with it what the other threads hold.",
            default: Preset::Value("1"),
            right: "threads = 8",
            wrong: "threads = 0",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Count { min: 1, max: 1000 }, |draft: &mut AppDraft, threads| {
                draft.app.threads = threads
            }),
        },
        Key {
            name: "concurrency",
            brief: "Requests at once in a worker of a kind that takes many",
            long: "Further ones wait in the queue. Streams and WebSockets count for as long as they live. A server (kind `\"http\"`) that works on one request at a time has 1.",
            default: Preset::Words("1000"),
            right: "concurrency = 100",
            wrong: "concurrency = 0",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Count { min: 1, max: 65_535 }, |draft: &mut AppDraft, most| {
                draft.app.concurrency = Some(most)
            }),
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
            name: "slow_log",
            brief: "A request that takes the app longer has its worker's stack put into the log",
            long: "Once for each request, with its method, route and id; the worker goes on. Time the client takes does not count.",
            default: Preset::Value("\"off\""),
            right: "slow_log = \"5s\"",
            wrong: "slow_log = true",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "off", shape: Time { min: MILLISECOND, max: DAY } },
                |draft: &mut AppDraft, time| draft.app.slow_log = time,
            ),
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
            name: "health",
            brief: "The path that a worker is asked for to see whether it is well",
            long: "For kind `\"http\"`. A worker is ready when it has answered `GET` of this path with a status from 200 to 399. It is asked again every few seconds while it has nothing to do, and when a request has timed out: a worker that does not answer is replaced.",
            default: Preset::Words("`/`, and any answer will do"),
            right: "health = \"/healthz\"",
            wrong: "health = \"healthz\"",
            reload: Reload::Live,
            since: "0.2.0",
            value: &Set(LocalPath, |draft: &mut AppDraft, path| draft.app.health = Some(path)),
        },
        Key {
            name: "max_requests",
            brief: "A worker is replaced after so many requests",
            long: "Against what an app leaks slowly. Each worker draws a limit of its own, up to a tenth lower, so that those which started together are not replaced together. The replacement is ready before the old one finishes, and one worker of an app is replaced at a time, so that a few more requests than this may come to one.",
            default: Preset::Words("none: never for that"),
            right: "max_requests = 10_000",
            wrong: "max_requests = 0",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Count { min: 1, max: u32::MAX }, |draft: &mut AppDraft, requests| {
                draft.app.max_requests = Some(requests)
            }),
        },
        Key {
            name: "max_age",
            brief: "A worker is replaced after so long",
            long: "Counted from when it was ready. Each worker draws a time of its own, up to a tenth shorter.",
            default: Preset::Words("none: never for that"),
            right: "max_age = \"12h\"",
            wrong: "max_age = 3600",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(
                Time { min: Duration::from_secs(1), max: DAY.saturating_mul(365) },
                |draft: &mut AppDraft, age| draft.app.max_age = Some(age),
            ),
        },
        Key {
            name: "max_memory",
            brief: "A worker that holds more than this is replaced",
            long: "Resident anonymous memory that is its alone, looked at every second: neither files nor what it shares with the process it was forked from, nor its children. It is not replaced while the machine (or the control group) has no memory for another of its size; the log says so once.",
            default: Preset::Words("none: never for that"),
            right: "max_memory = \"256MiB\"",
            wrong: "max_memory = \"256 MB\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(MEMORY, |draft: &mut AppDraft, bytes| draft.app.max_memory = Some(bytes)),
        },
        Key {
            name: "kill_memory",
            brief: "A worker that holds more than this is killed",
            long: "Looked at as `max_memory` is, and above it when both are set: for a worker that takes memory faster than it can be replaced, before the kernel's choice falls on another process. Requests it was working on are answered 502 and not given to another worker.",
            default: Preset::Words("none: never for that"),
            right: "kill_memory = \"1GiB\"",
            wrong: "kill_memory = \"1G\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(MEMORY, |draft: &mut AppDraft, bytes| draft.app.kill_memory = Some(bytes)),
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
