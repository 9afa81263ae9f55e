use std::path::PathBuf;

use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::{AccessLog, LogFormat};
use crate::nearest::suggestion;
use crate::raw::{Directive, Value};

use super::{OutputFile, Words, is_table_like};

/// `"off"`, a format, or a table of format and file.
pub(crate) struct AccessLogShape;

pub(crate) const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

static TABLE: Section<AccessLog> = Section {
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
        Key {
            name: "file",
            brief: "File to append to",
            long: "A relative path is resolved against the directory of the main configuration file. The file is reopened at SIGUSR1 and at a reload, so that it can be renamed first.",
            default: DefaultValue::Words("standard output"),
            right: "file = \"/var/log/keepwarm-access.log\"",
            wrong: "file = \"/no/such/directory/access.log\"",
            value: &Set(OutputFile, |log: &mut AccessLog, file: PathBuf| log.file = Some(file)),
            ..Key::LIVE
        },
    ],
};

impl Describe for AccessLogShape {
    fn description(&self) -> Description {
        Description::new(
            "\"off\", \"text\", \"json\", or a table { format, file }",
            "\"off\", \"text\", \"json\", or a table",
            Json::any(vec![Json::words(["off", "text", "json"]), TABLE.schema()]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        TABLE.infos(path)
    }
}

impl Shape for AccessLogShape {
    type Out = Option<AccessLog>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Option<AccessLog>> {
        let mut log = AccessLog { format: LogFormat::Text, file: None };
        let text = match &directive.value {
            Value::String(text) if !is_table_like(directive) => text,
            _ => {
                TABLE.read(&mut log, &*cx.table(directive)?, cx);
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
