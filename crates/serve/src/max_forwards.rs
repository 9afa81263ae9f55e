//! `Max-Forwards` of an `OPTIONS` (RFC 9110 §7.6.2): how many hops may still forward it. With other methods the field has no special meaning.

use http::Method;
use keepwarm_http1::RequestHead;

use crate::Exchange;

/// The methods that a forwarding hop supports, for `Allow`.
pub const ALLOW: (&str, &[u8]) = ("Allow", b"GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH");
/// The field.
pub const MAX_FORWARDS: &[u8] = b"max-forwards";

/// Its value; `None`: none that counts. 0: [`respond_as_final_recipient`].
pub fn max_forwards(head: &RequestHead) -> Option<u64> {
    if head.method != Method::OPTIONS {
        return None;
    }
    let digits = head.fields.first("max-forwards")?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    // A value too large for us may be lowered to one that fits.
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).map(|number| number.unwrap_or(u64::MAX))
}

/// Its value in the forwarded request.
pub fn forwards_left(head: &RequestHead) -> Option<String> {
    max_forwards(head).map(|left| left.saturating_sub(1).to_string())
}

/// Responds to an `OPTIONS` that is for us.
pub fn respond_as_final_recipient(exchange: &mut Exchange<'_>) {
    let (name, value) = ALLOW;
    match exchange.head(200, Some(0), false, std::iter::once((name.as_bytes(), value))) {
        Ok(_) => exchange.end(),
        Err(_) => exchange.abort("bad_field_in_response"),
    }
}
