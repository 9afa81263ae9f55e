//! The lines by which a record of an app's output is recognized, by language.

pub(super) fn is_traceback(line: &[u8]) -> bool {
    line.starts_with(b"Traceback (most recent call last)")
}

/// A stack of Python's `logging`, where `stack_info` is set.
pub(super) fn is_stack(line: &[u8]) -> bool {
    line.starts_with(b"Stack (most recent call last)")
}

/// `future: <Task finished name='Task-2' …>`
pub(super) fn is_context(line: &[u8]) -> bool {
    const KEYS: [&[u8]; 13] = [
        b"future",
        b"task",
        b"handle",
        b"protocol",
        b"transport",
        b"socket",
        b"asyncgen",
        b"source_traceback",
        b"handle_traceback",
        b"client_session",
        b"connector",
        b"connections",
        b"client_connection",
    ];
    let key = line.iter().position(|&byte| byte == b':').and_then(|at| line.get(..at));
    key.is_some_and(|key| KEYS.contains(&key))
}

/// How many fields follow `pydantic_core._pydantic_core.ValidationError: 2 validation errors for Card`.
pub(super) fn validation_errors(line: &[u8]) -> Option<usize> {
    let at = line.windows(VALIDATION_ERRORS.len()).position(|part| part == VALIDATION_ERRORS)?;
    let number = line.get(..at)?.rsplit(|&byte| byte == b' ').next()?;
    str::from_utf8(number).ok()?.parse().ok()
}

const VALIDATION_ERRORS: &[u8] = b" validation error";

pub(super) fn is_box(line: &[u8]) -> bool {
    ["╭", "│", "╰"].iter().any(|edge| line.starts_with(edge.as_bytes()))
}

pub(super) fn is_box_end(line: &[u8]) -> bool {
    line.starts_with("╰".as_bytes())
}

/// Python's output about each thread when it dies.
pub(super) fn is_thread(line: &[u8]) -> bool {
    const PHRASES: [&[u8]; 5] = [
        b"Current thread",
        b"Thread 0x",
        b"Python runtime state: ",
        b"Extension modules: ",
        b"<no Python frame>",
    ];
    PHRASES.iter().any(|phrase| line.starts_with(phrase))
}

/// `no such card in /srv/shop.php:3`
pub(super) fn names_php_place(line: &[u8]) -> bool {
    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let place = line.get(..line.len() - digits).and_then(|place| place.strip_suffix(b":"));
    digits > 0 && place.is_some_and(|place| place.windows(4).any(|part| part == b" in "))
}

/// `#0 shop.php(3): pay()`
pub(super) fn is_php_call(line: &[u8]) -> bool {
    line.strip_prefix(b"#").and_then(|rest| rest.first()).is_some_and(u8::is_ascii_digit)
}

/// `main.pay(...)`, `created by main.main in goroutine 1`
pub(super) fn is_go_call(line: &[u8]) -> bool {
    line.ends_with(b")") || line.starts_with(b"created by ") || line.starts_with(b"goroutine ")
}

/// The end of something whose inside was indented.
pub(super) fn is_closing_bracket(line: &[u8]) -> bool {
    line.iter().all(|byte| b"}])>,;".contains(byte))
}

/// Rust's note below a panic.
pub(super) fn is_note(line: &[u8]) -> bool {
    line.starts_with(b"note: ") || line.starts_with(b"stack backtrace:")
}
