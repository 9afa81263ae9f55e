//! Matchers: what a directive is for.

use crate::caddy::syntax::Line;
use crate::expression;
use crate::pattern::Pattern;
use crate::reach::{Condition, Matcher, Sets, Test, UNKNOWN, opposite, product};

/// The matcher of a directive, its other arguments, and the definition that it names.
pub(super) fn of<'a>(line: &Line, scope: &[&'a Line]) -> (Matcher, Vec<String>, Option<&'a Line>) {
    let first = line.arg(0);
    let rest = line.args().get(1..).unwrap_or(&[]).to_vec();
    // `redir /x` has a target, and no matcher, if it is alone.
    let is_target = line.name() == "redir" && line.args().len() < 2
        || line.name() == "rewrite" && line.args().len() < 2
        || matches!(line.name(), "try_files");
    match first {
        "*" => (Matcher::All, rest, None),
        path if path.starts_with('/') && !is_target => (single(path), rest, None),
        name if name.starts_with('@') => {
            // A definition of the block comes before one of those around it.
            let found = scope.iter().rev().find(|line| line.name() == name).copied();
            let sets = found.and_then(definition);
            (sets.map_or(Matcher::Unknown, Matcher::Sets), rest, found)
        }
        _ => (Matcher::All, line.args().to_vec(), None),
    }
}

fn single(path: &str) -> Matcher {
    match Pattern::parse(path) {
        Some(pattern) => {
            let test = Test::Path(vec![pattern]);
            Matcher::Sets(vec![vec![Condition { test, negated: false }]])
        }
        None => Matcher::Unknown,
    }
}

/// The only path of a matcher, by which Caddy sorts directives.
pub(super) fn only_path(line: &Line, scope: &[&Line]) -> Option<String> {
    let first = line.arg(0);
    if first.starts_with('/') {
        return Some(first.to_owned());
    }
    let definition = scope.iter().rev().find(|known| first.starts_with('@') && known.name() == first)?;
    let mut paths: Vec<String> = Vec::new();
    for (words, _) in parts(definition) {
        if words.first().is_some_and(|name| name == "path") {
            paths.extend(words.iter().skip(1).cloned());
        }
    }
    match paths.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// The matchers of a set, each with its block.
fn parts(line: &Line) -> Vec<(Vec<String>, &[Line])> {
    if !line.args().is_empty() {
        return vec![(line.args().to_vec(), line.inner.as_slice())];
    }
    of_lines(&line.inner)
}

fn of_lines(lines: &[Line]) -> Vec<(Vec<String>, &[Line])> {
    let words =
        |line: &Line| std::iter::once(line.name().to_owned()).chain(line.args().iter().cloned()).collect();
    lines.iter().map(|line| (words(line), line.inner.as_slice())).collect()
}

fn definition(line: &Line) -> Option<Sets> {
    set(&parts(line))
}

/// All matchers of a set must match; several of one name are one.
fn set(parts: &[(Vec<String>, &[Line])]) -> Option<Sets> {
    let mut sets: Sets = vec![Vec::new()];
    let mut own: Vec<Condition> = Vec::new();
    for (words, block) in parts {
        let (name, args) = words.split_first()?;
        if name == "not" {
            let inner = match args.is_empty() {
                true => set(&of_lines(block))?,
                false => set(&[(args.to_vec(), block)])?,
            };
            sets = product(&sets, &opposite(&inner)?)?;
            continue;
        }
        if name == "expression" {
            let text = args.join(" ");
            let unknown = vec![vec![UNKNOWN]];
            sets = product(&sets, &super::expression::parse(&text).unwrap_or(unknown))?;
            continue;
        }
        for condition in conditions(name, args).unwrap_or_else(|| vec![UNKNOWN]) {
            join(&mut own, condition)?;
        }
    }
    product(&sets, &vec![own])
}

/// Adds a condition of a set: matchers of one name are one.
fn join(own: &mut Vec<Condition>, condition: Condition) -> Option<()> {
    for known in own.iter_mut().filter(|known| known.negated == condition.negated) {
        match (&mut known.test, &condition.test) {
            (Test::Path(known), Test::Path(new)) => {
                known.extend(new.iter().cloned());
                return Some(());
            }
            (Test::Method(known), Test::Method(new)) => {
                known.extend(new.iter().cloned());
                return Some(());
            }
            (Test::Value(key, name, known), Test::Value(new_key, new_name, new))
                if key == new_key && name.eq_ignore_ascii_case(new_name) =>
            {
                known.extend(new.iter().cloned());
                return Some(());
            }
            (Test::Scheme(_), Test::Scheme(_)) | (Test::Regex(..), Test::Regex(..)) => return None,
            _ => {}
        }
    }
    own.push(condition);
    Some(())
}

fn holds(test: Test) -> Vec<Condition> {
    vec![Condition { test, negated: false }]
}

/// The conditions of one matcher; `None`: it has no counterpart.
pub(super) fn conditions(name: &str, args: &[String]) -> Option<Vec<Condition>> {
    if args.is_empty()
        || args.iter().any(|arg| arg.contains('{') && name != "path_regexp" && name != "header_regexp")
    {
        return None;
    }
    Some(match name {
        "path" => holds(Test::Path(args.iter().map(|path| Pattern::parse(path)).collect::<Option<_>>()?)),
        "path_regexp" => {
            let (name, pattern) = match args {
                [pattern] => ("", pattern),
                [name, pattern] => (name.as_str(), pattern),
                _ => return None,
            };
            let pattern = expression::encoded(&expression::check(pattern, false).ok()?)?;
            holds(Test::Regex(name.to_owned(), pattern))
        }
        "host" => {
            holds(Test::Value("host", String::new(), args.iter().map(|host| host_pattern(host)).collect()))
        }
        "method" => holds(Test::Method(args.iter().map(|method| method.to_uppercase()).collect())),
        "remote_ip" | "client_ip" => {
            let values: Vec<String> = args.iter().flat_map(|value| private_ranges(value)).collect();
            if values.iter().any(|value| !value.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':')) {
                return None;
            }
            holds(Test::Value("client", String::new(), values))
        }
        "protocol" => match args {
            [scheme] if matches!(scheme.as_str(), "http" | "https") => holds(Test::Scheme(scheme.clone())),
            _ => return None,
        },
        "header" => match args {
            [name] => match name.strip_prefix('!') {
                Some(name) => vec![Condition { test: any_value("header", name), negated: true }],
                None => holds(any_value("header", name)),
            },
            [name, value] => holds(Test::Value("header", name.clone(), vec![glob(value)?])),
            _ => return None,
        },
        "header_regexp" => {
            let (name, pattern) = match args {
                [name, pattern] | [_, name, pattern] => (name, pattern),
                _ => return None,
            };
            let pattern = format!("~{}", expression::check(pattern, false).ok()?);
            holds(Test::Value("header", name.clone(), vec![pattern]))
        }
        "query" => {
            let mut all: Vec<Condition> = Vec::new();
            for pair in args {
                let (name, value) = pair.split_once('=')?;
                let value = match value {
                    "*" => value.to_owned(),
                    value if value.contains('*') || value.starts_with(['!', '~']) => return None,
                    value => value.to_owned(),
                };
                join(
                    &mut all,
                    Condition { test: Test::Value("query", name.to_owned(), vec![value]), negated: false },
                )?;
            }
            all
        }
        _ => return None,
    })
}

fn any_value(key: &'static str, name: &str) -> Test {
    Test::Value(key, name.to_owned(), vec!["*".to_owned()])
}

/// Caddy has a `*` at the ends of a value only.
fn glob(value: &str) -> Option<String> {
    let inner = value.strip_prefix('*').unwrap_or(value);
    let inner = inner.strip_suffix('*').unwrap_or(inner);
    (!inner.contains('*') && !value.starts_with(['!', '~'])).then(|| value.to_owned())
}

/// A `*` is one label of a host.
fn host_pattern(host: &str) -> String {
    if !host.contains('*') {
        return host.to_lowercase();
    }
    let labels: Vec<String> = host
        .to_lowercase()
        .split('.')
        .map(|label| if label == "*" { "[^.]+".to_owned() } else { crate::model::escape(label) })
        .collect();
    format!("~^{}$", labels.join("\\."))
}

pub(super) fn private_ranges(value: &str) -> Vec<String> {
    match value {
        "private_ranges" => {
            ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"]
                .map(str::to_owned)
                .to_vec()
        }
        "static" => Vec::new(),
        _ => vec![value.to_owned()],
    }
}
