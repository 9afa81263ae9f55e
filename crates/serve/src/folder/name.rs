//! From a request's path to the name of a file.

use keepwarm_http1::percent_decode;

const CONFIGURATION: &[u8] = b"keepwarm.toml";

/// The file name for a normalized path, relative to a directory: without its first slash, decoded. `None`: no file can have that name.
///
/// * A segment that begins with a dot never names a file: `.git`, `.env`, `.htpasswd`. `/.well-known/` is the exception (RFC 8615).
/// * `%2F` is part of a segment, and no file has a slash in its name. NUL ends names.
/// * An empty segment (`//`) would be a second name for the same file.
/// * `keepwarm.toml` may be in the directory that it serves, with its passwords.
///
/// A path that ends in a slash names a directory, with the slash.
#[must_use]
pub fn file_name(path: &[u8]) -> Option<Vec<u8>> {
    let relative = path.strip_prefix(b"/")?;
    let mut name = Vec::with_capacity(relative.len());
    let mut scratch = Vec::new();
    let mut segments = relative.split(|&byte| byte == b'/').enumerate().peekable();
    while let Some((number, segment)) = segments.next() {
        let segment = percent_decode(segment, &mut scratch);
        let last = segments.peek().is_none();
        let well_known = number == 0 && segment == b".well-known";
        if segment.contains(&b'/') || segment.contains(&0) || (segment.first() == Some(&b'.') && !well_known)
        {
            return None;
        }
        if segment.is_empty() && !last {
            return None;
        }
        if last && segment == CONFIGURATION {
            return None;
        }
        if number > 0 {
            name.push(b'/');
        }
        name.extend_from_slice(segment);
    }
    Some(name)
}
