use std::time::Duration;

use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Key, Preset, Reload, Section, Set, Shape};
use crate::model::{Health, HealthProbe, StatusRange};
use crate::raw::{Directive, Span, Table, Value};
use crate::shape::{Count, Flag, LocalPath, OrTable, Statuses, TableOf, Time};

/// `health`: a path, `"tcp"`, or a table.
pub(super) const HEALTH: OrTable<HealthWord, HealthDraft> = OrTable {
    plain: HealthWord,
    of_plain: |path, _, _| Some(HealthDraft { path, ..HealthDraft::default() }),
    table: TableOf { section: &HEALTH_TABLE, check },
};

const TIMEOUT: Duration = Duration::from_secs(2);

/// As it was read.
pub(super) struct HealthDraft {
    /// `None`: only whether a connection can be made.
    path: Option<String>,
    statuses: Vec<StatusRange>,
    interval: Duration,
    /// `None`: [`TIMEOUT`], or as long as the interval where that is shorter.
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
    /// After the check: it has a path, or asks for a connection only.
    pub(super) fn settle(self) -> Health {
        let statuses = self.statuses;
        let probe = self.path.map_or(HealthProbe::Tcp, |path| HealthProbe::Http { path, statuses });
        let timeout = self.timeout.unwrap_or(TIMEOUT.min(self.interval));
        Health { probe, interval: self.interval, timeout, rise: self.rise, fall: self.fall }
    }
}

fn check(draft: &HealthDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) -> bool {
    let name = cx.name();
    let at = |key: &str| table.entry(key).map(|entry| entry.key_span);
    // One that could not be read has been complained of.
    let tcp = table.entry("tcp").filter(|entry| !matches!(entry.value.value, Value::Flag(false)));
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
    let problem = cx.problem(span, message).key(key).expected(expected);
    cx.push(problem);
    false
}

/// `"/healthz"` as that path, `"tcp"` as none.
pub(super) struct HealthWord;

impl Describe for HealthWord {
    fn expected(&self) -> String {
        "a path such as \"/healthz\", or \"tcp\"".to_owned()
    }

    fn type_name(&self) -> String {
        "URL path or \"tcp\"".to_owned()
    }

    fn schema(&self) -> Json {
        Json::pattern("^(/[!-~]*|tcp)$")
    }
}

impl Shape for HealthWord {
    type Out = Option<String>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Option<String>> {
        match &directive.value {
            Value::Text(text) if text.text == "tcp" => Some(None),
            _ => LocalPath.read(directive, cx).map(Some),
        }
    }
}

static HEALTH_TABLE: Section<HealthDraft> = Section {
    keys: &[
        Key {
            name: "path",
            brief: "Path to request with `GET`",
            long: "With the `Host` and the protocol of calls, over TLS if calls use TLS.",
            default: Preset::Words("none; either it or `tcp` is required"),
            right: "path = \"/healthz\"",
            wrong: "path = \"healthz\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(LocalPath, |health: &mut HealthDraft, path| health.path = Some(path)),
        },
        Key {
            name: "tcp",
            brief: "Test only whether a connection can be made",
            long: "",
            default: Preset::Words("`false`"),
            right: "tcp = true",
            wrong: "tcp = 80",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Flag, |_: &mut HealthDraft, _| {}),
        },
        Key {
            name: "status",
            brief: "Statuses of a healthy endpoint",
            long: "",
            default: Preset::Value("\"200-399\""),
            right: "status = [200, 204]",
            wrong: "status = \"2xx\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Statuses, |health: &mut HealthDraft, statuses| health.statuses = statuses),
        },
        Key {
            name: "interval",
            brief: "Time from one check of an endpoint to the next",
            long: "With jitter, so that endpoints are not all checked at once. A result that differs from the previous ones is checked again after a quarter of it.",
            default: Preset::Value("\"5s\""),
            right: "interval = \"10s\"",
            wrong: "interval = 5",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                Time { min: Duration::from_millis(100), max: Duration::from_secs(24 * 3600) },
                |health: &mut HealthDraft, interval| health.interval = interval,
            ),
        },
        Key {
            name: "timeout",
            brief: "Time limit of one check, from connecting to the last byte",
            long: "",
            default: Preset::Words("`\"2s\"`, or `interval` if that is shorter"),
            right: "timeout = \"1s\"",
            wrong: "timeout = \"1\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(
                Time { min: Duration::from_millis(1), max: Duration::from_secs(3600) },
                |health: &mut HealthDraft, timeout| health.timeout = Some(timeout),
            ),
        },
        Key {
            name: "rise",
            brief: "Successful checks in a row before an endpoint gets calls again",
            long: "The first check of a new endpoint decides alone.",
            default: Preset::Value("2"),
            right: "rise = 3",
            wrong: "rise = 0",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Count { min: 1, max: 1000 }, |health: &mut HealthDraft, rise| health.rise = rise),
        },
        Key {
            name: "fall",
            brief: "Failed checks in a row before an endpoint gets no calls",
            long: "",
            default: Preset::Value("3"),
            right: "fall = 5",
            wrong: "fall = 0",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Count { min: 1, max: 1000 }, |health: &mut HealthDraft, fall| health.fall = fall),
        },
    ],
};
