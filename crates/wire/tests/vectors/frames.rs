//! Frames, faults and partial input: each whole, byte by byte, and followed by other bytes.

use crate::json::{Either, bytes, expected, from_keepwarm, load, text};
use keepwarm_wire::FaultKind;
use keepwarm_wire::frame::{FrameType, HEADER_LEN};
use std::collections::HashSet;

#[test]
fn good_frames_decode_and_encode_to_the_same_bytes() {
    for vector in load("frames.json") {
        let (name, keepwarm, bytes) = (text(&vector, "name"), from_keepwarm(&vector), bytes(&vector));
        let (frame, used) = Either::decode(keepwarm, &bytes)
            .unwrap_or_else(|fault| panic!("{name}: {fault}"))
            .unwrap_or_else(|| panic!("{name}: needs more"));
        assert_eq!(used, bytes.len(), "{name}");
        assert_eq!(frame.to_json(), expected(&vector["frame"]), "{name}");

        let mut out = b"before".to_vec();
        frame.encode(&mut out).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(out == [b"before", &bytes[..]].concat(), "{name}: not the same bytes");
    }
}

#[test]
fn good_frames_come_byte_by_byte_and_with_bytes_behind() {
    for vector in load("frames.json") {
        let (name, keepwarm, bytes) = (text(&vector, "name"), from_keepwarm(&vector), bytes(&vector));
        for size in 0..bytes.len() {
            assert_eq!(Either::decode(keepwarm, &bytes[..size]), Ok(None), "{name}: {size} bytes");
            let len = (size >= HEADER_LEN).then_some(bytes.len());
            assert_eq!(Either::frame_len(keepwarm, &bytes[..size]), Ok(len), "{name}: {size} bytes");
        }
        let whole = Either::decode(keepwarm, &bytes);
        for behind in
            [&b"\0"[..], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", &bytes[..bytes.len().min(64)]]
        {
            let longer = [&bytes[..], behind].concat();
            assert_eq!(Either::decode(keepwarm, &longer), whole, "{name}: {} behind", behind.len());
        }
    }
}

#[test]
fn faults_have_their_names_however_they_come() {
    for vector in load("faults.json") {
        let (name, keepwarm, bytes) = (text(&vector, "name"), from_keepwarm(&vector), bytes(&vector));
        let whole = Either::decode(keepwarm, &bytes).map(|_| ());
        let fault = whole.expect_err(name);
        assert_eq!(fault.name(), text(&vector, "fault"), "{name}: {fault}");

        // Cut short it is the same fault, or incomplete; once it is a fault it stays one.
        let sizes = (0..bytes.len().min(256)).chain(bytes.len().saturating_sub(3)..bytes.len());
        let mut seen = false;
        for size in sizes {
            match Either::decode(keepwarm, &bytes[..size]) {
                Ok(None) => assert!(!seen, "{name}: the fault went away at {size} bytes"),
                Ok(Some((frame, _))) => panic!("{name}: {frame:?} at {size} bytes"),
                Err(early) => {
                    assert_eq!(early, fault, "{name}: {size} bytes");
                    seen = true;
                }
            }
        }
        let longer = [&bytes[..], &[0xff; 32]].concat();
        assert_eq!(Either::decode(keepwarm, &longer).map(|_| ()), Err(fault), "{name}: bytes behind");
    }
}

#[test]
fn a_wrong_header_is_a_fault_before_its_payload_comes() {
    let mut early = 0;
    for vector in load("faults.json") {
        let (name, keepwarm, bytes) = (text(&vector, "name"), from_keepwarm(&vector), bytes(&vector));
        let header = bytes.get(..HEADER_LEN).unwrap_or_else(|| panic!("{name}: less than a header"));
        assert_eq!(Either::frame_len(keepwarm, &header[..9]), Ok(None), "{name}");
        match Either::frame_len(keepwarm, header) {
            Ok(len) => {
                // The fault is in the payload: it must have arrived.
                assert_eq!(len, Some(bytes.len()), "{name}");
                assert_eq!(Either::decode(keepwarm, header), Ok(None), "{name}");
            }
            Err(fault) => {
                assert_eq!(fault.name(), text(&vector, "fault"), "{name}");
                early += 1;
            }
        }
    }
    assert!(early > 50, "only {early} faults of headers");
}

#[test]
fn partial_input_asks_for_what_is_missing() {
    for vector in load("partials.json") {
        let (name, keepwarm, bytes) = (text(&vector, "name"), from_keepwarm(&vector), bytes(&vector));
        let mut rest = &bytes[..];
        for want in vector["frames"].as_array().expect(name) {
            let (frame, used) = Either::decode(keepwarm, rest).expect(name).expect(name);
            assert_eq!(frame.to_json(), expected(want), "{name}");
            rest = &rest[used..];
        }
        match vector.get("fault") {
            Some(fault) => {
                let seen = Either::decode(keepwarm, rest).expect_err(name);
                assert_eq!(Some(seen.name()), fault.as_str(), "{name}");
            }
            None => {
                assert_eq!(Either::decode(keepwarm, rest), Ok(None), "{name}");
                let len = Either::frame_len(keepwarm, rest).expect(name);
                assert_eq!(len.map(|len| len as u64), vector["need_more"].as_u64(), "{name}");
            }
        }
    }
}

#[test]
fn every_type_and_every_fault_has_a_vector() {
    let frames = load("frames.json");
    for known in FrameType::ALL {
        let found = frames.iter().any(|vector| vector["frame"]["type"] == known.name());
        assert!(found, "no vector of {}", known.name());
    }
    let mut faults: HashSet<String> = HashSet::new();
    let vectors = load("faults.json");
    let sessions = load("sessions.json");
    let steps = sessions.iter().flat_map(|session| session["steps"].as_array().unwrap());
    for vector in vectors.iter().chain(steps) {
        faults.extend(vector["fault"].as_str().map(str::to_owned));
    }
    for kind in FaultKind::ALL {
        assert!(faults.contains(kind.name()), "no vector of {}", kind.name());
    }
}
