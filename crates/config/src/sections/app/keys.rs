//! The keys of `[app.NAME]`.

use std::path::PathBuf;
use std::time::Duration;

use super::AppDraft;
use crate::key::{DefaultValue, Key, Section, Set, Subtable};
use crate::model::PumaConfig;
use crate::sections::process_limits::PROCESS_LIMITS;
use crate::shape::{
    APP_PROTOCOL, AppKindShape, CommandLines, Count, EntryPoint, EnvFile, EnvTable, Executable, ExistingPath,
    Flag, GROUP, PROXY_PROTOCOL, RequestPath, ServerAddress, Size, Strings, Time, USER, Umask, WordOr, Words,
    WorkerCount,
};

const MILLISECOND: Duration = Duration::from_millis(1);
/// The minimum is less than an interpreter alone uses, the maximum more than a machine has.
pub(crate) const MEMORY: Size = Size(1 << 20..=1 << 44);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) static APP: Section<AppDraft> = Section {
    keys: &[
        Key {
            name: "entry",
            brief: "What a worker runs: `package.module:name`, or a file",
            long: "Without a name after the colon, Keepwarm tries `application`, `app` and `create_app`; for a directory or a package, it also tries its modules `wsgi`, `asgi`, `app`, `main` and others. A factory is called once and returns the app; its arguments may follow in parentheses. For classic PHP (kind `\"fastcgi\"`) it is the front controller, whose directory is the site, or that directory. An app has exactly one of `entry` and `command`.",
            default: DefaultValue::Words("none; either it or `command` is required"),
            right: "entry = \"shop.wsgi:application\"",
            wrong: "entry = \"python app.py\"",
            value: &Set(EntryPoint, |draft: &mut AppDraft, entry| draft.entry = Some(entry)),
            ..Key::RECYCLE
        },
        Key {
            name: "command",
            brief: "Whole command line, in place of `entry`",
            long: "A program that serves HTTP by itself, on 127.0.0.1 at the port in the variable `PORT`, or at the Unix socket whose path is in `KEEPWARM_SOCKET`: this is kind `\"http\"`, the default for a command. With another `kind`, it is the launcher of an adapter, which speaks the worker wire on the descriptor in `KEEPWARM_FD`. No shell interprets the command: if an argument needs `$PORT`, write `[\"sh\", \"-c\", \"exec program --port $PORT\"]`.",
            default: DefaultValue::Words("none; either it or `entry` is required"),
            right: "command = [\"node\", \"server.js\"]",
            wrong: "command = []",
            value: &Set(
                Strings {
                    one: "a program",
                    many: "the program and its arguments",
                    may_be_empty: false,
                    fault: |_| None,
                },
                |draft: &mut AppDraft, command| draft.command = Some(command),
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "kind",
            brief: "Kind of the app: the interface through which it gets requests",
            long: "`\"wsgi\"` (PEP 3333) or `\"asgi\"` (ASGI 3) for Python; `\"rack\"` for Ruby (Rack 2 and 3); `\"php\"` for a PHP file that returns its application, which then stays loaded between requests (warm workers); `\"fastcgi\"` for classic PHP: scripts that run from the top for each request; `\"http\"` for a program that serves HTTP by itself.",
            default: DefaultValue::Words(
                "Rack for an entry that ends in `.ru` or `.rb`; for one that ends in `.php`, detected from what the file returns; `\"http\"` for a `command`; otherwise detected from the app's signature once it is loaded",
            ),
            right: "kind = \"asgi\"",
            wrong: "kind = \"asig\"",
            value: &Set(AppKindShape, |draft: &mut AppDraft, kind| draft.app.kind = Some(kind)),
            ..Key::RECYCLE
        },
        Key {
            name: "directory",
            brief: "Working directory of the workers, from which imports start",
            long: "A relative path is resolved against the directory of the main configuration file.",
            default: DefaultValue::Words("the directory of the main configuration file"),
            right: "directory = \"/srv/shop\"",
            wrong: "directory = \"/no/such/directory\"",
            value: &Set(ExistingPath::Directory, |draft: &mut AppDraft, directory| {
                draft.app.directory = directory
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "env",
            brief: "Environment variables for the workers; they override Keepwarm's own environment",
            long: "Names that begin with `KEEPWARM_` are reserved for Keepwarm.",
            default: DefaultValue::Words("none"),
            right: "env = { DATABASE_URL = \"${file:/run/secrets/db}\" }",
            wrong: "env = { PORT = 8080 }",
            value: &Set(EnvTable, |draft: &mut AppDraft, env| draft.app.env = env),
            ..Key::RECYCLE
        },
        Key {
            name: "env_file",
            brief: "File of `NAME=value` lines, which `env` overrides",
            long: "Comments begin with `#`. `export` before a name and quotes around a value are removed; otherwise values are taken as they are. Read again at each reload.",
            default: DefaultValue::Words("none"),
            right: "env_file = \"/srv/shop/.env\"",
            wrong: "env_file = \"/no/such/file\"",
            value: &Set(EnvFile, |draft: &mut AppDraft, env| draft.env_file = env),
            ..Key::RECYCLE
        },
        Key {
            name: "user",
            brief: "User that the workers run as",
            long: "A name, or a number in quotes. The workers also get the user's groups, and `HOME`, `USER` and `LOGNAME`. Needs root, unless it is the user that Keepwarm runs as. If Keepwarm is root and no user is configured, workers run as the owner of the app's files, or as `nobody` if that is root, provided that this user can read the app and write its data; otherwise they run as root, with a warning.",
            default: DefaultValue::Words(
                "`server.user`, else Keepwarm's own user; as root, the owner of the app's files, or `nobody`",
            ),
            right: "user = \"shop\"",
            wrong: "user = \"nobody-of-that-name\"",
            value: &Set(USER, |draft: &mut AppDraft, user| draft.run_as.user = Some(user)),
            ..Key::RECYCLE
        },
        Key {
            name: "group",
            brief: "Group that the workers run as, in place of the user's own",
            long: "A name, or a number in quotes. The user's supplementary groups stay.",
            default: DefaultValue::Words("the user's group"),
            right: "group = \"www\"",
            wrong: "group = \"no-group-of-that-name\"",
            value: &Set(GROUP, |draft: &mut AppDraft, group| draft.run_as.group = Some(group)),
            ..Key::RECYCLE
        },
        Key {
            name: "umask",
            brief: "Umask of the workers: permissions that the files they create do not get",
            default: DefaultValue::Words("Keepwarm's own"),
            right: "umask = \"027\"",
            wrong: "umask = 27",
            value: &Set(Umask, |draft: &mut AppDraft, mask| draft.app.umask = Some(mask)),
            ..Key::RECYCLE
        },
        Key {
            name: "limits",
            brief: "Resource limits of a worker process",
            default: DefaultValue::Words("see each key"),
            right: "limits = { files = 1024, core = 0 }",
            wrong: "limits = 1024",
            value: &Subtable(&PROCESS_LIMITS, |draft: &mut AppDraft| &mut draft.app.limits),
            ..Key::RECYCLE
        },
        Key {
            name: "interpreter",
            brief: "Interpreter of the app's language",
            long: "A path, or a name that is looked up in `PATH`. A relative path is resolved against the directory of the main configuration file. For classic PHP, the server that runs its scripts: `php-cgi`, or a php-fpm (its name begins with that), which then has as many processes as `workers` says.",
            default: DefaultValue::Words(
                "for Python the active virtual environment or one next to the app, then `python3`; for Ruby `ruby`; for PHP `php`; for classic PHP the php-fpm of the same version in `PATH`, `/usr/sbin` or `/usr/local/sbin`, else `php-cgi`",
            ),
            right: "interpreter = \"/srv/shop/.venv/bin/python\"",
            wrong: "interpreter = \"/no/such/python\"",
            value: &Set(Executable, |draft: &mut AppDraft, path| draft.app.interpreter = Some(path)),
            ..Key::RECYCLE
        },
        Key {
            name: "options",
            brief: "Arguments for the interpreter",
            long: "They come before the arguments that Keepwarm adds.",
            default: DefaultValue::Literal("[]"),
            right: "options = [\"-X\", \"dev\"]",
            wrong: "options = [1]",
            value: &Set(
                Strings { one: "an argument", many: "arguments", may_be_empty: true, fault: |_| None },
                |draft: &mut AppDraft, options| draft.app.options = options,
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "address",
            brief: "Address of a php-fpm that is already running",
            long: "For classic PHP (kind `\"fastcgi\"`, which this key implies): Keepwarm starts nothing and sends requests to that server. `entry` is the site's front controller, or its directory; the server must see it at the same path. `workers` is the number of requests that the server gets at once. It must not exceed the number of its processes (`pm.max_children`), because each connection of Keepwarm may occupy one. While nothing listens at the address, the response is 503.",
            default: DefaultValue::Words("none: Keepwarm starts what runs the app"),
            right: "address = \"127.0.0.1:9000\"",
            wrong: "address = \"localhost:9000\"",
            value: &Set(ServerAddress, |draft: &mut AppDraft, address| draft.app.address = Some(address)),
            ..Key::LIVE
        },
        Key {
            name: "workers",
            brief: "Number of worker processes, or a range within which it follows the load",
            long: "With a table, the number grows by one when requests have waited for 100 ms, and shrinks to the number that was needed within `idle`. A blocking app (WSGI) serves as many requests at once as it has workers. Use one per core for apps that compute, more for apps that wait. With a php-fpm, a number is `pm = static` and a table is `pm = dynamic`.",
            default: DefaultValue::Words(
                "`\"auto\"`: one per core; one for kind `\"http\"`, whose program may keep sessions in its memory; for Ruby the number in `config/puma.rb`, else in the variable `WEB_CONCURRENCY`, else one in development",
            ),
            right: "workers = 4",
            wrong: "workers = 0",
            value: &Set(WorkerCount, |draft: &mut AppDraft, workers| draft.app.workers = workers),
            ..Key::RECYCLE
        },
        Key {
            name: "preload",
            brief: "Load the app once, in a separate process, and fork the workers from it",
            long: "A replacement is ready within milliseconds, and what was loaded is in memory once for all workers. A Python app must not start threads while it loads: it is then rejected, and the error names them. A Ruby app that does so only gets a warning. Hooks run around the fork (docs/guide/preload.md).",
            default: DefaultValue::Words(
                "`false`; `true` for a Ruby app with `preload_app!` in its `config/puma.rb`",
            ),
            right: "preload = true",
            wrong: "preload = \"yes\"",
            value: &Set(Flag, |draft: &mut AppDraft, preload| draft.app.preload = preload),
            ..Key::RECYCLE
        },
        Key {
            name: "puma_config",
            brief: "Ruby: Puma configuration for keys that are not set here",
            long: "Its `workers`, `threads`, `preload_app!`, `environment`, `directory`, `worker_timeout` (as `request_timeout`, at least 30 seconds), `worker_boot_timeout` and `worker_shutdown_timeout` apply where the app does not set the corresponding key, and its hooks run. Settings that have another name here are reported at start. With `\"none\"`, it is not read.",
            default: DefaultValue::Words(
                "`config/puma/ENVIRONMENT.rb`, else `config/puma.rb`, in the app's directory",
            ),
            right: "puma_config = \"none\"",
            wrong: "puma_config = true",
            value: &Set(WordOr("none", ExistingPath::File), |draft: &mut AppDraft, file: Option<PathBuf>| {
                draft.app.puma_config = file.map_or(PumaConfig::Disabled, PumaConfig::File);
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "threads",
            brief: "Threads of a worker of a blocking kind, which is its number of requests at once",
            long: "For apps that wait more than they compute and whose code is thread-safe. A request that times out kills its worker, and with it the requests of the other threads.",
            default: DefaultValue::Words(
                "`1`; for Ruby the number in `config/puma.rb`, else in the variables `PUMA_MAX_THREADS`, `RAILS_MAX_THREADS`, `MAX_THREADS`",
            ),
            right: "threads = 8",
            wrong: "threads = 0",
            value: &Set(Count(1..=1000), |draft: &mut AppDraft, threads| draft.app.threads = threads),
            ..Key::RECYCLE
        },
        Key {
            name: "concurrency",
            brief: "Requests at once in a worker of a concurrent kind (`\"asgi\"`, `\"http\"`)",
            long: "Further requests wait in the queue. Streams and WebSockets count for as long as they are open. For a server (kind `\"http\"`) that works on one request at a time, set 1.",
            default: DefaultValue::Words("1000"),
            right: "concurrency = 100",
            wrong: "concurrency = 0",
            value: &Set(Count(1..=65_535), |draft: &mut AppDraft, most| draft.app.concurrency = Some(most)),
            ..Key::RECYCLE
        },
        Key {
            name: "loop",
            brief: "Event loop of an ASGI worker",
            long: "`\"auto\"` uses uvloop if the app's environment has it, otherwise asyncio. `\"trio\"` runs the app in Trio, which must be installed. An event loop that is not installed is an error.",
            default: DefaultValue::Literal("\"auto\""),
            right: "loop = \"asyncio\"",
            wrong: "loop = \"gevent\"",
            value: &Set(
                Words(&[
                    ("auto", None),
                    ("asyncio", Some("asyncio")),
                    ("uvloop", Some("uvloop")),
                    ("trio", Some("trio")),
                ]),
                |draft: &mut AppDraft, event_loop| draft.app.event_loop = event_loop,
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "lifespan",
            brief: "Whether an ASGI app must support the lifespan protocol",
            long: "With `\"auto\"`, an app that raises an exception when it is called for its startup is still served. With `\"on\"`, the worker then does not start. With `\"off\"`, the app is not called for it.",
            default: DefaultValue::Literal("\"auto\""),
            right: "lifespan = \"on\"",
            wrong: "lifespan = true",
            value: &Set(
                Words(&[("auto", None), ("on", Some("on")), ("off", Some("off"))]),
                |draft: &mut AppDraft, lifespan| draft.app.lifespan = lifespan,
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "request_timeout",
            brief: "Time limit of the app for one request; then 504, and the worker is killed",
            long: "Time in which the client sends its body or reads its response does not count. Once a response has begun, it is the limit from one part to the next; for a stream (`text/event-stream`, gRPC) that is `limits.websocket_idle` of the listener, if it is longer. Work that a worker does after a response has the same limit again.",
            default: DefaultValue::Literal("\"30s\""),
            right: "request_timeout = \"30s\"",
            wrong: "request_timeout = 30",
            value: &Set(Time(MILLISECOND..=DAY), |draft: &mut AppDraft, time| {
                draft.app.request_timeout = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "slow_log",
            brief: "Time after which a request has its worker's stack logged",
            long: "Once for each request, with its method, route and id; the worker keeps running. Another record follows when the request has finished; of a worker with one request at a time, it has the CPU time and the memory that the request took. Time that the client takes does not count. For servers (kinds `\"http\"` and `\"fastcgi\"`) there is no stack: only the request is logged.",
            default: DefaultValue::Literal("\"off\""),
            right: "slow_log = \"5s\"",
            wrong: "slow_log = true",
            value: &Set(WordOr("off", Time(MILLISECOND..=DAY)), |draft: &mut AppDraft, time| {
                draft.app.slow_log = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "boot_timeout",
            brief: "Time for a worker to become ready; then it is killed and started again",
            default: DefaultValue::Literal("\"60s\""),
            right: "boot_timeout = \"2m\"",
            wrong: "boot_timeout = \"2 m\"",
            value: &Set(Time(MILLISECOND..=DAY), |draft: &mut AppDraft, time| draft.app.boot_timeout = time),
            ..Key::LIVE
        },
        Key {
            name: "drain_timeout",
            brief: "Time for a draining worker to finish its requests",
            long: "Includes streams and WebSockets. When it is reached, the worker is killed.",
            default: DefaultValue::Literal("\"30s\""),
            right: "drain_timeout = \"10s\"",
            wrong: "drain_timeout = \"-10s\"",
            value: &Set(Time(Duration::ZERO..=DAY), |draft: &mut AppDraft, time| {
                draft.app.drain_timeout = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "before_start",
            brief: "Command, or list of commands, that run once before the first worker starts",
            long: "Such as migrations. All `before_start` commands, those of apps first, run one after the other, before anything is started, and at a reload before anything is replaced. When one fails, a start ends with its output, and a reload keeps the previous configuration and its workers, which serve meanwhile: what a command changes must suit them too. The commands run in the directory, as the user and with the environment of the app, and not when `watch` or a crash replaces a worker.",
            default: DefaultValue::Words("none"),
            right: "before_start = [\"bin/console\", \"doctrine:migrations:migrate\", \"-n\"]",
            wrong: "before_start = \"bin/console cache:warmup\"",
            value: &Set(CommandLines, |draft: &mut AppDraft, commands| draft.app.before_start = commands),
            ..Key::LIVE
        },
        Key {
            name: "before_start_timeout",
            brief: "Time limit of each `before_start` command; then it is stopped, and has failed",
            default: DefaultValue::Literal("\"10m\""),
            right: "before_start_timeout = \"1h\"",
            wrong: "before_start_timeout = 600",
            value: &Set(Time(Duration::from_secs(1)..=DAY), |draft: &mut AppDraft, time| {
                draft.app.before_start_timeout = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "start_retries",
            brief: "Failed starts in a row before Keepwarm gives up on the app",
            long: "Starts are spaced by a back-off that doubles. Keepwarm gives up only on an app that has never served a request: it responds with 503 until the next reload, and other apps are not affected. An app that has served is restarted for as long as necessary.",
            default: DefaultValue::Literal("5"),
            right: "start_retries = 10",
            wrong: "start_retries = 1.5",
            value: &Set(Count(0..=1_000_000), |draft: &mut AppDraft, retries| {
                draft.app.start_retries = retries
            }),
            ..Key::LIVE
        },
        Key {
            name: "protocol",
            brief: "Version of HTTP to speak to a worker",
            long: "For kind `\"http\"`. `\"http1\"`: HTTP/1.1. `\"http2\"`: HTTP/2 in plaintext with prior knowledge (h2c), for all requests whatever the client speaks: many at once on one connection for each of Keepwarm's threads, with trailers, so that gRPC servers can be apps. WebSockets need a server that offers extended CONNECT (RFC 8441); with another, they are refused with 502.",
            default: DefaultValue::Literal("\"http1\""),
            right: "protocol = \"http2\"",
            wrong: "protocol = \"auto\"",
            value: &Set(APP_PROTOCOL, |draft: &mut AppDraft, protocol| draft.app.protocol = protocol),
            ..Key::RECYCLE
        },
        Key {
            name: "proxy_protocol",
            brief: "PROXY header that names the client to a worker, at the beginning of each connection",
            long: "For kind `\"http\"`, and for servers that expect it. `\"v2\"` is binary and also has the client's TLS version, server name and ALPN, `\"v1\"` is a line of text. The address is that of the client in the logs: a trusted proxy in front may name it. Each connection belongs to one client then, and is kept for that client only; with more clients, more connections are made. Health checks send `LOCAL` (`UNKNOWN` in v1). The `X-Forwarded-` headers are sent as well.",
            default: DefaultValue::Words("none"),
            right: "proxy_protocol = \"v2\"",
            wrong: "proxy_protocol = true",
            value: &Set(PROXY_PROTOCOL, |draft: &mut AppDraft, version| {
                draft.app.proxy_protocol = Some(version)
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "health",
            brief: "Path that Keepwarm requests to check whether a worker is healthy",
            long: "For kind `\"http\"`. A worker is ready when it has responded to `GET` of this path with a status from 200 to 399. It is checked again every few seconds while it is idle, and when a request has timed out: a worker that does not respond is replaced. Without a path, any response to `/` makes it ready, a connection is enough while it is idle, and after a timeout a response to any request shows that it is alive.",
            default: DefaultValue::Words("`/`, and any response is good"),
            right: "health = \"/healthz\"",
            wrong: "health = \"healthz\"",
            value: &Set(RequestPath, |draft: &mut AppDraft, path| draft.app.health = Some(path)),
            ..Key::LIVE
        },
        Key {
            name: "max_requests",
            brief: "Number of requests after which a worker is replaced",
            long: "Use it against slow memory leaks in an app. Each worker draws its own limit, up to a tenth lower, so that workers that started together are not replaced together. The replacement is ready before the old worker finishes, and one worker of an app is replaced at a time, so a worker may get a few requests more than this.",
            default: DefaultValue::Words("none"),
            right: "max_requests = 10_000",
            wrong: "max_requests = 0",
            value: &Set(Count(1..=u32::MAX), |draft: &mut AppDraft, requests| {
                draft.app.max_requests = Some(requests)
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "max_age",
            brief: "Age at which a worker is replaced",
            long: "Counted from when it was ready. Each worker draws its own age, up to a tenth lower.",
            default: DefaultValue::Words("none"),
            right: "max_age = \"12h\"",
            wrong: "max_age = 3600",
            value: &Set(
                Time(Duration::from_secs(1)..=DAY.saturating_mul(365)),
                |draft: &mut AppDraft, age| draft.app.max_age = Some(age),
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "max_memory",
            brief: "Memory above which a worker is replaced",
            long: "Resident anonymous memory that belongs to the worker alone, checked every second: neither files, nor memory that it shares with the process from which it was forked, nor its child processes. It is not replaced while the machine (or the control group) lacks memory for another of its size; the log says so once.",
            default: DefaultValue::Words("none"),
            right: "max_memory = \"256MiB\"",
            wrong: "max_memory = \"256 MB\"",
            value: &Set(MEMORY, |draft: &mut AppDraft, bytes| draft.app.max_memory = Some(bytes)),
            ..Key::RECYCLE
        },
        Key {
            name: "kill_memory",
            brief: "Memory above which a worker is killed",
            long: "Measured like `max_memory`, and above it if both are set. For a worker that takes memory faster than it can be replaced, before the kernel picks another process to kill. Requests in progress get 502 and are not retried on another worker.",
            default: DefaultValue::Words("none"),
            right: "kill_memory = \"1GiB\"",
            wrong: "kill_memory = \"1G\"",
            value: &Set(MEMORY, |draft: &mut AppDraft, bytes| draft.app.kill_memory = Some(bytes)),
            ..Key::RECYCLE
        },
        Key {
            name: "queue",
            brief: "Requests that may wait for a worker; further ones get 503",
            long: "With `Retry-After`. A long queue only makes every client wait: as many requests as the workers serve within `queue_timeout` are enough.",
            default: DefaultValue::Literal("512"),
            right: "queue = 128",
            wrong: "queue = \"long\"",
            value: &Set(Count(0..=1_000_000), |draft: &mut AppDraft, queue| draft.app.queue = queue),
            ..Key::LIVE
        },
        Key {
            name: "queue_timeout",
            brief: "Time for which a request may wait for a worker; then it gets 503",
            default: DefaultValue::Literal("\"5s\""),
            right: "queue_timeout = \"2s\"",
            wrong: "queue_timeout = \"2sec\"",
            value: &Set(Time(MILLISECOND..=Duration::from_secs(3600)), |draft: &mut AppDraft, time| {
                draft.app.queue_timeout = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "serve_vendor",
            brief: "Send files of Composer's `vendor/` next to a PHP app",
            long: "For a site whose `vendor/` is in the directory of `try_files` and contains style sheets, scripts for browsers or images. Names that begin with a dot, copies, `composer.*` and whatever an `.htaccess` denies stay hidden. PHP files there are neither sent nor run.",
            default: DefaultValue::Literal("false"),
            right: "serve_vendor = true",
            wrong: "serve_vendor = \"assets\"",
            value: &Set(Flag, |draft: &mut AppDraft, serve| draft.app.serve_vendor = serve),
            ..Key::LIVE
        },
        Key {
            name: "watch",
            brief: "Development: replace the workers when one of these files changes",
            long: "Globs, relative to `directory`; `**` matches any number of directories.",
            default: DefaultValue::Words("`[]`: off"),
            right: "watch = [\"src/**/*.py\"]",
            wrong: "watch = [\"/srv/shop/*.py\"]",
            value: &Set(GLOBS, |draft: &mut AppDraft, watch| draft.app.watch = watch),
            ..Key::LIVE
        },
        Key {
            name: "leaks",
            brief: "Development: log what the app keeps between requests, and by which route",
            long: "One worker counts what it holds after each of its requests, which then take a few to a few hundred milliseconds longer, and one at a time. After 20 requests of a route, the log says once what grows (docs/operate/leaks.md). In production, use `keepwarm leaks APP`.",
            default: DefaultValue::Literal("false"),
            right: "leaks = true",
            wrong: "leaks = \"yes\"",
            value: &Set(Flag, |draft: &mut AppDraft, leaks| draft.app.leaks = leaks),
            ..Key::LIVE
        },
    ],
};

/// `watch`
pub(crate) const GLOBS: Strings =
    Strings { one: "a relative glob", many: "relative globs", may_be_empty: true, fault: glob_fault };

fn glob_fault(glob: &str) -> Option<&'static str> {
    if glob.starts_with('/') {
        Some("contains an absolute path")
    } else if glob.split('/').any(|step| step == "..") {
        Some("leaves the directory with `..`")
    } else if glob.matches('[').count() != glob.matches(']').count() {
        Some("has an unbalanced bracket")
    } else {
        None
    }
}
