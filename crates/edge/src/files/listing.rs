//! The listing of a directory: HTML, or JSON for clients that prefer it.
//!
//! Anyone who may write to the directory chooses names. They are escaped for the format, links begin with `./` so that no name is taken for a scheme or a host, and
//! the page may load and run nothing.

use std::fmt::Write;
use std::time::UNIX_EPOCH;

use keepwarm_serve::{Exchange, FolderEntry, FolderListing, prefers_json};
use keepwarm_telemetry::escape;

use crate::refusals;

/// `frame-ancestors` and `form-action` do not fall back to `default-src`.
const POLICY: &[u8] = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Directories first, each kind by its names.
pub(super) fn sort(entries: &mut [FolderEntry]) {
    entries.sort_by(|one, other| (!one.is_folder, &one.name).cmp(&(!other.is_folder, &other.name)));
}

/// Responds with the listing. `is_top`: links lead no further up.
pub(super) fn respond(exchange: &mut Exchange<'_>, listing: &FolderListing, is_top: bool) {
    let json = prefers_json(&exchange.request().head);
    let (content_type, body): (&[u8], String) = match json {
        true => (b"application/json", as_json(listing)),
        false => (b"text/html; charset=utf-8", as_html(exchange.request().path(), listing, is_top)),
    };
    let length = body.len().to_string();
    let fields: [(&[u8], &[u8]); 6] = [
        (b"Content-Type", content_type),
        (b"Content-Security-Policy", POLICY),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Cache-Control", b"no-cache"),
        (b"Vary", b"Accept"),
        // As a field, so that HEAD has it as well.
        (b"Content-Length", length.as_bytes()),
    ];
    if exchange.head(200, None, false, fields.into_iter()).is_err() {
        return refusals::BAD_FIELD.respond(exchange);
    }
    exchange.data(body.as_bytes());
    exchange.end();
}

// Writing into memory cannot fail: hence the ignored results.

fn as_html(path: &[u8], listing: &FolderListing, is_top: bool) -> String {
    let mut out = String::with_capacity(512 + 160 * listing.entries.len());
    let mut title = String::new();
    push_html(&mut title, &String::from_utf8_lossy(keepwarm_http1::percent_decode(path, &mut Vec::new())));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Index of {title}</title>\n\
         <h1>Index of {title}</h1>\n<table>\n<tr><th>Name<th>Size<th>Modified\n"
    );
    if !is_top {
        out.push_str("<tr><td><a href=\"../\">../</a><td><td>\n");
    }
    for entry in &listing.entries {
        let slash = if entry.is_folder { "/" } else { "" };
        out.push_str("<tr><td><a href=\"./");
        push_reference(&mut out, &entry.name);
        let _ = write!(out, "{slash}\">");
        push_html(&mut out, &String::from_utf8_lossy(&entry.name));
        let _ = write!(out, "{slash}</a><td>");
        if !entry.is_folder {
            let _ = write!(out, "{}", entry.length);
        }
        let _ = writeln!(out, "<td>{}", httpdate::fmt_http_date(entry.modified));
    }
    out.push_str("</table>\n");
    if listing.is_cut {
        let _ = writeln!(out, "<p>Only the first {} entries are shown.</p>", listing.entries.len());
    }
    out.push_str("</html>\n");
    out
}

fn as_json(listing: &FolderListing) -> String {
    let mut out = Vec::with_capacity(64 + 128 * listing.entries.len());
    out.extend_from_slice(b"{\"entries\":[");
    for (number, entry) in listing.entries.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"name\":\"");
        escape::push_json(&mut out, String::from_utf8_lossy(&entry.name).as_bytes());
        let kind = if entry.is_folder { "directory" } else { "file" };
        let modified = entry.modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut more = format!("\",\"type\":\"{kind}\"");
        if !entry.is_folder {
            let _ = write!(more, ",\"size\":{}", entry.length);
        }
        let _ = write!(more, ",\"modified\":{modified}}}");
        out.extend_from_slice(more.as_bytes());
    }
    out.extend_from_slice(format!("],\"truncated\":{}}}\n", listing.is_cut).as_bytes());
    String::from_utf8(out).unwrap_or_default()
}

/// Percent-encodes all but unreserved bytes (RFC 3986 §2.3).
fn push_reference(out: &mut String, name: &[u8]) {
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

fn push_html(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not to be mistaken for the end of a line, or for marks that reverse the rest of it.
            character
                if character.is_control()
                    || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                out.push('\u{fffd}');
            }
            character => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn listing(names: &[(&str, bool)]) -> FolderListing {
        let entry = |&(name, is_folder): &(&str, bool)| FolderEntry {
            name: name.as_bytes().to_vec(),
            is_folder,
            length: 7,
            modified: UNIX_EPOCH + Duration::from_secs(784_111_777),
        };
        let mut entries: Vec<FolderEntry> = names.iter().map(entry).collect();
        sort(&mut entries);
        FolderListing { entries, is_cut: false }
    }

    #[test]
    fn directories_come_first_and_names_are_in_order() {
        let listing = listing(&[("b", false), ("a", false), ("z", true), ("Y", true)]);
        let names: Vec<&[u8]> = listing.entries.iter().map(|entry| entry.name.as_slice()).collect();
        assert_eq!(names, [b"Y".as_slice(), b"z", b"a", b"b"]);
    }

    #[test]
    fn no_name_is_more_than_text_in_html() {
        let page =
            as_html(b"/a%3Cb/", &listing(&[("\"><script>'&.txt", false), ("javascript:x", true)]), false);
        assert!(page.contains("<title>Index of /a&lt;b/</title>"), "{page}");
        assert!(
            page.contains("<a href=\"./%22%3E%3Cscript%3E%27%26.txt\">&quot;&gt;&lt;script&gt;&#39;&amp;.txt</a><td>7<td>Sun, 06 Nov 1994 08:49:37 GMT"),
            "{page}"
        );
        assert!(page.contains("<a href=\"./javascript%3Ax/\">javascript:x/</a>"), "{page}");
        assert!(page.contains("<a href=\"../\">") && !as_html(b"/", &listing(&[]), true).contains("../"));
    }

    #[test]
    fn json() {
        let text = as_json(&listing(&[("a\"b\n", false), ("d", true)]));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({"entries": [
            {"name": "d", "type": "directory", "modified": 784_111_777},
            {"name": "a\"b\n", "type": "file", "size": 7, "modified": 784_111_777},
        ], "truncated": false});
        assert_eq!(value, expected);
    }

    #[test]
    fn names_that_are_not_utf_8_can_be_followed() {
        let mut listing = listing(&[("x", false)]);
        listing.entries[0].name = b"\xff/".to_vec();
        let page = as_html(b"/", &listing, true);
        assert!(page.contains("href=\"./%FF%2F\">\u{fffd}/</a>"), "{page}");
        assert!(serde_json::from_str::<serde_json::Value>(&as_json(&listing)).is_ok());
    }
}
