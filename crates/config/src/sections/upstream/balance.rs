//! Load balancing and DNS.

use std::time::Duration;

use crate::checker::Checker;
use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{Balance, Dns, HashKey};
use crate::raw::{Directive, Table};
use crate::shape::{HASH_KEY, RESOLVERS, SRV_NAME, TableShape, Time, ValueOrTable, Words};

/// `balance`: a policy, or a table of a policy and a key.
pub(super) const BALANCE: ValueOrTable<Words<BalancePolicy>, BalanceDraft> = ValueOrTable {
    plain: POLICIES,
    from_plain: |policy, directive, cx| {
        let draft = BalanceDraft { policy: Some(policy), hash: None };
        check(&draft, &Table::default(), directive, cx).then_some(draft)
    },
    table: TableShape { section: &BALANCE_TABLE, check },
};

/// `balance` before its check.
#[derive(Default)]
pub(super) struct BalanceDraft {
    policy: Option<BalancePolicy>,
    hash: Option<HashKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BalancePolicy {
    LeastRequest,
    RoundRobin,
    RingHash,
    Maglev,
}

const POLICIES: Words<BalancePolicy> = Words(&[
    ("least_request", BalancePolicy::LeastRequest),
    ("round_robin", BalancePolicy::RoundRobin),
    ("ring_hash", BalancePolicy::RingHash),
    ("maglev", BalancePolicy::Maglev),
]);

impl BalanceDraft {
    /// The checked value: a policy that hashes has its key.
    pub(super) fn finish(self) -> Balance {
        match (self.policy, self.hash) {
            (Some(BalancePolicy::RoundRobin), _) => Balance::RoundRobin,
            (Some(BalancePolicy::RingHash), Some(key)) => Balance::RingHash(key),
            (Some(BalancePolicy::Maglev), Some(key)) => Balance::Maglev(key),
            _ => Balance::LeastRequest,
        }
    }
}

fn check(draft: &BalanceDraft, table: &Table, directive: &Directive, cx: &mut Checker<'_>) -> bool {
    let name = cx.name();
    let Some(policy) = draft.policy else {
        // An invalid policy was reported already.
        if table.entry("by").is_none() {
            cx.missing(directive.span, "by = \"maglev\"").report(cx);
        }
        return false;
    };
    let hashes = matches!(policy, BalancePolicy::RingHash | BalancePolicy::Maglev);
    let word = POLICIES.0.iter().find(|(_, known)| *known == policy).map_or("", |(word, _)| word);
    match (hashes, table.entry("hash")) {
        (true, None) => {
            cx.problem(directive.span, format!("`{name}` has no `hash`, which `{word}` needs"))
                .expected("`hash`: a header or a cookie, each value of which goes to one endpoint")
                .help(format!("balance = {{ by = \"{word}\", hash = \"cookie:session\" }}"))
                .report(cx);
            false
        }
        (false, Some(hash)) => {
            let key = format!("{}.hash", cx.doc());
            cx.problem(hash.key_span, format!("`{name}` has `hash`, which does not apply to `{word}`"))
                .key(key)
                .expected("`hash` with by = \"ring_hash\" or \"maglev\" only")
                .report(cx);
            false
        }
        _ => true,
    }
}

static BALANCE_TABLE: Section<BalanceDraft> = Section {
    keys: &[
        Key {
            name: "by",
            brief: "Policy: one of the words of `balance`",
            default: DefaultValue::Required,
            right: "by = \"maglev\"",
            wrong: "by = \"maglve\"",
            value: &Set(POLICIES, |draft: &mut BalanceDraft, policy| draft.policy = Some(policy)),
            ..Key::LIVE
        },
        Key {
            name: "hash",
            brief: "Header or cookie, each value of which goes to one endpoint",
            long: "A call without it goes to a random endpoint.",
            default: DefaultValue::Words("none; `ring_hash` and `maglev` need it"),
            right: "hash = \"cookie:session\"",
            wrong: "hash = \"session\"",
            value: &Set(HASH_KEY, |draft: &mut BalanceDraft, hash: HashKey| draft.hash = Some(hash)),
            ..Key::LIVE
        },
    ],
};

pub(super) static DNS: Section<Dns> = Section {
    keys: &[
        Key {
            name: "min_ttl",
            brief: "Minimum time for which a DNS response is used, whatever its time to live",
            default: DefaultValue::Literal("\"5s\""),
            right: "min_ttl = \"30s\"",
            wrong: "min_ttl = 5",
            value: &Set(TTL, |dns: &mut Dns, ttl| dns.min_ttl = ttl),
            ..Key::LIVE
        },
        Key {
            name: "max_ttl",
            brief: "Maximum time for which a DNS response is used",
            long: "A failed or empty response changes nothing: the last good one stays in use.",
            default: DefaultValue::Literal("\"5m\""),
            right: "max_ttl = \"1h\"",
            wrong: "max_ttl = \"1 h\"",
            value: &Set(TTL, |dns: &mut Dns, ttl| dns.max_ttl = ttl),
            ..Key::LIVE
        },
        Key {
            name: "srv",
            brief: "Name of SRV records, which provide hosts, ports, weights and priorities",
            long: "They replace the host and port of `url`, which still determine `Host` and the name in the certificate (RFC 2782).",
            default: DefaultValue::Words("none: the host of the URL is looked up"),
            right: "srv = \"_search._tcp.service.consul\"",
            wrong: "srv = \"search:9243\"",
            value: &Set(SRV_NAME, |dns: &mut Dns, srv| dns.srv = Some(srv)),
            ..Key::LIVE
        },
        Key {
            name: "resolver",
            brief: "DNS servers to use",
            long: "`/etc/hosts` always comes first.",
            default: DefaultValue::Words("those of the system"),
            right: "resolver = [\"10.0.0.53\", \"10.0.1.53:5353\"]",
            wrong: "resolver = \"dns.internal\"",
            value: &Set(RESOLVERS, |dns: &mut Dns, resolver| dns.resolver = resolver),
            ..Key::LIVE
        },
    ],
};

const TTL: Time = Time(Duration::from_millis(100)..=Duration::from_secs(24 * 3600));
