use super::{EndpointDraft, UpstreamDraft};
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Field, Key, Section, Set, Shape};
use crate::raw::{Directive, Span, Value};
use crate::shape::{Count, Origin, OriginUrl, is_table_like};

/// `endpoints`: URLs, or tables of a URL, a weight and a priority.
pub(super) struct EndpointList;

/// The maximum number of endpoints. Arbitrary: far more than a list written by hand.
const MOST: usize = 4096;

static ENDPOINT: Section<EndpointDraft> = Section {
    keys: &[
        Key {
            name: "url",
            brief: "URL of the endpoint",
            long: "Same format as `url` of the upstream. Either all endpoints use TLS, or none does.",
            default: DefaultValue::Required,
            right: "url = \"https://search.internal:9243\"",
            wrong: "url = \"search.internal:9243\"",
            value: &Set(OriginUrl, |endpoint: &mut EndpointDraft, (origin, _): (Origin, Span)| {
                endpoint.origin = Some(origin)
            }),
            ..Key::LIVE
        },
        Key {
            name: "weight",
            brief: "Share of the calls, relative to the other endpoints of the same priority",
            long: "An endpoint of weight 0 gets no calls.",
            default: DefaultValue::Literal("1"),
            right: "weight = 3",
            wrong: "weight = -1",
            value: &Set(Count(0..=1000), |endpoint: &mut EndpointDraft, weight| endpoint.weight = weight),
            ..Key::LIVE
        },
        Key {
            name: "priority",
            brief: "Priority: 0 is used first, higher numbers for calls that lower ones cannot take",
            long: "If fewer than about 72 % of the endpoints of one priority can be used, the next one takes a share that grows with what is missing. Precedent: Envoy.",
            default: DefaultValue::Literal("0"),
            right: "priority = 0",
            wrong: "priority = \"backup\"",
            value: &Set(Count(0..=100), |endpoint: &mut EndpointDraft, priority| {
                endpoint.priority = priority
            }),
            ..Key::LIVE
        },
    ],
};

impl Field<UpstreamDraft> for EndpointList {
    fn set(&self, draft: &mut UpstreamDraft, directive: &Directive, cx: &mut Checker<'_>) {
        cx.each_item(directive, MOST, |item, cx| draft.endpoints.extend(one(item, cx)));
    }

    fn describe(&self) -> &dyn Describe {
        self
    }
}

fn one(item: &Directive, cx: &mut Checker<'_>) -> Option<EndpointDraft> {
    let mut endpoint = EndpointDraft {
        span: item.span,
        origin: None,
        weight: 1,
        priority: 0,
        weight_span: None,
        priority_span: None,
    };
    if matches!(item.value, Value::String(_)) && !is_table_like(item) {
        endpoint.origin = url_alone(item, cx);
        return Some(endpoint);
    }
    let table = cx.table(item)?;
    ENDPOINT.read(&mut endpoint, &table, cx);
    endpoint.weight_span = table.entry("weight").map(|entry| entry.value.span);
    endpoint.priority_span = table.entry("priority").map(|entry| entry.value.span);
    if table.entry("url").is_none() {
        cx.missing(item.span, "url = \"https://search.internal:9243\"").report(cx);
    }
    Some(endpoint)
}

/// A string is the `url` of an endpoint with defaults.
fn url_alone(item: &Directive, cx: &mut Checker<'_>) -> Option<Origin> {
    let key = ENDPOINT.key("url")?;
    cx.enter(key.name, key.name, key.value.describe(), key.right);
    let origin = OriginUrl.read(item, cx);
    cx.leave();
    origin.map(|(origin, _)| origin)
}

impl Describe for EndpointList {
    fn description(&self) -> Description {
        let one = Json::any(vec![OriginUrl.schema(), ENDPOINT.schema()]);
        Description::new(
            "a list of URLs, or of tables { url, weight, priority }",
            "list of URLs or tables",
            Json::object([("type", Json::text("array")), ("items", one)]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        ENDPOINT.infos(path)
    }
}
