//! `mirror`: a second target of a route's requests.

use super::RouteDraft;
use crate::checker::Checker;
use crate::key::{CheckedSubtable, DefaultValue, Key, Section, Set, Subtable};
use crate::raw::{Directive, Span, Table};
use crate::shape::{Flag, Percent, SectionName, Size};

/// `mirror` before the checks of the whole file.
pub(crate) struct MirrorDraft {
    pub(crate) app: Option<(String, Span)>,
    pub(crate) upstream: Option<(String, Span)>,
    pub(crate) share: u32,
    pub(crate) max_body: u64,
    pub(crate) all_methods: bool,
}

impl Default for MirrorDraft {
    fn default() -> MirrorDraft {
        MirrorDraft { app: None, upstream: None, share: 100, max_body: 64 << 10, all_methods: false }
    }
}

pub(super) const MIRROR: Key<RouteDraft> = Key {
    name: "mirror",
    brief: "App or upstream that gets copies of the requests; its responses are dropped",
    long: "A copy is sent after the request has been served, with `Keepwarm-Mirror: 1`. It does not affect the request or its response. Up to 64 copies of a route are in progress at once, for at most 60 s each; further requests are not copied. Requests that have `Keepwarm-Mirror` already, upgrades, and requests whose body was not read to its end are not copied.",
    default: DefaultValue::Words("none"),
    right: "mirror = { app = \"shop\", share = \"10%\" }",
    wrong: "mirror = \"shop\"",
    value: &CheckedSubtable(
        Subtable(&TARGET, |draft: &mut RouteDraft| draft.mirror.get_or_insert_default()),
        check,
    ),
    ..Key::LIVE
};

static TARGET: Section<MirrorDraft> = Section {
    keys: &[
        Key {
            name: "app",
            brief: "Name of the `[app.NAME]` that gets the copies",
            default: DefaultValue::Words("none"),
            right: "app = \"shop\"",
            wrong: "app = \"\"",
            value: &Set(SectionName("app"), |draft: &mut MirrorDraft, app| draft.app = Some(app)),
            ..Key::LIVE
        },
        Key {
            name: "upstream",
            brief: "Name of the `[upstream.NAME]` that gets the copies",
            default: DefaultValue::Words("none"),
            right: "upstream = \"search\"",
            wrong: "upstream = \"\"",
            value: &Set(SectionName("upstream"), |draft: &mut MirrorDraft, to| draft.upstream = Some(to)),
            ..Key::LIVE
        },
        Key {
            name: "share",
            brief: "Share of the requests that are copied, chosen at random",
            default: DefaultValue::Literal("\"100%\""),
            right: "share = \"10%\"",
            wrong: "share = 0.1",
            value: &Set(Percent(0..=100), |draft: &mut MirrorDraft, share| draft.share = share),
            ..Key::LIVE
        },
        Key {
            name: "max_body",
            brief: "Maximum size of a body that is copied; a request with a larger one is not copied",
            long: "The copy is held in memory until it has been sent.",
            default: DefaultValue::Literal("\"64KiB\""),
            right: "max_body = \"256KiB\"",
            wrong: "max_body = \"1GiB\"",
            value: &Set(Size(0..=1 << 20), |draft: &mut MirrorDraft, size| draft.max_body = size),
            ..Key::LIVE
        },
        Key {
            name: "all_methods",
            brief: "Also copy requests whose method is not GET, HEAD or OPTIONS",
            long: "Such requests change something: a copy changes it again, where the target shares data with the route's own.",
            default: DefaultValue::Literal("false"),
            right: "all_methods = true",
            wrong: "all_methods = \"POST\"",
            value: &Set(Flag, |draft: &mut MirrorDraft, all| draft.all_methods = all),
            ..Key::LIVE
        },
    ],
};

fn check(_: &RouteDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) {
    match (table.entry("app"), table.entry("upstream")) {
        (Some(app), Some(upstream)) => cx.both(app, upstream).expected("exactly one of them").report(cx),
        (None, None) => cx.missing(directive.span, "app = \"shop\"").report(cx),
        _ => {}
    }
}

/// Only requests to an app or upstream are copied.
pub(super) fn check_route(table: &Table, cx: &mut Checker<'_>) {
    let leads_on = table.entry("app").is_some() || table.entry("upstream").is_some();
    if let Some(entry) = table.entry("mirror").filter(|_| !leads_on) {
        let message = format!("`{}` has `mirror`, but leads to no app or upstream", cx.name());
        cx.problem(entry.key_span, message).expected("`app` or `upstream` in the same route").report(cx);
    }
}
