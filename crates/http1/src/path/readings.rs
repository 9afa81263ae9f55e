//! What else a path may mean to an application.
//!
//! A path in normal form has `%2F`, `;` and `//` as they were (RFC 3986 gives them no meaning of their own), and that is what is forwarded. Applications
//! and servers further on read more into it: nearly all decode `%2F`; some end a segment at `;` (`/admin;x/`, `/..;/`); some take `\` for `/`; some
//! merge `//`. Where that leads to another route than the path itself, a route that guards a path could be passed by.

use super::remove_dot_segments;

/// Whether a path in normal form can be read differently.
pub(super) fn has_several(path: &[u8]) -> bool {
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        let several = match byte {
            b'/' => tail.first() == Some(&b'/'),
            b'%' => matches!(tail, [b'2', b'F', ..] | [b'3', b'B', ..] | [b'5', b'C', ..]),
            b';' | b'\\' => true,
            _ => false,
        };
        if several {
            return true;
        }
        rest = tail;
    }
    false
}

/// The other ways to read a path in normal form, each in normal form again: separators decoded or not, parameters of segments kept or not, `\` taken for
/// `/` or not, empty segments kept or not, in all combinations. None for nearly every path.
///
/// Decoded once: an application that decodes twice changes the meaning of every URL.
#[must_use]
pub fn path_readings(path: &[u8]) -> Vec<Vec<u8>> {
    let mut readings: Vec<Vec<u8>> = Vec::new();
    if !has_several(path) {
        return readings;
    }
    for combination in 1..16_u8 {
        let is_on = |bit: u8| combination & bit != 0;
        let mut reading = if is_on(1) { with_separators_decoded(path) } else { path.to_vec() };
        if is_on(2) {
            reading.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        }
        if is_on(4) {
            without_parameters(&mut reading);
        }
        if is_on(8) {
            reading.dedup_by(|next, before| *next == b'/' && *before == b'/');
        }
        remove_dot_segments(&mut reading);
        if reading != path && !readings.contains(&reading) {
            readings.push(reading);
        }
    }
    readings
}

fn with_separators_decoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        let (byte, after) = match rest {
            [b'%', b'2', b'F', after @ ..] => (b'/', after),
            [b'%', b'3', b'B', after @ ..] => (b';', after),
            [b'%', b'5', b'C', after @ ..] => (b'\\', after),
            _ => (*byte, tail),
        };
        out.push(byte);
        rest = after;
    }
    out
}

/// Each segment up to its `;`.
fn without_parameters(path: &mut Vec<u8>) {
    let mut in_parameters = false;
    path.retain(|&byte| {
        in_parameters = match byte {
            b'/' => false,
            b';' => true,
            _ => in_parameters,
        };
        !in_parameters
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(path: &str) -> Vec<String> {
        path_readings(path.as_bytes())
            .into_iter()
            .map(|reading| String::from_utf8(reading).unwrap())
            .collect()
    }

    #[test]
    fn a_usual_path_has_one_meaning() {
        for path in ["/", "/a/b.c", "/a%20b", "/%C3%A9", "/a%25", "/a+b:c@d", "/%2E", "*", ""] {
            assert!(readings(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn separators_are_read_in_every_way() {
        let cases: [(&str, &[&str]); 9] = [
            ("/a%2Fb", &["/a/b"]),
            ("/public/..%2Fadmin", &["/admin"]),
            ("/public%2F..%2Fadmin/x", &["/admin/x"]),
            ("/admin;x/y", &["/admin/y"]),
            ("/public/..;/admin", &["/admin"]),
            ("/public/..%3B/admin", &["/public/..;/admin", "/admin"]),
            ("//admin", &["/admin"]),
            ("/a%5C..%5Cadmin", &["/a\\..\\admin", "/admin"]),
            // An application may do one of the two and not the other.
            ("/a;x%2Fb", &["/a;x/b", "/a", "/a/b"]),
        ];
        for (path, expected) in cases {
            assert_eq!(readings(path), expected, "{path}");
        }
    }

    /// Not more work than in proportion to the path, however it is made.
    #[test]
    fn a_long_path_has_few_readings() {
        let path = "/%2F..;%5C".repeat(800);
        assert!(readings(&path).len() < 16);
    }
}
