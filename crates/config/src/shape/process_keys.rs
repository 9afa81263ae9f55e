//! Values of `[process.NAME]`: commands, dependencies, signals, schedules.

use std::time::Duration;

use croner::parser::{CronParser, Seconds, Year};

use super::list::{EmptyList, ListOf};
use super::net::ServerAddress;
use super::parsed_string::ParsedString;
use super::value_error::ValueError;
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::{Dependency, ProcessSignal, ReadyCheck, SIGNALS, Schedule};
use crate::nearest::suggestion;
use crate::raw::{Directive, Span, Table, Value};
use crate::shape::{TableShape, Words};

use crate::model::{Bind, Restart};

/// A program and its arguments. A string is a program without arguments.
pub(crate) struct CommandLine;

/// One command line, or a list of command lines.
pub(crate) struct CommandLines;

impl Describe for CommandLine {
    fn description(&self) -> Description {
        Description::new(
            "a program, or a list of the program and its arguments",
            "string or list of strings",
            Json::one_or_many(Json::of_type("string")),
        )
    }
}

impl Shape for CommandLine {
    type Out = Vec<String>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<String>> {
        let items = cx.items(directive);
        let Some(program) = items.first() else {
            return cx.wrong(directive.span, "is an empty list").reject(cx);
        };
        if let (Value::String(text), 1) = (&program.value, items.len())
            && text.text.split_whitespace().count() > 1
            && !text.secret
        {
            let words: Vec<String> = text.text.split_whitespace().map(|word| format!("{word:?}")).collect();
            return cx
                .wrong(program.span, "is a program whose name contains spaces")
                .help(format!("write the program and its arguments as a list: [{}]", words.join(", ")))
                .reject(cx);
        }
        cx.read_items(directive, |item, cx| {
            if let Value::Integer(_) | Value::Float | Value::Boolean(_) = item.value {
                let help = format!("write it in quotes: \"{}\"", cx.source_map.slice(item.span));
                return cx.wrong(item.span, &format!("is {}", item.type_name())).help(help).reject(cx);
            }
            let text = cx.text(item)?;
            match text.text.as_str() {
                "" if item.span == program.span => cx.wrong(item.span, "is an empty string").reject(cx),
                nul if nul.contains('\0') => cx.wrong(item.span, "contains a NUL byte").reject(cx),
                word => Some(word.to_owned()),
            }
        })
    }
}

impl Describe for CommandLines {
    fn description(&self) -> Description {
        let one = || Json::one_or_many(Json::of_type("string"));
        Description::new(
            "a command (a program, or a list of the program and its arguments), or a list of such lists",
            "command or list of commands",
            Json::one_or_many(one()),
        )
    }
}

impl Shape for CommandLines {
    type Out = Vec<Vec<String>>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<Vec<String>>> {
        let items = cx.items(directive);
        let is_list = |item: &Directive| matches!(item.value, Value::Array(_));
        if !items.iter().any(is_list) {
            return CommandLine.read(directive, cx).map(|command| vec![command]);
        }
        if let Some(mixed) = items.iter().find(|item| !is_list(item)) {
            return cx
                .wrong(mixed.span, &format!("contains {} beside lists", mixed.type_name()))
                .help(
                    "write each command as a list: [[\"bin/console\", \"cache:warmup\"], [\"bin/migrate\"]]",
                )
                .reject(cx);
        }
        cx.read_items(directive, |item, cx| CommandLine.read(item, cx))
    }
}

/// `after`
pub(crate) const AFTER: ListOf<DependencyName> = ListOf {
    one: DependencyName,
    expected: "\"app.NAME\", \"process.NAME\" or \"upstream.NAME\", or a list of them",
    type_name: "section or list of sections",
    empty: EmptyList::Allowed,
};

/// The section that a process waits for, with its span. Whether it exists is checked later.
pub(crate) struct DependencyName;

impl Describe for DependencyName {
    fn description(&self) -> Description {
        Description::new(
            "\"app.NAME\", \"process.NAME\" or \"upstream.NAME\"",
            "section",
            Json::pattern("^(app|process|upstream)\\.[A-Za-z0-9_-]+$"),
        )
    }
}

impl Shape for DependencyName {
    type Out = (Dependency, Span);

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Self::Out> {
        let text = cx.text(directive)?;
        let dependency = match text.text.split_once('.') {
            Some(("app", name)) if !name.is_empty() => Dependency::App(name.to_owned()),
            Some(("process", name)) if !name.is_empty() => Dependency::Process(name.to_owned()),
            Some(("upstream", name)) if !name.is_empty() => Dependency::Upstream(name.to_owned()),
            _ => {
                let quoted = cx.quote(text);
                let help = (!text.secret && !text.text.contains('.') && !text.text.is_empty()).then(|| {
                    format!(
                        "write \"app.{name}\", \"process.{name}\" or \"upstream.{name}\"",
                        name = text.text
                    )
                });
                return cx.wrong(directive.span, &format!("is {quoted}")).maybe_help(help).reject(cx);
            }
        };
        Some((dependency, directive.span))
    }
}

/// `restart`
pub(crate) const RESTART: Words<Restart> =
    Words(&[("always", Restart::Always), ("on_failure", Restart::OnFailure), ("never", Restart::Never)]);

/// `stop_signal`, `reload_signal`
pub(crate) const SIGNAL: ParsedString<ProcessSignal> = ParsedString {
    expected: "one of \"TERM\", \"INT\", \"QUIT\", \"HUP\", \"USR1\", \"USR2\", \"WINCH\", \"KILL\"",
    type_name: "name of a signal",
    pattern: Some("^(SIG)?(TERM|INT|QUIT|HUP|USR1|USR2|WINCH|KILL)$"),
    bare: None,
    read: |text| {
        let name = text.strip_prefix("SIG").unwrap_or(text);
        let found = SIGNALS.iter().find(|signal| signal.name == name);
        found.copied().ok_or_else(|| {
            let upper = text.to_ascii_uppercase();
            let names = SIGNALS.iter().map(|signal| signal.name);
            ValueError::new(format!("is `{text}`"))
                .maybe_help(suggestion(upper.strip_prefix("SIG").unwrap_or(&upper), names))
        })
    },
};

/// `schedule`
pub(crate) const SCHEDULE: ParsedString<Schedule> = ParsedString {
    expected: "\"every TIME\", such as \"every 5m\", or the five fields of cron, such as \"30 3 * * *\"",
    type_name: "interval or cron pattern",
    pattern: None,
    bare: None,
    read: schedule,
};

const LONGEST_INTERVAL: u64 = 7 * 24 * 3600;

fn schedule(text: &str) -> Result<Schedule, ValueError> {
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["every", interval] => every(interval).map_err(|error| error.within(text)),
        ["every", number, unit] => Err(ValueError::new(format!("is `{text}`")).help(format!(
            "write \"every {number}{}\"",
            unit.chars().next().filter(|unit| "smh".contains(*unit)).unwrap_or('m')
        ))),
        fields => cron(text, fields.len()),
    }
}

fn every(interval: &str) -> Result<Schedule, ValueError> {
    let digits = interval.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = interval.split_at(digits);
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "" => {
            return Err(ValueError::new(format!("`{interval}` has no unit"))
                .help(format!("write \"every {interval}m\"")));
        }
        _ => return Err(ValueError::new(format!("`{unit}` is not one of the units s, m, h"))),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    match seconds.filter(|seconds| (1..=LONGEST_INTERVAL).contains(seconds)) {
        Some(seconds) => Ok(Schedule::Every(Duration::from_secs(seconds))),
        None => Err(ValueError::new("the interval must be from 1s to 168h")),
    }
}

fn cron(text: &str, fields: usize) -> Result<Schedule, ValueError> {
    let wrong = || ValueError::new(format!("is `{text}`"));
    if fields != 5 && !text.starts_with('@') {
        return Err(ValueError::new(format!("is `{text}`, which has {fields} fields in place of 5"))
            .help("minute, hour, day of the month, month, day of the week: \"30 3 * * 1\""));
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    match parser.parse(text) {
        Ok(_) => Ok(Schedule::Cron(text.to_owned())),
        Err(error) => Err(wrong().help(error.to_string())),
    }
}

/// `ready` before the check that it has one key.
#[derive(Default)]
pub(crate) struct ReadyDraft {
    accepts: Option<Bind>,
    prints: Option<String>,
}

/// `ready`
pub(crate) const READY: TableShape<ReadyDraft> = TableShape { section: &READY_KEYS, check: check_ready };

static READY_KEYS: Section<ReadyDraft> = Section {
    keys: &[
        Key {
            name: "accepts",
            brief: "Address at which a ready process accepts connections",
            long: "Tried ten times a second until a connection is made, which is closed at once. For daemons.",
            default: DefaultValue::Words("none"),
            right: "accepts = \"127.0.0.1:6001\"",
            wrong: "accepts = \"localhost\"",
            value: &Set(ServerAddress, |draft: &mut ReadyDraft, address| draft.accepts = Some(address)),
            ..Key::RECYCLE
        },
        Key {
            name: "prints",
            brief: "Text in a line that a process prints once it is ready",
            long: "On standard output or standard error, compared as it is. For programs that listen nowhere, such as queue workers.",
            default: DefaultValue::Words("none"),
            right: "prints = \"ready.\"",
            wrong: "prints = \"\"",
            value: &Set(PRINTED, |draft: &mut ReadyDraft, text| draft.prints = Some(text)),
            ..Key::RECYCLE
        },
    ],
};

const PRINTED: ParsedString<String> = ParsedString {
    expected: "a part of a line",
    type_name: "string",
    pattern: None,
    bare: None,
    read: |text| match text.contains('\n') {
        true => Err(ValueError::new("contains a line feed")),
        false if text.trim().is_empty() => Err(ValueError::new("is empty")),
        false => Ok(text.to_owned()),
    },
};

fn check_ready(_: &ReadyDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) -> bool {
    match (table.entry("accepts"), table.entry("prints")) {
        (Some(accepts), Some(prints)) => {
            cx.both(accepts, prints).expected("one of the two").report(cx);
            false
        }
        (None, None) => {
            cx.wrong(directive.span, "is an empty table").report(cx);
            false
        }
        _ => true,
    }
}

impl ReadyDraft {
    /// `None`: a problem was reported.
    pub(crate) fn finish(self) -> Option<ReadyCheck> {
        self.accepts.map(ReadyCheck::Accepts).or(self.prints.map(ReadyCheck::Prints))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_intervals_or_five_fields() {
        let every = |seconds| Schedule::Every(Duration::from_secs(seconds));
        for (text, expected) in
            [("every 5m", every(300)), ("every 1s", every(1)), ("every 24h", every(86400))]
        {
            assert_eq!(schedule(text).unwrap(), expected, "{text}");
        }
        for text in ["*/5 * * * *", "30 3 * * MON-FRI", "0 0 1 1 *", "@daily", "0 0 L * *"] {
            assert_eq!(schedule(text).unwrap(), Schedule::Cron(text.to_owned()), "{text}");
        }
        for text in [
            "every",
            "every 0s",
            "every 5",
            "every 5d",
            "every 200h",
            "* * * *",
            "0 0 * * * *",
            "61 * * * *",
            "* * * * x",
            "",
        ] {
            assert!(schedule(text).is_err(), "{text}");
        }
    }

    #[test]
    fn signals_have_their_names_with_and_without_sig() {
        let number = |name| (SIGNAL.read)(name).map(|signal| signal.number).ok();
        assert_eq!(
            (number("TERM"), number("SIGHUP"), number("hup"), number("STOP")),
            (Some(15), Some(1), None, None)
        );
    }
}
