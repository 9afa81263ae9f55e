//! Names with a fingerprint of the content, as asset pipelines write them: `app-3f2a91bc.js` (Rails, esbuild), `app.3f2a91bc.js` (Django, webpack),
//! `index-BxT3kd9a.js` (Vite).
//!
//! A name that only looks like one is a file that clients keep for a year after it has changed. So a date (`report-20240131.pdf`) and a word
//! (`theme-default1.css`) must not count; a fingerprint that happens to look like one of these is only revalidated, as any other file.

const LENGTHS: std::ops::RangeInclusive<usize> = 8..=64;

/// Whether a part of the name after a `.`, `-` or `_`, and before its extension, is a fingerprint.
pub(super) fn is_fingerprinted(name: &[u8]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    // `app.3f2a91bc.js.map`: the last part is never one, the others may be.
    let Some(dot) = file.iter().rposition(|&byte| byte == b'.') else { return false };
    let stem = file.get(..dot).unwrap_or_default();
    stem.split(|byte| matches!(byte, b'.' | b'-' | b'_')).skip(1).any(is_fingerprint)
}

fn is_fingerprint(part: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| part.iter().any(is);
    if !LENGTHS.contains(&part.len())
        || !part.iter().all(u8::is_ascii_alphanumeric)
        || !has(u8::is_ascii_digit)
    {
        return false;
    }
    let (lower, upper) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
    match part.iter().all(u8::is_ascii_hexdigit) {
        true => lower || upper,
        false => lower && upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_fingerprint() {
        for name in [
            "app-3f2a91bc.js",
            "app.3f2a91bc.js",
            "app_3f2a91bc.js",
            "assets/app.3f2a91bc.js",
            "app.3f2a91bc.js.map",
            "app.3f2a91bc.min.css",
            "base.55e7cbb9ba48.css",
            "application-6d58c9e6d2a1f0c3b4a59687766554433221100ffeeddccbbaa99887766554ab.css",
            "index-BxT3kd9a.js",
            "logo-9F86D081.png",
        ] {
            assert!(is_fingerprinted(name.as_bytes()), "{name}");
        }
        for name in [
            "app.js",
            "3f2a91bc.js",
            "3f2a91bc",
            "app-3f2a91b.js",
            "app.3f2a91bc",
            "app-3f2a91bc/x.js",
            "report-20240131.pdf",
            "theme-default1.css",
            "app-deadbeef.js",
            "jquery-3.7.1.min.js",
            "IMG_20240131_101112.jpg",
            "photo-DSC00012X.jpg",
            "x-3f2a91bc3f2a91bc3f2a91bc3f2a91bc3f2a91bc3f2a91bc3f2a91bc3f2a91bc0.js",
            "",
            ".",
        ] {
            assert!(!is_fingerprinted(name.as_bytes()), "{name}");
        }
    }
}
