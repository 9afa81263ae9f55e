//! Percentages, percentiles, decimals. Stored as whole numbers, so that values can be compared.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Time;
use super::quantity::bounded;
use super::value_error::{ValueError, value_or_report};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::HedgeDelay;
use crate::raw::{Directive, Value};

/// A whole percentage within bounds, as `"20%"`.
pub(crate) struct Percent(pub(crate) RangeInclusive<u32>);

impl Describe for Percent {
    fn description(&self) -> Description {
        Description::new(
            format!("a percentage from \"{}%\" to \"{}%\"", self.0.start(), self.0.end()),
            "percentage",
            Json::pattern("^[0-9]+%$"),
        )
    }
}

impl Shape for Percent {
    type Out = u32;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u32> {
        let help = |written: &str| {
            let meant = as_percent(written).filter(|value| self.0.contains(value));
            meant.map(|meant| format!("write \"{meant}%\""))
        };
        if let Value::Integer(_) | Value::Float = directive.value {
            let help = help(cx.source_map.slice(directive.span));
            return cx.wrong(directive.span, "is not a percentage").maybe_help(help).reject(cx);
        }
        let text = cx.text(directive)?;
        let digits = text.text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        match digits.and_then(|digits| digits.parse::<u32>().ok()) {
            Some(value) => bounded(value, &self.0, directive, cx),
            None => {
                let quoted = cx.quote(text);
                cx.wrong(directive.span, &format!("is {quoted}"))
                    .maybe_help(help(&text.text).filter(|_| !text.secret))
                    .reject(cx)
            }
        }
    }
}

/// A number without a percent sign as a percentage: `0.2` and `20` both mean 20 %.
fn as_percent(text: &str) -> Option<u32> {
    let value = thousandths(text)?;
    match text.contains('.') {
        true => value.is_multiple_of(10).then_some(value / 10),
        false => Some(value / 1000),
    }
}

/// A number with up to three decimal places within bounds, in thousandths.
pub(crate) struct Decimal(pub(crate) RangeInclusive<u32>);

impl Describe for Decimal {
    fn description(&self) -> Description {
        let (min, max) = (shown(*self.0.start()), shown(*self.0.end()));
        Description::new(
            format!("a number from {min} to {max}, with up to three decimal places"),
            "number",
            Json::of_type("number"),
        )
    }
}

impl Shape for Decimal {
    type Out = u32;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u32> {
        let written = match &directive.value {
            Value::Integer(_) | Value::Float => cx.source_map.slice(directive.span).to_owned(),
            Value::String(text) if text.untyped => text.text.clone(),
            _ => return cx.wrong_type(directive),
        };
        match thousandths(&written) {
            Some(value) => bounded(value, &self.0, directive, cx),
            None => cx.wrong(directive.span, "is not such a number").reject(cx),
        }
    }
}

/// `1.9` as 1900; `None` for a number that is negative, has more than three decimal places, or is too large.
fn thousandths(text: &str) -> Option<u32> {
    let text = text.trim();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || decimals.len() > 3 || !digits(whole) || !digits(decimals) {
        return None;
    }
    let part = format!("{decimals:0<3}").parse::<u32>().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// Thousandths as a decimal number.
fn shown(thousandths: u32) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The delay of a hedge: a time, or a percentile as `"p95"`.
pub(crate) struct HedgeDelayShape;

pub(crate) const HEDGE_DELAY: HedgeDelayShape = HedgeDelayShape;

const DELAY: Time = Time(Duration::from_millis(1)..=Duration::from_secs(3600));

impl Describe for HedgeDelayShape {
    fn description(&self) -> Description {
        Description::new(
            format!("a percentile from \"p50\" to \"p99.9\", or {}", DELAY.expected()),
            "percentile or time",
            Json::any(vec![Json::pattern("^p[0-9]{2}(\\.[0-9])?$"), DELAY.schema()]),
        )
    }
}

impl Shape for HedgeDelayShape {
    type Out = HedgeDelay;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<HedgeDelay> {
        match &directive.value {
            Value::String(text) if text.text.starts_with('p') => {
                value_or_report(percentile(&text.text), text, directive, cx).map(HedgeDelay::Permille)
            }
            Value::Integer(number) => {
                cx.wrong(directive.span, "has no unit").help(format!("write \"{number}ms\"")).reject(cx)
            }
            _ => DELAY.read(directive, cx).map(HedgeDelay::Fixed),
        }
    }
}

fn percentile(text: &str) -> Result<u32, ValueError> {
    let number = text.strip_prefix('p').and_then(thousandths).filter(|number| number.is_multiple_of(100));
    match number.map(|number| number / 100) {
        Some(permille @ 500..=999) => Ok(permille),
        _ => Err(ValueError::new(format!("is `{text}`, which is not such a percentile"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_held_exactly() {
        for (text, value) in [("1.9", Some(1900)), ("0.001", Some(1)), ("2", Some(2000)), ("-1", None)] {
            assert_eq!(thousandths(text), value, "{text}");
        }
        for wrong in ["", ".", "1.0001", "1e3", "nan", "5000000", "1_0"] {
            assert_eq!(thousandths(wrong), None, "{wrong}");
        }
        assert_eq!(shown(1900), "1.9");
        assert_eq!(shown(1000), "1");
        assert_eq!(percentile("p99.9").ok(), Some(999));
        assert_eq!(percentile("p50").ok(), Some(500));
        for wrong in ["p100", "p49", "95", "p99.95", "p"] {
            assert!(percentile(wrong).is_err(), "{wrong}");
        }
    }
}
