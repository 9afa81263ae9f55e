//! Precompressed variants beside a file: `app.css.gz`, `app.css.br`, `app.css.zst`. Asset pipelines create them (Rails, Vite, Django's manifest storage), so that no server has to
//! compress for each request.
//!
//! A variant replaces the file (RFC 9110 §8.4) for clients that accept its coding, unless it is older than the file: one that was forgotten when the file changed
//! is ignored. Others are looked up where there is a `.gz`, where the client does not accept that, and where the route compresses, which costs more than any
//! lookup: elsewhere a directory without any costs one.
//! Every response of a file with a variant has `Vary`, for caches in between.

use keepwarm_policy::compression::{AcceptEncoding, Coding};

/// The variants in the order in which they are looked up, with the ending of their files. The last of equals is sent: pipelines
/// create them with every effort, where brotli is the smallest.
pub(super) const VARIANTS: [(Coding, &[u8]); 3] =
    [(Coding::Gzip, b".gz"), (Coding::Zstd, b".zst"), (Coding::Brotli, b".br")];

/// Whether it is worth looking for a variant. `likely`: there is a `.gz`, or the route compresses.
pub(super) fn is_looked_up(coding: Coding, accept: &AcceptEncoding, likely: bool) -> bool {
    // For `Vary`, the `.gz` is looked up for every client.
    coding == Coding::Gzip || (accept.accepts(coding) && (likely || !accept.accepts(Coding::Gzip)))
}

/// Whether files of this type are worth it.
pub(super) fn is_compressible(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.starts_with("text/")
        || essence.ends_with("json")
        || essence.ends_with("xml")
        || matches!(essence, "application/wasm" | "font/ttf" | "font/otf" | "application/vnd.ms-fontobject")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_variants_are_looked_up() {
        use Coding::{Brotli, Gzip, Zstd};
        for (line, has_gzip, expected) in [
            ("", false, &[Gzip] as &[_]),
            ("gzip", true, &[Gzip]),
            ("gzip, br", false, &[Gzip]),
            ("gzip, br", true, &[Gzip, Brotli]),
            ("gzip, deflate, br, zstd", true, &[Gzip, Zstd, Brotli]),
            ("gzip;q=0, br;q=1", false, &[Gzip, Brotli]),
            ("*", true, &[Gzip, Zstd, Brotli]),
            ("*;q=0", true, &[Gzip]),
            ("identity, br", false, &[Gzip, Brotli]),
        ] {
            let accept = AcceptEncoding::parse(std::iter::once(line.as_bytes()));
            let codings = VARIANTS.iter().map(|(coding, _)| *coding);
            let looked_up: Vec<_> =
                codings.filter(|coding| is_looked_up(*coding, &accept, has_gzip)).collect();
            assert_eq!(looked_up, expected, "{line} {has_gzip}");
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
