use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::ProcessLimits;
use crate::raw::Table;
use crate::shape::{Count, CpuSeconds, ResourceLimit, Size};
use crate::sources::Resource;

const COUNT_MAX: u32 = 1 << 30;
const SIZE_MAX: u64 = 1 << 50;

/// `[app.NAME.limits]`: resource limits of a worker process (`setrlimit(2)`), soft and hard.
pub(super) static PROCESS_LIMITS: Section<ProcessLimits> = Section {
    keys: &[
        Key {
            name: "files",
            brief: "Maximum number of open files and sockets of a worker",
            long: "RLIMIT_NOFILE.",
            default: DefaultValue::Words("the soft limit that Keepwarm was started with"),
            right: "files = 1024",
            wrong: "files = 3",
            value: &Set(
                ResourceLimit(Resource::Files, Count(16..=COUNT_MAX)),
                |limits: &mut ProcessLimits, value| limits.files = Some(value),
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "memory",
            brief: "Maximum address space of a worker",
            long: "RLIMIT_AS: an allocation beyond it fails inside the app. It counts reserved memory, which is often far more than used memory; `kill_memory` counts used memory.",
            default: DefaultValue::Words("none"),
            right: "memory = \"4GiB\"",
            wrong: "memory = \"1MiB\"",
            value: &Set(
                ResourceLimit(Resource::Memory, Size(16 << 20..=SIZE_MAX)),
                |limits: &mut ProcessLimits, value| limits.memory = Some(value),
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "processes",
            brief: "Maximum number of processes and threads of the worker's user",
            long: "RLIMIT_NPROC: all processes of that user on the system are counted together. It does not apply to root.",
            default: DefaultValue::Words("none"),
            right: "processes = 256",
            wrong: "processes = 0",
            value: &Set(
                ResourceLimit(Resource::Processes, Count(1..=COUNT_MAX)),
                |limits: &mut ProcessLimits, value| limits.processes = Some(value),
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "core",
            brief: "Maximum size of a core file; with 0, none is written",
            long: "RLIMIT_CORE.",
            default: DefaultValue::Words("Keepwarm's own limit"),
            right: "core = 0",
            wrong: "core = \"none\"",
            value: &Set(
                ResourceLimit(Resource::Core, Size(0..=SIZE_MAX)),
                |limits: &mut ProcessLimits, value| limits.core = Some(value),
            ),
            ..Key::RECYCLE
        },
        Key {
            name: "cpu",
            brief: "Maximum CPU time of a worker over its whole life; then the kernel kills it",
            long: "RLIMIT_CPU, in whole seconds. A worker killed this way is replaced like one that has died. Use it to stop runaway code, not to recycle workers.",
            default: DefaultValue::Words("none"),
            right: "cpu = \"1h\"",
            wrong: "cpu = 60",
            value: &Set(ResourceLimit(Resource::Cpu, CpuSeconds), |limits: &mut ProcessLimits, value| {
                limits.cpu = Some(value)
            }),
            ..Key::RECYCLE
        },
    ],
};

/// `max_memory` and `kill_memory`, which are `read`, to one another; `first`: what happens at the lower one.
pub(super) fn check_memory(
    read: (Option<u64>, Option<u64>),
    first: &str,
    table: &Table,
    cx: &mut Checker<'_>,
) {
    let (Some(soft), Some(hard)) = (table.entry("max_memory"), table.entry("kill_memory")) else {
        return;
    };
    // An invalid value was reported already.
    let (Some(max), Some(kill)) = read else { return };
    if kill > max {
        return;
    }
    let name = cx.name();
    cx.problem(hard.key_span, format!("`{name}.kill_memory` is not above `{name}.max_memory`"))
        .related(cx.source_map.location(soft.key_span), "the other one")
        .expected(format!("more than `max_memory`: {first} first, and killed if that is too late"))
        .report(cx);
}
