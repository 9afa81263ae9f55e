use std::path::PathBuf;

use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Info, Key, Preset, Reload, Section, Set, Shape};
use crate::model::{AccessLog, LogFormat};
use crate::nearest::{nearest, or_list};
use crate::raw::{Directive, Value};

use super::{InDirectory, Words};

/// `"off"`, a format, or a table of format and file.
pub(crate) struct AccessLogs;

pub(crate) const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

static TABLE: Section<AccessLog> = Section {
    keys: &[
        Key {
            name: "format",
            brief: "Format of the records: one line of text or one JSON object per request",
            long: "",
            default: Preset::Value("\"text\""),
            right: "format = \"json\"",
            wrong: "format = \"xml\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Words(FORMATS), |log: &mut AccessLog, format| log.format = format),
        },
        Key {
            name: "file",
            brief: "File to append to",
            long: "A relative path is resolved against the directory of the main configuration file. The file is reopened at SIGUSR1 and at a reload, so that it can be renamed first.",
            default: Preset::Words("standard output"),
            right: "file = \"/var/log/keepwarm-access.log\"",
            wrong: "file = \"/no/such/directory/access.log\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(InDirectory, |log: &mut AccessLog, file: PathBuf| log.file = Some(file)),
        },
    ],
};

impl Describe for AccessLogs {
    fn expected(&self) -> String {
        "\"off\", \"text\", \"json\", or a table { format, file }".to_owned()
    }

    fn type_name(&self) -> String {
        "\"off\", \"text\", \"json\", or a table".to_owned()
    }

    fn schema(&self) -> Json {
        Json::any(vec![Json::words(["off", "text", "json"]), TABLE.schema()])
    }

    fn children(&self, path: &str) -> Vec<Info> {
        TABLE.infos(path)
    }
}

impl Shape for AccessLogs {
    type Out = Option<AccessLog>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Option<AccessLog>> {
        let mut log = AccessLog { format: LogFormat::Text, file: None };
        let text = match &directive.value {
            Value::Text(text) if !(text.loose && text.text.trim_start().starts_with('{')) => text,
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
        let mut problem = cx.wrong(directive.span, &format!("is {quoted}"));
        let near = nearest(&text.text, ["off", "text", "json"]);
        if text.text.contains(['/', '.']) && !text.secret {
            problem = problem.help(format!("for a file write {{ file = \"{}\" }}", text.text));
        } else if !near.is_empty() && !text.secret {
            problem = problem.help(format!("did you mean {}?", or_list(&near)));
        }
        cx.push(problem);
        None
    }
}
