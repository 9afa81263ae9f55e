//! Property: no histories of another process make their reader panic, or keep the next second from being counted, and what is read is saved so that it is read again.
#![no_main]

use keepwarm_policy::why::{AppSample, Sample, UpstreamSample, Why};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Why::restore(data);
    let Ok(mut why) = Why::restore(&with_head(data)) else { return };
    assert!(Why::restore(&why.save()).is_ok());
    let app = |name: &std::sync::Arc<str>| AppSample { name: name.clone(), ..AppSample::default() };
    let upstream =
        |name: &std::sync::Arc<str>| UpstreamSample { name: name.clone(), ..UpstreamSample::default() };
    let sample = Sample {
        apps: why.apps().keys().map(app).collect(),
        upstreams: why.upstreams().keys().map(upstream).collect(),
        ..Sample::default()
    };
    let before = why.now();
    (0..10).for_each(|_| why.handle_sample(&sample));
    assert_eq!(why.now(), before + 10);
});

/// A head that fits what follows: version 1, its length, its checksum (FNV-1a).
fn with_head(rest: &[u8]) -> Vec<u8> {
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let sum = rest.iter().fold(0xcbf2_9ce4_8422_2325, add);
    let numbers = [1, rest.len() as u64, sum].map(u64::to_le_bytes);
    [b"keepwarm-why".as_slice(), numbers.as_flattened(), rest].concat()
}
