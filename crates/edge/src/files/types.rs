//! `Content-Type` by a name's ending.
//!
//! A table of our own: what browsers load, by the names of the IANA registry. A library's list is twenty times as long, and it knows neither that a text has
//! a charset nor that `.ts` is rarely a film.

/// The media type of a file of that name; unknown ones are `application/octet-stream`, which browsers save instead of guessing.
#[must_use]
pub fn of_name(name: &[u8]) -> &'static str {
    const UNKNOWN: &str = "application/octet-stream";
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let Some(dot) = file.iter().rposition(|&byte| byte == b'.') else { return UNKNOWN };
    of_ending(file.get(dot + 1..).unwrap_or_default()).unwrap_or(UNKNOWN)
}

/// The type of an ending, without its dot, in any case.
pub(super) fn of_ending(raw: &[u8]) -> Option<&'static str> {
    let mut ending = [0_u8; 12];
    let lower = ending.get_mut(..raw.len())?;
    lower.copy_from_slice(raw);
    lower.make_ascii_lowercase();
    let at = TYPES.binary_search_by(|(known, _)| known.as_bytes().cmp(lower)).ok()?;
    TYPES.get(at).map(|(_, content_type)| *content_type)
}

/// In the order of the endings. Texts are UTF-8: it is what files are written in.
const TYPES: &[(&str, &str)] = &[
    ("3gp", "video/3gpp"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("heic", "image/heic"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mid", "audio/midi"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("svgz", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_found_in() {
        assert!(TYPES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (name, expected) in [
            ("a.css", "text/css; charset=utf-8"),
            ("x.y/a.JPG", "image/jpeg"),
            ("a.tar.gz", "application/gzip"),
            ("a", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("x.css/a", "application/octet-stream"),
            ("a.unknown-and-too-long", "application/octet-stream"),
            ("a.webmanifest", "application/manifest+json"),
        ] {
            assert_eq!(of_name(name.as_bytes()), expected, "{name}");
        }
    }
}
