//! Lists of values.

use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::Directive;

/// One value, or a list of values.
pub(crate) struct ListOf<S> {
    pub(crate) one: S,
    pub(crate) expected: &'static str,
    pub(crate) type_name: &'static str,
    pub(crate) empty: EmptyList,
}

/// Whether a list may be empty.
pub(crate) enum EmptyList {
    Allowed,
    /// It is rejected, with this advice.
    Rejected(Option<&'static str>),
}

impl<S: Describe> Describe for ListOf<S> {
    fn description(&self) -> Description {
        Description::new(self.expected, self.type_name, Json::one_or_many(self.one.schema()))
    }
}

impl<S: Shape> Shape for ListOf<S> {
    type Out = Vec<S::Out>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<S::Out>> {
        if let EmptyList::Rejected(help) = self.empty
            && cx.items(directive).is_empty()
        {
            return cx.wrong(directive.span, "is an empty list").maybe_help(help).reject(cx);
        }
        cx.read_items(directive, |item, cx| self.one.read(item, cx))
    }
}
