//! Keys of a request: `"header:Name"`, `"cookie:Name"`.

use super::parsed_string::ParsedString;
use super::value_error::ValueError;
use crate::model::{HashKey, RateKey, SplitKey};
use crate::nearest::suggestion;

/// `hash` of `balance`.
pub(crate) const HASH_KEY: ParsedString<HashKey> = ParsedString {
    expected: "\"header:NAME\" or \"cookie:NAME\"",
    type_name: "\"header:NAME\" or \"cookie:NAME\"",
    pattern: Some("^(header|cookie):.+$"),
    bare: None,
    read: |text| match request_key(text)? {
        Some(RequestKey::Header(name)) => Ok(HashKey::Header(name)),
        Some(RequestKey::Cookie(name)) => Ok(HashKey::Cookie(name)),
        None => Err(unknown(text, &["header:", "cookie:"])),
    },
};

/// `key` of a rate limit.
pub(crate) const RATE_KEY: ParsedString<RateKey> = ParsedString {
    expected: "\"client\", \"header:NAME\", \"cookie:NAME\" or \"all\"",
    type_name: "\"client\", \"header:NAME\", \"cookie:NAME\" or \"all\"",
    pattern: Some("^(client|all|(header|cookie):.+)$"),
    bare: None,
    read: |text| match (text, request_key(text)?) {
        ("client", _) => Ok(RateKey::Client),
        ("all", _) => Ok(RateKey::All),
        (_, Some(RequestKey::Header(name))) => Ok(RateKey::Header(name)),
        (_, Some(RequestKey::Cookie(name))) => Ok(RateKey::Cookie(name)),
        (_, None) => Err(unknown(text, &["client", "all", "header:", "cookie:"])),
    },
};

/// `split_by` of a route.
pub(crate) const SPLIT_KEY: ParsedString<SplitKey> = ParsedString {
    expected: "\"client\", \"header:NAME\" or \"cookie:NAME\"",
    type_name: "\"client\", \"header:NAME\" or \"cookie:NAME\"",
    pattern: Some("^(client|(header|cookie):.+)$"),
    bare: None,
    read: |text| match (text, request_key(text)?) {
        ("client", _) => Ok(SplitKey::Client),
        (_, Some(RequestKey::Header(name))) => Ok(SplitKey::Header(name)),
        (_, Some(RequestKey::Cookie(name))) => Ok(SplitKey::Cookie(name)),
        (_, None) => Err(unknown(text, &["client", "header:", "cookie:"])),
    },
};

enum RequestKey {
    Header(String),
    Cookie(String),
}

/// `None`: it begins with neither word.
fn request_key(text: &str) -> Result<Option<RequestKey>, ValueError> {
    let Some((what, name)) = text.split_once(':') else { return Ok(None) };
    // RFC 9110 §5.6.2 and RFC 6265 §4.1.1: both names are tokens.
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let holds = !name.is_empty() && name.bytes().all(is_token);
    match what {
        "header" if holds => Ok(Some(RequestKey::Header(name.to_ascii_lowercase()))),
        "cookie" if holds => Ok(Some(RequestKey::Cookie(name.to_owned()))),
        "header" => Err(ValueError::new(format!("is `{text}`: no header name follows `header:`"))),
        "cookie" => Err(ValueError::new(format!("is `{text}`: no cookie name follows `cookie:`"))),
        _ => Ok(None),
    }
}

fn unknown(text: &str, words: &[&str]) -> ValueError {
    let error = ValueError::new(format!("is `{text}`"));
    let begin = text.split_inclusive(':').next().unwrap_or(text);
    let is_header = text.starts_with(|c: char| c.is_ascii_uppercase());
    let header = is_header.then(|| format!("write \"header:{text}\" for the header of that name"));
    error.maybe_help(suggestion(begin, words.iter().copied()).or(header))
}
