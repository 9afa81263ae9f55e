//! The content sent to applications, and how it is recognized.

use std::process::Command;
use std::time::Duration;

use crate::tools;

/// `POST path` with a body of this content type.
pub fn post(path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: test.example\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Bytes that do not repeat soon, the same in every run (xorshift64; Marsaglia, "Xorshift RNGs", 2003).
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(length).collect()
}

/// By a program that is not ours. `name` tells tests of one process apart.
#[track_caller]
pub fn sha256(name: &str, bytes: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!("keepwarm-sum-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("a file");
    let printed = tools::run_ok(Command::new("sha256sum").arg(&path), Duration::from_secs(10));
    let _ = std::fs::remove_file(&path);
    printed.split(' ').next().expect("a digest").to_owned()
}
