use std::path::PathBuf;
use std::time::Duration;

use super::limits::LIMITS;
use super::root::Root;
use crate::checker::Checker;
use crate::key::{Describe, Field, Key, Preset, Reload, Section, Set, Sub};
use crate::model::{Log, LogLevel, Server};
use crate::raw::{Directive, Span};
use crate::shape::{Cidrs, Count, FORMATS, Groups, InDirectory, OrWord, Time, Users, Words};
use crate::sources::Account;

pub(crate) static SERVER: Section<Server> = Section {
    keys: &[
        Key {
            name: "threads",
            brief: "Data-plane threads",
            long: "Each has its own runtime and takes a share of the connections. The other cores are for the workers.",
            default: Preset::Words("`\"auto\"`: half of the cores, at least one"),
            right: "threads = 2",
            wrong: "threads = 0",
            reload: Reload::Restart,
            since: "0.1.0",
            value: &Set(
                OrWord { word: "auto", shape: Count { min: 1, max: 1024 } },
                |server: &mut Server, threads| server.threads = threads,
            ),
        },
        Key {
            name: "shutdown_grace",
            brief: "How long a stop may take, from the signal on",
            long: "Covers everything: `drain_delay`, requests in work, and the shutdown of the workers. At its end connections are cut and workers killed. A stop takes that long only when requests do: without any, it takes `drain_delay`, up to `drain_idle`, and what the workers need to exit. Keep it below the time after which the process's own supervisor kills (Kubernetes: 30 s, systemd: 90 s, `docker stop`: 10 s).",
            default: Preset::Value("\"25s\""),
            right: "shutdown_grace = \"30s\"",
            wrong: "shutdown_grace = 30",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                Time { min: Duration::ZERO, max: Duration::from_secs(24 * 3600) },
                |server: &mut Server, time| server.shutdown_grace = time,
            ),
        },
        Key {
            name: "drain_delay",
            brief: "How long listeners still serve after SIGTERM",
            long: "Time for a load balancer to notice that readiness fails, so that no connection arrives at a closed port. About two of its check intervals; none is needed when nothing stands in front. A part of `shutdown_grace`, and shorter than it.",
            default: Preset::Value("\"0s\""),
            right: "drain_delay = \"5s\"",
            wrong: "drain_delay = \"5 minutes\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                Time { min: Duration::ZERO, max: Duration::from_secs(3600) },
                |server: &mut Server, time| server.drain_delay = time,
            ),
        },
        Key {
            name: "drain_idle",
            brief: "How long an idle connection is kept for its next request once listening has stopped",
            long: "That request is answered with `Connection: close`. An idle connection that is closed at once could meet a request that is already on its way; one that stays would hold up the stop until `shutdown_grace` is over.",
            default: Preset::Value("\"2s\""),
            right: "drain_idle = \"5s\"",
            wrong: "drain_idle = \"short\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                Time { min: Duration::ZERO, max: Duration::from_secs(3600) },
                |server: &mut Server, time| server.drain_idle = time,
            ),
        },
        Key {
            name: "log",
            brief: "The log of the process and of its workers' output",
            long: "",
            default: Preset::Words("text, from level `info` on, to standard error"),
            right: "log = { format = \"json\", level = \"info\" }",
            wrong: "log = \"json\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Sub(&LOG, |server: &mut Server| &mut server.log),
        },
        Key {
            name: "user",
            brief: "User of the workers whose app names none",
            long: "Needs root, unless it is the user that Keepwarm runs as. Keepwarm itself stays who it is: it must be able to open logs anew, bind addresses of a new configuration, and start workers of every user.",
            default: Preset::Words("that of Keepwarm; for root the owner of each app's files, or `nobody`"),
            right: "user = \"shop\"",
            wrong: "user = \"nobody-of-that-name\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Users, |server: &mut Server, (user, _): (Account, Span)| server.user = Some(user)),
        },
        Key {
            name: "group",
            brief: "Group of the workers whose app names neither user nor group",
            long: "",
            default: Preset::Words("that of the user"),
            right: "group = \"www\"",
            wrong: "group = \"no-group-of-that-name\"",
            reload: Reload::Recycle,
            since: "0.1.0",
            value: &Set(Groups, |server: &mut Server, (group, _): (u32, Span)| server.group = Some(group)),
        },
        Key {
            name: "pid_file",
            brief: "File that holds the process id while the process lives",
            long: "A relative path counts from the directory of the main configuration file. `keepwarm reload` finds the process by it.",
            default: Preset::Words("none"),
            right: "pid_file = \"/run/keepwarm.pid\"",
            wrong: "pid_file = \"/no/such/directory/keepwarm.pid\"",
            reload: Reload::Restart,
            since: "0.1.0",
            value: &Set(InDirectory, |server: &mut Server, path: PathBuf| server.pid_file = Some(path)),
        },
        Key {
            name: "trusted_proxies",
            brief: "Peers whose `Forwarded` and `X-Forwarded-*` are believed",
            long: "From everybody else these fields are dropped: a client could otherwise choose the address that logs, limits and the app see.",
            default: Preset::Value("[]"),
            right: "trusted_proxies = [\"10.0.0.0/8\"]",
            wrong: "trusted_proxies = [\"10.0.0.1/8\"]",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Cidrs, |server: &mut Server, blocks| server.trusted_proxies = blocks),
        },
        Key {
            name: "limits",
            brief: "What a peer may cost, on every listener that does not say otherwise",
            long: "",
            default: Preset::Words("as each key says"),
            right: "limits = { body = \"50MiB\" }",
            wrong: "limits = \"none\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Sub(&LIMITS, |server: &mut Server| &mut server.limits),
        },
        Key::later("tls_dev", "TLS with a certificate made on the spot"),
    ],
};

/// `[server]`, whose times of a stop have to fit together.
pub(crate) struct ServerTable;

impl Field<Root> for ServerTable {
    fn set(&self, root: &mut Root, directive: &Directive, cx: &mut Checker<'_>) {
        let Some(table) = cx.table(directive) else { return };
        SERVER.read(&mut root.server, &table, cx);
        let server = &root.server;
        let Some(delay) = table.entry("drain_delay").filter(|_| server.drain_delay >= server.shutdown_grace)
        else {
            return;
        };
        let mut problem = cx
            .problem(
                delay.key_span,
                "`server.drain_delay` leaves nothing of `server.shutdown_grace`, which it is a part of",
            )
            .expected(format!("less than `shutdown_grace`, which is {:?}", server.shutdown_grace));
        if let Some(grace) = table.entry("shutdown_grace") {
            problem = problem.related(cx.texts.place(grace.key_span), "the other one");
        }
        cx.push(problem);
    }

    fn describe(&self) -> &dyn Describe {
        &SERVER
    }
}

pub(crate) static LOG: Section<Log> = Section {
    keys: &[
        Key {
            name: "format",
            brief: "One line of text, or one JSON object, per record",
            long: "",
            default: Preset::Value("\"text\""),
            right: "format = \"json\"",
            wrong: "format = \"jsno\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Words(FORMATS), |log: &mut Log, format| log.format = format),
        },
        Key {
            name: "level",
            brief: "Records below this level are not written",
            long: "From the fewest records to the most: error, warn, info, debug, trace.",
            default: Preset::Value("\"info\""),
            right: "level = \"warn\"",
            wrong: "level = \"warning\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Words(LEVELS), |log: &mut Log, level| log.level = level),
        },
        Key {
            name: "file",
            brief: "File to append to",
            long: "A relative path counts from the directory of the main configuration file. The file is opened anew at SIGUSR1 and at a reload, so that it can be moved away first.",
            default: Preset::Words("standard error"),
            right: "file = \"/var/log/keepwarm.log\"",
            wrong: "file = \"/no/such/directory/keepwarm.log\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(InDirectory, |log: &mut Log, path: PathBuf| log.file = Some(path)),
        },
    ],
};

const LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
