//! What of a request counts: `"header:Name"`, `"cookie:Name"`.

use super::fault::Fault;
use super::parsed::Parsed;
use crate::model::{HashKey, RateKey};
use crate::nearest::suggestion;

/// `hash` of `balance`.
pub(crate) const HASH_KEY: Parsed<HashKey> = Parsed {
    expected: "\"header:NAME\" or \"cookie:NAME\"",
    type_name: "\"header:NAME\" or \"cookie:NAME\"",
    pattern: Some("^(header|cookie):.+$"),
    bare: None,
    read: |text| match part(text)? {
        Some(Part::Header(name)) => Ok(HashKey::Header(name)),
        Some(Part::Cookie(name)) => Ok(HashKey::Cookie(name)),
        None => Err(unknown(text, &["header:", "cookie:"])),
    },
};

/// `key` of a rate limit.
pub(crate) const RATE_KEY: Parsed<RateKey> = Parsed {
    expected: "\"client\", \"header:NAME\", \"cookie:NAME\" or \"all\"",
    type_name: "\"client\", \"header:NAME\", \"cookie:NAME\" or \"all\"",
    pattern: Some("^(client|all|(header|cookie):.+)$"),
    bare: None,
    read: |text| match (text, part(text)?) {
        ("client", _) => Ok(RateKey::Client),
        ("all", _) => Ok(RateKey::All),
        (_, Some(Part::Header(name))) => Ok(RateKey::Header(name)),
        (_, Some(Part::Cookie(name))) => Ok(RateKey::Cookie(name)),
        (_, None) => Err(unknown(text, &["client", "all", "header:", "cookie:"])),
    },
};

enum Part {
    Header(String),
    Cookie(String),
}

/// `None`: it begins with neither word.
fn part(text: &str) -> Result<Option<Part>, Fault> {
    let Some((what, name)) = text.split_once(':') else { return Ok(None) };
    // RFC 9110 §5.6.2 and RFC 6265 §4.1.1: both names are tokens.
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let holds = !name.is_empty() && name.bytes().all(is_token);
    match what {
        "header" if holds => Ok(Some(Part::Header(name.to_ascii_lowercase()))),
        "cookie" if holds => Ok(Some(Part::Cookie(name.to_owned()))),
        "header" => Err(Fault::new(format!("is `{text}`: no header name follows `header:`"))),
        "cookie" => Err(Fault::new(format!("is `{text}`: no cookie name follows `cookie:`"))),
        _ => Ok(None),
    }
}

fn unknown(text: &str, words: &[&str]) -> Fault {
    let fault = Fault::new(format!("is `{text}`"));
    let begin = text.split_inclusive(':').next().unwrap_or(text);
    let is_header = text.starts_with(|c: char| c.is_ascii_uppercase());
    let header = is_header.then(|| format!("write \"header:{text}\" for the header of that name"));
    fault.maybe_help(suggestion(begin, words.iter().copied()).or(header))
}
