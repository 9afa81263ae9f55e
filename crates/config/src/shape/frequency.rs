//! `rate`: a number of requests per unit of time.

use std::time::Duration;

use super::parsed_string::ParsedString;
use super::value_error::ValueError;

/// `"100/s"`: a number of requests, and a unit of time.
pub(crate) const FREQUENCY: ParsedString<(u32, Duration)> = ParsedString {
    expected: "requests per second, minute or hour, such as \"100/s\", \"6000/m\" or \"10/h\"",
    type_name: "requests per time",
    pattern: Some("^[0-9_]+/(s|m|h)$"),
    bare: Some(|number| format!("{number}/s")),
    read: frequency,
};

const PERIODS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

fn frequency(text: &str) -> Result<(u32, Duration), ValueError> {
    let (number, unit) = text.split_once('/').unwrap_or((text, ""));
    let count = number.replace('_', "").parse::<u32>().ok();
    let Some(count) = count.filter(|_| number.bytes().all(|b| b.is_ascii_digit() || b == b'_')) else {
        return Err(ValueError::new(format!("is `{text}`, which does not begin with a number of requests")));
    };
    if unit.is_empty() {
        let error = ValueError::new(format!("is `{text}`, which has no unit of time"));
        return Err(error.help(format!("write \"{count}/s\", \"{count}/m\" or \"{count}/h\"")));
    }
    let Some((_, seconds)) = PERIODS.iter().find(|(known, _)| *known == unit) else {
        let error = ValueError::new(format!("is `{text}`, with the unknown unit `{unit}`"));
        return Err(match meant(unit) {
            Some(unit) => error.help(format!("write \"{count}/{unit}\"")),
            None => error,
        });
    };
    // The limiter counts in microseconds.
    match count {
        0 => Err(ValueError::new(format!("is `{text}`, which allows no requests"))
            .help("to reject every request, use a route with `respond = 403`")),
        1_000_001.. => Err(ValueError::new(format!("is `{text}`: the maximum is 1000000 requests"))),
        count => Ok((count, Duration::from_secs(*seconds))),
    }
}

fn meant(unit: &str) -> Option<&'static str> {
    match unit.trim().to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" | "1s" => Some("s"),
        "m" | "min" | "mins" | "minute" | "minutes" | "1m" => Some("m"),
        "h" | "hr" | "hour" | "hours" | "1h" => Some("h"),
        _ => None,
    }
}
