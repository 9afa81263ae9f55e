//! The page for people, at `/`: its files. They are part of the program and have no data: what the page shows it reads from `/events`, by the rules of
//! access for that.

use std::hash::{DefaultHasher, Hasher};

use keepwarm_serve::{Exchange, Request};

use super::response::accepts;

/// A file of the page.
#[derive(Debug)]
pub(super) struct PageFile {
    path: &'static str,
    content_type: &'static str,
    body: &'static str,
}

macro_rules! files {
    ($($name:literal: $content_type:expr),* $(,)?) => {
        [$(PageFile {
            path: concat!("/page/", $name),
            content_type: $content_type,
            body: include_str!(concat!("page/", $name)),
        }),*]
    };
}

static DOCUMENT: PageFile =
    PageFile { path: "/", content_type: "text/html; charset=utf-8", body: include_str!("page/index.html") };

const SCRIPT: &str = "text/javascript; charset=utf-8";

static FILES: [PageFile; 14] = files! {
    "changes.js": SCRIPT,
    "chart.js": SCRIPT,
    "dialogs.js": SCRIPT,
    "format.js": SCRIPT,
    "help.js": SCRIPT,
    "history.js": SCRIPT,
    "icon.svg": "image/svg+xml",
    "lists.js": SCRIPT,
    "main.js": SCRIPT,
    "page.css": "text/css; charset=utf-8",
    "stream.js": SCRIPT,
    "table.js": SCRIPT,
    "timeline.js": SCRIPT,
    "verdict.js": SCRIPT,
};

/// Names in snapshots are text of apps. Should one ever be taken for HTML, no script in it runs (`script-src`), and neither is it made of text
/// (`require-trusted-types-for`); nothing that the page reads can be sent elsewhere (`default-src`).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The file that a request is for. `/` is the page for clients that accept HTML by name, as browsers do; for others it is a list of paths.
pub(super) fn requested(request: &Request) -> Option<&'static PageFile> {
    match request.head.path() {
        b"/" => accepts(request, "text/html").then_some(&DOCUMENT),
        path => FILES.iter().find(|file| file.path.as_bytes() == path),
    }
}

impl PageFile {
    pub(super) fn write(&self, exchange: &mut Exchange<'_>) {
        let tag = self.tag();
        let is_known = exchange.request().head.fields.all("if-none-match").any(|list| has_tag(list, &tag));
        let fields = [
            ("Content-Type", self.content_type),
            // Asked for each time: another version of the program has other files of these names.
            ("Cache-Control", "no-cache"),
            ("ETag", &tag),
            ("Vary", "Accept"),
            ("Content-Security-Policy", POLICY),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let (status, body) = if is_known { (304, "") } else { (200, self.body) };
        // RFC 9110 §15.4.5: the length with 304 would be that of the 200.
        let length = (!is_known).then_some(body.len() as u64);
        match exchange.head(status, length, false, fields) {
            Ok(_) => {
                exchange.data(body.as_bytes());
                exchange.end();
            }
            Err(_) => exchange.abort("bad_field_in_response"),
        }
    }

    /// The same for the same content.
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.body.as_bytes());
        format!("\"{:016x}\"", hasher.finish())
    }
}

/// Whether an `If-None-Match` has the tag, by the weak comparison (RFC 9110 §13.1.2). Our tags have no comma.
fn has_tag(list: &[u8], tag: &str) -> bool {
    let is_same = |one: &[u8]| one.strip_prefix(b"W/").unwrap_or(one) == tag.as_bytes();
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|one| one == b"*" || is_same(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_in_a_list() {
        for list in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", " * ", "\"b\",W/\"a\""] {
            assert!(has_tag(list.as_bytes(), "\"a\""), "{list}");
        }
        for list in ["", "a", "\"b\"", "\"A\"", "w/\"a\"", "\"a"] {
            assert!(!has_tag(list.as_bytes(), "\"a\""), "{list}");
        }
    }

    /// A file that is not listed would be a 404 in the browser, one after the other.
    #[test]
    fn all_files_are_listed_and_loaded_by_the_document() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/admin/page");
        let mut there: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "index.html")
            .collect();
        there.sort();
        let listed: Vec<&str> = FILES.iter().map(|file| file.path.strip_prefix("/page/").unwrap()).collect();
        assert_eq!(there, listed);
        for file in &FILES {
            assert!(DOCUMENT.body.contains(&format!("\"{}\"", file.path)), "{}", file.path);
        }
    }
}
