//! From a request's path to the name of a file.

use keepwarm_http1::percent_decode;

/// The name of the file that a normalised path stands for, relative to a folder: without its first slash, decoded. `None`: no file is ever named so.
///
/// * A segment that begins with a dot is no file's: `.git`, `.env`, `.htpasswd`. `/.well-known/` is the exception (RFC 8615).
/// * `%2F` is part of a segment, and no file has a slash in its name. NUL ends names.
/// * An empty segment (`//`) would be a second name for the same file.
///
/// A path that ends in a slash names a folder, with the slash.
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
        if number > 0 {
            name.push(b'/');
        }
        name.extend_from_slice(segment);
    }
    Some(name)
}

/// Whether a server for PHP would run a file of that name: such a file is never sent as it is, because what is in it is code, and passwords.
#[must_use]
pub fn is_script_name(name: &[u8]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let Some(dot) = file.iter().rposition(|&byte| byte == b'.') else { return false };
    let ending = file.get(dot + 1..).unwrap_or_default();
    // php, php3 … php8, phtml, phar, phps, pht
    match ending.split_at_checked(3) {
        Some((front, back)) if front.eq_ignore_ascii_case(b"php") => {
            matches!(back, [] | [b'0'..=b'9'] | [b's' | b'S'])
        }
        _ => [b"phtml".as_slice(), b"phar", b"pht"].iter().any(|known| ending.eq_ignore_ascii_case(known)),
    }
}
