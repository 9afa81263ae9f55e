//! `redirect`: a target and a status.

use super::is_table_like;
use super::value_error::{ValueError, value_or_report};
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::{Redirect, RedirectPiece};
use crate::nearest::nearest;
use crate::raw::{Directive, Value};

/// `redirect`: a target, or a table.
pub(crate) struct RedirectShape;

#[derive(Default)]
struct RedirectDraft {
    to: Option<Vec<RedirectPiece>>,
    status: Option<u16>,
}

static REDIRECT: Section<RedirectDraft> = Section {
    keys: &[
        Key {
            name: "to",
            brief: "Target: an absolute path or a URL, with `$host`, `$path` and `$query` filled in",
            long: "`$path` is the request's path with its first slash, without the prefix if `strip_prefix` is set. `$query` is `?` and the query, or nothing. `$host` is the request's host with its port. `$$` is a dollar sign.",
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
    type Out = Vec<RedirectPiece>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<RedirectPiece>> {
        let text = cx.text(directive)?;
        value_or_report(pieces(&text.text), text, directive, cx)
    }
}

fn pieces(text: &str) -> Result<Vec<RedirectPiece>, ValueError> {
    let rest = ["http://", "https://", "/"].iter().find_map(|start| text.strip_prefix(start));
    let Some(rest) = rest else {
        let help = (!text.starts_with('$')).then(|| format!("write \"https://{text}\""));
        return Err(ValueError::new(format!("is `{text}`")).maybe_help(help));
    };
    // A request for `//evil.example` must not become a redirect to that host: text from the client is never the
    // beginning of the authority.
    let no_host = !text.starts_with('/')
        && (rest.is_empty() || rest.starts_with(['/', '$']) && !rest.starts_with("$host"));
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
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, behind) = after.split_at_checked(end).unwrap_or((after, ""));
        let piece = match name {
            "host" => RedirectPiece::Host,
            "path" => RedirectPiece::Path,
            "query" => RedirectPiece::Query,
            _ => return Err(unknown_piece(name)),
        };
        if !plain.is_empty() {
            pieces.push(RedirectPiece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(piece);
        rest = behind;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(RedirectPiece::Text(plain));
    }
    Ok(pieces)
}

fn unknown_piece(name: &str) -> ValueError {
    let near = nearest(name, ["host", "path", "query"]);
    let help = match near.first() {
        Some(near) => format!("did you mean `${near}`?"),
        None => "use `$host`, `$path` or `$query`; for a dollar sign, write `$$`".to_owned(),
    };
    ValueError::new(format!("contains `${name}`, which is not a placeholder")).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_read_in_pieces() {
        let text = |text: &str| RedirectPiece::Text(text.to_owned());
        let read = pieces("https://$host/new$path$query").unwrap();
        let wanted =
            [text("https://"), RedirectPiece::Host, text("/new"), RedirectPiece::Path, RedirectPiece::Query];
        assert_eq!(read, wanted);
        assert_eq!(pieces("/$$5").unwrap(), [text("/$5")]);
        assert_eq!(pieces("/").unwrap(), [text("/")]);
    }

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
        ] {
            assert!(pieces(open).is_err(), "{open}");
        }
    }
}
