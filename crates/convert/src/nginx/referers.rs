//! `valid_referers`, as a condition on the header.

use super::Reader;
use super::action::Place;
use super::syntax::Directive;
use crate::ledger::Origin;
use crate::model::escape;
use crate::table::{Table, one_or_list};

/// What a referer begins with, unless something on the way has blocked it.
const SCHEME: &str = "(?i)^https?://";

impl<'d> Reader<'d, '_> {
    /// The condition of `if ($invalid_referer)`.
    pub(super) fn invalid_referer(
        &mut self,
        place: &Place<'_, 'd>,
        pattern: &str,
        table: &mut Table,
        origin: Origin,
    ) -> Result<(), String> {
        if !matches!(pattern, "!" | "1" | "!0") {
            return Err("its condition is on referers that are valid".to_owned());
        }
        let lists = place.scope.all("valid_referers");
        let words: Vec<&str> = lists.iter().flat_map(|list| &list.args).map(String::as_str).collect();
        let has = |word: &str| words.contains(&word);
        let mut patterns = match (has("none"), has("blocked")) {
            (true, false) => vec!["*".to_owned()],
            (true, true) => vec![format!("~{SCHEME}")],
            (false, false) => Vec::new(),
            (false, true) => return Err("`blocked` without `none` takes two conditions".to_owned()),
        };
        for word in words.iter().filter(|word| !matches!(**word, "none" | "blocked")) {
            match *word {
                "server_names" => {
                    for name in place.scope.all("server_name").iter().flat_map(|names| &names.args) {
                        patterns.push(self.valid(name)?);
                    }
                }
                name => patterns.push(self.valid(name)?),
            }
        }
        if patterns.is_empty() {
            return Err("no referer is valid".to_owned());
        }
        table.set_in(&["header"], "Referer", one_or_list(patterns), origin);
        self.settle_referers(&lists);
        Ok(())
    }

    fn settle_referers(&mut self, lists: &[&Directive]) {
        for list in lists {
            self.ledger.carried(list.origin);
        }
    }

    /// A negated pattern: referers of a server, perhaps below a path, are valid.
    fn valid(&mut self, word: &str) -> Result<String, String> {
        if let Some(expression) = word.strip_prefix('~') {
            // It is matched after the scheme.
            let expression = expression.trim_start_matches('*');
            let rest = match expression.strip_prefix('^') {
                Some(_) if expression.contains('|') => {
                    return Err(format!("`{word}` has an anchor and alternatives"));
                }
                Some(rest) => format!("(?:{rest})"),
                None => format!(".*(?:{expression})"),
            };
            return Ok(format!("!~{}", self.expression(&format!("{SCHEME}{rest}"), false)?));
        }
        let (host, path) = word.find('/').map_or((word, ""), |at| word.split_at(at));
        let host = match (host.strip_prefix("*."), host.strip_prefix('.'), host.strip_suffix(".*")) {
            (Some(domain), ..) => format!("[^/:]+\\.{}", escape(domain)),
            (_, Some(domain), _) => format!("(?:[^/:]+\\.)?{}", escape(domain)),
            (.., Some(name)) => format!("{}\\.[^/:]+", escape(name)),
            _ => escape(host),
        };
        let end = match path {
            "" => "(?:[:/]|$)".to_owned(),
            path => format!("(?::[0-9]+)?(?-i){}", escape(path)),
        };
        Ok(format!("!~{SCHEME}{host}{end}"))
    }
}
