//! How bad a line is, where its language or its logger says so.

use tracing::Level;

/// Where a level is looked for: it stands near the beginning of a line.
const HEAD: usize = 120;
/// Words that may stand before it: the logger's name, a thread, a month.
const WORDS_BEFORE: usize = 6;

/// `INFO` where nothing is said. What is less is `INFO` too: what an app prints is never left out of the log.
pub(super) fn of(line: &[u8]) -> Level {
    let line = line.strip_prefix(b"PHP message: ").unwrap_or(line);
    let is_python = line.starts_with(b"Traceback (most recent call last)") || is_python_place(line);
    if is_python || is_go_panic(line) || is_rust_panic(line) {
        return Level::ERROR;
    }
    None.or_else(|| logger(line))
        .or_else(|| php(line))
        .or_else(|| ruby_exception(line))
        .or_else(|| word(line))
        .or_else(|| warning(line))
        .unwrap_or(Level::INFO)
}

/// Python's SyntaxError of a module that is imported has no more above it: `  File "shop.py", line 4`
pub(super) fn is_python_place(line: &[u8]) -> bool {
    let number = line.strip_prefix(b"  File \"").and_then(|rest| {
        let at = rest.windows(PLACE.len()).rposition(|part| part == PLACE)?;
        rest.get(at + PLACE.len()..)
    });
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

const PLACE: &[u8] = b"\", line ";

/// Ruby's `Logger`: `E, [2026-01-01T00:00:00.000000 #12] ERROR -- : no such card`
fn logger(line: &[u8]) -> Option<Level> {
    match line {
        [b'E' | b'F', b',', b' ', b'[', ..] => Some(Level::ERROR),
        [b'W', b',', b' ', b'[', ..] => Some(Level::WARN),
        [b'D' | b'I' | b'A', b',', b' ', b'[', ..] => Some(Level::INFO),
        _ => None,
    }
}

pub(super) fn is_logger(line: &[u8]) -> bool {
    logger(line).is_some()
}

/// `PHP Warning:  Undefined variable $card in shop.php on line 3`, also behind a time in brackets.
fn php(line: &[u8]) -> Option<Level> {
    let rest = match line.strip_prefix(b"[") {
        Some(rest) => rest.splitn(2, |&byte| byte == b']').nth(1)?.trim_ascii_start(),
        None => line,
    };
    let kind = rest.strip_prefix(b"PHP ")?.split(|&byte| byte == b':').next()?;
    match kind {
        b"Fatal error" | b"Parse error" | b"Recoverable fatal error" | b"Catchable fatal error" => {
            Some(Level::ERROR)
        }
        b"Warning" | b"Core Warning" | b"Compile Warning" | b"User Warning" => Some(Level::WARN),
        b"Notice" | b"Deprecated" | b"Strict Standards" => Some(Level::INFO),
        _ => None,
    }
}

pub(super) fn is_php_fatal(line: &[u8]) -> bool {
    php(line.strip_prefix(b"PHP message: ").unwrap_or(line)) == Some(Level::ERROR)
}

/// ``shop.rb:3:in `pay': no such card (ArgumentError)``, as Ruby prints what ends a program.
fn ruby_exception(line: &[u8]) -> Option<Level> {
    let place = contains(line, b":in `") || contains(line, b":in '");
    let class = line.strip_suffix(b")")?.rsplit(|&byte| byte == b'(').next()?;
    (place && class.first().is_some_and(u8::is_ascii_uppercase)).then_some(Level::ERROR)
}

/// The first word that is a level: in capitals, or in brackets.
fn word(line: &[u8]) -> Option<Level> {
    let head = line.get(..HEAD).unwrap_or(line);
    let mut before = None;
    let mut words = 0;
    for token in head.split_inclusive(|byte| !byte.is_ascii_alphanumeric()) {
        let (name, after) = match token.split_last() {
            Some((&last, name)) if !last.is_ascii_alphanumeric() => (name, Some(last)),
            _ => (token, None),
        };
        let stands = matches!(before, None | Some(b' ' | b'[' | b'.' | b'|' | b'(' | b'<' | b'-'))
            && matches!(after, None | Some(b' ' | b':' | b']' | b'|' | b')' | b'>' | b'-' | b','));
        if stands && let Some(level) = named(name, before == Some(b'[') && after == Some(b']')) {
            return Some(level);
        }
        words += usize::from(name.first().is_some_and(u8::is_ascii_alphabetic));
        if words > WORDS_BEFORE {
            return None;
        }
        before = after;
    }
    None
}

fn named(word: &[u8], in_brackets: bool) -> Option<Level> {
    let capitals;
    let word = match in_brackets {
        true => {
            capitals = word.to_ascii_uppercase();
            &capitals
        }
        false => word,
    };
    match word {
        b"ERROR" | b"CRITICAL" | b"FATAL" | b"ALERT" | b"EMERGENCY" | b"SEVERE" | b"PANIC" => {
            Some(Level::ERROR)
        }
        b"WARNING" | b"WARN" => Some(Level::WARN),
        b"INFO" | b"NOTICE" | b"DEBUG" | b"TRACE" => Some(Level::INFO),
        _ => None,
    }
}

/// `shop.py:3: DeprecationWarning: …`, `shop.rb:3: warning: …`, `(node:12) Warning: …`
fn warning(line: &[u8]) -> Option<Level> {
    let head = line.get(..HEAD * 2).unwrap_or(line);
    let said = contains(head, b": warning: ")
        || (head.starts_with(b"(node:") && contains(head, b"Warning: "))
        || head.split(|&byte| byte == b' ').skip(1).take(2).any(|word| word.ends_with(b"Warning:"));
    said.then_some(Level::WARN)
}

/// `panic: no such card`, `fatal error: all goroutines are asleep`, and what `net/http` says of a handler.
pub(super) fn is_go_panic(line: &[u8]) -> bool {
    line.starts_with(b"panic: ")
        || line.starts_with(b"fatal error: ")
        || contains(line, b" http: panic serving ")
}

pub(super) fn is_rust_panic(line: &[u8]) -> bool {
    line.starts_with(b"thread '") && contains(line, b" panicked at ")
}

/// `Error: no such card`, `java.lang.IllegalStateException: …`
pub(super) fn names_error(text: &[u8]) -> bool {
    contains(text, b"Error") || contains(text, b"Exception") || contains(text, b"exception")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
