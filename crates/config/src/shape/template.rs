//! Texts with variables. The one definition of their syntax and names.

use super::value_error::ValueError;
use crate::model::{Template, TemplatePiece, Variable};
use crate::nearest::{nearest, or_list};

/// Variables without a parameter.
const PLAIN: [(&str, Variable); 9] = [
    ("host", Variable::Host),
    ("host_name", Variable::HostName),
    ("path", Variable::Path),
    ("query", Variable::Query),
    ("args", Variable::Args),
    ("method", Variable::Method),
    ("scheme", Variable::Scheme),
    ("client", Variable::Client),
    ("request_id", Variable::RequestId),
];

/// Variables of the access log.
const LOGGED: [(&str, Variable); 9] = [
    ("status", Variable::Status),
    ("bytes", Variable::Bytes),
    ("seconds", Variable::Seconds),
    ("time", Variable::Time),
    ("target", Variable::Target),
    ("version", Variable::Version),
    ("route", Variable::Route),
    ("reason", Variable::Reason),
    ("user", Variable::User),
];

/// The variable of a name.
type VariableOf = fn(&str) -> Variable;

/// Variables with a name in them.
const NAMED: [(&str, VariableOf); 4] = [
    // RFC 9110 names have hyphens, and a variable cannot.
    ("header_", |name| Variable::Header(name.to_ascii_lowercase().replace('_', "-"))),
    ("arg_", |name| Variable::Argument(name.to_owned())),
    ("cookie_", |name| Variable::Cookie(name.to_owned())),
    ("map_", |name| Variable::Map(name.to_owned())),
];

/// Reads a template: `$name` is a variable, `$$` a dollar sign.
pub(crate) fn template(text: &str) -> Result<Template, ValueError> {
    read(text, &[])
}

/// Reads a template without `$1` to `$9`: what is `place`, and has no path or pattern.
pub(crate) fn template_without_captures(text: &str, place: &str) -> Result<Template, ValueError> {
    let template = template(text)?;
    match template.captures() {
        0 => Ok(template),
        number => Err(ValueError::new(format!("contains `${number}`, which {place} does not have"))),
    }
}

/// The text of a template that [`template`] reads.
pub(crate) fn text_of(template: &Template) -> String {
    let mut text = String::new();
    for piece in &template.0 {
        match piece {
            TemplatePiece::Text(plain) => text.push_str(&plain.replace('$', "$$")),
            TemplatePiece::Variable(variable) => {
                text.push('$');
                text.push_str(&name_of(variable));
            }
        }
    }
    text
}

fn name_of(variable: &Variable) -> String {
    match variable {
        Variable::Capture(number) => number.to_string(),
        Variable::Header(name) => format!("header_{}", name.replace('-', "_")),
        Variable::Argument(name) => format!("arg_{name}"),
        Variable::Cookie(name) => format!("cookie_{name}"),
        Variable::Map(name) => format!("map_{name}"),
        plain => {
            let found = PLAIN.iter().chain(&LOGGED).find(|(_, known)| known == plain);
            found.map_or_else(String::new, |(name, _)| (*name).to_owned())
        }
    }
}

/// Reads a template of the access log, which knows the response too, and no parts of a path.
pub(crate) fn log_template(text: &str) -> Result<Template, ValueError> {
    let template = read(text, &LOGGED)?;
    match template.captures() {
        0 => Ok(template),
        number => Err(ValueError::new(format!("contains `${number}`, which only a route has"))),
    }
}

fn read(text: &str, more: &[(&str, Variable)]) -> Result<Template, ValueError> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        plain.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            plain.push('$');
            rest = after;
            continue;
        }
        // `$12` is `$1` and a 2: there are nine.
        let end = match after.starts_with(|c: char| c.is_ascii_digit()) {
            true => 1,
            false => after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len()),
        };
        let (name, behind) = after.split_at_checked(end).unwrap_or((after, ""));
        let Some(variable) = variable(name, more) else { return Err(unknown(name, more)) };
        if !plain.is_empty() {
            pieces.push(TemplatePiece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(TemplatePiece::Variable(variable));
        rest = behind;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(TemplatePiece::Text(plain));
    }
    Ok(Template(pieces))
}

fn variable(name: &str, more: &[(&str, Variable)]) -> Option<Variable> {
    if let Some((_, variable)) = PLAIN.iter().chain(more).find(|(known, _)| *known == name) {
        return Some(variable.clone());
    }
    match name.parse::<u8>() {
        Ok(number @ 1..=9) => return Some(Variable::Capture(number)),
        Ok(_) => return None,
        Err(_) => {}
    }
    NAMED.iter().find_map(|(prefix, make)| {
        let name = name.strip_prefix(prefix).filter(|name| !name.is_empty())?;
        Some(make(name))
    })
}

fn unknown(name: &str, more: &[(&str, Variable)]) -> ValueError {
    if name.is_empty() {
        return ValueError::new("contains a `$` without a name").help("for a dollar sign, write `$$`");
    }
    let names: Vec<String> = PLAIN.iter().chain(more).map(|(name, _)| format!("${name}")).collect();
    let names: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .chain(["$1", "$header_NAME", "$arg_NAME", "$cookie_NAME", "$map_NAME"])
        .collect();
    let near = nearest(name, PLAIN.iter().chain(more).map(|(name, _)| *name));
    let help = match near.first() {
        Some(near) => format!("did you mean `${near}`?"),
        None => "for a dollar sign, write `$$`".to_owned(),
    };
    ValueError::new(format!("contains `${name}`, which is not one of the variables {}", or_list(&names)))
        .help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_in_pieces() {
        let text = |text: &str| TemplatePiece::Text(text.to_owned());
        let of = TemplatePiece::Variable;
        let cases = [
            ("", vec![]),
            ("a", vec![text("a")]),
            ("$$5", vec![text("$5")]),
            (
                "https://$host/new$path$query",
                vec![
                    text("https://"),
                    of(Variable::Host),
                    text("/new"),
                    of(Variable::Path),
                    of(Variable::Query),
                ],
            ),
            ("$12", vec![of(Variable::Capture(1)), text("2")]),
            ("$host_name-$1", vec![of(Variable::HostName), text("-"), of(Variable::Capture(1))]),
            ("$header_X_Api", vec![of(Variable::Header("x-api".to_owned()))]),
            (
                "$arg_a.$cookie_b",
                vec![of(Variable::Argument("a".to_owned())), text("."), of(Variable::Cookie("b".to_owned()))],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(template(text).unwrap(), Template(expected), "{text}");
        }
    }

    #[test]
    fn an_unknown_variable_names_the_nearest() {
        for (text, help) in [
            ("$hots", "did you mean `$host`?"),
            ("$requestid", "did you mean `$request_id`?"),
            ("a$", "for a dollar sign, write `$$`"),
            ("$zzz", "for a dollar sign, write `$$`"),
            ("$0", "for a dollar sign, write `$$`"),
            ("$arg_", "did you mean `$args`?"),
        ] {
            assert_eq!(template(text).unwrap_err().help.as_deref(), Some(help), "{text}");
        }
    }
}
