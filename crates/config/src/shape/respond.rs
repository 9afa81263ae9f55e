//! `respond`: a fixed response.

use super::{Count, ParsedString, ResponseHeaders, field_value_is_valid, template};
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::{FixedResponse, Template};
use crate::raw::{Directive, Value};

/// `respond`: a status, or a table.
pub(crate) struct ResponseShape;

#[derive(Default)]
struct RespondDraft {
    status: Option<u32>,
    body: Template,
    content_type: Option<String>,
    headers: Vec<(String, String)>,
}

const STATUS: Count = Count(200..=599);

static RESPOND: Section<RespondDraft> = Section {
    keys: &[
        Key {
            name: "status",
            brief: "Status code",
            default: DefaultValue::Literal("200"),
            right: "status = 404",
            wrong: "status = 99",
            value: &Set(STATUS, |draft: &mut RespondDraft, status| draft.status = Some(status)),
            ..Key::LIVE
        },
        Key {
            name: "body",
            brief: "Response body, a text with variables",
            long: "Variables ([list](../guide/routes.md#variables)) are escaped for `content_type`, which must then be HTML, XML, JSON or `text/plain`. `$$` is a dollar sign. Must be left out with status 204, 205 and 304, which have no body (RFC 9110 §15).",
            default: DefaultValue::Literal("\"\""),
            right: "body = \"pong\"",
            wrong: "body = 1",
            value: &Set(BODY, |draft: &mut RespondDraft, body| draft.body = body),
            ..Key::LIVE
        },
        Key {
            name: "content_type",
            brief: "`Content-Type` of the body",
            default: DefaultValue::Words("`\"text/plain; charset=utf-8\"` if there is a body"),
            right: "content_type = \"application/json\"",
            wrong: "content_type = \"json\"",
            value: &Set(MediaType, |draft: &mut RespondDraft, media| draft.content_type = Some(media)),
            ..Key::LIVE
        },
        Key {
            name: "headers",
            brief: "Additional headers",
            long: "A header whose value is a list is sent once for each value. Headers that frame the message or manage the connection are set only by Keepwarm and are rejected here.",
            default: DefaultValue::Words("none"),
            right: "headers = { Cache-Control = \"no-store\" }",
            wrong: "headers = { Content-Length = \"3\" }",
            value: &Set(ResponseHeaders, |draft: &mut RespondDraft, headers| draft.headers = headers),
            ..Key::LIVE
        },
    ],
};

impl Describe for ResponseShape {
    fn description(&self) -> Description {
        Description::new(
            "a status from 200 to 599, or a table { status, body, content_type, headers }",
            "status or table",
            Json::any(vec![STATUS.schema(), RESPOND.schema()]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        RESPOND.infos(path)
    }
}

impl Shape for ResponseShape {
    type Out = FixedResponse;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<FixedResponse> {
        let mut draft = RespondDraft::default();
        let bare_number = match &directive.value {
            Value::Integer(_) => true,
            Value::String(text) => text.untyped && text.text.parse::<u32>().is_ok(),
            _ => false,
        };
        if bare_number {
            draft.status = Some(STATUS.read(directive, cx)?);
        } else {
            RESPOND.read(&mut draft, &*cx.table(directive)?, cx);
        }
        let status = u16::try_from(draft.status.unwrap_or(200)).unwrap_or(200);
        if !draft.body.0.is_empty() && matches!(status, 204 | 205 | 304) {
            cx.problem(directive.span, format!("`{}` has a body with status {status}", cx.name()))
                .expected("no body with 204, 205 and 304 (RFC 9110 §15)")
                .report(cx);
        }
        if let Some((name, _)) =
            draft.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            let message = format!("`{}` sets `{name}` in `headers`", cx.name());
            cx.problem(directive.span, message).help("use `content_type` instead").report(cx);
        }
        let plain = || (!draft.body.0.is_empty()).then(|| "text/plain; charset=utf-8".to_owned());
        let content_type = draft.content_type.or_else(plain);
        if let (Some(media), Some(_)) = (&content_type, draft.body.variables().next())
            && !takes_values(media)
        {
            let message = format!("`{}` has variables in a body of type `{media}`", cx.name());
            cx.problem(directive.span, message)
                .expected("HTML, XML, JSON or text/plain: in other types a client's text could become code")
                .help("for a dollar sign, write `$$`")
                .report(cx);
        }
        Some(FixedResponse { status, body: draft.body, content_type, headers: draft.headers })
    }
}

/// Whether values can be escaped for a type, or need not be.
fn takes_values(media: &str) -> bool {
    let essence = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (_, kind) = essence.split_once('/').unwrap_or_default();
    matches!(kind, "html" | "xml" | "json" | "plain") || kind.ends_with("+xml") || kind.ends_with("+json")
}

/// A text that may be empty.
const BODY: ParsedString<Template> = ParsedString {
    expected: "a string",
    type_name: "string with variables",
    pattern: None,
    bare: None,
    read: template,
};

struct MediaType;

impl Describe for MediaType {
    fn description(&self) -> Description {
        Description::new("a media type, TYPE/SUBTYPE", "media type", Json::pattern("^[^/ ]+/[^/ ]+"))
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
        cx.wrong(directive.span, &format!("is {quoted}")).reject(cx)
    }
}
