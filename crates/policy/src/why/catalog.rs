//! The verdicts: what each means, when it is given and why then, what to do. Help, documentation and JSON take their words from here.

/// How bad a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Requests are slow or fail, or will soon.
    Fault,
    /// Keepwarm removes it; it would be slow without Keepwarm.
    Note,
}

/// A kind of verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// A stable name.
    pub id: &'static str,
    /// How bad.
    pub severity: Severity,
    /// What is so.
    pub meaning: &'static str,
    /// The evidence and its threshold.
    pub threshold: &'static str,
    /// The reason of the threshold.
    pub reason: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// The rule of this name.
#[must_use]
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.id == id)
}

/// All of them.
pub static RULES: [&Rule; 19] = [
    &UPSTREAM_FAILING,
    &UPSTREAM_SLOW,
    &WORKERS_CRASH,
    &ROUTE_HOLDS_WORKERS,
    &TOO_FEW_WORKERS,
    &TOO_FEW_CORES,
    &CPU_LIMIT,
    &NOISY_NEIGHBOUR,
    &APP_FAILING,
    &SLOW_CLIENTS,
    &LEAK_AFTER_RELOAD,
    &MEMORY_GROWTH,
    &BOOT_PER_REQUEST,
    &HANDSHAKES_PER_CALL,
    &TIMEOUT_LADDER,
    &SPILL_DISK,
    &SPILL_LIMIT,
    &CONNECTION_LIMIT,
    &CLIENT_WAITS,
];

pub(super) static UPSTREAM_FAILING: Rule = Rule {
    id: "upstream_failing",
    severity: Severity::Fault,
    meaning: "Calls to an upstream fail, or none of its endpoints takes calls.",
    threshold: "In the last 10 s at least 5 calls, and 20 % of them, got a 5xx; or the breaker was open; or for 5 s no endpoint was \
                available.",
    reason: "Retries hide single failures, so a share that reaches the app is beyond what retries absorb (the retry budget is 20 %).",
    remedy: "Look at `keepwarm status` for the last failure of each endpoint, and at the upstream's own log. Let the app do without the \
             upstream where it can.",
};

pub(super) static UPSTREAM_SLOW: Rule = Rule {
    id: "upstream_slow",
    severity: Severity::Fault,
    meaning: "Calls to an upstream take much longer than usual, and workers wait for them.",
    threshold: "In the last 10 s at least 5 calls ended, with a mean of three times that of the hour before and 100 ms more; without 50 \
                calls in the hour before, a mean of 1 s. Or for 4 s at least 2 calls were in flight, none ended, and requests waited for \
                a worker.",
    reason: "Twice the mean is what a busy minute does; 100 ms is what a person notices (and a local upstream may triple from 1 to 3 ms \
             without harm). Without history, 1 s is longer than a page should take.",
    remedy: "Find out what the upstream does: its load, its queries. Shorten `timeouts` of the upstream so that workers are not held, \
             and call it after the response or in a process of its own where the page does not need it.",
};

pub(super) static WORKERS_CRASH: Rule = Rule {
    id: "workers_crash",
    severity: Severity::Fault,
    meaning: "Workers of an app crash again and again: their requests fail, and others wait for the next start.",
    threshold: "In the last minute at least 3 workers ended by themselves or by a signal, were killed because they had too much memory, \
                hung or broke the rules of the wire, or could not be started; one of them in the last 20 s.",
    reason: "One crash may be an accident, and Keepwarm makes good for it: it starts another worker, and repeats safe requests.",
    remedy: "The log has the request that each worker died with (`worker died with this request`), and what the worker printed before. \
             `keepwarm status` has the last death of each app.",
};

pub(super) static APP_FAILING: Rule = Rule {
    id: "app_failing",
    severity: Severity::Fault,
    meaning: "Requests of an app fail, and no other verdict says why.",
    threshold: "In the last 10 s at least 5 requests, and 20 % of them, got a 5xx, by the app itself or by Keepwarm for it.",
    reason: "The share is that of `upstream_failing`. Fewer are errors of single pages, which the log and `keepwarm top` show one by one.",
    remedy: "Look at the failed requests in `keepwarm top`, and for their ids in the log. `keepwarm explain REASON` explains each reason of the \
             evidence; errors of the app itself are in its own log.",
};

pub(super) static ROUTE_HOLDS_WORKERS: Rule = Rule {
    id: "route_holds_workers",
    severity: Severity::Fault,
    meaning: "The requests of one route hold the workers while requests of all routes wait.",
    threshold: "In at least 4 of the last 5 s requests waited, and one route of several held at least 2 requests and 75 % of all that \
                workers held; in 2 of them its oldest request was there for 1 s or more.",
    reason: "Three quarters leave the other routes a quarter of the workers; 1 s tells requests that hold a worker from requests that \
             are only frequent.",
    remedy: "Limit the route with `concurrency`, serve it from an app of its own, or move the work to a process (`[process.NAME]`). \
             `keepwarm stack APP/NUMBER` shows where it waits.",
};

pub(super) static TOO_FEW_WORKERS: Rule = Rule {
    id: "too_few_workers",
    severity: Severity::Fault,
    meaning: "Requests wait for a worker while the machine has cores to spare, or while the workers wait instead of computing.",
    threshold: "In at least 8 of the last 10 s requests waited for a worker; at the present rate the queue takes 100 ms or more; and the \
                workers want a processor for less than half of their time, or the machine was less than 80 % busy in the last 5 s.",
    reason: "A queue is normal under full load while it is short: 100 ms is what a person notices. Where processors are free, or where \
             workers mostly wait, more of them serve more requests.",
    remedy: "Raise `workers` of the app (or `workers.max`), or `threads` where it has them; look at memory first.",
};

pub(super) static TOO_FEW_CORES: Rule = Rule {
    id: "too_few_cores",
    severity: Severity::Fault,
    meaning: "Requests wait for a worker, all workers compute, and the machine has no core to spare.",
    threshold: "The queue of `too_few_workers`; the workers want a processor for at least half of their time; in the last 5 s the machine \
                was at least 80 % busy, other programs used less than half of it, and the hypervisor took less than 10 %.",
    reason: "More workers would share the same cores: the queue would move from Keepwarm to the kernel.",
    remedy: "Add cores or machines, or make the app compute less: `keepwarm stack APP/NUMBER` shows what it does. Not more workers.",
};

pub(super) static CPU_LIMIT: Rule = Rule {
    id: "cpu_limit",
    severity: Severity::Fault,
    meaning: "The control group (the container, or the systemd unit) uses up its limit of processor time, and stands still until the next \
              period.",
    threshold: "Requests came in the last 10 s, and in at least 8 of these seconds the group was stopped in a quarter of its periods (usually of \
                100 ms; `nr_throttled` of `cpu.stat`).",
    reason: "A group that is stopped holds all its requests, the idle cores of the machine notwithstanding. A quarter is where Kubernetes' \
             own alert begins (`CPUThrottlingHigh` of kubernetes-mixin).",
    remedy: "Raise the limit or remove it (`resources.limits.cpu` in Kubernetes, `--cpus` of a container engine, systemd `CPUQuota=`), or have \
             fewer workers and `server.threads` that compute at once: several spend a period's time in a part of it.",
};

pub(super) static NOISY_NEIGHBOUR: Rule = Rule {
    id: "noisy_neighbour",
    severity: Severity::Fault,
    meaning: "Something else takes the processors: another program of this machine, or another machine of the same host.",
    threshold: "Requests queue as for `too_few_workers` or take twice their usual median and 50 ms more, tasks wait for a processor for 20 % of \
                the time (pressure stall information), and at least 10 % of the processor time is stolen by the hypervisor or at least \
                half of it is used by other programs.",
    reason: "Below half, Keepwarm and its workers have the larger part. Stolen time of 10 % is what clouds call contended.",
    remedy: "`top` shows other programs: stop them, lower their priority, or give Keepwarm its own cores (systemd `CPUWeight=`, \
             `AllowedCPUs=`). Stolen time needs another host or a larger share.",
};

pub(super) static SLOW_CLIENTS: Rule = Rule {
    id: "slow_clients",
    severity: Severity::Fault,
    meaning: "Requests take long because their clients send or receive slowly; the app is not the cause.",
    threshold: "In the last 10 s at least 5 requests ended, with a mean of 1 s or more, and reading them and writing the rest of their \
                responses was 70 % of their time.",
    reason: "Up to 1 s is what a mobile network costs. Keepwarm holds bodies and responses for slow clients, so no worker waits; the \
             figure explains what the access log shows.",
    remedy: "More workers do not help. Make responses smaller (`compression`, images), put large files near the clients, and limit \
             clients that do this on purpose (`server.limits.body_rate`, `server.limits.drain_rate`).",
};

pub(super) static MEMORY_GROWTH: Rule = Rule {
    id: "memory_growth",
    severity: Severity::Fault,
    meaning: "The memory of a worker grows and does not come back.",
    threshold: "A worker that is at least 20 s old has grown by 64 MiB in 12 s, in at least 4 steps and without falling; or in the last \
                hour by 100 MiB and by half, rising in 80 % of the minutes.",
    reason: "Caches fill soon after the start and then stop. 64 MiB in 12 s is 1 GiB in about 3 minutes: faster than an operator reacts.",
    remedy: "`keepwarm leaks APP` shows what a worker keeps, and which route makes it grow. `max_memory` replaces a worker before it is too large.",
};

pub(super) static LEAK_AFTER_RELOAD: Rule = Rule {
    id: "leak_after_reload",
    severity: Severity::Fault,
    meaning: "The memory of workers grows since a reload, and did not before it.",
    threshold: "As `memory_growth`, within 2 hours of a reload, and the workers of the generation before grew by less than a quarter as \
                fast.",
    reason: "A quarter is far outside of what load changes. After 2 hours other causes are as likely.",
    remedy: "Look at what the reload brought, or return to the release before it. `max_memory` bounds it meanwhile.",
};

pub(super) static BOOT_PER_REQUEST: Rule = Rule {
    id: "boot_per_request",
    severity: Severity::Fault,
    meaning: "The app's processes end after one request, so each request pays for a start.",
    threshold: "In the last minute a process of the app ended after one request, after two others in a row did.",
    reason: "One or two may be accidents; three in a row is how the app behaves.",
    remedy: "Keep the process: raise `max_requests`, do not exit after a response.",
};

pub(super) static HANDSHAKES_PER_CALL: Rule = Rule {
    id: "handshakes_per_call",
    severity: Severity::Fault,
    meaning: "Connections to an upstream are closed before the next call, so each call pays for a handshake.",
    threshold: "In the last 10 s at least 10 calls, and half of all, found no kept connection although more were made than calls were \
                in flight.",
    reason: "New connections are normal at the start and when load rises; then they are fewer than calls.",
    remedy: "Let the upstream's server keep connections (no `Connection: close`, more requests per connection, a longer keep-alive \
             timeout), and check `pool.idle`, `pool.max_requests` and `pool.idle_timeout` here.",
};

pub(super) static TIMEOUT_LADDER: Rule = Rule {
    id: "timeout_ladder",
    severity: Severity::Fault,
    meaning: "An upstream closes idle connections before Keepwarm does, and calls are lost on them.",
    threshold: "In the last 5 minutes calls were lost on kept connections in at least 3 different steps of 10 s.",
    reason: "A restart of the upstream loses calls once, in one step. Idle timeouts in the wrong order lose them again and again.",
    remedy: "Set `pool.idle_timeout` of the upstream below the keep-alive timeout of its server.",
};

pub(super) static SPILL_DISK: Rule = Rule {
    id: "spill_disk",
    severity: Severity::Fault,
    meaning: "Spill files of large request bodies and of responses for slow clients cannot be written, so these requests fail.",
    threshold: "In the last minute a request body or a response was lost to its spill file.",
    reason: "One of them is a disk that is full, or a limit on the size of files: the next one fails as well.",
    remedy: "Make room on the disk of the temporary directory, or set `TMPDIR` to a directory on another one; raise a limit on the \
             size of files (`ulimit -f`). `server.limits.spill` should not be more than the disk has.",
};

pub(super) static SPILL_LIMIT: Rule = Rule {
    id: "spill_limit",
    severity: Severity::Fault,
    meaning: "Memory and spill files for slow clients are at their limit, so workers wait for clients.",
    threshold: "In the last minute a response found no room.",
    reason: "Below the limit nobody waits; at it, each slow client holds a worker. So the queue and the slow responses get no verdict of their own then.",
    remedy: "Raise `server.limits.spill` (and check the space of the disk), or limit slow clients (`server.limits.drain_rate`).",
};

pub(super) static CONNECTION_LIMIT: Rule = Rule {
    id: "connection_limit",
    severity: Severity::Fault,
    meaning: "As many connections are open as may be, all of them in use, and new clients wait in the kernel.",
    threshold: "In at least 9 of the last 10 s nothing was accepted for half of the second, and no other verdict says what keeps the open \
                connections in use.",
    reason: "Idle connections are closed at the limit to make room. Where none is idle, a new client waits for the end of a response, and \
             no time that the server measures shows it. A shorter wait is a burst; and the verdicts on a queue, which go first, take 8 s.",
    remedy: "Raise `server.limits.connections`, and the limit on open files with it (systemd: `LimitNOFILE`). WebSockets, streams and slow \
             uploads are in use for as long as they last: the limit has to be above their number. Against clients that hold connections \
             without a request, shorten `limits.head_timeout` of the listener or set `limits.connections_per_client`.",
};

pub(super) static CLIENT_WAITS: Rule = Rule {
    id: "client_waits",
    severity: Severity::Note,
    meaning: "Clients wait for `100 Continue` or for the connection to close. Keepwarm gives them both; another server may not.",
    threshold: "In the last minute at least one client did.",
    reason: "Each of them would wait for a second or for a timeout on a server that does not do it; here it costs nothing.",
    remedy: "Nothing here. In the client: an empty `Expect:` header, HTTP/1.1 in place of 1.0.",
};
