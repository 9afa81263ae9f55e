//! `kind`: how an app is called.

use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Shape};
use crate::model::AppKind;
use crate::nearest::{nearest, or_list};
use crate::raw::Directive;

/// `kind`
pub(crate) struct Kinds;

/// Every kind of the design: its word, and whether this version serves it.
const KINDS: [(&str, AppKind, bool); 6] = [
    ("wsgi", AppKind::Wsgi, true),
    ("asgi", AppKind::Asgi, true),
    ("php", AppKind::Php, true),
    ("fastcgi", AppKind::FastCgi, false),
    ("rack", AppKind::Rack, true),
    ("http", AppKind::Http, true),
];

fn served_words() -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter(|(_, _, served)| *served).map(|(word, _, _)| *word)
}

impl AppKind {
    /// Its word in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(_, kind, _)| *kind == self).map_or("", |(word, _, _)| word)
    }

    /// Whether this version serves it.
    pub(crate) fn is_served(self) -> bool {
        KINDS.iter().any(|(_, kind, served)| *kind == self && *served)
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
        let quoted: Vec<String> = served_words().map(|word| format!("\"{word}\"")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        }
    }

    fn type_name(&self) -> String {
        self.expected()
    }

    fn schema(&self) -> Json {
        Json::words(served_words())
    }
}

impl Shape for Kinds {
    type Out = AppKind;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<AppKind> {
        let text = cx.text(directive)?;
        let word = text.text.as_str();
        let problem = match KINDS.iter().find(|(known, _, _)| *known == word) {
            Some((_, kind, true)) => return Some(*kind),
            Some(_) => cx.wrong(
                directive.span,
                &format!("is `{word}`, a kind that is not served by this version yet"),
            ),
            None => {
                let quoted = cx.quote(text);
                let problem = cx.wrong(directive.span, &format!("is {quoted}"));
                let near = nearest(word, served_words());
                if near.is_empty() || text.secret {
                    problem
                } else {
                    problem.help(format!("did you mean {}?", or_list(&near)))
                }
            }
        };
        cx.push(problem);
        None
    }
}
