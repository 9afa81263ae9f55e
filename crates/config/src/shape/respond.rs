//! Answers of the edge itself: `respond`, `redirect`, and `headers` on the answers of others.

use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Info, Key, Preset, Reload, Section, Set, Shape, Sub};
use crate::model::{HeaderRules, Redirect, RedirectPiece, Respond};
use crate::nearest::nearest;
use crate::raw::{Directive, Value};

use super::{Count, Strings, field_name_fault, field_value_is_valid};

/// `respond`: a status, or a table.
pub(crate) struct Responses;

/// `redirect`: where to, or a table.
pub(crate) struct Redirects;

/// Fields and their values, in the order of the file.
pub(crate) struct AnswerHeaders;

#[derive(Default)]
struct RespondDraft {
    status: Option<u32>,
    body: String,
    content_type: Option<String>,
    headers: Vec<(String, String)>,
}

const STATUS: Count = Count { min: 200, max: 599 };

static RESPOND: Section<RespondDraft> = Section {
    keys: &[
        Key {
            name: "status",
            brief: "Status code",
            long: "",
            default: Preset::Value("200"),
            right: "status = 404",
            wrong: "status = 99",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(STATUS, |draft: &mut RespondDraft, status| draft.status = Some(status)),
        },
        Key {
            name: "body",
            brief: "Body, as it leaves",
            long: "Must be left out with status 204, 205 and 304, which have none (RFC 9110 §15).",
            default: Preset::Value("\"\""),
            right: "body = \"pong\"",
            wrong: "body = 1",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(Body, |draft: &mut RespondDraft, body| draft.body = body),
        },
        Key {
            name: "content_type",
            brief: "`Content-Type` of the body",
            long: "",
            default: Preset::Words("`\"text/plain; charset=utf-8\"` when there is a body"),
            right: "content_type = \"application/json\"",
            wrong: "content_type = \"json\"",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(MediaType, |draft: &mut RespondDraft, media| draft.content_type = Some(media)),
        },
        Key {
            name: "headers",
            brief: "Further fields",
            long: "A field whose value is a list is sent once for each. Fields that frame the message or manage the connection are Keepwarm's own and are refused.",
            default: Preset::Words("none"),
            right: "headers = { Cache-Control = \"no-store\" }",
            wrong: "headers = { Content-Length = \"3\" }",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(AnswerHeaders, |draft: &mut RespondDraft, headers| draft.headers = headers),
        },
    ],
};

impl Describe for Responses {
    fn expected(&self) -> String {
        "a status from 200 to 599, or a table { status, body, content_type, headers }".to_owned()
    }

    fn type_name(&self) -> String {
        "status or table".to_owned()
    }

    fn schema(&self) -> Json {
        Json::any(vec![STATUS.schema(), RESPOND.schema()])
    }

    fn children(&self, path: &str) -> Vec<Info> {
        RESPOND.infos(path)
    }
}

impl Shape for Responses {
    type Out = Respond;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Respond> {
        let mut draft = RespondDraft::default();
        let bare_number = match &directive.value {
            Value::Integer(_) => true,
            Value::Text(text) => text.loose && text.text.parse::<u32>().is_ok(),
            _ => false,
        };
        if bare_number {
            draft.status = Some(STATUS.read(directive, cx)?);
        } else {
            RESPOND.read(&mut draft, &*cx.table(directive)?, cx);
        }
        let status = u16::try_from(draft.status.unwrap_or(200)).unwrap_or(200);
        if !draft.body.is_empty() && matches!(status, 204 | 205 | 304) {
            let problem = cx
                .problem(directive.span, format!("`{}` gives a body to status {status}", cx.name()))
                .expected("no body with 204, 205 and 304 (RFC 9110 §15)");
            cx.push(problem);
        }
        if let Some((name, _)) =
            draft.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            let message = format!("`{}` sets `{name}` among its headers", cx.name());
            let problem = cx.problem(directive.span, message).help("use `content_type` for it");
            cx.push(problem);
        }
        let plain = || (!draft.body.is_empty()).then(|| "text/plain; charset=utf-8".to_owned());
        let content_type = draft.content_type.or_else(plain);
        Some(Respond { status, body: draft.body, content_type, headers: draft.headers })
    }
}

/// Any string, the empty one too.
struct Body;

impl Describe for Body {
    fn expected(&self) -> String {
        "a string".to_owned()
    }

    fn type_name(&self) -> String {
        "string".to_owned()
    }

    fn schema(&self) -> Json {
        Json::of_type("string")
    }
}

impl Shape for Body {
    type Out = String;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<String> {
        cx.text(directive).map(|text| text.text.clone())
    }
}

struct MediaType;

impl Describe for MediaType {
    fn expected(&self) -> String {
        "a media type, TYPE/SUBTYPE".to_owned()
    }

    fn type_name(&self) -> String {
        "media type".to_owned()
    }

    fn schema(&self) -> Json {
        Json::pattern("^[^/ ]+/[^/ ]+")
    }
}

impl Shape for MediaType {
    type Out = String;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<String> {
        let text = cx.text(directive)?;
        let essence = text.text.split(';').next().unwrap_or("").trim_end();
        let holds = essence.split_once('/').is_some_and(|(main, sub)| {
            [main, sub].iter().all(|part| !part.is_empty() && !part.contains(['/', ' ']))
        });
        if holds && field_value_is_valid(&text.text) {
            return Some(text.text.clone());
        }
        let quoted = cx.quote(text);
        let problem = cx.wrong(directive.span, &format!("is {quoted}"));
        cx.push(problem);
        None
    }
}

#[derive(Default)]
struct RedirectDraft {
    to: Option<Vec<RedirectPiece>>,
    status: Option<u16>,
}

static REDIRECT: Section<RedirectDraft> = Section {
    keys: &[
        Key {
            name: "to",
            brief: "Where to: an absolute path or a URL, with `$host`, `$path` and `$query` filled in",
            long: "`$path` is the request's path with its first slash, without the prefix when `strip_prefix` is set. `$query` is `?` and the query, or nothing. `$host` is the request's host with its port. `$$` is a dollar sign.",
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
            long: "307 and 308 keep method and body; 301 and 308 are remembered by clients. 307 is the default because it can be taken back.",
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
        "where to, or a table { to, status }".to_owned()
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
            let problem = cx.wrong(directive.span, "does not say where to: `to` is missing");
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
            let problem = cx.wrong(directive.span, "is no status of a redirect");
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
            cx.wrong(directive.span, "has a value that will not do")
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
        let help = "`$path` begins with a slash of its own: put a host or a path in front of it";
        return Err((format!("is `{text}`, which leaves the host to the client"), Some(help.to_owned())));
    }
    if text.chars().any(|c| c.is_control() || c == ' ' || !c.is_ascii()) {
        return Err((
            "has blanks, controls or letters beyond ASCII in it".to_owned(),
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
        None => "`$host`, `$path` and `$query` are filled in; a dollar sign is written `$$`".to_owned(),
    };
    (format!("has `${name}` in it, which nothing fills in"), Some(help))
}

impl Describe for AnswerHeaders {
    fn expected(&self) -> String {
        "a table of field names, each with a string or a list of strings".to_owned()
    }

    fn type_name(&self) -> String {
        "table of strings".to_owned()
    }

    fn schema(&self) -> Json {
        let value = Json::one_or_many(Json::of_type("string"));
        Json::object([("type", Json::text("object")), ("additionalProperties", value)])
    }
}

impl Shape for AnswerHeaders {
    type Out = Vec<(String, String)>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<(String, String)>> {
        let table = cx.table(directive)?;
        let mut fields = Vec::new();
        for entry in &table.entries {
            if let Some(fault) = field_name_fault(&entry.key) {
                let problem = cx.wrong(entry.key_span, &format!("holds `{}`, which {fault}", entry.key));
                cx.push(problem);
                continue;
            }
            for item in cx.items(&entry.value).iter() {
                let Some(value) = cx.text(item) else { continue };
                if field_value_is_valid(&value.text) {
                    fields.push((entry.key.clone(), value.text.clone()));
                    continue;
                }
                let what =
                    format!("gives `{}` a value with control characters, or blanks at its ends", entry.key);
                let problem = cx.wrong(item.span, &what);
                cx.push(problem);
            }
        }
        Some(fields)
    }
}

/// `headers` of a route.
pub(crate) static HEADER_RULES: Section<HeaderRules> = Section {
    keys: &[
        Key {
            name: "set",
            brief: "Fields that replace every field of that name",
            long: "A field whose value is a list is sent once for each. Applied after `remove`. Fields that frame the message or manage the connection are Keepwarm's own and are refused.",
            default: Preset::Words("none"),
            right: "set = { X-Frame-Options = \"DENY\" }",
            wrong: "set = { Transfer-Encoding = \"chunked\" }",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(AnswerHeaders, |rules: &mut HeaderRules, set| rules.set = set),
        },
        Key {
            name: "remove",
            brief: "Fields taken out of the answer",
            long: "",
            default: Preset::Value("[]"),
            right: "remove = [\"X-Powered-By\"]",
            wrong: "remove = [\"X Powered By\"]",
            reload: Reload::Live,
            since: "0.1.0",
            value: &Set(
                Strings {
                    one: "a field name",
                    many: "field names",
                    may_be_empty: true,
                    fault: field_name_fault,
                },
                |rules: &mut HeaderRules, names: Vec<String>| {
                    rules.remove = names.iter().map(|name| name.to_ascii_lowercase()).collect();
                },
            ),
        },
    ],
};

/// `headers` of a route, as a field of what `place` finds it in.
pub(crate) const fn header_rules<T>(place: fn(&mut T) -> &mut HeaderRules) -> Sub<T, HeaderRules> {
    Sub(&HEADER_RULES, place)
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
