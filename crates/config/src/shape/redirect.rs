//! `redirect`: a response of the edge that sends the client elsewhere.

use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Info, Key, Preset, Reload, Section, Set, Shape};
use crate::model::{Redirect, RedirectPiece};
use crate::nearest::nearest;
use crate::raw::{Directive, Value};

/// `redirect`: where to, or a table.
pub(crate) struct Redirects;

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
            default: Preset::Required,
            right: "to = \"https://example.com$path$query\"",
            wrong: "to = \"example.com\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Target, |draft: &mut RedirectDraft, to| draft.to = Some(to)),
        },
        Key {
            name: "status",
            brief: "Status code",
            long: "307 and 308 keep method and body. Clients remember 301 and 308. 307 is the default because it can be reverted.",
            default: Preset::Value("307"),
            right: "status = 308",
            wrong: "status = 200",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(RedirectStatus, |draft: &mut RedirectDraft, status| draft.status = Some(status)),
        },
    ],
};

impl Describe for Redirects {
    fn expected(&self) -> String {
        "a path or a URL, or a table { to, status }".to_owned()
    }

    fn type_name(&self) -> String {
        "string or table".to_owned()
    }

    fn schema(&self) -> Json {
        let table = REDIRECT.schema().with("required", Json::List(vec![Json::text("to")]));
        Json::any(vec![Target.schema(), table])
    }

    fn children(&self, path: &str) -> Vec<Info> {
        REDIRECT.infos(path)
    }
}

impl Shape for Redirects {
    type Out = Redirect;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Redirect> {
        let bare = match &directive.value {
            Value::Text(text) => !(text.loose && text.text.trim_start().starts_with('{')),
            _ => false,
        };
        if bare {
            return Target.read(directive, cx).map(|to| Redirect { to, status: DEFAULT_REDIRECT });
        }
        let table = cx.table(directive)?;
        let mut draft = RedirectDraft::default();
        REDIRECT.read(&mut draft, &table, cx);
        if table.entry("to").is_none() {
            let problem = cx.wrong(directive.span, "has no `to`");
            cx.push(problem);
        }
        Some(Redirect { to: draft.to?, status: draft.status.unwrap_or(DEFAULT_REDIRECT) })
    }
}

const DEFAULT_REDIRECT: u16 = 307;
const REDIRECT_STATUS: [u16; 5] = [301, 302, 303, 307, 308];

struct RedirectStatus;

impl Describe for RedirectStatus {
    fn expected(&self) -> String {
        "301, 302, 303, 307 or 308".to_owned()
    }

    fn type_name(&self) -> String {
        self.expected()
    }

    fn schema(&self) -> Json {
        let all = REDIRECT_STATUS.iter().map(|status| Json::Number((*status).into())).collect();
        Json::object([("enum", Json::List(all))])
    }
}

impl Shape for RedirectStatus {
    type Out = u16;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u16> {
        let number = match &directive.value {
            Value::Text(text) => cx.reread(directive, text),
            _ => directive.clone(),
        };
        let found = match number.value {
            Value::Integer(number) => REDIRECT_STATUS.into_iter().find(|known| i128::from(*known) == number),
            _ => {
                cx.wrong_type(directive);
                return None;
            }
        };
        if found.is_none() {
            let problem = cx.wrong(directive.span, "is not the status of a redirect");
            cx.push(problem);
        }
        found
    }
}

struct Target;

impl Describe for Target {
    fn expected(&self) -> String {
        "a path that begins with `/`, or a URL that begins with `http://` or `https://`".to_owned()
    }

    fn type_name(&self) -> String {
        "string".to_owned()
    }

    fn schema(&self) -> Json {
        Json::pattern("^(/|https?://)")
    }
}

impl Shape for Target {
    type Out = Vec<RedirectPiece>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<RedirectPiece>> {
        let text = cx.text(directive)?;
        let (what, help) = match pieces(&text.text) {
            Ok(pieces) => return Some(pieces),
            Err(fault) => fault,
        };
        let mut problem = if text.secret {
            cx.wrong(directive.span, "has an invalid value")
        } else {
            cx.wrong(directive.span, &what)
        };
        if let (Some(help), false) = (help, text.secret) {
            problem = problem.help(help);
        }
        cx.push(problem);
        None
    }
}

/// What is wrong, and what to do.
type TargetFault = (String, Option<String>);

fn pieces(text: &str) -> Result<Vec<RedirectPiece>, TargetFault> {
    let rest = ["http://", "https://", "/"].iter().find_map(|start| text.strip_prefix(start));
    let Some(rest) = rest else {
        let help = (!text.is_empty() && !text.starts_with('$')).then(|| format!("write \"https://{text}\""));
        return Err((format!("is `{text}`"), help));
    };
    // A request for `//evil.example` must not become a redirect to that host: what a client sends never stands where
    // the authority begins.
    let no_host = !text.starts_with('/')
        && (rest.is_empty() || rest.starts_with(['/', '$']) && !rest.starts_with("$host"));
    if no_host {
        return Err((format!("is `{text}`, a URL without a host"), None));
    }
    if text.starts_with("//") {
        return Err((
            format!("is `{text}`, a URL without its scheme"),
            Some(format!("write \"https:{text}\"")),
        ));
    }
    if text.starts_with("/$path") {
        let help = "`$path` already begins with a slash: put a host or a path in front of it";
        return Err((format!("is `{text}`, which lets the client choose the host"), Some(help.to_owned())));
    }
    if text.chars().any(|c| c.is_control() || c == ' ' || !c.is_ascii()) {
        return Err((
            "contains spaces, control characters or characters that are not ASCII".to_owned(),
            Some("escape them with %XX".to_owned()),
        ));
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

fn unknown_piece(name: &str) -> TargetFault {
    let near = nearest(name, ["host", "path", "query"]);
    let help = match near.first() {
        Some(near) => format!("did you mean `${near}`?"),
        None => "use `$host`, `$path` or `$query`; for a dollar sign, write `$$`".to_owned(),
    };
    (format!("contains `${name}`, which is not a placeholder"), Some(help))
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
