//! `kind`: how an app is called.

use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Shape};
use crate::model::AppKind;
use crate::nearest::{nearest, or_list};
use crate::raw::Directive;

/// `kind`
pub(crate) struct Kinds;

/// Every kind and its word.
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
    /// Its word in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// The kind that an entry's ending tells: `None` for Python, whose apps are told apart when they are loaded.
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

impl Describe for Kinds {
    fn expected(&self) -> String {
        let quoted: Vec<String> = words().map(|word| format!("\"{word}\"")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        }
    }

    fn type_name(&self) -> String {
        self.expected()
    }

    fn schema(&self) -> Json {
        Json::words(words())
    }
}

impl Shape for Kinds {
    type Out = AppKind;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<AppKind> {
        let text = cx.text(directive)?;
        let word = text.text.as_str();
        if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == word) {
            return Some(*kind);
        }
        let quoted = cx.quote(text);
        let mut problem = cx.wrong(directive.span, &format!("is {quoted}"));
        let near = nearest(word, words());
        if !near.is_empty() && !text.secret {
            problem = problem.help(format!("did you mean {}?", or_list(&near)));
        }
        cx.push(problem);
        None
    }
}
