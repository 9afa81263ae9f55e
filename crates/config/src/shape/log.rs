use std::path::PathBuf;

use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::{AccessLog, LogFormat, RecordTemplate};
use crate::nearest::suggestion;
use crate::raw::{Directive, Value};

use super::value_error::{ValueError, value_or_report};
use super::{
    CLIENTS, HEADER_CONDITIONS, OutputFile, PATHS, STATUSES, Words, is_table_like, log_template, pattern_set,
};

/// `"off"`, a format, or a table of format and file.
pub(crate) struct AccessLogShape {
    table: &'static Section<AccessLog>,
}

impl AccessLogShape {
    /// Of calls to an upstream.
    pub(crate) const CALLS: AccessLogShape = AccessLogShape { table: &CALLS };
    /// Of requests to a listener.
    pub(crate) const REQUESTS: AccessLogShape = AccessLogShape { table: &REQUESTS };

    fn names(&self) -> Vec<&'static str> {
        self.table.keys.iter().map(|key| key.name).collect()
    }
}

pub(crate) const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

static CALLS: Section<AccessLog> = Section {
    keys: &[
        Key {
            name: "format",
            brief: "Format of the records: one line of text or one JSON object per request",
            default: DefaultValue::Literal("\"text\""),
            right: "format = \"json\"",
            wrong: "format = \"xml\"",
            value: &Set(Words(FORMATS), |log: &mut AccessLog, format| log.format = format),
            ..Key::LIVE
        },
        FILE,
    ],
};

const FILE: Key<AccessLog> = Key {
    name: "file",
    brief: "File to append to",
    long: "A relative path is resolved against the directory of the main configuration file. The file is reopened at SIGUSR1 and at a reload, so that it can be renamed first.",
    default: DefaultValue::Words("standard output"),
    right: "file = \"/var/log/keepwarm-access.log\"",
    wrong: "file = \"/no/such/directory/access.log\"",
    value: &Set(OutputFile, |log: &mut AccessLog, file: PathBuf| log.file = Some(file)),
    ..Key::LIVE
};

static REQUESTS: Section<AccessLog> = Section {
    keys: &[
        Key {
            name: "format",
            brief: "Format of the records: `\"text\"`, `\"json\"`, a line with variables, or a table of JSON members with variables",
            long: "The variables are those of routes ([list](../guide/routes.md#variables)) without `$1` to `$9`, and `$status`, `$bytes` (of the body), `$seconds`, `$time`, `$target` (as received), `$version`, `$route`, `$reason`. In a line, bytes of the client are escaped and an absent value is `-`. In JSON, an absent value is left out, and `$status`, `$bytes` and `$seconds` alone are numbers.",
            default: DefaultValue::Literal("\"text\""),
            right: "format = \"$time $client $method $target $status $seconds\"",
            wrong: "format = \"$stauts\"",
            value: &Set(RecordShape, |log: &mut AccessLog, record| match record {
                RecordFormat::Word(format) => log.format = format,
                RecordFormat::Template(record) => log.record = Some(record),
            }),
            ..Key::LIVE
        },
        FILE,
        Key {
            name: "status",
            brief: "Statuses of responses that are recorded",
            long: "A request that got no response is always recorded.",
            default: DefaultValue::Words("all"),
            right: "status = \"400-599\"",
            wrong: "status = \"error\"",
            value: &Set(STATUSES, |log: &mut AccessLog, statuses| log.statuses = statuses),
            ..Key::LIVE
        },
        Key {
            name: "path",
            brief: "Paths of requests that are recorded, with patterns as in routes",
            long: "The normalized path that the client requested. All conditions must hold for a request to be recorded.",
            default: DefaultValue::Words("all"),
            right: "path = [\"!/healthz\", \"!/assets/*\"]",
            wrong: "path = \"healthz\"",
            value: &Set(PATHS, |log: &mut AccessLog, paths| log.conditions.paths = pattern_set(paths)),
            ..Key::LIVE
        },
        Key {
            name: "client",
            brief: "Addresses of clients whose requests are recorded",
            default: DefaultValue::Words("all"),
            right: "client = \"!127.0.0.1\"",
            wrong: "client = \"localhost\"",
            value: &Set(CLIENTS, |log: &mut AccessLog, clients| {
                log.conditions.clients = pattern_set(clients)
            }),
            ..Key::LIVE
        },
        Key {
            name: "header",
            brief: "Headers of requests that are recorded, with patterns as in routes",
            default: DefaultValue::Words("all"),
            right: "header = { User-Agent = \"!*HealthChecker*\" }",
            wrong: "header = { User-Agent = \"~[\" }",
            value: &Set(HEADER_CONDITIONS, |log: &mut AccessLog, headers| log.conditions.headers = headers),
            ..Key::LIVE
        },
    ],
};

/// A format by its name, or with variables.
enum RecordFormat {
    Word(LogFormat),
    Template(RecordTemplate),
}

struct RecordShape;

impl Describe for RecordShape {
    fn description(&self) -> Description {
        let members =
            Json::object([("type", Json::text("object")), ("additionalProperties", Json::of_type("string"))]);
        Description::new(
            "\"text\", \"json\", a line with variables, or a table of JSON members with variables",
            "\"text\", \"json\", line with variables, or table",
            Json::any(vec![Json::words(["text", "json"]), Json::pattern("[$]"), members]),
        )
    }
}

impl Shape for RecordShape {
    type Out = RecordFormat;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<RecordFormat> {
        if !is_table_like(directive) {
            let text = cx.text(directive)?;
            if let Some((_, format)) = FORMATS.iter().find(|(word, _)| *word == text.text) {
                return Some(RecordFormat::Word(*format));
            }
            let line = match text.text.contains('$') {
                true if text.text.contains(char::is_control) => {
                    Err(ValueError::new("contains control characters"))
                }
                true => log_template(&text.text),
                false => Err(ValueError::new(format!("is `{}`", text.text))
                    .maybe_help(suggestion(&text.text, ["text", "json"]))),
            };
            return value_or_report(line, text, directive, cx)
                .map(|line| RecordFormat::Template(RecordTemplate::Line(line)));
        }
        let table = cx.table(directive)?;
        let mut members = Vec::new();
        for entry in &table.entries {
            let text = cx.text(&entry.value)?;
            let value = value_or_report(log_template(&text.text), text, &entry.value, cx)?;
            members.push((entry.key.clone(), value));
        }
        Some(RecordFormat::Template(RecordTemplate::Object(members)))
    }
}

impl Describe for AccessLogShape {
    fn description(&self) -> Description {
        Description::new(
            format!("\"off\", \"text\", \"json\", or a table {{ {} }}", self.names().join(", ")),
            "\"off\", \"text\", \"json\", or a table",
            Json::any(vec![Json::words(["off", "text", "json"]), self.table.schema()]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        self.table.infos(path)
    }
}

impl Shape for AccessLogShape {
    type Out = Option<AccessLog>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Option<AccessLog>> {
        let mut log = AccessLog::new(LogFormat::Text);
        let text = match &directive.value {
            Value::String(text) if !is_table_like(directive) => text,
            _ => {
                self.table.read(&mut log, &*cx.table(directive)?, cx);
                return Some(Some(log));
            }
        };
        if text.text == "off" {
            return Some(None);
        }
        if let Some((_, format)) = FORMATS.iter().find(|(word, _)| *word == text.text) {
            log.format = *format;
            return Some(Some(log));
        }
        let quoted = cx.quote(text);
        let help = match text.text.contains(['/', '.']) {
            true => Some(format!("for a file write {{ file = \"{}\" }}", text.text)),
            false => suggestion(&text.text, ["off", "text", "json"]),
        };
        cx.wrong(directive.span, &format!("is {quoted}")).maybe_help(help.filter(|_| !text.secret)).reject(cx)
    }
}
