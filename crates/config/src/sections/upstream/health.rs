use std::time::Duration;

use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::{HealthCheck, HealthProbe, StatusRange};
use crate::raw::{Directive, Span, Table, Value};
use crate::shape::{Count, Flag, RequestPath, STATUSES, TableShape, Time, ValueOrTable};

/// `health`: a path, `"tcp"`, or a table.
pub(super) const HEALTH: ValueOrTable<ProbeShape, HealthDraft> = ValueOrTable {
    plain: ProbeShape,
    from_plain: |path, _, _| Some(HealthDraft { path, ..HealthDraft::default() }),
    table: TableShape { section: &HEALTH_TABLE, check },
};

const TIMEOUT: Duration = Duration::from_secs(2);

/// `health` before its check.
pub(super) struct HealthDraft {
    /// `None`: the check only makes a connection.
    path: Option<String>,
    statuses: Vec<StatusRange>,
    interval: Duration,
    /// `None`: [`TIMEOUT`], or `interval` if that is shorter.
    timeout: Option<Duration>,
    rise: u32,
    fall: u32,
}

impl Default for HealthDraft {
    fn default() -> Self {
        Self {
            path: None,
            statuses: vec![StatusRange { first: 200, last: 399 }],
            interval: Duration::from_secs(5),
            timeout: None,
            rise: 2,
            fall: 3,
        }
    }
}

impl HealthDraft {
    /// The checked value.
    pub(super) fn finish(self) -> HealthCheck {
        let statuses = self.statuses;
        let probe = self.path.map_or(HealthProbe::Tcp, |path| HealthProbe::Http { path, statuses });
        let timeout = self.timeout.unwrap_or(TIMEOUT.min(self.interval));
        HealthCheck { probe, interval: self.interval, timeout, rise: self.rise, fall: self.fall }
    }
}

fn check(draft: &HealthDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) -> bool {
    let name = cx.name();
    let at = |key: &str| table.entry(key).map(|entry| entry.key_span);
    // An invalid value was reported already.
    let tcp = table.entry("tcp").filter(|entry| !matches!(entry.value.value, Value::Boolean(false)));
    let fault: (Span, String, &str, &str) = match (at("path"), tcp.map(|entry| entry.key_span), at("status"))
    {
        (None, None, _) => (
            directive.span,
            format!("`{name}` has neither `path` nor `tcp`"),
            "",
            "`path`, for example path = \"/healthz\"; or tcp = true, to test only whether a connection can be made",
        ),
        (Some(_), Some(tcp), _) => {
            (tcp, format!("`{name}` has both `path` and `tcp`"), ".tcp", "one of the two")
        }
        (None, Some(_), Some(status)) => (
            status,
            format!("`{name}` has `status`, but tests only the connection"),
            ".status",
            "`status` with `path`",
        ),
        _ if draft.timeout.is_some_and(|timeout| timeout > draft.interval) => (
            at("timeout").or(at("interval")).unwrap_or(directive.span),
            format!(
                "`{name}.timeout` is above `{name}.interval`: the next check would begin before the last one has ended"
            ),
            ".timeout",
            "a `timeout` of at most `interval`",
        ),
        _ => return true,
    };
    let (span, message, key, expected) = fault;
    let key = format!("{}{key}", cx.doc());
    cx.problem(span, message).key(key).expected(expected).report(cx);
    false
}

/// `"/healthz"` is a path, `"tcp"` is `None`.
pub(super) struct ProbeShape;

impl Describe for ProbeShape {
    fn description(&self) -> Description {
        Description::new(
            "a path such as \"/healthz\", or \"tcp\"",
            "URL path or \"tcp\"",
            Json::pattern("^(/[!-~]*|tcp)$"),
        )
    }
}

impl Shape for ProbeShape {
    type Out = Option<String>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Option<String>> {
        match &directive.value {
            Value::String(text) if text.text == "tcp" => Some(None),
            _ => RequestPath.read(directive, cx).map(Some),
        }
    }
}

static HEALTH_TABLE: Section<HealthDraft> = Section {
    keys: &[
        Key {
            name: "path",
            brief: "Path to request with `GET`",
            long: "With the `Host` and the protocol of calls, over TLS if calls use TLS.",
            default: DefaultValue::Words("none; either it or `tcp` is required"),
            right: "path = \"/healthz\"",
            wrong: "path = \"healthz\"",
            value: &Set(RequestPath, |health: &mut HealthDraft, path| health.path = Some(path)),
            ..Key::LIVE
        },
        Key {
            name: "tcp",
            brief: "Test only whether a connection can be made",
            default: DefaultValue::Words("`false`"),
            right: "tcp = true",
            wrong: "tcp = 80",
            value: &Set(Flag, |_: &mut HealthDraft, _| {}),
            ..Key::LIVE
        },
        Key {
            name: "status",
            brief: "Statuses of a healthy endpoint",
            default: DefaultValue::Literal("\"200-399\""),
            right: "status = [200, 204]",
            wrong: "status = \"2xx\"",
            value: &Set(STATUSES, |health: &mut HealthDraft, statuses| health.statuses = statuses),
            ..Key::LIVE
        },
        Key {
            name: "interval",
            brief: "Time from one check of an endpoint to the next",
            long: "With jitter, so that endpoints are not all checked at once. A result that differs from the previous ones is checked again after a quarter of it.",
            default: DefaultValue::Literal("\"5s\""),
            right: "interval = \"10s\"",
            wrong: "interval = 5",
            value: &Set(
                Time(Duration::from_millis(100)..=Duration::from_secs(24 * 3600)),
                |health: &mut HealthDraft, interval| health.interval = interval,
            ),
            ..Key::LIVE
        },
        Key {
            name: "timeout",
            brief: "Time limit of one check, from connecting to the last byte",
            default: DefaultValue::Words("`\"2s\"`, or `interval` if that is shorter"),
            right: "timeout = \"1s\"",
            wrong: "timeout = \"1\"",
            value: &Set(
                Time(Duration::from_millis(1)..=Duration::from_secs(3600)),
                |health: &mut HealthDraft, timeout| health.timeout = Some(timeout),
            ),
            ..Key::LIVE
        },
        Key {
            name: "rise",
            brief: "Successful checks in a row before an endpoint gets calls again",
            long: "The first check of a new endpoint decides alone.",
            default: DefaultValue::Literal("2"),
            right: "rise = 3",
            wrong: "rise = 0",
            value: &Set(Count(1..=1000), |health: &mut HealthDraft, rise| health.rise = rise),
            ..Key::LIVE
        },
        Key {
            name: "fall",
            brief: "Failed checks in a row before an endpoint gets no calls",
            default: DefaultValue::Literal("3"),
            right: "fall = 5",
            wrong: "fall = 0",
            value: &Set(Count(1..=1000), |health: &mut HealthDraft, fall| health.fall = fall),
            ..Key::LIVE
        },
    ],
};
