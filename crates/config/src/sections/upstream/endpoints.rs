use super::{EndpointDraft, UpstreamDraft};
use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Field, Info, Key, Preset, Reload, Section, Set, Shape};
use crate::raw::{Directive, Value};
use crate::shape::{Count, Origin, OriginUrl, looks_like_a_table};

/// `endpoints`: URLs, or tables of URL, weight and priority.
pub(super) struct Endpoints;

/// Far more than anybody lists by hand.
const MOST: usize = 4096;

static ENDPOINT: Section<EndpointDraft> = Section {
    keys: &[
        Key {
            name: "url",
            brief: "URL of the endpoint",
            long: "Same format as `url` of the upstream. Either all endpoints use TLS, or none does.",
            default: Preset::Required,
            right: "url = \"https://search.internal:9243\"",
            wrong: "url = \"search.internal:9243\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(OriginUrl, |endpoint: &mut EndpointDraft, origin: Origin| {
                endpoint.origin = Some(origin)
            }),
        },
        Key {
            name: "weight",
            brief: "Share of the calls, relative to the other endpoints of the same priority",
            long: "An endpoint of weight 0 gets no calls.",
            default: Preset::Value("1"),
            right: "weight = 3",
            wrong: "weight = -1",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Count { min: 0, max: 1000 }, |endpoint: &mut EndpointDraft, weight| {
                endpoint.weight = weight
            }),
        },
        Key {
            name: "priority",
            brief: "Priority: 0 is used first, higher numbers for calls that lower ones cannot take",
            long: "If fewer than about 72 % of the endpoints of one priority can be used, the next one takes a share that grows with what is missing. Precedent: Envoy.",
            default: Preset::Value("0"),
            right: "priority = 0",
            wrong: "priority = \"backup\"",
            reload: Reload::Live,
            since: "0.3.0",
            value: &Set(Count { min: 0, max: 100 }, |endpoint: &mut EndpointDraft, priority| {
                endpoint.priority = priority
            }),
        },
    ],
};

impl Field<UpstreamDraft> for Endpoints {
    fn set(&self, draft: &mut UpstreamDraft, directive: &Directive, cx: &mut Checker<'_>) {
        let items = cx.items(directive);
        if items.is_empty() || items.len() > MOST {
            let what = if items.is_empty() { "is an empty list" } else { "is too long" };
            let problem = cx.wrong(directive.span, what);
            cx.push(problem);
            return;
        }
        for (index, item) in items.iter().enumerate() {
            cx.enter_item(index + 1);
            if let Some(endpoint) = one(item, cx) {
                draft.endpoints.push(endpoint);
            }
            cx.leave();
        }
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
    if matches!(item.value, Value::Text(_)) && !looks_like_a_table(item) {
        endpoint.origin = url_alone(item, cx);
        return Some(endpoint);
    }
    let table = cx.table(item)?;
    ENDPOINT.read(&mut endpoint, &table, cx);
    endpoint.weight_span = table.entry("weight").map(|entry| entry.value.span);
    endpoint.priority_span = table.entry("priority").map(|entry| entry.value.span);
    if table.entry("url").is_none() {
        let problem = cx
            .problem(item.span, format!("`{}` has no `url`", cx.name()))
            .expected("`url`, for example url = \"https://search.internal:9243\"");
        cx.push(problem);
    }
    Some(endpoint)
}

/// A string is the `url` of a table with nothing else.
fn url_alone(item: &Directive, cx: &mut Checker<'_>) -> Option<Origin> {
    let key = ENDPOINT.keys.iter().find(|key| key.name == "url")?;
    cx.enter(key.name, key.name, key.value.describe(), key.right);
    let origin = OriginUrl.read(item, cx);
    cx.leave();
    origin
}

impl Describe for Endpoints {
    fn expected(&self) -> String {
        "a list of URLs, or of tables { url, weight, priority }".to_owned()
    }

    fn type_name(&self) -> String {
        "list of URLs or tables".to_owned()
    }

    fn schema(&self) -> Json {
        let one = Json::any(vec![OriginUrl.schema(), ENDPOINT.schema()]);
        Json::object([("type", Json::text("array")), ("items", one)])
    }

    fn children(&self, path: &str) -> Vec<Info> {
        ENDPOINT.infos(path)
    }
}
