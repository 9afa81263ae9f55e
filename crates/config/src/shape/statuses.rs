//! `status`: which statuses are good ones.

use super::fault::{Fault, settle};
use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Shape};
use crate::model::StatusRange;
use crate::raw::{Directive, Value};

/// Statuses and ranges of them; one, or a list.
pub(crate) struct Statuses;

impl Describe for Statuses {
    fn expected(&self) -> String {
        "a status such as 200, a range such as \"200-399\", or a list of them, from 200 to 599".to_owned()
    }

    fn type_name(&self) -> String {
        "status, range or list".to_owned()
    }

    fn schema(&self) -> Json {
        let status = Json::object([
            ("type", Json::text("integer")),
            ("minimum", Json::Number(200)),
            ("maximum", Json::Number(599)),
        ]);
        Json::one_or_many(Json::any(vec![status, Json::pattern("^[2-5][0-9]{2}(-[2-5][0-9]{2})?$")]))
    }
}

impl Shape for Statuses {
    type Out = Vec<StatusRange>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<StatusRange>> {
        let items = cx.items(directive);
        if items.is_empty() {
            let problem = cx.wrong(directive.span, "is an empty list");
            cx.push(problem);
            return None;
        }
        let read: Vec<Option<StatusRange>> = items.iter().map(|item| one(item, cx)).collect();
        read.into_iter().collect()
    }
}

fn one(item: &Directive, cx: &mut Checker<'_>) -> Option<StatusRange> {
    if let Value::Integer(number) = item.value {
        let status = u16::try_from(number).ok().filter(|status| (200..=599).contains(status));
        if status.is_none() {
            let problem = cx.wrong(item.span, "contains a number that is not the status of a final response");
            cx.push(problem);
        }
        return status.map(|status| StatusRange { first: status, last: status });
    }
    let text = cx.text(item)?;
    settle(range(&text.text), text, item, cx)
}

fn range(text: &str) -> Result<StatusRange, Fault> {
    let status = |text: &str| text.parse::<u16>().ok().filter(|status| (200..=599).contains(status));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (status(first), status(last)) {
        (Some(first), Some(last)) if first <= last => Ok(StatusRange { first, last }),
        (Some(first), Some(last)) => Err(Fault::new(format!("is `{text}`, whose end is below its start"))
            .help(format!("write \"{last}-{first}\""))),
        _ => Err(Fault::new(format!("is `{text}`"))),
    }
}
