//! Property: no bytes make the server's side panic, and it says the same of them however they are cut.
#![no_main]

use keepwarm_fuzz::byte_source::ByteSource;
use keepwarm_fuzz::http1::{SMALL, requests};
use keepwarm_http1::{Limits, ListenerKind};
use libfuzzer_sys::fuzz_target;

// The first byte chooses limits, listener and how many of the next are sizes of pieces.
fuzz_target!(|data: &[u8]| {
    let mut take = ByteSource(data);
    let choice = take.byte();
    let limits = if choice & 1 == 0 { Limits::default() } else { SMALL };
    let listener = if choice & 2 == 0 { ListenerKind::Origin } else { ListenerKind::ForwardProxy };
    let (sizes, bytes) = take.0.split_at(usize::from(choice >> 2 & 7).min(take.0.len()));
    let whole = requests(limits, listener, &[bytes]);
    assert_eq!(whole, requests(limits, listener, &bytes.chunks(1).collect::<Vec<_>>()));
    assert_eq!(whole, requests(limits, listener, &ByteSource::pieces(bytes, sizes)));
});
