use super::*;
use crate::matcher::RegularExpression;
use crate::template::TemplatePiece;

fn pattern(text: &str) -> ValuePattern {
    match text.strip_prefix('~') {
        Some(regex) => ValuePattern::Regex(RegularExpression::new(regex).unwrap()),
        None if text.contains('*') => ValuePattern::Glob(Glob::new(text)),
        None => ValuePattern::Exact(text.as_bytes().into()),
    }
}

fn text(text: &str) -> Template {
    Template(vec![TemplatePiece::Text(text.to_owned())])
}

fn map(values: impl IntoIterator<Item = (String, Template)>) -> VariableMap {
    let values = values.into_iter().map(|(key, value)| (pattern(&key), value)).collect();
    VariableMap::new(Template::default(), values, text("default"))
}

/// Each pattern has itself as its value.
fn of_patterns(patterns: &[&str]) -> VariableMap {
    map(patterns.iter().map(|pattern| ((*pattern).to_owned(), text(pattern))))
}

fn found(map: &VariableMap, key: &str) -> String {
    map.look_up(key.as_bytes()).0.fixed().unwrap().to_owned()
}

#[test]
fn the_order_is_that_of_nginx() {
    let map = of_patterns(&[
        "~^www[0-9]+",
        "~Example",
        "*.example.com",
        "*.shop.example.com",
        "www.*",
        "a.shop.example.com",
        "",
        "*mid*",
        "~^www1",
    ]);
    for (key, expected) in [
        ("a.shop.example.com", "a.shop.example.com"),
        ("A.Shop.EXAMPLE.com", "a.shop.example.com"),
        ("b.shop.example.com", "*.shop.example.com"),
        ("B.SHOP.example.COM", "*.shop.example.com"),
        ("x.example.com", "*.example.com"),
        // The longer of two patterns with `*`.
        ("www.example.com", "*.example.com"),
        ("www.other", "www.*"),
        // Patterns with `*` come before expressions.
        ("www1.mid", "*mid*"),
        ("www12", "~^www[0-9]+"),
        ("xExample", "~Example"),
        ("xexample", "default"),
        ("WWW12", "default"),
        ("", ""),
        ("example.com", "default"),
        ("\u{e9}.EXAMPLE.com", "*.example.com"),
    ] {
        assert_eq!(found(&map, key), expected, "{key}");
    }
}

#[test]
fn what_stars_and_groups_stand_for_keeps_its_case() {
    let capture = |number| TemplatePiece::Variable(Variable::Capture(number));
    let map = map([
        ("*.Example.*".to_owned(), Template(vec![capture(1), capture(2)])),
        ("~^(a)?-(B.)$".to_owned(), Template(vec![capture(2), capture(1)])),
    ]);
    let captures = |key: &str| map.look_up(key.as_bytes()).1;
    assert_eq!(captures("WwW.eXample.Org"), [b"WwW".to_vec(), b"Org".to_vec()]);
    assert_eq!(captures("-Bx"), [b"".to_vec(), b"Bx".to_vec()]);
    assert!(captures("none").is_empty());
}

/// The definition, over every short text of three letters.
#[test]
fn it_agrees_with_trying_each_in_turn() {
    let patterns = [
        "ab", "*a", "*ab", "a*", "ab*", "a*b", "*b*", "*aB*c*", "~^ab", "~^abc?", "~b$", "~a.*bc$", "~a.c",
        "~[bc]{3}",
    ];
    let map = of_patterns(&patterns);
    let mut globs: Vec<&str> = patterns
        .iter()
        .copied()
        .filter(|pattern| pattern.contains('*') && !pattern.starts_with('~'))
        .collect();
    globs.sort_by_key(|glob| std::cmp::Reverse(glob.replace('*', "").len()));
    let naive = |key: &str| {
        let lower = key.to_ascii_lowercase();
        let exact = patterns.iter().find(|pattern| **pattern == lower);
        let glob = globs.iter().find(|glob| Glob::new(&glob.to_ascii_lowercase()).matches(lower.as_bytes()));
        let expressions = patterns.iter().filter_map(|pattern| Some((pattern, pattern.strip_prefix('~')?)));
        let mut matching = expressions
            .filter(|(_, regex)| RegularExpression::new(regex).unwrap().matches(key.as_bytes()))
            .map(|(pattern, _)| pattern);
        exact.or(glob).or_else(|| matching.next()).map_or("default", |pattern| *pattern).to_owned()
    };
    let letters = ['a', 'b', 'c', 'B'];
    let mut keys = vec![String::new()];
    for _ in 0..5 {
        let longer: Vec<String> =
            keys.iter().flat_map(|key| letters.map(|letter| format!("{key}{letter}"))).collect();
        longer.iter().for_each(|key| assert_eq!(found(&map, key), naive(key), "{key}"));
        keys = longer;
    }
    assert_eq!(found(&map, ""), "default");
}

/// A lookup in a table of 10,000 entries of all kinds compares as few of them as one in a table of 500.
#[test]
fn ten_thousand_entries_take_as_many_comparisons_as_five_hundred() {
    let kinds: [fn(usize) -> String; 5] = [
        |n| format!("host{n}.example"),
        |n| format!("*.host{n}.example"),
        |n| format!("host{n}.*"),
        |n| format!("~^host{n}-[0-9]+"),
        |n| format!("~^[a-z]+\\.farm{n}$"),
    ];
    let of = |count: usize| {
        map((0..count).flat_map(|n| kinds.map(|kind| kind(n))).map(|key| (key.clone(), text(&key))))
    };
    let (few, many) = (of(100), of(2_000));
    assert_eq!(found(&many, "x.host7.example"), "*.host7.example");
    assert_eq!(found(&many, "host11-5"), "~^host11-[0-9]+");
    assert_eq!(found(&many, "www.farm1999"), "~^[a-z]+\\.farm1999$");
    for key in ["x.host7.example", "host8.example", "host9.other", "host11-5", "www.farm12", "nowhere"] {
        let compared = |map: &VariableMap| map.patterns.compared(key.as_bytes(), key.as_bytes());
        assert_eq!(compared(&many), compared(&few), "{key}");
        assert!(compared(&many) <= 2, "{key}");
    }
}
