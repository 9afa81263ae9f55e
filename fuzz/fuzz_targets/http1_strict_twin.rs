//! Property: every message either decoder accepts (and a response it did not have to normalize), a strict reader written from RFC 9112's grammar accepts too,
//! with the same end and the same body.
#![no_main]

use http::Method;
use keepwarm_fuzz::http1::{TraceEvent, requests, responses};
use keepwarm_fuzz::strict;
use keepwarm_http1::{Limits, ListenerKind};
use libfuzzer_sys::fuzz_target;

// The first byte chooses the side and, for responses, the methods requests.
fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    if choice & 1 == 0 {
        check_requests(bytes);
    } else {
        let is_head = choice & 2 != 0;
        check_responses(bytes, if is_head { Method::HEAD } else { Method::GET });
    }
});

fn check_requests(bytes: &[u8]) {
    let mut start = 0;
    for (end, body) in messages(&requests(Limits::default(), ListenerKind::Origin, &[bytes])) {
        let twin = strict::request(bytes, start);
        let twin = twin.unwrap_or_else(|no| panic!("{no:?} from {start}: {}", bytes.escape_ascii()));
        assert_eq!((end, &body), (twin.end, &twin.body), "{}", bytes.escape_ascii());
        start = end;
    }
}

fn check_responses(bytes: &[u8], method: Method) {
    let requests: Vec<_> = (0..4).map(|_| (method.clone(), false)).collect();
    let trace = responses(Limits::default(), &requests, &[bytes]);
    let normalized = |head: &str| {
        !head.ends_with(
        "normalized: Normalizations { folded: false, space_before_colon: false, bare_lf: false, no_reason_space: false } }",
    )
    };
    let is_normalized = trace
        .iter()
        .any(|s| matches!(s, TraceEvent::Head(h) | TraceEvent::Informational(h) if normalized(h)));
    let until_close = trace.contains(&TraceEvent::EndByClose);
    if is_normalized || until_close {
        return;
    }
    let mut start = 0;
    for (end, body) in messages(&trace) {
        let bodiless = |status: u16| method == Method::HEAD || matches!(status, 204 | 304);
        let twin = loop {
            let twin = strict::response(bytes, start, bodiless);
            let (status, twin) =
                twin.unwrap_or_else(|no| panic!("{no:?} from {start}: {}", bytes.escape_ascii()));
            if status >= 200 {
                break twin;
            }
            start = twin.end;
        };
        assert_eq!((end, &body), (twin.end, &twin.body), "{}", bytes.escape_ascii());
        start = end;
    }
}

/// End and body of each message that came to its end.
fn messages(trace: &[TraceEvent]) -> Vec<(usize, Vec<u8>)> {
    let mut found = Vec::new();
    let mut body = Vec::new();
    for event in trace {
        match event {
            TraceEvent::Data(data) => body.extend_from_slice(data),
            TraceEvent::End(end) => found.push((*end, std::mem::take(&mut body))),
            _ => {}
        }
    }
    found
}
