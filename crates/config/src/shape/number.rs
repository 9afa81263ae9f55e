use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Info, Shape};
use crate::raw::{Directive, Value};

/// `true` or `false`.
pub(crate) struct Flag;

impl Describe for Flag {
    fn expected(&self) -> String {
        "true or false".to_owned()
    }

    fn type_name(&self) -> String {
        "true or false".to_owned()
    }

    fn schema(&self) -> Json {
        Json::of_type("boolean")
    }
}

impl Shape for Flag {
    type Out = bool;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<bool> {
        match loosened(directive, cx).value {
            Value::Flag(flag) => Some(flag),
            _ => {
                cx.wrong_type(directive);
                None
            }
        }
    }
}

/// A whole number within bounds.
pub(crate) struct Count {
    pub(crate) min: u32,
    pub(crate) max: u32,
}

impl Describe for Count {
    fn expected(&self) -> String {
        format!("a whole number from {} to {}", self.min, self.max)
    }

    fn type_name(&self) -> String {
        "whole number".to_owned()
    }

    fn schema(&self) -> Json {
        Json::object([
            ("type", Json::text("integer")),
            ("minimum", Json::Number(self.min.into())),
            ("maximum", Json::Number(self.max.into())),
        ])
    }
}

impl Shape for Count {
    type Out = u32;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u32> {
        let Value::Integer(number) = loosened(directive, cx).value else {
            let mut problem = cx.wrong(directive.span, &format!("is {}", directive.type_name()));
            if let Value::Text(text) = &directive.value
                && !text.loose
                && text.text.parse::<u32>().is_ok()
            {
                problem = problem.help(format!("write it without quotes: {}", text.text));
            }
            if !matches!(directive.value, Value::Broken) {
                cx.push(problem);
            }
            return None;
        };
        let value = u32::try_from(number).ok().filter(|value| (self.min..=self.max).contains(value));
        if value.is_none() {
            let how = if number < i128::from(self.min) { "too small" } else { "too large" };
            let problem = cx.wrong(directive.span, &format!("is {how}"));
            cx.push(problem);
        }
        value
    }
}

/// The inner shape, or a word that stands for "none".
pub(crate) struct OrWord<S> {
    pub(crate) word: &'static str,
    pub(crate) shape: S,
}

impl<S: Describe> Describe for OrWord<S> {
    fn expected(&self) -> String {
        format!("{}, or \"{}\"", self.shape.expected(), self.word)
    }

    fn type_name(&self) -> String {
        format!("{} or \"{}\"", self.shape.type_name(), self.word)
    }

    fn schema(&self) -> Json {
        Json::any(vec![self.shape.schema(), Json::words([self.word])])
    }

    fn children(&self, path: &str) -> Vec<Info> {
        self.shape.children(path)
    }
}

impl<S: Shape> Shape for OrWord<S> {
    type Out = Option<S::Out>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Option<S::Out>> {
        match &directive.value {
            Value::Text(text) if text.text == self.word => Some(None),
            _ => self.shape.read(directive, cx).map(Some),
        }
    }
}

/// A directive from outside of the file as the number or flag it looks like.
fn loosened(directive: &Directive, cx: &Checker<'_>) -> Directive {
    match &directive.value {
        Value::Text(text) => cx.reread(directive, text),
        _ => directive.clone(),
    }
}
