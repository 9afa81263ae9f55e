//! Numbers with a unit: times, sizes, rates.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::{Directive, Value};

/// A time within bounds, as `"30s"`.
pub(crate) struct Time(pub(crate) RangeInclusive<Duration>);

/// A size in bytes within bounds, as `"8KiB"` or a plain number of bytes.
pub(crate) struct Size(pub(crate) RangeInclusive<u64>);

/// Bytes per second within bounds, as `"500B"` or `"500B/s"`.
pub(crate) struct Rate(pub(crate) RangeInclusive<u64>);

const TIME_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Other spellings of a unit, the unit, and a factor.
type Alias = (&'static [&'static str], &'static str, u64);

const TIME_ALIASES: [Alias; 6] = [
    (&["msec", "msecs", "millis", "milliseconds", "MS"], "ms", 1),
    (&["S", "sec", "secs", "second", "seconds"], "s", 1),
    (&["M", "min", "mins", "minute", "minutes"], "m", 1),
    (&["H", "hr", "hrs", "hour", "hours"], "h", 1),
    (&["d", "D", "day", "days"], "h", 24),
    (&["w", "W", "week", "weeks"], "h", 7 * 24),
];
const SIZE_ALIASES: [Alias; 5] = [
    (&["b", "byte", "bytes"], "B", 1),
    (&["k", "K", "kb", "kB", "KB", "kib", "Ki", "kiB"], "KiB", 1),
    (&["m", "M", "mb", "MB", "mib", "Mi"], "MiB", 1),
    (&["g", "G", "gb", "GB", "gib", "Gi"], "GiB", 1),
    (&["t", "T", "tb", "TB", "tib", "TiB", "Ti"], "GiB", 1024),
];

impl Describe for Time {
    fn description(&self) -> Description {
        let (min, max) = (show_time(*self.0.start()), show_time(*self.0.end()));
        Description::new(
            format!("a time from {min} to {max} with a unit (ms, s, m, h)"),
            "time",
            Json::pattern("^[0-9_]+(ms|s|m|h)$"),
        )
    }
}

impl Shape for Time {
    type Out = Duration;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Duration> {
        if let Value::Integer(number) = directive.value {
            return cx.wrong(directive.span, "has no unit").help(format!("write \"{number}s\"")).reject(cx);
        }
        let millis = measured(directive, cx, &TIME_UNITS, &TIME_ALIASES, "")?;
        bounded(Duration::from_millis(millis), &self.0, directive, cx)
    }
}

impl Describe for Size {
    fn description(&self) -> Description {
        let (min, max) = (show_size(*self.0.start()), show_size(*self.0.end()));
        let bytes = Json::object([("type", Json::text("integer")), ("minimum", Json::Number(0))]);
        Description::new(
            format!("a size from {min} to {max} with a unit (B, KiB, MiB, GiB), or a number of bytes"),
            "size",
            Json::any(vec![Json::pattern("^[0-9_]+(B|KiB|MiB|GiB)$"), bytes]),
        )
    }
}

impl Shape for Size {
    type Out = u64;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u64> {
        let bytes = bytes(directive, cx, "")?;
        bounded(bytes, &self.0, directive, cx)
    }
}

impl Describe for Rate {
    fn description(&self) -> Description {
        let (min, max) = (show_size(*self.0.start()), show_size(*self.0.end()));
        let bytes = Json::object([("type", Json::text("integer")), ("minimum", Json::Number(0))]);
        Description::new(
            format!("bytes per second from {min}/s to {max}/s (B, KiB, MiB, GiB), or a number of bytes"),
            "bytes per second",
            Json::any(vec![Json::pattern("^[0-9_]+(B|KiB|MiB|GiB)(/s)?$"), bytes]),
        )
    }
}

impl Shape for Rate {
    type Out = u64;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u64> {
        let bytes = bytes(directive, cx, "/s")?;
        bounded(bytes, &self.0, directive, cx)
    }
}

fn bytes(directive: &Directive, cx: &mut Checker<'_>, suffix: &str) -> Option<u64> {
    if let Value::Integer(number) = directive.value {
        if number < 0 {
            return cx.wrong(directive.span, "is too small").reject(cx);
        }
        // A number above 64 bits is above every maximum.
        return Some(u64::try_from(number).unwrap_or(u64::MAX));
    }
    measured(directive, cx, &SIZE_UNITS, &SIZE_ALIASES, suffix)
}

/// The value, unless it is out of bounds.
pub(super) fn bounded<V: PartialOrd>(
    value: V,
    bounds: &RangeInclusive<V>,
    directive: &Directive,
    cx: &mut Checker<'_>,
) -> Option<V> {
    match value {
        value if value < *bounds.start() => cx.wrong(directive.span, "is too small").reject(cx),
        value if value > *bounds.end() => cx.wrong(directive.span, "is too large").reject(cx),
        value => Some(value),
    }
}

/// Number and unit of a string, in the smallest unit.
fn measured(
    directive: &Directive,
    cx: &mut Checker<'_>,
    units: &[(&str, u64)],
    aliases: &[Alias],
    suffix: &str,
) -> Option<u64> {
    let text = cx.text(directive)?;
    let (number, unit) = split(text.text.trim_matches('"'));
    let unit = unit.strip_suffix(suffix).unwrap_or(unit);
    let known = units.iter().find(|(known, _)| *known == unit);
    let count = number.replace('_', "").parse::<u64>();
    if let (Ok(count), Some((_, factor))) = (&count, known) {
        return Some(count.saturating_mul(*factor));
    }
    // A plain number in a variable is a number of bytes, as in the file; a time always needs a unit.
    let bytes_alone = text.untyped && unit.is_empty() && units.contains(&("B", 1));
    if let (Ok(count), true) = (&count, bytes_alone) {
        return Some(*count);
    }
    let quoted = cx.quote(text);
    let what = match (number.is_empty(), unit.is_empty(), known.is_some()) {
        _ if text.secret => "has an invalid value".to_owned(),
        (true, ..) => format!("is {quoted}, which does not begin with a number"),
        (_, true, _) => "has no unit".to_owned(),
        (_, _, true) => format!("is {quoted}, which is too large"),
        _ if unit != unit.trim() => format!("is {quoted}, with a space between number and unit"),
        _ => format!("is {quoted}, with the unknown unit `{unit}`"),
    };
    let fix = fix(number, unit, units, aliases).filter(|_| !text.secret);
    cx.wrong(directive.span, &what).maybe_help(fix.map(|fix| format!("write \"{fix}\""))).reject(cx)
}

/// A corrected value, if the mistake is known.
fn fix(number: &str, unit: &str, units: &[(&str, u64)], aliases: &[Alias]) -> Option<String> {
    let trimmed = unit.trim();
    let same = units.iter().find(|(known, _)| *known == trimmed).map(|(known, _)| (*known, 1));
    let alias =
        aliases.iter().find(|(theirs, ..)| theirs.contains(&trimmed)).map(|(_, unit, by)| (*unit, *by));
    // A plain number: seconds, or KiB.
    let bare = units.get(2).filter(|_| unit.is_empty()).map(|(unit, _)| (*unit, 1));
    let (unit, by) = same.or(alias).or(bare)?;
    let count = number.replace('_', "").parse::<u64>().ok()?.checked_mul(by)?;
    Some(format!("{count}{unit}"))
}

fn split(text: &str) -> (&str, &str) {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    text.split_at_checked(digits).unwrap_or((text, ""))
}

/// A time in the largest unit that holds it exactly.
pub(crate) fn show_time(time: Duration) -> String {
    show(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), &TIME_UNITS, "s")
}

/// A size in the largest unit that holds it exactly.
fn show_size(bytes: u64) -> String {
    show(bytes, &SIZE_UNITS, "B")
}

fn show(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    let exact = units.iter().find(|(_, factor)| value != 0 && value.is_multiple_of(*factor));
    exact.map_or_else(|| format!("{value}{zero}"), |(unit, factor)| format!("{}{unit}", value / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_in_the_largest_exact_unit() {
        let cases = [(0, "0s"), (1, "1ms"), (1500, "1500ms"), (90_000, "90s"), (3_600_000, "1h")];
        for (millis, text) in cases {
            assert_eq!(show_time(Duration::from_millis(millis)), text);
        }
        assert_eq!(show_size(10 << 20), "10MiB");
        assert_eq!(show_size(500), "500B");
    }
}
