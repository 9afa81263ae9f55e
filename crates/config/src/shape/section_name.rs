//! Names of other sections. Whether the section exists is checked when the whole file is read.

use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::{Directive, Span};

/// The NAME of an `[app.NAME]`, an `[upstream.NAME]` or a `[rate_limit.NAME]`, with its span.
pub(crate) struct SectionName(pub(crate) &'static str);

impl Describe for SectionName {
    fn description(&self) -> Description {
        let article = if self.0.starts_with(['a', 'u']) { "an" } else { "a" };
        Description::new(
            format!("the name of {article} [{}.NAME]", self.0),
            format!("name of `[{}.NAME]`", self.0),
            Json::of_type("string"),
        )
    }
}

impl Shape for SectionName {
    type Out = (String, Span);

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<(String, Span)> {
        let text = cx.text(directive)?;
        if text.text.is_empty() {
            return cx.wrong(directive.span, "is an empty string").reject(cx);
        }
        Some((text.text.clone(), directive.span))
    }
}
