//! `kind`: the interface of an app.

use super::Words;
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::AppKind;
use crate::raw::Directive;

/// `kind`
pub(crate) struct AppKindShape;

/// The kinds and their names.
const KINDS: [(&str, AppKind); 6] = [
    ("wsgi", AppKind::Wsgi),
    ("asgi", AppKind::Asgi),
    ("php", AppKind::Php),
    ("fastcgi", AppKind::FastCgi),
    ("rack", AppKind::Rack),
    ("http", AppKind::Http),
];

fn words() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(word, _)| *word)
}

impl AppKind {
    /// The name of the kind in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// The kind of an entry, from its extension. `None` for Python: the adapter detects the kind when it loads the
    /// app.
    pub(crate) fn of_entry(entry: &str) -> Option<AppKind> {
        let file = entry.rsplit('/').next().unwrap_or(entry);
        match file.rsplit_once('.')?.1 {
            "php" | "phtml" => Some(AppKind::Php),
            "ru" | "rb" => Some(AppKind::Rack),
            "js" | "mjs" | "cjs" | "ts" | "jar" => Some(AppKind::Http),
            _ => None,
        }
    }
}

impl Describe for AppKindShape {
    fn description(&self) -> Description {
        let quoted: Vec<String> = words().map(|word| format!("\"{word}\"")).collect();
        let expected = match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        };
        Description::new(expected.clone(), expected, Json::words(words()))
    }
}

impl Shape for AppKindShape {
    type Out = AppKind;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<AppKind> {
        Words(&KINDS).read(directive, cx)
    }
}
