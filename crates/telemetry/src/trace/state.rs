//! `tracestate` (W3C Trace Context §3.3): what tracing systems tell one another along a trace.

/// Members of the list (§3.3.1.1); a longer one may be dropped.
const MEMBERS: usize = 32;
/// Bytes that are passed on. At least 512 must be (§3.3.1.5); more than this number, which is arbitrary, no app expects.
const LONGEST: usize = 2048;

/// The value for the next hop: all lines in one (§3.3.1). None if there is nothing to pass on, or the list is not valid: then it is dropped as a whole, and the
/// trace is continued (§4.3).
#[must_use]
pub fn trace_state<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut keys: Vec<&[u8]> = Vec::new();
    for member in lines.flat_map(|line| line.split(|byte| *byte == b',')) {
        let member = trim(member);
        // Empty ones are allowed (§3.3.1.1).
        if member.is_empty() {
            continue;
        }
        let equals = member.iter().position(|byte| *byte == b'=')?;
        let (key, value) = member.split_at_checked(equals)?;
        if !is_key(key) || !is_value(value.get(1..)?) || keys.contains(&key) || keys.len() == MEMBERS {
            return None;
        }
        keys.push(key);
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(member);
        if out.len() > LONGEST {
            return None;
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Without the optional whitespace around a member.
fn trim(member: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let begin = member.iter().position(|byte| !is_blank(byte)).unwrap_or(member.len());
    let end = member.iter().rposition(|byte| !is_blank(byte)).map_or(begin, |last| last + 1);
    member.get(begin..end).unwrap_or_default()
}

/// §3.3.1.3.1 of level 2: it begins with a letter or a digit, and one `@` may stand in it, for systems with many tenants.
fn is_key(key: &[u8]) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_rest = |byte: &u8| is_first(byte) || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@');
    key.len() <= 256 && key.first().is_some_and(is_first) && key.iter().all(is_rest)
}

/// §3.3.1.3.2: printable ASCII without `,` and `=`, which does not end with a space.
fn is_value(value: &[u8]) -> bool {
    let is_valid = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b',' | b'=');
    (1..=256).contains(&value.len()) && value.iter().all(is_valid) && value.last() != Some(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(lines: &[&str]) -> Option<String> {
        let state = trace_state(lines.iter().map(|line| line.as_bytes()))?;
        Some(String::from_utf8(state).unwrap())
    }

    #[test]
    fn all_lines_are_one_list_in_their_order() {
        assert_eq!(passed(&["rojo=00f067aa0ba902b7"]).unwrap(), "rojo=00f067aa0ba902b7");
        assert_eq!(passed(&["a=1 , b=2", "", "\tc=3,,d=x y"]).unwrap(), "a=1,b=2,c=3,d=x y");
        assert_eq!(passed(&["0t@system=1,t*-_/x=!~"]).unwrap(), "0t@system=1,t*-_/x=!~");
        assert_eq!(passed(&[]), None);
        assert_eq!(passed(&["", " ,\t"]), None);
    }

    #[test]
    fn a_list_with_an_invalid_member_is_dropped_as_a_whole() {
        for member in ["a", "=1", "a=", "A=1", "a=b=c", "a b=1", "-a=1", "a=\u{7f}", "a=\u{e9}", "x=2"] {
            assert_eq!(passed(&[&format!("x=1,{member}")]), None, "{member}");
        }
    }

    #[test]
    fn a_list_has_limits() {
        let list = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(passed(&[&list(32)]), Some(list(32)));
        assert_eq!(passed(&[&list(33)]), None);
        let long = |key: usize, value: usize| format!("{}={}", "k".repeat(key), "v".repeat(value));
        assert_eq!(passed(&[&long(256, 256)]), Some(long(256, 256)));
        assert_eq!(passed(&[&long(257, 1)]), None);
        assert_eq!(passed(&[&long(1, 257)]), None);
        let wide = |count: usize| {
            (0..count).map(|n| format!("{n}={}", "v".repeat(250))).collect::<Vec<_>>().join(",")
        };
        assert_eq!(passed(&[&wide(8)]), Some(wide(8)));
        assert_eq!(passed(&[&wide(9)]), None);
    }
}
