//! Property: a normalized path normalizes to itself, has no dot segment, means the same bytes less those, and never climbs above its root.
#![no_main]

use keepwarm_http1::{normalize_path, percent_decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let raw = [b"/", data].concat();
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    let Ok(normal) = normalize_path(&raw, &mut first) else { return };
    assert_eq!(normal.first(), Some(&b'/'));
    assert!(normal.split(|&b| b == b'/').all(|segment| segment != b"." && segment != b".."));
    assert_eq!(normalize_path(normal, &mut second), Ok(normal));
    // Without dot segments, normalizing changes no byte that the path means.
    if !raw.split(|&b| b == b'/').any(|segment| matches!(percent_decode(segment, &mut third), b"." | b"..")) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        assert_eq!(percent_decode(&raw, &mut before), percent_decode(normal, &mut after));
    }
});
