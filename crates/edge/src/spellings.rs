//! Other readings of a path: what a server further on may take it for.
//!
//! Routes match the normalized path, in which `%2F` separates nothing, and `;` is a byte like any other. An app may decode the one (every
//! CGI-style environment does) and cut off the other (Java's servers do), and so see a path that belongs to another route.

/// Whether a normalized path has other readings at all.
pub(crate) fn has_other_readings(path: &[u8]) -> bool {
    memchr::memchr3(b'%', b';', b'\\', path).is_some() || memchr::memmem::find(path, b"//").is_some()
}

/// Every other reading of a normalized path: decoded; and with or without the parameters of segments, with backslashes as slashes, and
/// with several slashes as one. Each without dot segments.
pub(crate) fn other_readings(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut scratch = Vec::new();
    let decoded = keepwarm_http1::percent_decode(path, &mut scratch).to_vec();
    (0..8_u8).map(move |choice| {
        let has = |bit: u8| choice & bit != 0;
        reading(&decoded, has(1), has(2), has(4))
    })
}

fn reading(decoded: &[u8], cut_parameters: bool, backslashes: bool, merge: bool) -> Vec<u8> {
    let is_slash = |byte: &u8| *byte == b'/' || (backslashes && *byte == b'\\');
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut ends_in_folder = false;
    // What is before the first slash is empty.
    for segment in decoded.split(is_slash).skip(1) {
        let segment = match memchr::memchr(b';', segment) {
            Some(end) if cut_parameters => segment.get(..end).unwrap_or_default(),
            _ => segment,
        };
        ends_in_folder = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"." => {}
            b".." => {
                segments.pop();
            }
            b"" if merge => {}
            _ => segments.push(segment),
        }
    }
    // The last empty segment of `/a/` is its slash.
    if ends_in_folder && segments.last().is_some_and(|last| last.is_empty()) {
        segments.pop();
    }
    let mut path = Vec::with_capacity(decoded.len() + 1);
    for segment in segments {
        path.push(b'/');
        path.extend_from_slice(segment);
    }
    if ends_in_folder || path.is_empty() {
        path.push(b'/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_server_may_read() {
        for (path, read) in [
            ("/x%2Fadmin%2Fs", "/x/admin/s"),
            ("/admin%2Fs", "/admin/s"),
            ("/%2Fadmin/s", "/admin/s"),
            ("//admin/s", "/admin/s"),
            ("/x/..%2Fadmin/s", "/admin/s"),
            ("/x/..;/admin/s", "/admin/s"),
            ("/x/..;a=b/admin/s", "/admin/s"),
            ("/admin;x/s", "/admin/s"),
            ("/admin%3Bx/s", "/admin/s"),
            ("/x%5C..%5Cadmin%5Cs", "/admin/s"),
            ("/x\\..\\admin/s", "/admin/s"),
            ("/x%2F%2E%2E%2Fadmin/s", "/admin/s"),
            // One that takes parameters for names sees this; one that does not, /z.
            ("/x%2F..%2Fadmin%2Fs%2F..;%2F..;%2Fz", "/admin/s/..;/..;/z"),
            ("/admin/%2F", "/admin/"),
        ] {
            assert!(has_other_readings(path.as_bytes()), "{path}");
            assert!(other_readings(path.as_bytes()).any(|reading| reading == read.as_bytes()), "{path}");
        }
        for path in ["/", "/admin/s", "/a.b/c-d_e~f", "/x:y@z"] {
            assert!(!has_other_readings(path.as_bytes()), "{path}");
            assert!(other_readings(path.as_bytes()).all(|reading| reading == path.as_bytes()), "{path}");
        }
        // Nothing climbs above the root.
        assert!(other_readings(b"/..%2F..%2Fa").all(|reading| reading == b"/a"));
    }
}
