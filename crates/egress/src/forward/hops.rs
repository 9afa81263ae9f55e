//! Forwarding loops: an upstream that leads back here. `Via` shows how often a message has been here (RFC 9110 §7.6.3).

use keepwarm_http1::Fields;

use super::VIA;

/// Nobody builds a chain of this many proxies on purpose.
const MOST: usize = 16;

/// Whether Keepwarm instances have forwarded this request too often.
pub(super) fn is_in_a_circle(fields: &Fields) -> bool {
    // Nearly no request has one.
    fields.first("via").is_some() && fields.all("via").map(times_in).sum::<usize>() >= MOST
}

/// How often one line of `Via` names us: each member is a protocol, a name and perhaps a comment.
fn times_in(line: &[u8]) -> usize {
    line.split(|byte| *byte == b',').filter(|member| name(member) == name(VIA.1)).count()
}

fn name(member: &[u8]) -> Option<&[u8]> {
    member.trim_ascii().split(|byte| *byte == b' ').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_name_us_are_counted_over_all_lines() {
        assert_eq!(times_in(b"1.1 keepwarm, 2.0 other, 1.0 keepwarm (a comment)"), 2);
        assert_eq!(times_in(b"1.1 notkeepwarm, 1.1 keepwarm.example, keepwarm, ,"), 0);
        let mut fields = Fields::new();
        (1..MOST).for_each(|_| fields.push(b"via", b"1.1 keepwarm"));
        fields.push(b"via", b"1.1 another");
        assert!(!is_in_a_circle(&fields));
        fields.push(b"via", b"1.1 another, 1.1 keepwarm");
        assert!(is_in_a_circle(&fields));
    }
}
