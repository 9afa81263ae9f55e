//! Streams: is what an application writes passed on when it is written?
//!
//! From outside, a stream that is held back looks like a response that was computed whole. So only a response that declares itself a stream, takes its time,
//! and holds more than one event can be judged.

use std::time::Duration;

use crate::client::Response;
use crate::finding::Finding;
use crate::report::time;

pub(super) const STREAM: &str = "writes.stream";

/// Media types whose parts mean something by themselves.
const STREAMS: &[&str] =
    &["text/event-stream", "application/x-ndjson", "application/jsonl", "application/json-seq"];

/// A response that is over sooner has nothing to hold back.
const LONG: Duration = Duration::from_millis(500);

/// Parts that come further apart than this were passed on when they were made.
const APART: Duration = Duration::from_millis(50);

pub(super) fn stream(first: &Response) -> Finding {
    let (Some(begins), Some(head)) = (first.first_byte(), &first.head) else {
        return Finding::unknown(STREAM, "no response to examine");
    };
    if head.content_length.is_some() {
        return Finding::unknown(
            STREAM,
            "the response has a length, so it is not a stream; check the URL of a stream",
        );
    }
    let ends = first.reads.last().map_or(begins, |last| last.at);
    let evidence = format!(
        "{} bytes of body, the first byte after {}, the last after {}, in {} reads",
        first.body_len,
        time(begins),
        time(ends),
        first.reads.len()
    );
    if ends.saturating_sub(begins) >= APART {
        return Finding::good(STREAM, format!("{evidence}: passed on as it was produced"));
    }
    let kind = first.field("content-type").unwrap_or_default().to_ascii_lowercase();
    let says_so = STREAMS.iter().any(|known| kind.starts_with(known));
    match says_so && ends >= LONG && events(&kind, &first.body) >= 3 {
        true => Finding::bad(STREAM, format!("{kind}, {evidence}: held back until its end")).costs(format!(
            "the first of {} events is up to {} late",
            events(&kind, &first.body),
            time(ends)
        )),
        false => Finding::unknown(
            STREAM,
            format!("{evidence}: all at once, so it was computed as a whole, or held back"),
        ),
    }
}

fn events(kind: &str, body: &[u8]) -> usize {
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n");
    match kind.starts_with("text/event-stream") {
        true => text.split("\n\n").filter(|event| !event.trim().is_empty()).count(),
        false => text.lines().filter(|line| !line.trim().is_empty()).count(),
    }
}
