//! keepwarm.toml as text.

use crate::ledger::{Ledger, Origin};
use crate::model::{Listener, Model, Section};
use crate::table::{Item, Table, Value};

/// Values that are longer are split, or get a section of their own.
const WIDTH: usize = 96;

/// Keys that come first, in this order.
const FIRST: [&str; 34] = [
    "bind",
    "domains",
    "redirect_to_https",
    "host",
    "path",
    "method",
    "header",
    "query",
    "cookie",
    "client",
    "scheme",
    "app",
    "upstream",
    "files",
    "redirect",
    "respond",
    "rewrite",
    "strip_prefix",
    "try_files",
    "index",
    "kind",
    "entry",
    "command",
    "address",
    "interpreter",
    "directory",
    "user",
    "group",
    "count",
    "workers",
    "url",
    "endpoints",
    "source",
    "default",
];

/// The keys of `[process.NAME]` that readers may set.
pub(crate) const PROCESS_KEYS: [&str; 17] = [
    "command",
    "count",
    "directory",
    "env",
    "env_file",
    "user",
    "group",
    "umask",
    "stop_signal",
    "stop_timeout",
    "max_memory",
    "max_age",
    "after",
    "ready",
    "before_start",
    "schedule",
    "restart",
];

pub(crate) fn write(model: &Model, ledger: &Ledger, title: &str) -> String {
    let mut writer = Writer { ledger, out: format!("# {title}\n") };
    for (name, table) in [("server", &model.server), ("admin", &model.admin), ("acme", &model.acme)] {
        if !table.is_empty() {
            writer.section(name, table, None);
        }
    }
    model.rate_limits.iter().for_each(|section| writer.named("rate_limit", section));
    model.maps.iter().for_each(|section| writer.named("map", section));
    model.listeners.iter().for_each(|listener| writer.listener(listener));
    model.apps.iter().for_each(|section| writer.named("app", section));
    model.processes.iter().for_each(|section| writer.named("process", section));
    model.upstreams.iter().for_each(|section| writer.named("upstream", section));
    writer.out
}

struct Writer<'a> {
    ledger: &'a Ledger,
    out: String,
}

impl Writer<'_> {
    fn named(&mut self, kind: &str, section: &Section) {
        debug_assert!(
            kind != "process"
                || section.table.items.iter().all(|item| PROCESS_KEYS.contains(&item.key.as_str()))
        );
        self.section(&format!("{kind}.{}", section.name), &section.table, section.origin);
    }

    fn listener(&mut self, listener: &Listener) {
        let name = format!("listen.{}", listener.name);
        self.section(&name, &listener.table, listener.origin);
        for (route, origin) in listener.routes.iter().zip(&listener.origins) {
            self.headed(&format!("[[{name}.route]]"), &format!("{name}.route"), route, *origin);
        }
    }

    fn section(&mut self, name: &str, table: &Table, origin: Option<Origin>) {
        self.headed(&format!("[{name}]"), name, table, origin);
    }

    fn headed(&mut self, head: &str, name: &str, table: &Table, origin: Option<Origin>) {
        self.out.push('\n');
        self.line(head.to_owned(), self.comment(origin, None, None));
        let mut items: Vec<&Item> = table.items.iter().collect();
        items.sort_by_key(|item| FIRST.iter().position(|first| *first == item.key).unwrap_or(FIRST.len()));
        let (long, short): (Vec<&Item>, Vec<&Item>) = items.into_iter().partition(|item| is_section(item));
        for item in short {
            self.item(item, origin);
        }
        for item in long {
            if let Value::Table(table) = &item.value {
                let name = format!("{name}.{}", key(&item.key));
                self.headed(&format!("[{name}]"), &name, table, None);
            }
        }
    }

    fn item(&mut self, item: &Item, section: Option<Origin>) {
        let comment = self.comment(item.origin, section, item.note.as_deref());
        let line = format!("{} = {}", key(&item.key), inline(&item.value));
        match &item.value {
            Value::List(list) if line.len() > WIDTH => {
                self.line(format!("{} = [", key(&item.key)), comment);
                for value in list {
                    self.line(format!("    {},", inline(value)), None);
                }
                self.line("]".to_owned(), None);
            }
            _ => self.line(line, comment),
        }
    }

    /// `# from site.conf:31`, unless the section says the same.
    fn comment(&self, origin: Option<Origin>, section: Option<Origin>, note: Option<&str>) -> Option<String> {
        match (note, origin) {
            (Some(note), _) => Some(format!("# {note}")),
            (None, Some(origin)) if Some(origin) != section => {
                let place = self.ledger.place(origin);
                (!place.is_empty()).then(|| format!("# from {place}"))
            }
            _ => None,
        }
    }

    fn line(&mut self, text: String, comment: Option<String>) {
        self.out.push_str(&text);
        if let Some(comment) = comment {
            let gap = 41usize.saturating_sub(text.chars().count()).max(1);
            self.out.extend(std::iter::repeat_n(' ', gap));
            self.out.push_str(&comment);
        }
        self.out.push('\n');
    }
}

/// Whether a table is too long for one line, or has directives of its own to name.
fn is_section(item: &Item) -> bool {
    matches!(&item.value, Value::Table(table) if !table.is_empty() && inline(&item.value).len() + item.key.len() > WIDTH)
}

fn inline(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(&text.replace("${", "$${")),
        Value::Open(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::List(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) if table.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let items: Vec<String> = table
                .items
                .iter()
                .map(|item| format!("{} = {}", key(&item.key), inline(&item.value)))
                .collect();
            format!("{{ {} }}", items.join(", "))
        }
    }
}

fn key(key: &str) -> String {
    let is_bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if is_bare { key.to_owned() } else { basic(key) }
}

/// A string, whose placeholders are escaped already; one with backslashes as a literal string, so that a regular expression can be read.
fn quoted(text: &str) -> String {
    match text.contains('\\') && !text.contains('\'') && !text.contains(char::is_control) {
        true => format!("'{text}'"),
        false => basic(text),
    }
}

fn basic(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        for (text, written) in [
            ("a", "\"a\""),
            ("a\"b", "\"a\\\"b\""),
            ("~\\.php$", "'~\\.php$'"),
            ("it's \\", "\"it's \\\\\""),
            ("a\n\u{1}", "\"a\\n\\u0001\""),
        ] {
            assert_eq!(quoted(text), written);
        }
        assert_eq!(key("X-Real-IP"), "X-Real-IP");
        assert_eq!(key("*.html"), "\"*.html\"");
        assert_eq!(key(""), "\"\"");
    }
}
