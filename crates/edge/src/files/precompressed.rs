//! Precompressed variants beside a file: `app.css.gz`, `app.css.br`. Asset pipelines create them (Rails, Vite, Django's manifest storage), so that no server has to
//! compress for each request.
//!
//! A variant replaces the file (RFC 9110 §8.4) for clients that accept its coding, unless it is older than the file: one that was forgotten when the file changed
//! is ignored. `.br` is looked up where there is a `.gz`, or where the client accepts nothing else: a directory without either costs one lookup.
//! Every response of a file with a variant has `Vary`, for caches in between.

use keepwarm_http1::Fields;

/// A coding, and the ending of files that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Coding {
    /// As `Content-Encoding` says it.
    pub(super) name: &'static str,
    pub(super) ending: &'static [u8],
}

pub(super) const GZIP: Coding = Coding { name: "gzip", ending: b".gz" };
pub(super) const BROTLI: Coding = Coding { name: "br", ending: b".br" };

/// Whether files of this type are worth it.
pub(super) fn is_compressible(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.starts_with("text/")
        || essence.ends_with("json")
        || essence.ends_with("xml")
        || matches!(essence, "application/wasm" | "font/ttf" | "font/otf" | "application/vnd.ms-fontobject")
}

/// Whether a request takes the coding (RFC 9110 §12.5.3).
pub(super) fn takes(fields: &Fields, coding: Coding) -> bool {
    let mut others = false;
    for part in fields.all("accept-encoding").flat_map(|line| line.split(|&byte| byte == b',')) {
        let mut words = part.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = words.next().unwrap_or_default();
        let wanted = !words.any(is_zero);
        if name.eq_ignore_ascii_case(coding.name.as_bytes()) {
            return wanted;
        }
        others |= name == b"*" && wanted;
    }
    others
}

/// `q=0`, `q=0.000`
fn is_zero(parameter: &[u8]) -> bool {
    let Some((name, value)) = parameter.split_at_checked(2) else { return false };
    name.eq_ignore_ascii_case(b"q=")
        && !value.is_empty()
        && value.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_codings_a_request_takes() {
        for (lines, gzip, br) in [
            (&[] as &[&str], false, false),
            (&["gzip"], true, false),
            (&["gzip, deflate, br, zstd"], true, true),
            (&["gzip;q=0, br;q=1"], false, true),
            (&["GZIP ; Q=0.5"], true, false),
            (&["*"], true, true),
            (&["*;q=0"], false, false),
            (&["*", "gzip;q=0.0"], false, true),
            (&["identity", "br"], false, true),
            (&["x-gzip, brotli"], false, false),
            (&["gzip;q="], true, false),
            (&[""], false, false),
        ] {
            let mut fields = Fields::new();
            lines.iter().for_each(|line| fields.push(b"accept-encoding", line.as_bytes()));
            assert_eq!((takes(&fields, GZIP), takes(&fields, BROTLI)), (gzip, br), "{lines:?}");
        }
    }

    #[test]
    fn which_types_are_worth_it() {
        for (content_type, worth) in [
            ("text/css; charset=utf-8", true),
            ("text/javascript; charset=utf-8", true),
            ("application/json", true),
            ("image/svg+xml", true),
            ("application/wasm", true),
            ("image/png", false),
            ("font/woff2", false),
            ("application/gzip", false),
            ("application/octet-stream", false),
        ] {
            assert_eq!(is_compressible(content_type), worth, "{content_type}");
        }
    }
}
