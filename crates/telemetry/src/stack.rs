//! Formats stacks as one line of a log: the calls of this program, innermost first.

use std::ffi::c_void;
use std::fmt::Write as _;
use std::path::Path;

/// Limit on calls shown. This number is arbitrary; the innermost ones tell where a thread is.
const CALLS_MAX: usize = 40;

/// The stack of the caller, less the frames above `below`, a part of a function's name.
pub(crate) fn capture(below: &[&str]) -> String {
    let mut addresses = Vec::with_capacity(64);
    backtrace::trace(|frame| {
        addresses.push(frame.ip() as usize);
        addresses.len() < FRAMES_MAX
    });
    let calls: Vec<StackFrame> = addresses.iter().flat_map(|address| calls_at(*address)).collect();
    let begin = calls.iter().rposition(|call| below.iter().any(|name| call.name.contains(name)));
    line(calls.get(begin.map_or(0, |at| at + 1)..).unwrap_or_default())
}

/// Limit on frames walked: a stack this deep is an endless recursion.
const FRAMES_MAX: usize = 256;

/// The stack that consists of these return addresses, innermost first. Reads the program's debug information, which takes a tenth of a second the first time.
#[must_use]
pub fn describe(addresses: &[usize]) -> String {
    let calls: Vec<StackFrame> = addresses.iter().flat_map(|address| calls_at(*address)).collect();
    // Above what was interrupted stand the handler, and the frame that the kernel has put there.
    let begin = calls
        .iter()
        .rposition(|call| call.name.ends_with("kernel::stack::handle") || call.name.contains("restore_rt"));
    line(calls.get(begin.map_or(0, |at| at + 1)..).unwrap_or_default())
}

/// A function on the stack.
struct StackFrame {
    name: String,
    /// From the standard library or another crate, mostly the runtime: of no use between the others.
    is_foreign: bool,
    /// `connection.rs:31`, with its directory.
    location: String,
}

/// The functions called there; several, where the compiler has inlined one into the other.
fn calls_at(address: usize) -> Vec<StackFrame> {
    let mut calls = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut::<c_void>(address), |symbol| {
        let name = symbol.name().map_or_else(|| format!("{address:#x}"), |name| format!("{name:#}"));
        let (location, is_foreign) = match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => (format!("{}:{line}", short(file)), is_foreign(file)),
            _ => (String::new(), !name.contains("keepwarm")),
        };
        calls.push(StackFrame { name, is_foreign, location });
    });
    if calls.is_empty() {
        calls.push(StackFrame { name: format!("{address:#x}"), is_foreign: true, location: String::new() });
    }
    calls
}

/// The last three parts of a path: `crates/serve/src/h1/connection.rs` is found by `src/h1/connection.rs`.
fn short(file: &Path) -> String {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    parts.get(parts.len().saturating_sub(3)..).unwrap_or_default().join("/")
}

fn line(calls: &[StackFrame]) -> String {
    let ours: Vec<&StackFrame> = calls.iter().filter(|call| !call.is_foreign).collect();
    let shown: Vec<&StackFrame> = if ours.is_empty() { calls.iter().collect() } else { ours };
    let mut line = String::new();
    for call in shown.iter().take(CALLS_MAX) {
        let before = if line.is_empty() { "" } else { " < " };
        // Writing into memory cannot fail.
        let _ = write!(line, "{before}{}", call.name);
        if !call.location.is_empty() {
            let _ = write!(line, " ({})", call.location);
        }
    }
    line
}

/// By where its source was when it was compiled. What catches panics is in every stack.
fn is_foreign(file: &Path) -> bool {
    let file = file.to_string_lossy();
    let elsewhere = ["/rustc/", "/registry/src/", "/library/", "/git/checkouts/"];
    elsewhere.iter().any(|part| file.contains(part))
        || !file.ends_with(".rs")
        || file.ends_with("telemetry/src/panics.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_with_a_name() -> String {
        capture(&["stack::capture"])
    }

    #[test]
    fn a_stack_is_one_line_of_calls_with_their_places() {
        let line = a_function_with_a_name();
        let first = line.split(" < ").next().unwrap();
        assert!(first.contains("a_function_with_a_name") && first.contains("src/stack.rs:"), "{line}");
        assert!(!line.contains('\n') && !line.contains("std::"), "{line}");
    }
}
