//! `Max-Forwards` of an `OPTIONS` (RFC 9110 §7.6.2): how many may still pass it on. With other methods the field is as any other.

use http::Method;
use keepwarm_http1::RequestHead;
use keepwarm_net::Exchange;

/// What a door and a proxy serve, for `Allow`.
pub(crate) const ALLOW: (&str, &[u8]) = ("Allow", b"GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH");
pub(super) const NAME: &[u8] = b"max-forwards";

/// What it says; `None`: nothing that counts.
pub(super) fn received(head: &RequestHead) -> Option<u64> {
    if head.method != Method::OPTIONS {
        return None;
    }
    let digits = head.fields.first("max-forwards")?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    // One that is too large for us may be lowered to what is not.
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).map(|number| number.unwrap_or(u64::MAX))
}

/// Answers an `OPTIONS` that is for us.
pub(crate) fn answer_as_last(exchange: &mut Exchange<'_>) {
    let (name, value) = ALLOW;
    match exchange.head(200, Some(0), false, std::iter::once((name.as_bytes(), value))) {
        Ok(_) => exchange.end(),
        Err(_) => exchange.abort("bad_field_in_answer"),
    }
}
