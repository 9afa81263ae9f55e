//! `split`: other targets for a share of a route's requests.

use super::RouteDraft;
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Field, Key, Section, Set};
use crate::raw::{Directive, Span, Table};
use crate::shape::{Percent, SPLIT_KEY, SectionName};

/// An item of `split` before the checks of the whole file.
#[derive(Default)]
pub(crate) struct SplitDraft {
    pub(crate) app: Option<(String, Span)>,
    pub(crate) upstream: Option<(String, Span)>,
    pub(crate) share: u32,
}

pub(super) const SPLIT: Key<RouteDraft> = Key {
    name: "split",
    brief: "Other apps or upstreams for a share of the requests: `[{ app = NAME, share = \"5%\" }]`",
    long: "The rest goes to the route's `app` or `upstream`. Each request is assigned at random, unless `split_by` is set. Logs and metrics name the target that a request went to. A request that fails is not repeated on another target.",
    default: DefaultValue::Words("none: all requests go to one target"),
    right: "split = [{ app = \"shop\", share = \"5%\" }]",
    wrong: "split = \"shop\"",
    value: &SplitList,
    ..Key::LIVE
};

pub(super) const SPLIT_BY: Key<RouteDraft> = Key {
    name: "split_by",
    brief: "What keeps a client at its target of `split`",
    long: "`\"client\"`: the address of the client, of IPv6 its first 64 bits. `\"cookie:NAME\"`, `\"header:NAME\"`: the value of that cookie or header; a request without it is assigned at random. Assignments are the same in every instance and after a restart. If a first share grows, the clients that had its target keep it.",
    default: DefaultValue::Words("none: each request is assigned at random"),
    right: "split_by = \"cookie:session\"",
    wrong: "split_by = \"session\"",
    value: &Set(SPLIT_KEY, |draft: &mut RouteDraft, key| draft.route.split_by = Some(key)),
    ..Key::LIVE
};

static SHARE: Section<SplitDraft> = Section {
    keys: &[
        Key {
            name: "app",
            brief: "Name of the `[app.NAME]` that gets the share",
            default: DefaultValue::Words("none"),
            right: "app = \"shop\"",
            wrong: "app = \"\"",
            value: &Set(SectionName("app"), |draft: &mut SplitDraft, app| draft.app = Some(app)),
            ..Key::LIVE
        },
        Key {
            name: "upstream",
            brief: "Name of the `[upstream.NAME]` that gets the share",
            default: DefaultValue::Words("none"),
            right: "upstream = \"search\"",
            wrong: "upstream = \"\"",
            value: &Set(SectionName("upstream"), |draft: &mut SplitDraft, to| draft.upstream = Some(to)),
            ..Key::LIVE
        },
        Key {
            name: "share",
            brief: "Share of the requests",
            default: DefaultValue::Required,
            right: "share = \"5%\"",
            wrong: "share = 0.05",
            value: &Set(Percent(0..=100), |draft: &mut SplitDraft, share| draft.share = share),
            ..Key::LIVE
        },
    ],
};

struct SplitList;

impl Field<RouteDraft> for SplitList {
    fn set(&self, route: &mut RouteDraft, directive: &Directive, cx: &mut Checker<'_>) {
        let items = cx.items(directive);
        for (index, item) in items.iter().enumerate() {
            let Some(table) = cx.table(item) else { continue };
            cx.enter_item(index + 1);
            let mut draft = SplitDraft::default();
            SHARE.read(&mut draft, &table, cx);
            match (table.entry("app"), table.entry("upstream")) {
                (Some(app), Some(upstream)) => {
                    cx.both(app, upstream).expected("exactly one of them").report(cx)
                }
                (None, None) => cx.missing(item.span, "app = \"shop\"").report(cx),
                _ => {}
            }
            if table.entry("share").is_none() {
                cx.missing(item.span, "share = \"5%\"").report(cx);
            }
            cx.leave();
            route.split.push(draft);
        }
        if route.split.iter().map(|draft| draft.share).sum::<u32>() > 100 {
            let what = "has shares of more than 100 % together";
            cx.wrong(directive.span, what).report(cx);
        }
    }

    fn describe(&self) -> &dyn Describe {
        self
    }
}

impl Describe for SplitList {
    fn description(&self) -> Description {
        Description::new(
            "a list of tables { app or upstream, share }",
            "list of tables",
            Json::one_or_many(SHARE.schema()),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        SHARE.infos(path)
    }
}

pub(super) fn check(table: &Table, cx: &mut Checker<'_>) {
    let leads_on = table.entry("app").is_some() || table.entry("upstream").is_some();
    if let Some(entry) = table.entry("split").filter(|_| !leads_on) {
        let message = format!("`{}` has `split`, but neither `app` nor `upstream`", cx.name());
        cx.problem(entry.key_span, message).expected("a target for the rest of the requests").report(cx);
    }
    if let Some(entry) = table.entry("split_by").filter(|_| table.entry("split").is_none()) {
        let message = format!("`{}` has `split_by`, but no `split`", cx.name());
        cx.problem(entry.key_span, message).expected("`split` in the same route").report(cx);
    }
}
