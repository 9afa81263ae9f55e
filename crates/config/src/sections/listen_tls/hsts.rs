//! `hsts`

use std::time::Duration;

use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::Hsts;
use crate::raw::{Directive, Table};
use crate::shape::{Flag, TableShape, Time, ValueOrTable};

const HSTS_AGE: Time = Time(Duration::ZERO..=Duration::from_secs(2 * 365 * 24 * 3600));

/// A time, or a table.
pub(super) const HSTS: ValueOrTable<Time, Hsts> = ValueOrTable {
    plain: HSTS_AGE,
    from_plain: |max_age, _, _| Some(Hsts { max_age, ..Hsts::default() }),
    table: TableShape { section: &HSTS_TABLE, check: check_hsts },
};

/// What the operators of the list require, so that a mistake is found here and not by them.
fn check_hsts(hsts: &Hsts, table: &Table, _: &Directive, cx: &mut Checker<'_>) -> bool {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    let Some(entry) = table.entry("preload").filter(|_| hsts.preload) else { return true };
    if hsts.include_subdomains && hsts.max_age >= YEAR {
        return true;
    }
    cx.problem(entry.key_span, format!("`{}` has `preload` without what the list requires", cx.name()))
        .key("listen.NAME.tls.hsts.preload")
        .expected("include_subdomains = true, and a max_age of at least 8760h (a year)")
        .report(cx);
    false
}

static HSTS_TABLE: Section<Hsts> = Section {
    keys: &[
        Key {
            name: "max_age",
            brief: "How long browsers remember to use HTTPS only",
            long: "`\"0s\"` makes them forget it.",
            default: DefaultValue::Literal("\"8760h\""),
            right: "max_age = \"720h\"",
            wrong: "max_age = 3600",
            value: &Set(HSTS_AGE, |hsts: &mut Hsts, age| hsts.max_age = age),
            ..Key::LIVE
        },
        Key {
            name: "include_subdomains",
            brief: "Whether it applies to every host below the host, too",
            long: "Also to hosts that other servers serve.",
            default: DefaultValue::Literal("false"),
            right: "include_subdomains = true",
            wrong: "include_subdomains = \"yes\"",
            value: &Set(Flag, |hsts: &mut Hsts, yes| hsts.include_subdomains = yes),
            ..Key::LIVE
        },
        Key {
            name: "preload",
            brief: "Whether the host may be added to the list in browsers",
            long: "It takes months to get off this list (hstspreload.org). It requires `include_subdomains` and a year.",
            default: DefaultValue::Literal("false"),
            right: "preload = false",
            wrong: "preload = \"yes\"",
            value: &Set(Flag, |hsts: &mut Hsts, yes| hsts.preload = yes),
            ..Key::LIVE
        },
    ],
};
