//! `sticky`: requests of a session go to one worker.

use super::RouteDraft;
use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Set};
use crate::raw::Table;
use crate::shape::SPLIT_KEY;

pub(super) const STICKY: Key<RouteDraft> = Key {
    name: "sticky",
    brief: "What keeps the requests of a session at one worker of the app",
    long: "`\"cookie:NAME\"`, `\"header:NAME\"`: the value of that cookie or header; requests without it go to any worker. `\"client\"`: the address of the client. If the session's worker has no free slot, another one serves the request: sticky workers are for caches in memory, not for state that exists nowhere else. A replaced worker's sessions go to its replacement; if the number of workers changes, some sessions move. For an upstream, use its `balance` with `hash`.",
    default: DefaultValue::Words("none: any worker"),
    right: "sticky = \"cookie:session\"",
    wrong: "sticky = true",
    value: &Set(SPLIT_KEY, |draft: &mut RouteDraft, key| draft.route.sticky = Some(key)),
    ..Key::LIVE
};

pub(super) fn check(table: &Table, cx: &mut Checker<'_>) {
    if let Some(entry) = table.entry("sticky").filter(|_| table.entry("app").is_none()) {
        let message = format!("`{}` has `sticky`, but no `app`", cx.name());
        cx.problem(entry.key_span, message).expected("`app` in the same route").report(cx);
    }
}
