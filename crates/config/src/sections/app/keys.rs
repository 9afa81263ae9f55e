//! The keys of `[app.NAME]`, one by one.

use std::path::PathBuf;
use std::time::Duration;

use super::AppDraft;
use crate::key::{Key, Preset, Reload, Section, Set, Sub};
use crate::model::PumaConfig;
use crate::sections::process::PROCESS_LIMITS;
use crate::shape::{
    Count, Directory, EntryPoint, EnvFile, EnvTable, ExistingFile, Flag, Groups, Kinds, LocalPath, Mask,
    OrWord, PeerAddress, Runnable, Size, Strings, Time, Users, Words, WorkerCount,
};

const MILLISECOND: Duration = Duration::from_millis(1);
/// An interpreter alone holds more than the least; the most is more than machines have.
const MEMORY: Size = Size { min: 1 << 20, max: 1 << 44 };
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) static APP: Section<AppDraft> = Section {
    keys: &[
        Key {
            name: "entry",
            brief: "What a worker runs: `package.module:name`, or a file",
            long: "Without a name after the colon, `application`, `app` and `create_app` are tried, and for a folder or a package its modules `wsgi`, `asgi`, `app`, `main` and others. A factory is called once and returns the app; its arguments may stand in parentheses. An app has exactly one of `entry` and `command`.",
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
            long: "A name, or a number in quotes. With it come the user's groups, and `HOME`, `USER` and `LOGNAME`. Needs root, unless it is the user that Keepwarm runs as. Where Keepwarm is root and no user is configured, workers run as the owner of the app's files, and as `nobody` where that is root, if this user can read the app and write its data; else as root, with a warning.",
            default: Preset::Words(
                "`server.user`, else that of Keepwarm; for root the owner of the app's files, or `nobody`",
            ),
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
                "for Python the virtual environment that is active or stands beside the app, then `python3`; for Ruby `ruby`; for PHP `php`, for its classic scripts the php-fpm of the same version, in `PATH`, `/usr/sbin` or `/usr/local/sbin`, else `php-cgi`",
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
            name: "address",
            brief: "Where a php-fpm listens that runs already",
            long: "For classic PHP (kind `\"fastcgi\"`, which it then is): Keepwarm starts nothing, and gives requests to that server. `entry` is the site's front controller, or its folder; the server must see it at the same path. `workers` says how many requests it is given at once: no more than it has processes (`pm.max_children`), each of which a connection of ours may keep. While nobody listens there the response is 503.",
            default: Preset::Words("none: Keepwarm starts what runs the app"),
            right: "address = \"127.0.0.1:9000\"",
            wrong: "address = \"localhost:9000\"",
            reload: Reload::Live,
            since: "0.2.0",
            value: &Set(PeerAddress, |draft: &mut AppDraft, address| draft.app.address = Some(address)),
        },
        Key {
            name: "workers",
            brief: "Worker processes, or between how many their number follows the load",
            long: "With a table it grows by one when requests have waited for 100 ms, and shrinks to what was needed within `idle`. A blocking app (WSGI) serves as many requests at once as it has workers. One per core suits apps that compute; more suit apps that wait. With a php-fpm the number is `pm = static`, a table `pm = dynamic`.",
            default: Preset::Words(
                "`\"auto\"`: one per core; for Ruby that of `config/puma.rb`, else of the variable `WEB_CONCURRENCY`, else one in development",
            ),
            right: "workers = 4",
            wrong: "workers = 0",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(WorkerCount, |draft: &mut AppDraft, workers| draft.app.workers = workers),
        },
        Key {
            name: "preload",
            brief: "Load the app once, in a process of its own, and fork the workers from it",
            long: "A replacement is ready within milliseconds, and what was loaded is in memory once for all workers. An app of Python must not start threads while it is loaded: it is refused then, with their names; one of Ruby is warned. There are hooks around the fork (docs/guide/preload.md).",
            default: Preset::Words(
                "`false`; of a Ruby app with `preload_app!` in its `config/puma.rb`: `true`",
            ),
            right: "preload = true",
            wrong: "preload = \"yes\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Flag, |draft: &mut AppDraft, preload| draft.app.preload = preload),
        },
        Key {
            name: "puma_config",
            brief: "Ruby: the configuration of Puma that stands for keys that are not here",
            long: "Its `workers`, `threads`, `preload_app!`, `environment`, `directory`, `worker_timeout` (as `request_timeout`, of 30 seconds at least), `worker_boot_timeout` and `worker_shutdown_timeout` hold where the app has no such key, and its hooks run; what has another name here is said at the start. `\"none\"`: it is not read.",
            default: Preset::Words(
                "`config/puma/ENVIRONMENT.rb`, else `config/puma.rb`, in the app's directory",
            ),
            right: "puma_config = \"none\"",
            wrong: "puma_config = true",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "none", shape: ExistingFile },
                |draft: &mut AppDraft, file: Option<PathBuf>| {
                    draft.app.puma_config = file.map_or(PumaConfig::None, PumaConfig::File);
                },
            ),
        },
        Key {
            name: "threads",
            brief: "Threads of a worker of a blocking kind: so many requests at once",
            long: "For apps that wait more than they compute, and whose code is safe in threads. A request that times out ends its worker, and with it what the other threads hold.",
            default: Preset::Words(
                "`1`; for Ruby that of `config/puma.rb`, else of the variables `PUMA_MAX_THREADS`, `RAILS_MAX_THREADS`, `MAX_THREADS`",
            ),
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
            name: "loop",
            brief: "The event loop of an ASGI worker",
            long: "`\"auto\"` uses uvloop if the app's environment has it, else asyncio. `\"trio\"` runs the app in Trio, which must be installed. An event loop that is not installed is an error.",
            default: Preset::Value("\"auto\""),
            right: "loop = \"asyncio\"",
            wrong: "loop = \"gevent\"",
            reload: Reload::Recycle,
            since: "0.3.0",
            value: &Set(
                Words(&[
                    ("auto", None),
                    ("asyncio", Some("asyncio")),
                    ("uvloop", Some("uvloop")),
                    ("trio", Some("trio")),
                ]),
                |draft: &mut AppDraft, event_loop| draft.app.event_loop = event_loop,
            ),
        },
        Key {
            name: "lifespan",
            brief: "Whether an ASGI app must take part in the lifespan protocol",
            long: "`\"auto\"` serves an app that raises an exception when it is called for its start-up. With `\"on\"` the worker does not start then. With `\"off\"` the app is not called.",
            default: Preset::Value("\"auto\""),
            right: "lifespan = \"on\"",
            wrong: "lifespan = true",
            reload: Reload::Recycle,
            since: "0.3.0",
            value: &Set(
                Words(&[("auto", None), ("on", Some("on")), ("off", Some("off"))]),
                |draft: &mut AppDraft, lifespan| draft.app.lifespan = lifespan,
            ),
        },
        Key {
            name: "request_timeout",
            brief: "The app's time for one request; past it the worker is killed and the response is 504",
            long: "Time the client takes to send its body or to take its response does not count. What a worker does behind a response has the same time again.",
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
            long: "Once for each request, with its method, route and id; the worker goes on. Time the client takes does not count. Servers (kinds `\"http\"` and `\"fastcgi\"`) show no stack: the request is logged.",
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
            long: "Starts are spaced by a back-off that doubles. Only an app that has never served a request is given up: it responds with 503 until the next reload, and other apps do not notice. An app that has served is started again for as long as it takes.",
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
            long: "For kind `\"http\"`. A worker is ready when it has answered `GET` of this path with a status from 200 to 399. It is asked again every few seconds while it has nothing to do, and when a request has timed out: a worker that does not answer is replaced. Without a path any response to `/` makes it ready, a connection is enough while it has nothing to do, and after a time-out a response to any request shows that it is there.",
            default: Preset::Words("`/`, and any response will do"),
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
            long: "Looked at as `max_memory` is, and above it when both are set: for a worker that takes memory faster than it can be replaced, before the kernel's choice falls on another process. Requests it was working on gets 502 and not given to another worker.",
            default: Preset::Words("none: never for that"),
            right: "kill_memory = \"1GiB\"",
            wrong: "kill_memory = \"1G\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(MEMORY, |draft: &mut AppDraft, bytes| draft.app.kill_memory = Some(bytes)),
        },
        Key {
            name: "queue",
            brief: "Requests that may wait for a worker; more gets 503",
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
            brief: "How long a request may wait for a worker; longer gets 503",
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
            name: "serve_vendor",
            brief: "Send files of Composer's `vendor/`, beside an app of PHP",
            long: "For a site whose `vendor/` lies in the folder of `try_files` and holds styles, scripts for browsers or pictures. What begins with a dot, copies, `composer.*` and what an `.htaccess` denies stay hidden; PHP files there are neither sent nor run.",
            default: Preset::Value("false"),
            right: "serve_vendor = true",
            wrong: "serve_vendor = \"assets\"",
            reload: Reload::Live,
            since: "0.2.0",
            value: &Set(Flag, |draft: &mut AppDraft, serve| draft.app.serve_vendor = serve),
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
