//! `status`: the statuses of a healthy endpoint.

use super::Count;
use super::list::{EmptyList, ListOf};
use super::value_error::{ValueError, value_or_report};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::StatusRange;
use crate::raw::{Directive, Value};

/// `status` of a health check.
pub(crate) const STATUSES: ListOf<StatusOrRange> = ListOf {
    one: StatusOrRange,
    expected: "a status such as 200, a range such as \"200-399\", or a list of them, from 200 to 599",
    type_name: "status, range or list",
    empty: EmptyList::Rejected(None),
};

/// A status, or a range of statuses.
pub(crate) struct StatusOrRange;

impl Describe for StatusOrRange {
    fn description(&self) -> Description {
        let range = Json::pattern("^[2-5][0-9]{2}(-[2-5][0-9]{2})?$");
        Description::new("a status or a range", "status", Json::any(vec![Count(200..=599).schema(), range]))
    }
}

impl Shape for StatusOrRange {
    type Out = StatusRange;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<StatusRange> {
        if let Value::Integer(number) = directive.value {
            return match u16::try_from(number).ok().filter(|status| (200..=599).contains(status)) {
                Some(status) => Some(StatusRange { first: status, last: status }),
                None => cx
                    .wrong(directive.span, "contains a number that is not the status of a final response")
                    .reject(cx),
            };
        }
        let text = cx.text(directive)?;
        value_or_report(range(&text.text), text, directive, cx)
    }
}

fn range(text: &str) -> Result<StatusRange, ValueError> {
    let status = |text: &str| text.parse::<u16>().ok().filter(|status| (200..=599).contains(status));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (status(first), status(last)) {
        (Some(first), Some(last)) if first <= last => Ok(StatusRange { first, last }),
        (Some(first), Some(last)) => {
            Err(ValueError::new(format!("is `{text}`, whose end is below its start"))
                .help(format!("write \"{last}-{first}\"")))
        }
        _ => Err(ValueError::new(format!("is `{text}`"))),
    }
}
