use std::path::PathBuf;
use std::time::Duration;

use super::limits::LIMITS;
use crate::key::{DefaultValue, Key, Section, Set, Subtable};
use crate::model::{Log, LogLevel, Server};
use crate::raw::Span;
use crate::shape::{CIDRS, Count, FORMATS, GROUP, OutputFile, Time, USER, WordOr, Words};
use crate::sources::Account;

pub(crate) static SERVER: Section<Server> = Section {
    keys: &[
        Key {
            name: "threads",
            brief: "Number of data-plane threads",
            long: "Each has its own runtime and handles a share of the connections. The other cores are for the workers.",
            default: DefaultValue::Words("`\"auto\"`: half of the cores, at least one"),
            right: "threads = 2",
            wrong: "threads = 0",
            value: &Set(WordOr("auto", Count(1..=1024)), |server: &mut Server, threads| {
                server.threads = threads
            }),
            ..Key::RESTART
        },
        Key {
            name: "shutdown_grace",
            brief: "Time limit of a shutdown, from the signal",
            long: "Covers everything: `drain_delay`, requests in progress, and the shutdown of the workers. When it is reached, connections are cut and workers are killed. A shutdown takes that long only if requests do; without any, it takes `drain_delay`, up to `drain_idle`, and the time that the workers need to exit. Keep it below the time after which the process's own supervisor kills (Kubernetes: 30 s, systemd: 90 s, `docker stop`: 10 s).",
            default: DefaultValue::Literal("\"25s\""),
            right: "shutdown_grace = \"30s\"",
            wrong: "shutdown_grace = 30",
            value: &Set(
                Time(Duration::ZERO..=Duration::from_secs(24 * 3600)),
                |server: &mut Server, time| server.shutdown_grace = time,
            ),
            ..Key::LIVE
        },
        Key {
            name: "drain_delay",
            brief: "Time for which listeners keep serving after SIGTERM",
            long: "Gives a load balancer time to notice that readiness fails, so that no connection arrives at a closed port. Set it to about two of the load balancer's check intervals; without a load balancer, none is needed. It is part of `shutdown_grace` and must be shorter.",
            default: DefaultValue::Literal("\"0s\""),
            right: "drain_delay = \"5s\"",
            wrong: "drain_delay = \"5 minutes\"",
            value: &Set(Time(Duration::ZERO..=Duration::from_secs(3600)), |server: &mut Server, time| {
                server.drain_delay = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "drain_idle",
            brief: "Time for which idle connections stay open once listening has stopped",
            long: "The next request on such a connection gets a response with `Connection: close`. If an idle connection were closed at once, a request could already be on its way. If it stayed open, it would delay the shutdown until `shutdown_grace` is reached.",
            default: DefaultValue::Literal("\"2s\""),
            right: "drain_idle = \"5s\"",
            wrong: "drain_idle = \"short\"",
            value: &Set(Time(Duration::ZERO..=Duration::from_secs(3600)), |server: &mut Server, time| {
                server.drain_idle = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "log",
            brief: "Log of the process and of its workers' output",
            default: DefaultValue::Words("text, level `info` and above, to standard error"),
            right: "log = { format = \"json\", level = \"info\" }",
            wrong: "log = \"json\"",
            value: &Subtable(&LOG, |server: &mut Server| &mut server.log),
            ..Key::LIVE
        },
        Key {
            name: "user",
            brief: "User for the workers of apps that set none",
            long: "Needs root, unless it is the user that Keepwarm runs as. Keepwarm itself keeps its user: it must be able to reopen logs, bind addresses of a new configuration, and start workers of every user.",
            default: DefaultValue::Words(
                "Keepwarm's own user; as root, the owner of each app's files, or `nobody`",
            ),
            right: "user = \"shop\"",
            wrong: "user = \"nobody-of-that-name\"",
            value: &Set(USER, |server: &mut Server, (user, _): (Account, Span)| server.user = Some(user)),
            ..Key::RECYCLE
        },
        Key {
            name: "group",
            brief: "Group for the workers of apps that set neither user nor group",
            default: DefaultValue::Words("the user's group"),
            right: "group = \"www\"",
            wrong: "group = \"no-group-of-that-name\"",
            value: &Set(GROUP, |server: &mut Server, (group, _): (u32, Span)| server.group = Some(group)),
            ..Key::RECYCLE
        },
        Key {
            name: "pid_file",
            brief: "File that contains the process id while the process runs",
            long: "A relative path is resolved against the directory of the main configuration file. `keepwarm reload` finds the process by this file.",
            default: DefaultValue::Words("none"),
            right: "pid_file = \"/run/keepwarm.pid\"",
            wrong: "pid_file = \"/no/such/directory/keepwarm.pid\"",
            value: &Set(OutputFile, |server: &mut Server, path: PathBuf| server.pid_file = Some(path)),
            ..Key::RESTART
        },
        Key {
            name: "trusted_proxies",
            brief: "Peers whose `Forwarded` and `X-Forwarded-*` headers are trusted",
            long: "From all other peers, these headers are dropped: a client could otherwise choose the address that logs, limits and the app see.",
            default: DefaultValue::Literal("[]"),
            right: "trusted_proxies = [\"10.0.0.0/8\"]",
            wrong: "trusted_proxies = [\"10.0.0.1/8\"]",
            value: &Set(CIDRS, |server: &mut Server, blocks| server.trusted_proxies = blocks),
            ..Key::LIVE
        },
        Key {
            name: "limits",
            brief: "Limits for what a peer may use, on every listener that does not override them",
            default: DefaultValue::Words("see each key"),
            right: "limits = { body = \"50MiB\" }",
            wrong: "limits = \"none\"",
            value: &Subtable(&LIMITS, |server: &mut Server| &mut server.limits),
            ..Key::LIVE
        },
        Key::unsupported("tls_dev", "TLS with a certificate generated at start"),
    ],
};

static LOG: Section<Log> = Section {
    keys: &[
        Key {
            name: "format",
            brief: "Format of the records: one line of text or one JSON object each",
            default: DefaultValue::Literal("\"text\""),
            right: "format = \"json\"",
            wrong: "format = \"jsno\"",
            value: &Set(Words(FORMATS), |log: &mut Log, format| log.format = format),
            ..Key::LIVE
        },
        Key {
            name: "level",
            brief: "Lowest level that is logged",
            long: "From fewest to most records: error, warn, info, debug, trace.",
            default: DefaultValue::Literal("\"info\""),
            right: "level = \"warn\"",
            wrong: "level = \"warning\"",
            value: &Set(Words(LEVELS), |log: &mut Log, level| log.level = level),
            ..Key::LIVE
        },
        Key {
            name: "file",
            brief: "File to append to",
            long: "A relative path is resolved against the directory of the main configuration file. The file is reopened at SIGUSR1 and at a reload, so that it can be renamed first.",
            default: DefaultValue::Words("standard error"),
            right: "file = \"/var/log/keepwarm.log\"",
            wrong: "file = \"/no/such/directory/keepwarm.log\"",
            value: &Set(OutputFile, |log: &mut Log, path: PathBuf| log.file = Some(path)),
            ..Key::LIVE
        },
    ],
};

pub(super) const LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
