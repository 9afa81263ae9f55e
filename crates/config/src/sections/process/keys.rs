//! The keys of `[process.NAME]`.

use std::time::Duration;

use super::ProcessDraft;
use crate::key::{DefaultValue, Key, Section, Set, Subtable};
use crate::sections::app::{GLOBS, MEMORY};
use crate::sections::process_limits::PROCESS_LIMITS;
use crate::shape::{
    AFTER, CommandLine, CommandLines, Count, EmptyList, EnvFile, EnvTable, ExistingPath, GROUP, ListOf,
    READY, RESTART, ReadyDraft, SCHEDULE, SIGNAL, Time, USER, Umask,
};

const DAY: Duration = Duration::from_secs(24 * 3600);
const SECOND: Duration = Duration::from_secs(1);

pub(crate) static PROCESS: Section<ProcessDraft> = Section {
    keys: &[
        Key {
            name: "command",
            brief: "Program and its arguments",
            long: "No shell interprets it: for variables or pipes write `[\"sh\", \"-c\", \"exec program $ARGUMENT\"]`. The program must stay in the foreground: one that becomes a daemon looks like one that has exited.",
            default: DefaultValue::Required,
            right: "command = [\"celery\", \"-A\", \"shop\", \"worker\"]",
            wrong: "command = \"celery -A shop worker\"",
            value: &Set(CommandLine, |draft: &mut ProcessDraft, command| draft.process.command = command),
            ..Key::RECYCLE
        },
        Key {
            name: "count",
            brief: "Number of processes",
            long: "Each has its number, from 1, in the variable `KEEPWARM_PROCESS_NUMBER`, and NAME in `KEEPWARM_PROCESS`.",
            default: DefaultValue::Literal("1"),
            right: "count = 4",
            wrong: "count = 0",
            value: &Set(Count(1..=1000), |draft: &mut ProcessDraft, count| draft.process.count = count),
            ..Key::RECYCLE
        },
        Key {
            name: "directory",
            brief: "Working directory of the processes",
            long: "A relative path is resolved against the directory of the main configuration file.",
            default: DefaultValue::Words("the directory of the main configuration file"),
            right: "directory = \"/srv/shop\"",
            wrong: "directory = \"/no/such/directory\"",
            value: &Set(ExistingPath::Directory, |draft: &mut ProcessDraft, directory| {
                draft.process.directory = directory
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "env",
            brief: "Environment variables for the processes; they override Keepwarm's own environment",
            long: "Names that begin with `KEEPWARM_` are reserved for Keepwarm. The doors of upstreams are in `KEEPWARM_UPSTREAM_NAME`, as for apps.",
            default: DefaultValue::Words("none"),
            right: "env = { DATABASE_URL = \"${file:/run/secrets/db}\" }",
            wrong: "env = { PORT = 8080 }",
            value: &Set(EnvTable, |draft: &mut ProcessDraft, env| draft.process.env = env),
            ..Key::RECYCLE
        },
        Key {
            name: "env_file",
            brief: "File of `NAME=value` lines, which `env` overrides",
            long: "As that of an app. Read again at each reload.",
            default: DefaultValue::Words("none"),
            right: "env_file = \"/srv/shop/.env\"",
            wrong: "env_file = \"/no/such/file\"",
            value: &Set(EnvFile, |draft: &mut ProcessDraft, env| draft.env_file = env),
            ..Key::RECYCLE
        },
        Key {
            name: "user",
            brief: "User that the processes run as",
            long: "As that of an app: a name, or a number in quotes, with the user's groups, `HOME`, `USER` and `LOGNAME`. Needs root, unless it is the user that Keepwarm runs as.",
            default: DefaultValue::Words(
                "`server.user`, else Keepwarm's own user; as root, the owner of the directory, or `nobody`",
            ),
            right: "user = \"shop\"",
            wrong: "user = \"nobody-of-that-name\"",
            value: &Set(USER, |draft: &mut ProcessDraft, user| draft.run_as.user = Some(user)),
            ..Key::RECYCLE
        },
        Key {
            name: "group",
            brief: "Group that the processes run as, in place of the user's own",
            long: "A name, or a number in quotes. The user's supplementary groups stay.",
            default: DefaultValue::Words("the user's group"),
            right: "group = \"www\"",
            wrong: "group = \"no-group-of-that-name\"",
            value: &Set(GROUP, |draft: &mut ProcessDraft, group| draft.run_as.group = Some(group)),
            ..Key::RECYCLE
        },
        Key {
            name: "umask",
            brief: "Umask of the processes: permissions that the files they create do not get",
            default: DefaultValue::Words("Keepwarm's own"),
            right: "umask = \"027\"",
            wrong: "umask = 27",
            value: &Set(Umask, |draft: &mut ProcessDraft, mask| draft.process.umask = Some(mask)),
            ..Key::RECYCLE
        },
        Key {
            name: "limits",
            brief: "Resource limits of a process",
            default: DefaultValue::Words("see each key"),
            right: "limits = { files = 1024, core = 0 }",
            wrong: "limits = 1024",
            value: &Subtable(&PROCESS_LIMITS, |draft: &mut ProcessDraft| &mut draft.process.limits),
            ..Key::RECYCLE
        },
        Key {
            name: "after",
            brief: "Apps, processes and upstreams that must be ready before the first process starts",
            long: "An app is ready when its workers are, a process when all of its `count` are (with `restart` other than `\"always\"`, when it has succeeded), an upstream when it has an endpoint that can take calls. It holds for the start only: a dependency that fails later stops nothing. A reload restarts processes in this order, a shutdown stops them in the reverse order.",
            default: DefaultValue::Words("`[]`: starts at once"),
            right: "after = []",
            wrong: "after = [\"shop\"]",
            value: &Set(AFTER, |draft: &mut ProcessDraft, after| draft.after = after),
            ..Key::RECYCLE
        },
        Key {
            name: "ready",
            brief: "When a process is ready, for those that wait for it: `accepts` or `prints`",
            long: "A process that is not ready within `boot_timeout` is stopped, and started again with back-off.",
            default: DefaultValue::Words("as soon as it runs"),
            right: "ready = { accepts = \"127.0.0.1:6001\" }",
            wrong: "ready = {}",
            value: &Set(READY, |draft: &mut ProcessDraft, ready: ReadyDraft| {
                draft.process.ready = ready.finish()
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "boot_timeout",
            brief: "Time limit from the start of a process until it is ready",
            long: "Applies only with `ready`.",
            default: DefaultValue::Literal("\"60s\""),
            right: "boot_timeout = \"2m\"",
            wrong: "boot_timeout = \"0s\"",
            value: &Set(Time(SECOND..=Duration::from_secs(3600)), |draft: &mut ProcessDraft, time| {
                draft.process.boot_timeout = time
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "before_start",
            brief: "Command, or list of commands, that run once before the first process starts",
            long: "Such as migrations. All `before_start` commands, those of apps first, run one after the other, before anything is started, and at a reload before anything is replaced: the one that fails ends the start or the reload. They run in the directory, as the user and with the environment of this section, and not when `watch` or a crash restarts a process.",
            default: DefaultValue::Words("none"),
            right: "before_start = [[\"bin/console\", \"cache:warmup\"], [\"bin/console\", \"doctrine:migrations:migrate\", \"-n\"]]",
            wrong: "before_start = []",
            value: &Set(CommandLines, |draft: &mut ProcessDraft, commands| {
                draft.process.before_start = commands
            }),
            ..Key::LIVE
        },
        Key {
            name: "before_start_timeout",
            brief: "Time limit of each `before_start` command; then it is stopped, and has failed",
            default: DefaultValue::Literal("\"10m\""),
            right: "before_start_timeout = \"1h\"",
            wrong: "before_start_timeout = 600",
            value: &Set(Time(SECOND..=DAY), |draft: &mut ProcessDraft, time| {
                draft.process.before_start_timeout = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "schedule",
            brief: "Run at these times, in place of all the time",
            long: "`\"every 5m\"` (s, m, h): whenever the Unix time is a multiple of the interval, so that a restart does not move the times. Or the five fields of cron (minute, hour, day of the month, month, day of the week, with `*/5`, `MON-FRI`, `L`, `#`), or `@hourly`, `@daily`, `@weekly`, `@monthly`, in the time zone of the system (`TZ`, else `/etc/localtime`). When clocks are set forward, a time that does not exist runs right after the gap; when they are set back, a fixed time runs once, and `*` runs in both hours. A run that has not ended when the next one is due is kept, and the next one skipped. Times that passed while Keepwarm did not run, or the machine slept, are not made up for. `max_age` limits a run.",
            default: DefaultValue::Words("none: runs all the time"),
            right: "schedule = \"30 3 * * *\"",
            wrong: "schedule = \"5m\"",
            value: &Set(SCHEDULE, |draft: &mut ProcessDraft, schedule| {
                draft.process.schedule = Some(schedule)
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "restart",
            brief: "What happens when a process exits",
            long: "`\"always\"`: another is started. `\"on_failure\"`: another is started unless it exited with a status of `exit_codes`. `\"never\"`: it runs once, and again at the next reload. A restart follows at once after a process that ran for a second and exited well, or for ten seconds otherwise; else after a wait that doubles from 0.1 to 30 seconds.",
            default: DefaultValue::Literal("\"always\""),
            right: "restart = \"on_failure\"",
            wrong: "restart = \"unexpected\"",
            value: &Set(RESTART, |draft: &mut ProcessDraft, restart| draft.process.restart = restart),
            ..Key::RECYCLE
        },
        Key {
            name: "exit_codes",
            brief: "Exit statuses that are no failures",
            default: DefaultValue::Literal("[0]"),
            right: "exit_codes = [0, 2]",
            wrong: "exit_codes = [256]",
            value: &Set(EXIT_CODES, |draft: &mut ProcessDraft, codes: Vec<u32>| {
                draft.process.exit_codes =
                    codes.into_iter().filter_map(|code| u8::try_from(code).ok()).collect()
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "stop_signal",
            brief: "Signal that tells a process to finish and exit",
            long: "Sent to the process itself, not to its group: a program with children of its own passes it on. `TERM`, `INT`, `QUIT`, `HUP`, `USR1`, `USR2`, `WINCH` or `KILL`.",
            default: DefaultValue::Literal("\"TERM\""),
            right: "stop_signal = \"INT\"",
            wrong: "stop_signal = \"STOP\"",
            value: &Set(SIGNAL, |draft: &mut ProcessDraft, signal| draft.process.stop_signal = signal),
            ..Key::RECYCLE
        },
        Key {
            name: "stop_timeout",
            brief: "Time from `stop_signal` until the whole process group is killed",
            long: "As long as the longest job takes. At a shutdown it ends with `server.shutdown_grace`.",
            default: DefaultValue::Literal("\"30s\""),
            right: "stop_timeout = \"5m\"",
            wrong: "stop_timeout = 30",
            value: &Set(Time(Duration::from_millis(100)..=DAY), |draft: &mut ProcessDraft, time| {
                draft.process.stop_timeout = time
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "reload_signal",
            brief: "Signal that a reload sends in place of a restart",
            long: "For programs that read their configuration again, or replace their own children, at a signal. If the section has changed, the processes are restarted nevertheless.",
            default: DefaultValue::Words("none: a reload restarts the processes"),
            right: "reload_signal = \"HUP\"",
            wrong: "reload_signal = 1",
            value: &Set(SIGNAL, |draft: &mut ProcessDraft, signal| {
                draft.process.reload_signal = Some(signal)
            }),
            ..Key::LIVE
        },
        Key {
            name: "max_age",
            brief: "Age at which a process is replaced",
            long: "Counted from its start. Each process draws its own age, up to a tenth lower. With a `schedule`, the time limit of a run, which is then stopped and has failed.",
            default: DefaultValue::Words("none"),
            right: "max_age = \"12h\"",
            wrong: "max_age = 3600",
            value: &Set(Time(SECOND..=DAY.saturating_mul(365)), |draft: &mut ProcessDraft, age| {
                draft.process.max_age = Some(age)
            }),
            ..Key::RECYCLE
        },
        Key {
            name: "max_memory",
            brief: "Memory above which a process is replaced",
            long: "Measured like that of a worker: resident anonymous memory of the process alone, checked every second. It is told to finish, and the next one starts when it has exited; one process of a section at a time.",
            default: DefaultValue::Words("none"),
            right: "max_memory = \"256MiB\"",
            wrong: "max_memory = \"256 MB\"",
            value: &Set(MEMORY, |draft: &mut ProcessDraft, bytes| draft.process.max_memory = Some(bytes)),
            ..Key::RECYCLE
        },
        Key {
            name: "kill_memory",
            brief: "Memory above which a process is killed",
            long: "Measured like `max_memory`, and above it if both are set.",
            default: DefaultValue::Words("none"),
            right: "kill_memory = \"1GiB\"",
            wrong: "kill_memory = \"1G\"",
            value: &Set(MEMORY, |draft: &mut ProcessDraft, bytes| draft.process.kill_memory = Some(bytes)),
            ..Key::RECYCLE
        },
        Key {
            name: "watch",
            brief: "Development: restart the processes when one of these files changes",
            long: "Globs, relative to `directory`; `**` matches any number of directories.",
            default: DefaultValue::Words("`[]`: off"),
            right: "watch = [\"src/**/*.py\"]",
            wrong: "watch = [\"/srv/shop/*.py\"]",
            value: &Set(GLOBS, |draft: &mut ProcessDraft, watch| draft.process.watch = watch),
            ..Key::LIVE
        },
    ],
};

const EXIT_CODES: ListOf<Count> = ListOf {
    one: Count(0..=255),
    expected: "a status from 0 to 255, or a list of them",
    type_name: "number or list of numbers",
    empty: EmptyList::Allowed,
};
