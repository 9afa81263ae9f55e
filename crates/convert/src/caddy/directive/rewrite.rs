//! `rewrite`, `uri`, `try_files`: the path that the directives after them see.

use super::{Applied, Chains, State, Step, TODO, template};
use crate::reach::Sight;

impl<'a> Chains<'_, '_> {
    pub(super) fn rewrite(&mut self, step: &Step<'a>, state: &State<'a>) -> Applied<'a> {
        let origin = step.line.origin;
        let target = step.args.first().map_or("", String::as_str);
        let mut rewritten = state.clone();
        let sight = match (self.moved(target, state), template(target, "", &state.reach)) {
            (Some(sight), _) => sight,
            (None, Some(text)) if target.starts_with('/') && is_same_path(target, state) => {
                let (path, query) = match text.split_once('?').filter(|(_, query)| *query != "$args") {
                    Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
                    None => (text.trim_end_matches("?$args").to_owned(), None),
                };
                Sight::Fixed { path, query }
            }
            _ => {
                self.reader.ledger.lost(
                    origin,
                    "its target has no counterpart",
                    "write `rewrite` of a route by hand; these requests get 501",
                );
                return Applied::Lost;
            }
        };
        self.reader.ledger.carried(origin);
        rewritten.reach.sight = sight;
        Applied::Changed(vec![rewritten])
    }

    /// `/v1{uri}`: the path stays behind a text.
    fn moved(&self, target: &str, state: &State<'a>) -> Option<Sight> {
        let before = ["{uri}", "{path}", "{http.request.uri}", "{http.request.uri.path}"]
            .into_iter()
            .find_map(|end| target.strip_suffix(end))
            .filter(|before| {
                !before.contains(['{', '?', '$']) && (before.is_empty() || before.starts_with('/'))
            })?;
        match &state.reach.sight {
            Sight::Moved { strip, add } => {
                Some(Sight::Moved { strip: strip.clone(), add: format!("{before}{add}") })
            }
            _ => None,
        }
    }

    pub(super) fn uri(&mut self, step: &Step<'a>, state: &State<'a>) -> Applied<'a> {
        let origin = step.line.origin;
        let prefix = match step.args.as_slice() {
            [name, prefix] if name == "strip_prefix" && !prefix.contains(['{', '%', '*', '?']) => prefix,
            _ => {
                self.reader.ledger.lost(
                    origin,
                    "it has no counterpart",
                    "write `rewrite` of a route by hand; these requests get 501",
                );
                return Applied::Lost;
            }
        };
        let met = state.reach.stripped(prefix);
        if met.unknown.is_some() {
            self.reader.ledger.lost(
                origin,
                "the path is rewritten before in a way without a counterpart",
                TODO,
            );
            return Applied::Lost;
        }
        self.reader.ledger.carried(origin);
        let mut states: Vec<State<'a>> =
            met.yes.into_iter().map(|reach| State { reach, context: state.context.clone() }).collect();
        if !met.is_all {
            states.push(state.clone());
        }
        Applied::Changed(states)
    }

    pub(super) fn try_files(&mut self, step: &Step<'a>, state: &State<'a>) -> Applied<'a> {
        let mut tried = state.clone();
        tried.context.tried = Some(step.line);
        tried.reach.is_tried =
            step.args.iter().any(|word| !matches!(word.as_str(), "{path}" | "{path}/" | "=404"));
        Applied::Changed(vec![tried])
    }
}

/// Whether placeholders of a target are those of the request: not of a path that was rewritten before.
fn is_same_path(target: &str, state: &State<'_>) -> bool {
    let is_moved = state.reach.sight != (Sight::Moved { strip: String::new(), add: String::new() });
    !is_moved || !target.contains("uri") && !target.contains("path")
}
