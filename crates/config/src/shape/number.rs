use std::ops::RangeInclusive;

use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::{Directive, Value};

/// `true` or `false`.
pub(crate) struct Flag;

impl Describe for Flag {
    fn description(&self) -> Description {
        Description::new("true or false", "true or false", Json::of_type("boolean"))
    }
}

impl Shape for Flag {
    type Out = bool;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<bool> {
        match cx.typed(directive).value {
            Value::Boolean(flag) => Some(flag),
            _ => cx.wrong_type(directive),
        }
    }
}

/// A whole number within bounds.
pub(crate) struct Count(pub(crate) RangeInclusive<u32>);

impl Describe for Count {
    fn description(&self) -> Description {
        let (min, max) = (*self.0.start(), *self.0.end());
        Description::new(
            format!("a whole number from {min} to {max}"),
            "whole number",
            Json::object([
                ("type", Json::text("integer")),
                ("minimum", Json::Number(min.into())),
                ("maximum", Json::Number(max.into())),
            ]),
        )
    }
}

impl Shape for Count {
    type Out = u32;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u32> {
        let Value::Integer(number) = cx.typed(directive).value else {
            return match &directive.value {
                Value::String(text) if !text.untyped && text.text.parse::<u32>().is_ok() => cx
                    .wrong(directive.span, "is a string")
                    .help(format!("write it without quotes: {}", text.text))
                    .reject(cx),
                _ => cx.wrong_type(directive),
            };
        };
        match u32::try_from(number).ok().filter(|value| self.0.contains(value)) {
            Some(value) => Some(value),
            None if number < i128::from(*self.0.start()) => {
                cx.wrong(directive.span, "is too small").reject(cx)
            }
            None => cx.wrong(directive.span, "is too large").reject(cx),
        }
    }
}

/// A word that means `None`, or the value of another shape.
pub(crate) struct WordOr<S>(pub(crate) &'static str, pub(crate) S);

impl<S: Describe> Describe for WordOr<S> {
    fn description(&self) -> Description {
        Description::new(
            format!("{}, or \"{}\"", self.1.expected(), self.0),
            format!("{} or \"{}\"", self.1.type_name(), self.0),
            Json::any(vec![self.1.schema(), Json::words([self.0])]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        self.1.children(path)
    }
}

impl<S: Shape> Shape for WordOr<S> {
    type Out = Option<S::Out>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Option<S::Out>> {
        match &directive.value {
            Value::String(text) if text.text == self.0 => Some(None),
            _ => self.1.read(directive, cx).map(Some),
        }
    }
}
