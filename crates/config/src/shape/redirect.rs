//! `redirect`: a target and a status.

use super::is_table_like;
use super::template::{template, text_of};
use super::value_error::{ValueError, value_or_report};
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::{Redirect, Template, TemplatePiece, Variable, VariableMap};
use crate::raw::{Directive, Value};

/// `redirect`: a target, or a table.
pub(crate) struct RedirectShape;

#[derive(Default)]
struct RedirectDraft {
    to: Option<Template>,
    status: Option<u16>,
}

static REDIRECT: Section<RedirectDraft> = Section {
    keys: &[
        Key {
            name: "to",
            brief: "Target: an absolute path or a URL, with variables",
            long: "Any variable can be used ([list](../guide/routes.md#variables)); values are percent-encoded where needed. `$path` is the request's path with its first slash, without the prefix if `strip_prefix` is set. `$query` is `?` and the query, or nothing. `$host` is the request's host with its port. `$$` is a dollar sign.",
            default: DefaultValue::Required,
            right: "to = \"https://example.com$path$query\"",
            wrong: "to = \"example.com\"",
            value: &Set(RedirectTarget, |draft: &mut RedirectDraft, to| draft.to = Some(to)),
            ..Key::LIVE
        },
        Key {
            name: "status",
            brief: "Status code",
            long: "307 and 308 keep method and body. Clients remember 301 and 308. 307 is the default because it can be reverted.",
            default: DefaultValue::Literal("307"),
            right: "status = 308",
            wrong: "status = 200",
            value: &Set(RedirectStatus, |draft: &mut RedirectDraft, status| draft.status = Some(status)),
            ..Key::LIVE
        },
    ],
};

impl Describe for RedirectShape {
    fn description(&self) -> Description {
        let table = REDIRECT.schema().with("required", Json::Array(vec![Json::text("to")]));
        Description::new(
            "a path or a URL, or a table { to, status }",
            "string or table",
            Json::any(vec![RedirectTarget.schema(), table]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        REDIRECT.infos(path)
    }
}

impl Shape for RedirectShape {
    type Out = Redirect;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Redirect> {
        if matches!(directive.value, Value::String(_)) && !is_table_like(directive) {
            return RedirectTarget.read(directive, cx).map(|to| Redirect { to, status: DEFAULT_REDIRECT });
        }
        let table = cx.table(directive)?;
        let mut draft = RedirectDraft::default();
        REDIRECT.read(&mut draft, &table, cx);
        if table.entry("to").is_none() {
            cx.wrong(directive.span, "has no `to`").report(cx);
        }
        Some(Redirect { to: draft.to?, status: draft.status.unwrap_or(DEFAULT_REDIRECT) })
    }
}

const DEFAULT_REDIRECT: u16 = 307;
const REDIRECT_STATUS: [u16; 5] = [301, 302, 303, 307, 308];

struct RedirectStatus;

impl Describe for RedirectStatus {
    fn description(&self) -> Description {
        let all = REDIRECT_STATUS.iter().map(|status| Json::Number((*status).into())).collect();
        Description::new(
            "301, 302, 303, 307 or 308",
            "301, 302, 303, 307 or 308",
            Json::object([("enum", Json::Array(all))]),
        )
    }
}

impl Shape for RedirectStatus {
    type Out = u16;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u16> {
        let Value::Integer(number) = cx.typed(directive).value else { return cx.wrong_type(directive) };
        match REDIRECT_STATUS.into_iter().find(|known| i128::from(*known) == number) {
            Some(status) => Some(status),
            None => cx.wrong(directive.span, "is not the status of a redirect").reject(cx),
        }
    }
}

struct RedirectTarget;

impl Describe for RedirectTarget {
    fn description(&self) -> Description {
        Description::new(
            "a path that begins with `/`, or a URL that begins with `http://` or `https://`",
            "string",
            Json::pattern("^(/|https?://)"),
        )
    }
}

impl Shape for RedirectTarget {
    type Out = Template;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Template> {
        let text = cx.text(directive)?;
        value_or_report(target(&text.text), text, directive, cx)
    }
}

fn target(text: &str) -> Result<Template, ValueError> {
    // What it can be is checked when the maps are known ([`mapped_fault`]).
    if text.starts_with("$map_") {
        return template(text);
    }
    let rest = ["http://", "https://", "/"].iter().find_map(|start| text.strip_prefix(start));
    let Some(rest) = rest else {
        let help = (!text.starts_with('$')).then(|| format!("write \"https://{text}\""));
        return Err(ValueError::new(format!("is `{text}`")).maybe_help(help));
    };
    // A request for `//evil.example` must not become a redirect to that host: text from the client is never the
    // beginning of the authority.
    let no_host = !text.starts_with('/')
        && (rest.is_empty()
            || rest.starts_with(['/', '?', '#'])
            || ["$path", "$query", "$args"].iter().any(|variable| rest.starts_with(variable)));
    if no_host {
        return Err(ValueError::new(format!("is `{text}`, a URL without a host")));
    }
    if text.starts_with("//") {
        let error = ValueError::new(format!("is `{text}`, a URL without its scheme"));
        return Err(error.help(format!("write \"https:{text}\"")));
    }
    if text.starts_with("/$path") {
        let error = ValueError::new(format!("is `{text}`, which lets the client choose the host"));
        return Err(error.help("`$path` already begins with a slash: put a host or a path in front of it"));
    }
    if text.chars().any(|c| c.is_control() || c == ' ' || !c.is_ascii()) {
        let error = ValueError::new("contains spaces, control characters or characters that are not ASCII");
        return Err(error.help("escape them with %XX"));
    }
    let template = template(text)?;
    match template.0.as_slice() {
        [TemplatePiece::Text(start), rest @ ..] if !start.starts_with('/') => check_host(start, rest, text)?,
        _ => {}
    }
    Ok(template)
}

/// The fault of a target in which a value of a map is the beginning, or a part of the host; `None`: there is none.
pub(crate) fn mapped_fault(to: &Template, maps: &[VariableMap]) -> Option<ValueError> {
    fault_within(to, maps, MAPS_WITHIN)
}

/// Maps in the beginning of a value of a map. This number is arbitrary; it ends the search where maps use one another in a circle.
const MAPS_WITHIN: u32 = 8;

fn fault_within(to: &Template, maps: &[VariableMap], depth: u32) -> Option<ValueError> {
    let (before, name, behind) = match to.0.as_slice() {
        [TemplatePiece::Variable(Variable::Map(name)), behind @ ..] => (None, name, behind),
        [text @ TemplatePiece::Text(start), TemplatePiece::Variable(Variable::Map(name)), behind @ ..]
            if is_in_host(start) =>
        {
            (Some(text), name, behind)
        }
        _ => return target(&text_of(to)).err(),
    };
    let map = maps.iter().find(|map| map.name == *name)?;
    map.results().find_map(|value| {
        let pieces = before.into_iter().chain(&value.0).chain(behind).cloned();
        let fault = match depth.checked_sub(1) {
            Some(depth) => fault_within(&joined(pieces), maps, depth)?,
            None => ValueError::new("begins with more than eight maps"),
        };
        if map.is_secret {
            let what = format!(
                "is not a path or a URL, or lets the client choose the host, with a value of `map.{name}`"
            );
            return Some(
                ValueError::new(what).help("its values are not shown, because one is a placeholder's"),
            );
        }
        let value = text_of(value);
        Some(ValueError { what: format!("with the value `{value}` of `map.{name}` {}", fault.what), ..fault })
    })
}

/// With neighbouring texts as one.
fn joined(pieces: impl Iterator<Item = TemplatePiece>) -> Template {
    let mut joined: Vec<TemplatePiece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(TemplatePiece::Text(before)), TemplatePiece::Text(text)) => before.push_str(&text),
            (_, piece) => joined.push(piece),
        }
    }
    Template(joined)
}

/// Whether what follows this beginning of a URL is in its host.
fn is_in_host(start: &str) -> bool {
    start.split_once("://").is_some_and(|(_, host)| !host.contains(['/', '?', '#']))
}

/// A client may choose a part of a URL's host only where the configuration says how the host ends: `https://$1.example.com/`.
fn check_host(start: &str, rest: &[TemplatePiece], text: &str) -> Result<(), ValueError> {
    let (_, host) = start.split_once("://").unwrap_or(("", start));
    if host.contains('/') {
        return Ok(());
    }
    let mut chosen = false;
    let mut end = host;
    for (index, piece) in rest.iter().enumerate() {
        match piece {
            // Its values are looked at one by one ([`mapped_fault`]).
            TemplatePiece::Variable(Variable::Map(_)) if index == 0 => end = "",
            TemplatePiece::Variable(Variable::Host | Variable::HostName) => end = "",
            // Begins with `/` or `?`, or is empty.
            TemplatePiece::Variable(Variable::Path | Variable::Query) => break,
            TemplatePiece::Variable(_) => {
                chosen = true;
                end = "";
            }
            TemplatePiece::Text(plain) => {
                end = plain.split(['/', '?', '#']).next().unwrap_or("");
                if end.len() < plain.len() {
                    break;
                }
            }
        }
    }
    let is_ours = end.starts_with('.') && end.bytes().any(|b| b.is_ascii_alphanumeric());
    match chosen && !is_ours {
        true => Err(ValueError::new(format!("is `{text}`, which lets the client choose the host"))
            .help("end the host with a name of yours, for example `https://$1.example.com/`")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_choose_the_host_of_a_redirect() {
        for open in [
            "$path",
            "/$path",
            "//evil.example",
            "https://$path",
            "https:///x",
            "$host",
            "https://",
            "https://$query",
            "https://$1",
            "https://$1/x",
            "https://$arg_to/",
            "https://www.$header_x",
            "https://example.com$arg_x/",
            "https://$1.$2/",
            "https://$1./",
        ] {
            assert!(target(open).is_err(), "{open}");
        }
        for ours in [
            "https://$1.example.com/",
            "https://$host/$1",
            "https://example.com/$arg_to",
            "https://$host_name:8443$path",
            "/$1",
            "/",
        ] {
            assert!(target(ours).is_ok(), "{ours}");
        }
    }
}
