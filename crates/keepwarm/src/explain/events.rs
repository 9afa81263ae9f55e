//! Events of the log: the rows of `docs/reference/log-events.md`, which is generated from the code.

use std::fmt::Write as _;

const PAGE: &str = include_str!("../../../../docs/reference/log-events.md");

/// A row of the page.
struct Event {
    section: &'static str,
    name: &'static str,
    level: &'static str,
    message: String,
    fields: &'static str,
}

fn events() -> impl Iterator<Item = Event> {
    PAGE.split("\n## ").skip(1).flat_map(|section| {
        let (title, rows) = section.split_once('\n').unwrap_or_default();
        rows.lines().filter_map(move |row| event(title, row))
    })
}

/// `| name | level | message | fields |`
fn event(section: &'static str, row: &'static str) -> Option<Event> {
    let mut cells = row.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ");
    let name = cells.next()?.strip_suffix('`')?;
    let level = cells.next()?;
    let rest: Vec<&str> = cells.collect();
    let (fields, message) = rest.split_last()?;
    Some(Event {
        section,
        name,
        level,
        message: message.join(" | ").replace("\\|", "|"),
        fields: fields.trim(),
    })
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    events().map(|event| event.name)
}

/// The records of this name, as plain text.
pub(super) fn explain(name: &str) -> Option<String> {
    let mut text = String::new();
    for event in events().filter(|event| event.name == name) {
        let Event { section, level, message, fields, .. } = event;
        let _ = writeln!(
            text,
            "{name}: an event of the log ({section})\n  level:   {level}\n  message: {message}"
        );
        if !fields.is_empty() {
            let _ = writeln!(text, "  fields:  {}", fields.replace('`', ""));
        }
    }
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_explained_with_each_of_its_messages() {
        let text = explain("drain_timeout").unwrap();
        assert!(text.matches("drain_timeout: an event of the log (The process)").count() >= 4, "{text}");
        assert!(text.contains("\n  level:   info\n  message: drain timeout reached; cutting"), "{text}");
        assert!(text.contains("\n  fields:  connections\n"), "{text}");
        assert!(explain("drain").is_none());
    }

    #[test]
    fn every_row_is_an_event() {
        let rows = PAGE.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(events().count(), rows);
        assert!(rows > 100);
        let levels = ["error", "warn", "info", "debug", "trace"];
        events().for_each(|event| {
            let is_level = event.level.split(',').all(|level| levels.contains(&level.trim()));
            assert!(is_level, "{}: {}", event.name, event.level);
        });
    }
}
