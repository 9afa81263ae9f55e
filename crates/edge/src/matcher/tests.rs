use http::Method;
use keepwarm_http1::Fields;
use keepwarm_net::Scheme;

use super::*;
use crate::cidr::Cidr;
use crate::pattern::{HostPattern, PathPattern};

fn pattern(text: &str) -> ValuePattern {
    match text.strip_prefix('~') {
        Some(regex) => ValuePattern::Regex(RegularExpression::new(regex).unwrap()),
        None if text.contains('*') => ValuePattern::Glob(Glob::new(text)),
        None => ValuePattern::Exact(text.as_bytes().into()),
    }
}

/// Patterns as the configuration has them.
fn values(patterns: &[&str]) -> PatternSet<ValuePattern> {
    let mut set = PatternSet::default();
    for text in patterns {
        match text.strip_prefix('!') {
            Some(text) => set.none.push(pattern(text)),
            None => set.any.push(pattern(text)),
        }
    }
    set
}

fn condition(name: &str, patterns: &[&str]) -> Vec<ValueCondition> {
    vec![ValueCondition { name: name.into(), values: values(patterns) }]
}

fn holds(conditions: &Conditions, host: &str, path: &str, details: &BareRequest) -> bool {
    let view = RequestView { host: host.as_bytes(), path: path.as_bytes(), method: &Method::GET, details };
    conditions.hold(&view)
}

fn with_fields(lines: &[(&str, &str)]) -> BareRequest {
    let mut fields = Fields::new();
    lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
    BareRequest { fields, ..BareRequest::default() }
}

fn with_query(query: &str) -> BareRequest {
    BareRequest { query: Some(query.as_bytes().to_vec()), ..BareRequest::default() }
}

/// For each kind of value: patterns, the values of a request, and whether the condition holds.
const CASES: &[(&[&str], &[&str], bool)] = &[
    (&["a"], &["a"], true),
    (&["a"], &["A"], false),
    (&["a"], &[], false),
    (&["a"], &["b", "a"], true),
    (&["!a"], &[], true),
    (&["!a"], &["b"], true),
    // A negated pattern is not passed by by a further value, wherever it is.
    (&["!a"], &["a", "b"], false),
    (&["!a"], &["b", "a"], false),
    (&["*"], &[""], true),
    (&["*"], &[], false),
    (&["!*"], &[], true),
    (&["!*"], &[""], false),
    (&["a", "b"], &["b"], true),
    (&["b*", "!bad"], &["bed"], true),
    (&["b*", "!bad"], &["bad"], false),
    (&["b*", "!bad"], &["bed", "bad"], false),
    (&["b*", "!bad"], &["c"], false),
    (&["~^[0-9]+$"], &["12"], true),
    (&["~^[0-9]+$"], &["12x"], false),
    (&["!~admin"], &["xadminx"], false),
    (&["~(?i)^yes$"], &["YES"], true),
];

#[test]
fn values_of_headers_cookies_and_arguments() {
    for (patterns, given, expected) in CASES {
        let lines: Vec<_> = given.iter().map(|value| ("x-a", *value)).collect();
        let headers = Conditions { headers: condition("x-a", patterns), ..Conditions::default() };
        assert_eq!(holds(&headers, "", "/", &with_fields(&lines)), *expected, "{patterns:?} {given:?}");

        let pairs: Vec<_> = given.iter().map(|value| format!("a={value}")).collect();
        let arguments = Conditions { arguments: condition("a", patterns), ..Conditions::default() };
        let query = pairs.join("&");
        assert_eq!(holds(&arguments, "", "/", &with_query(&query)), *expected, "{patterns:?} {query}");

        let cookies = Conditions { cookies: condition("a", patterns), ..Conditions::default() };
        let line = pairs.join("; ");
        assert_eq!(
            holds(&cookies, "", "/", &with_fields(&[("cookie", &line)])),
            *expected,
            "{patterns:?} {line}"
        );
    }
}

/// However a client writes what it sends, a negated pattern sees it.
#[test]
fn no_spelling_of_an_argument_gets_around_a_negated_pattern() {
    let conditions = Conditions { arguments: condition("role", &["!admin"]), ..Conditions::default() };
    for query in [
        "role=admin",
        "role=guest&role=admin",
        "role=admin&role=guest",
        "%72ole=%61dmin",
        "x=1&&role=admin",
        "x=1;role=admin",
        "role=admin;x=1",
        "role=guest;role=admin&role=guest",
    ] {
        assert!(!holds(&conditions, "", "/", &with_query(query)), "{query}");
    }
    assert!(holds(&conditions, "", "/", &with_query("role=guest")));
    assert!(holds(&conditions, "", "/", &BareRequest::default()));
}

#[test]
fn hosts_paths_clients_and_schemes() {
    let glob = |text: &str| PathPattern::Glob(Glob::new(text));
    let conditions = Conditions {
        not_hosts: vec![HostPattern::Exact("admin.example".to_owned())],
        paths: PatternSet { any: vec![glob("*.php"), glob("/a/*")], none: vec![glob("*secret*")] },
        clients: PatternSet {
            any: vec![Cidr::new("10.0.0.0".parse().unwrap(), 8).unwrap()],
            none: vec![Cidr::new("10.0.0.1".parse().unwrap(), 32).unwrap()],
        },
        scheme: Some(Scheme::Https),
        ..Conditions::default()
    };
    let from = |client: &str, scheme| BareRequest {
        client: client.parse().unwrap(),
        scheme,
        ..BareRequest::default()
    };
    let cases = [
        ("a.example", "/x.php", "10.0.0.2", Scheme::Https, true),
        ("a.example", "/a/x", "::ffff:10.0.0.2", Scheme::Https, true),
        ("ADMIN.example", "/x.php", "10.0.0.2", Scheme::Https, false),
        ("a.example", "/x.html", "10.0.0.2", Scheme::Https, false),
        ("a.example", "/a/secret.php", "10.0.0.2", Scheme::Https, false),
        ("a.example", "/x.php", "10.0.0.1", Scheme::Https, false),
        ("a.example", "/x.php", "11.0.0.1", Scheme::Https, false),
        ("a.example", "/x.php", "10.0.0.2", Scheme::Http, false),
    ];
    for (host, path, client, scheme, expected) in cases {
        assert_eq!(holds(&conditions, host, path, &from(client, scheme)), expected, "{host} {path} {client}");
    }
}
