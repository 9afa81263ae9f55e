//! Retries, hedging, circuit breaker and outlier detection.

use std::time::Duration;

use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{Breaker, Hedge, HedgeDelay, OutlierDetection, RetryBudget, RetryCause};
use crate::raw::{Directive, Table};
use crate::shape::{
    Count, Decimal, HEDGE_DELAY, HedgeDelayShape, Percent, TableShape, Time, ValueOrTable, WordList, WordOr,
    Words, no_check,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

pub(super) const RETRY_ON: WordList<RetryCause> = WordList(Words(&[
    ("connect", RetryCause::Connect),
    ("refused", RetryCause::Refused),
    ("reset", RetryCause::Reset),
    ("first_byte", RetryCause::FirstByte),
    ("502", RetryCause::Status(502)),
    ("503", RetryCause::Status(503)),
    ("504", RetryCause::Status(504)),
]));

/// `retry_budget`: a percentage, or a table.
pub(super) const RETRY_BUDGET: ValueOrTable<Percent, RetryBudget> = ValueOrTable {
    plain: SHARE,
    // `"0%"` alone allows no retries, not ten per second.
    from_plain: |percent, _, _| match percent {
        0 => Some(RetryBudget { percent, per_second: 0 }),
        _ => Some(RetryBudget { percent, ..RetryBudget::default() }),
    },
    table: TableShape { section: &BUDGET, check: no_check },
};

const SHARE: Percent = Percent(0..=100);

static BUDGET: Section<RetryBudget> = Section {
    keys: &[
        Key {
            name: "ratio",
            brief: "Retries for each hundred calls",
            default: DefaultValue::Literal("\"20%\""),
            right: "ratio = \"10%\"",
            wrong: "ratio = \"120%\"",
            value: &Set(SHARE, |budget: &mut RetryBudget, percent| budget.percent = percent),
            ..Key::LIVE
        },
        Key {
            name: "per_second",
            brief: "Retries per second that are allowed whatever `ratio` says",
            long: "For upstreams that are rarely called.",
            default: DefaultValue::Literal("10"),
            right: "per_second = 1",
            wrong: "per_second = \"1/s\"",
            value: &Set(Count(0..=1_000_000), |budget: &mut RetryBudget, count| budget.per_second = count),
            ..Key::LIVE
        },
    ],
};

/// `hedge`: a delay, or a table.
pub(super) const HEDGE: ValueOrTable<HedgeDelayShape, Hedge> = ValueOrTable {
    plain: HEDGE_DELAY,
    from_plain: |after, _, _| Some(Hedge { after, ..Hedge::default() }),
    table: TableShape { section: &HEDGE_TABLE, check: no_check },
};

static HEDGE_TABLE: Section<Hedge> = Section {
    keys: &[
        Key {
            name: "after",
            brief: "Time after which the second attempt is made",
            long: "A time, or a percentile of recent call times.",
            default: DefaultValue::Literal("\"p95\""),
            right: "after = \"50ms\"",
            wrong: "after = \"p100\"",
            value: &Set(HEDGE_DELAY, |hedge: &mut Hedge, after: HedgeDelay| hedge.after = after),
            ..Key::LIVE
        },
        Key {
            name: "budget",
            brief: "Second attempts for each hundred calls",
            long: "Keeps an upstream that has become slow for all calls from getting each of them twice.",
            default: DefaultValue::Literal("\"5%\""),
            right: "budget = \"10%\"",
            wrong: "budget = \"200%\"",
            value: &Set(Percent(1..=100), |hedge: &mut Hedge, percent| hedge.budget_percent = percent),
            ..Key::LIVE
        },
    ],
};

/// `breaker`
pub(super) const BREAKER: WordOr<TableShape<Breaker>> =
    WordOr("off", TableShape { section: &BREAKER_TABLE, check: check_breaker });

fn check_breaker(breaker: &Breaker, table: &Table, directive: &Directive, cx: &mut Checker<'_>) -> bool {
    let name = cx.name();
    if breaker.failures.is_none() && breaker.success_percent.is_none() {
        let message = format!("`{name}` can never open: `failures` and `success_rate` are both off");
        cx.problem(directive.span, message).help("write breaker = \"off\"").report(cx);
        return false;
    }
    let order = [("open", breaker.open), ("max_open", breaker.max_open)];
    is_in_order(order, table, directive, cx)
}

fn check_outlier(
    outlier: &OutlierDetection,
    table: &Table,
    directive: &Directive,
    cx: &mut Checker<'_>,
) -> bool {
    let name = cx.name();
    if outlier.failures.is_none() && outlier.deviation_permille.is_none() {
        let message =
            format!("`{name}` can never eject an endpoint: `failures` and `deviation` are both off");
        cx.problem(directive.span, message).help("write outlier = \"off\"").report(cx);
        return false;
    }
    let order = [("ejection", outlier.ejection), ("max_ejection", outlier.max_ejection)];
    is_in_order(order, table, directive, cx)
}

/// Whether the first time is not above the last.
fn is_in_order(
    [(first, low), (last, high)]: [(&str, Duration); 2],
    table: &Table,
    directive: &Directive,
    cx: &mut Checker<'_>,
) -> bool {
    if low <= high {
        return true;
    }
    let name = cx.name();
    let at = table.entry(last).or(table.entry(first)).map_or(directive.span, |entry| entry.key_span);
    cx.problem(at, format!("`{name}.{last}` is below `{name}.{first}`"))
        .expected(format!("a `{last}` of at least `{first}`"))
        .report(cx);
    false
}

static BREAKER_TABLE: Section<Breaker> = Section {
    keys: &[
        Key {
            name: "failures",
            brief: "Failures in a row after which the breaker opens",
            long: "If other endpoints can be called, a failure is a connection that cannot be made, breaks or times out, or a response with status 500 or higher except 501. If there is no other, only silence counts: no connection, or no response in time. A failure counts only if no call to the same endpoint has succeeded since it began.",
            default: DefaultValue::Literal("5"),
            right: "failures = 10",
            wrong: "failures = 0",
            value: &Set(WordOr("off", Count(1..=1_000_000)), |breaker: &mut Breaker, failures| {
                breaker.failures = failures
            }),
            ..Key::LIVE
        },
        Key {
            name: "success_rate",
            brief: "Share of successful calls within `window` below which the breaker opens",
            long: "Applies to an endpoint, while others can be called.",
            default: DefaultValue::Literal("\"50%\""),
            right: "success_rate = \"off\"",
            wrong: "success_rate = 0.5",
            value: &Set(WordOr("off", Percent(1..=99)), |breaker: &mut Breaker, percent| {
                breaker.success_percent = percent
            }),
            ..Key::LIVE
        },
        Key {
            name: "window",
            brief: "Time over which `success_rate` is measured",
            default: DefaultValue::Literal("\"10s\""),
            right: "window = \"30s\"",
            wrong: "window = \"30\"",
            value: &Set(Time(Duration::from_secs(1)..=HOUR), |breaker: &mut Breaker, window| {
                breaker.window = window
            }),
            ..Key::LIVE
        },
        Key {
            name: "min_requests",
            brief: "Calls within `window` before `success_rate` applies",
            default: DefaultValue::Literal("20"),
            right: "min_requests = 100",
            wrong: "min_requests = 0",
            value: &Set(Count(1..=1_000_000), |breaker: &mut Breaker, requests| {
                breaker.min_requests = requests
            }),
            ..Key::LIVE
        },
        Key {
            name: "open",
            brief: "Time for which the breaker stays open at first",
            long: "Twice as long each time in a row, with jitter. A call waits for the end if that comes within `limits.queue_timeout`; otherwise it is rejected at once.",
            default: DefaultValue::Literal("\"100ms\""),
            right: "open = \"500ms\"",
            wrong: "open = true",
            value: &Set(Time(MILLISECOND..=HOUR), |breaker: &mut Breaker, time| breaker.open = time),
            ..Key::LIVE
        },
        Key {
            name: "max_open",
            brief: "Maximum time for which the breaker stays open",
            default: DefaultValue::Literal("\"5s\""),
            right: "max_open = \"1m\"",
            wrong: "max_open = \"2h\"",
            value: &Set(Time(MILLISECOND..=HOUR), |breaker: &mut Breaker, time| breaker.max_open = time),
            ..Key::LIVE
        },
        Key {
            name: "probes",
            brief: "Calls that are tried once the breaker was open; if all succeed, it closes",
            long: "The first one goes alone, the others once it has succeeded. Further calls wait for them, for at most `limits.queue_timeout`.",
            default: DefaultValue::Literal("3"),
            right: "probes = 1",
            wrong: "probes = 0",
            value: &Set(Count(1..=1000), |breaker: &mut Breaker, probes| breaker.probes = probes),
            ..Key::LIVE
        },
    ],
};

/// `outlier`
pub(super) const OUTLIER: WordOr<TableShape<OutlierDetection>> =
    WordOr("off", TableShape { section: &OUTLIER_TABLE, check: check_outlier });

static OUTLIER_TABLE: Section<OutlierDetection> = Section {
    keys: &[
        Key {
            name: "failures",
            brief: "Failures in a row after which an endpoint is ejected",
            long: "They must span at least 5 s: until then, the endpoint's breaker holds calls back and probes, so that a restart is only a delay. Without a breaker they count at once.",
            default: DefaultValue::Literal("5"),
            right: "failures = 10",
            wrong: "failures = \"five\"",
            value: &Set(WordOr("off", Count(1..=1_000_000)), |outlier: &mut OutlierDetection, failures| {
                outlier.failures = failures
            }),
            ..Key::LIVE
        },
        Key {
            name: "deviation",
            brief: "Standard deviations below the mean success rate at which an endpoint is ejected",
            long: "Precedent: Envoy 1.9.",
            default: DefaultValue::Literal("1.9"),
            right: "deviation = 3",
            wrong: "deviation = 0",
            value: &Set(WordOr("off", Decimal(500..=10_000)), |outlier: &mut OutlierDetection, deviation| {
                outlier.deviation_permille = deviation
            }),
            ..Key::LIVE
        },
        Key {
            name: "interval",
            brief: "Time between two comparisons of success rates",
            default: DefaultValue::Literal("\"10s\""),
            right: "interval = \"30s\"",
            wrong: "interval = 10",
            value: &Set(Time(Duration::from_secs(1)..=HOUR), |outlier: &mut OutlierDetection, interval| {
                outlier.interval = interval
            }),
            ..Key::LIVE
        },
        Key {
            name: "min_requests",
            brief: "Calls of an endpoint within `interval` before its success rate is compared",
            default: DefaultValue::Literal("100"),
            right: "min_requests = 50",
            wrong: "min_requests = 0",
            value: &Set(Count(1..=1_000_000), |outlier: &mut OutlierDetection, requests| {
                outlier.min_requests = requests
            }),
            ..Key::LIVE
        },
        Key {
            name: "min_endpoints",
            brief: "Number of endpoints with `min_requests` calls before rates are compared",
            default: DefaultValue::Literal("5"),
            right: "min_endpoints = 3",
            wrong: "min_endpoints = 1",
            value: &Set(Count(2..=4096), |outlier: &mut OutlierDetection, endpoints| {
                outlier.min_endpoints = endpoints
            }),
            ..Key::LIVE
        },
        Key {
            name: "ejection",
            brief: "Time for which an endpoint is ejected at first",
            long: "It grows by that time with each ejection in a row.",
            default: DefaultValue::Literal("\"30s\""),
            right: "ejection = \"10s\"",
            wrong: "ejection = \"0s\"",
            value: &Set(Time(MILLISECOND..=HOUR), |outlier: &mut OutlierDetection, time| {
                outlier.ejection = time
            }),
            ..Key::LIVE
        },
        Key {
            name: "max_ejection",
            brief: "Maximum time for which an endpoint is ejected",
            default: DefaultValue::Literal("\"5m\""),
            right: "max_ejection = \"10m\"",
            wrong: "max_ejection = \"5min\"",
            value: &Set(
                Time(MILLISECOND..=HOUR.saturating_mul(24)),
                |outlier: &mut OutlierDetection, time| outlier.max_ejection = time,
            ),
            ..Key::LIVE
        },
        Key {
            name: "max_ejected",
            brief: "Share of the endpoints that may be ejected at once",
            long: "The last endpoint is never ejected: failed calls say more than rejected calls.",
            default: DefaultValue::Literal("\"33%\""),
            right: "max_ejected = \"50%\"",
            wrong: "max_ejected = \"half\"",
            value: &Set(Percent(1..=100), |outlier: &mut OutlierDetection, percent| {
                outlier.max_ejected_percent = percent
            }),
            ..Key::LIVE
        },
    ],
};
