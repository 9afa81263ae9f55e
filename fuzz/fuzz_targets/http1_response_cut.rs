//! Property: no bytes make the client's side panic, and it says the same of them however they are cut, whatever was requests.
#![no_main]

use http::Method;
use keepwarm_fuzz::byte_source::ByteSource;
use keepwarm_fuzz::http1::{SMALL, responses};
use keepwarm_http1::Limits;
use libfuzzer_sys::fuzz_target;

// The first byte chooses limits and how many of the next are sizes of pieces, the second what was requests.
fuzz_target!(|data: &[u8]| {
    let mut take = ByteSource(data);
    let (choice, methods) = (take.byte(), take.byte());
    let limits = if choice & 1 == 0 { Limits::default() } else { SMALL };
    let requests: Vec<_> = (0..methods & 3)
        .map(|n| match methods >> (2 + n * 2) & 3 {
            0 => (Method::GET, false),
            1 => (Method::HEAD, false),
            2 => (Method::GET, true),
            _ => (Method::CONNECT, false),
        })
        .collect();
    let (sizes, bytes) = take.0.split_at(usize::from(choice >> 2 & 7).min(take.0.len()));
    let whole = responses(limits, &requests, &[bytes]);
    assert_eq!(whole, responses(limits, &requests, &bytes.chunks(1).collect::<Vec<_>>()));
    assert_eq!(whole, responses(limits, &requests, &ByteSource::pieces(bytes, sizes)));
});
