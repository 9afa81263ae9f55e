//! Conditions: ACLs and what follows `if`.

use crate::expression;
use crate::haproxy::Reader;
use crate::haproxy::section::{Line, Section};
use crate::model::{encoded, escape};
use crate::pattern::Pattern;
use crate::reach::{Condition, Matcher, Sets, Test, UNKNOWN, opposite, product};

/// Acls that lead to acls, and files of patterns, are none here.
const NEVER: Sets = Vec::new();

impl Reader<'_> {
    /// The matcher of what follows `if` or `unless`, and whether a part of it counts what clients do.
    pub(super) fn matcher(&mut self, words: &[String], section: &Section) -> (Matcher, bool) {
        let Some(first) = words.first() else { return (Matcher::All, false) };
        let mut sets: Option<Sets> = Some(NEVER);
        let mut counts = words.iter().any(|word| counts_clients(word));
        for terms in alternatives(words) {
            let mut all: Option<Sets> = Some(vec![Vec::new()]);
            for term in &terms {
                counts |= self.is_counter(term, section);
                let found = self.term(term, section);
                all = all.and_then(|all| product(&all, &found?));
            }
            sets = match (sets, all) {
                (Some(mut sets), Some(all)) => {
                    sets.extend(all);
                    Some(sets)
                }
                _ => None,
            };
        }
        if first == "unless" {
            sets = sets.and_then(|sets| opposite(&sets));
        }
        let matcher = match sets {
            None => Matcher::Unknown,
            Some(sets) if sets.iter().any(Vec::is_empty) => Matcher::All,
            Some(sets) => Matcher::Sets(sets),
        };
        (matcher, counts)
    }

    fn is_counter(&self, term: &str, section: &Section) -> bool {
        let name = term.trim_start_matches('!');
        let mut acls = section.lines.iter().filter(|line| line.word(0) == "acl" && line.word(1) == name);
        acls.any(|line| counts_clients(line.word(2)))
    }

    /// A named or anonymous acl; `None`: it has too many alternatives.
    fn term(&mut self, term: &str, section: &Section) -> Option<Sets> {
        if let Some(term) = term.strip_prefix('!') {
            let sets = self.term(term, section)?;
            return opposite(&sets);
        }
        if let Some(inside) = term.strip_prefix('{') {
            let words: Vec<String> = inside
                .trim_end_matches('}')
                .split(JOINT)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect();
            return Some(vec![conditions(&words)]);
        }
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match term {
            "TRUE" | "HTTP" => return Some(vec![Vec::new()]),
            "FALSE" => return Some(NEVER),
            "METH_GET" => return Some(vec![conditions(&words(&["method", "GET", "HEAD"]))]),
            "METH_POST" | "METH_PUT" | "METH_DELETE" | "METH_HEAD" | "METH_OPTIONS" => {
                return Some(vec![conditions(&words(&["method", term.trim_start_matches("METH_")]))]);
            }
            "LOCALHOST" => return Some(vec![conditions(&words(&["src", "127.0.0.1"]))]),
            _ => {}
        }
        let lines: Vec<&Line> =
            section.lines.iter().filter(|line| line.word(0) == "acl" && line.word(1) == term).collect();
        let mut sets: Sets = Vec::new();
        for line in &lines {
            let words = line.after(2);
            match words.first().map(String::as_str) {
                Some("always_true") => sets.push(Vec::new()),
                Some("always_false") => {}
                _ => sets.push(conditions(words)),
            }
            if !sets.iter().flatten().any(|condition| condition.test == Test::Unknown) {
                self.ledger.carried(line.origin);
            }
        }
        if lines.is_empty() {
            sets.push(vec![UNKNOWN]);
        }
        Some(sets)
    }
}

/// Whether a criterion counts what clients or servers do: a rule with it is a limit.
fn counts_clients(criterion: &str) -> bool {
    const COUNTERS: [&str; 14] = [
        "sc_",
        "sc0_",
        "sc1_",
        "sc2_",
        "src_conn",
        "src_http",
        "src_get_",
        "src_inc_",
        "src_sess",
        "src_bytes",
        "table_",
        "be_",
        "fe_",
        "nbsrv",
    ];
    let criterion = criterion.trim_start_matches(['!', '{']);
    COUNTERS.iter().any(|counter| criterion.starts_with(counter))
}

/// The terms of each alternative of `if A B or C`.
fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    let mut alternatives: Vec<Vec<String>> = vec![Vec::new()];
    for word in join_braces(words.get(1..).unwrap_or(&[])) {
        match word.as_str() {
            "or" | "||" => alternatives.push(Vec::new()),
            _ => alternatives.iter_mut().last().into_iter().for_each(|terms| terms.push(word.clone())),
        }
    }
    alternatives
}

/// Between the words of an anonymous acl, which can have spaces.
const JOINT: char = '\u{1}';

/// `{ path_beg /x }` as one word.
fn join_braces(words: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    for word in words {
        match open.take() {
            Some(text) if word.ends_with('}') => out.push(format!("{text}{JOINT}{word}")),
            Some(text) => open = Some(format!("{text}{JOINT}{word}")),
            None if word.trim_start_matches('!').starts_with('{') && !word.ends_with('}') => {
                open = Some(word.clone())
            }
            None => out.push(word.clone()),
        }
    }
    out.extend(open);
    out
}

/// The conditions of an acl: a criterion, flags, patterns.
fn conditions(words: &[String]) -> Vec<Condition> {
    known(words).unwrap_or_else(|| vec![UNKNOWN])
}

fn holds(test: Test) -> Vec<Condition> {
    vec![Condition { test, negated: false }]
}

fn known(words: &[String]) -> Option<Vec<Condition>> {
    let mut converters = words.first()?.split(',');
    let mut criterion = converters.next()?.to_owned();
    let mut ignore_case = words.iter().any(|word| word == "-i");
    let mut rest = words.first()?.get(criterion.len()..).unwrap_or("").to_owned();
    // `hdr(x,-1)` has a comma of its own.
    if criterion.contains('(') && !criterion.contains(')') {
        let (inside, after) = rest.split_once(')')?;
        if inside.trim_start_matches(',') != "1" {
            return None;
        }
        criterion.push(')');
        rest = after.to_owned();
    }
    for converter in rest.split(',').filter(|converter| !converter.is_empty()) {
        match converter {
            "lower" | "upper" => ignore_case = true,
            "url_dec" | "host_only" => {}
            _ => return None,
        }
    }
    let mut patterns: Vec<&str> =
        words.get(1..)?.iter().map(String::as_str).filter(|word| !matches!(*word, "-i" | "--")).collect();
    if patterns.iter().any(|pattern| *pattern == "-f" || *pattern == "-M") {
        return None;
    }
    let method = match patterns.first() {
        Some(&"-m") => {
            let method = patterns.get(1).copied().unwrap_or("str");
            patterns.drain(..2.min(patterns.len()));
            method
        }
        _ => "",
    };
    let (name, argument) = criterion
        .split_once('(')
        .map_or((criterion.as_str(), ""), |(name, rest)| (name, rest.trim_end_matches(')')));
    let (name, suffix) = match name.rsplit_once('_') {
        Some((name, suffix @ ("beg" | "end" | "sub" | "reg" | "dom" | "dir" | "len" | "cnt" | "val"))) => {
            (name, suffix)
        }
        _ => (name, method),
    };
    let suffix = if suffix.is_empty() { "str" } else { suffix };
    Some(match name {
        "path" => holds(path(&patterns, suffix, ignore_case)?),
        // With its query, which no condition sees: it may be there, or not.
        "url" | "pathq" => match suffix {
            "beg" if !patterns.iter().any(|pattern| pattern.contains('?')) => {
                holds(path(&patterns, suffix, ignore_case)?)
            }
            _ => return None,
        },
        "hdr" | "req.hdr" | "req.fhdr" if argument.eq_ignore_ascii_case("host") => {
            holds(Test::Value("host", String::new(), hosts(&patterns, suffix)?))
        }
        "hdr" | "req.hdr" if suffix != "found" => {
            let values: Option<Vec<String>> =
                patterns.iter().map(|text| element(text, suffix, ignore_case)).collect();
            holds(Test::Value("header", argument.to_owned(), values?))
        }
        "hdr" | "req.hdr" | "req.fhdr" => {
            holds(Test::Value("header", argument.to_owned(), values(&patterns, suffix, ignore_case)?))
        }
        "req.cook" | "cook" => {
            holds(Test::Value("cookie", argument.to_owned(), values(&patterns, suffix, ignore_case)?))
        }
        "url_param" | "urlp" => {
            holds(Test::Value("query", argument.to_owned(), values(&patterns, suffix, ignore_case)?))
        }
        "method" if suffix == "str" && !patterns.is_empty() => {
            holds(Test::Method(patterns.iter().map(|method| (*method).to_owned()).collect()))
        }
        "src" if patterns.iter().all(|address| *address != "all" && crate::cidr::is_address(address)) => {
            holds(Test::Value(
                "client",
                String::new(),
                patterns.iter().map(|one| (*one).to_owned()).collect(),
            ))
        }
        "ssl_fc" => holds(Test::Scheme("https".to_owned())),
        "dst_port" => match patterns.as_slice() {
            ["443"] => holds(Test::Scheme("https".to_owned())),
            ["80"] => holds(Test::Scheme("http".to_owned())),
            _ => return None,
        },
        _ => return None,
    })
}

/// A text as an expression that matches it as a suffix says.
fn expression_of(text: &str, suffix: &str) -> Option<String> {
    let own = escape(text);
    Some(match suffix {
        "str" => format!("^{own}$"),
        "beg" => format!("^{own}"),
        "end" => format!("{own}$"),
        "sub" => own,
        "dir" => format!("(?:^|/){}(?:/|$)", escape(text.trim_matches('/'))),
        "dom" => format!("(?:^|[./:?]){}(?:[./:?]|$)", escape(text.trim_matches('.'))),
        _ => return None,
    })
}

fn path(patterns: &[&str], suffix: &str, ignore_case: bool) -> Option<Test> {
    if patterns.is_empty() {
        return None;
    }
    // HAProxy sees paths as requests have them, most of which are not encoded.
    let is_plain = |text: &&str| {
        !text.contains(['*', '?', '%', '"', '\\'])
            && !text.contains(if ignore_case { char::is_alphabetic } else { char::is_uppercase })
    };
    let of: Option<fn(&str) -> Pattern> = match suffix {
        "str" => Some(Pattern::text),
        "beg" => Some(Pattern::beginning),
        "end" => Some(Pattern::ending),
        "sub" => Some(Pattern::containing),
        _ => None,
    };
    if let Some(of) = of.filter(|_| patterns.iter().all(is_plain)) {
        return Some(Test::Path(patterns.iter().map(|text| of(text)).collect()));
    }
    let parts: Option<Vec<String>> = patterns
        .iter()
        .map(|text| match suffix {
            "reg" => expression::check(text, false).ok(),
            suffix => expression_of(&encoded(text), suffix),
        })
        .collect();
    let fold = if ignore_case { "(?i)" } else { "" };
    let own = match parts?.as_slice() {
        [only] => format!("{fold}{only}"),
        parts => format!("{fold}(?:{})", parts.join("|")),
    };
    Some(Test::Regex(String::new(), own))
}

/// Hosts are compared without case, and without the port.
fn hosts(patterns: &[&str], suffix: &str) -> Option<Vec<String>> {
    let hosts: Option<Vec<Vec<String>>> = patterns
        .iter()
        .map(|host| {
            let lower = host.to_lowercase();
            let lower = lower
                .rsplit_once(':')
                .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
                .map_or(lower.as_str(), |(host, _)| host)
                .to_owned();
            Some(match suffix {
                "str" => vec![lower],
                "end" => vec![format!("*{lower}")],
                "beg" => vec![format!("{lower}*")],
                "sub" => vec![format!("*{lower}*")],
                "reg" => vec![format!("~{}", expression::check(host, true).ok()?)],
                "dom" if lower.contains('.') => vec![lower.clone(), format!("*.{lower}")],
                "dom" => vec![format!("~(?i){}", expression_of(&lower, suffix)?)],
                _ => return None,
            })
        })
        .collect();
    hosts.map(|hosts| hosts.concat()).filter(|hosts| !hosts.is_empty())
}

/// Whole values.
fn values(patterns: &[&str], suffix: &str, ignore_case: bool) -> Option<Vec<String>> {
    if patterns.is_empty() || suffix == "found" {
        return Some(vec!["*".to_owned()]);
    }
    patterns
        .iter()
        .map(|text| {
            let is_plain = !ignore_case && !text.contains('*') && !text.starts_with(['!', '~']);
            Some(match suffix {
                "str" if is_plain => (*text).to_owned(),
                "beg" if is_plain => format!("{text}*"),
                "end" if is_plain => format!("*{text}"),
                "sub" if is_plain => format!("*{text}*"),
                "reg" => format!("~{}", expression::check(text, ignore_case).ok()?),
                suffix => {
                    format!("~{}{}", if ignore_case { "(?i)" } else { "" }, expression_of(text, suffix)?)
                }
            })
        })
        .collect()
}

/// An element of a header's list: HAProxy compares each.
fn element(text: &str, suffix: &str, ignore_case: bool) -> Option<String> {
    let own = escape(text);
    let pattern = match suffix {
        "str" => format!("(?:^|,)[ \\t]*{own}[ \\t]*(?:,|$)"),
        "beg" => format!("(?:^|,)[ \\t]*{own}"),
        "end" => format!("{own}[ \\t]*(?:,|$)"),
        _ => return values(&[text], suffix, ignore_case)?.first().cloned(),
    };
    Some(format!("~{}{pattern}", if ignore_case { "(?i)" } else { "" }))
}
