//! The level of a line, if its language or its logger determines it.

use tracing::Level;

/// Bytes at the beginning of a line that are searched for a level.
const HEAD: usize = 120;
/// Words that may stand before it: the logger's name, a thread, a month.
const WORDS_BEFORE: usize = 6;

/// The level of a line; `INFO` by default. Lower levels are `INFO` too: the output of an app is always logged.
pub(super) fn of(line: &[u8]) -> Level {
    find(line).unwrap_or(Level::INFO)
}

/// The level of a line; `None` if it has none.
pub(super) fn find(line: &[u8]) -> Option<Level> {
    let plain;
    let line = match line.contains(&ESCAPE) {
        true => {
            plain = without_colors(line);
            &plain
        }
        false => line,
    };
    let line = line.strip_prefix(b"PHP message: ").unwrap_or(line);
    if is_python(line) || is_go_panic(line) || is_rust_panic(line) {
        return Some(Level::ERROR);
    }
    if line.starts_with(b"{") && line.trim_ascii_end().ends_with(b"}") {
        return json(line);
    }
    None.or_else(|| logger(line))
        .or_else(|| php(line))
        .or_else(|| ruby_exception(line))
        .or_else(|| program(line))
        .or_else(|| logfmt(line))
        .or_else(|| word(line))
        .or_else(|| warning(line))
}

const ESCAPE: u8 = 0x1b;

/// Loggers color the level: `ESC [ 31 m`.
fn without_colors(line: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.iter().position(|&byte| byte == ESCAPE) {
        let (before, sequence) = rest.split_at(at);
        plain.extend_from_slice(before);
        let parameters = sequence.strip_prefix(b"\x1b[").unwrap_or_default();
        let length = parameters.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
        rest = match parameters.get(length) {
            Some(b'm') => parameters.get(length + 1..).unwrap_or_default(),
            _ => sequence.get(1..).unwrap_or_default(),
        };
    }
    plain.extend_from_slice(rest);
    plain
}

/// Python's output about an exception, in its several forms, or about its own end.
fn is_python(line: &[u8]) -> bool {
    line.starts_with(b"Traceback (most recent call last)")
        || is_python_place(line)
        || is_python_group(line)
        || is_boxed_traceback(line)
        || line.starts_with(FATAL)
}

/// `  + Exception Group Traceback (most recent call last):`
pub(super) fn is_python_group(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"+ Exception Group Traceback (most recent call last)")
}

/// A traceback as the library rich draws it.
pub(super) fn is_boxed_traceback(line: &[u8]) -> bool {
    line.starts_with("╭".as_bytes()) && contains(line, b" Traceback (most recent call last) ")
}

pub(super) const FATAL: &[u8] = b"Fatal Python error: ";

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

/// `PHP Warning:  Undefined variable $card in shop.php on line 3`, also after a time in brackets.
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

/// `PHP Fatal error:  Uncaught RuntimeException: no such card`
pub(super) fn is_uncaught(line: &[u8]) -> bool {
    contains(line, b":  Uncaught ")
}

/// ``shop.rb:3:in `pay': no such card (ArgumentError)``, as Ruby prints what ends a program.
fn ruby_exception(line: &[u8]) -> Option<Level> {
    let place = contains(line, b":in `") || contains(line, b":in '");
    let class = line.strip_suffix(b")")?.rsplit(|&byte| byte == b'(').next()?;
    (place && class.first().is_some_and(u8::is_ascii_uppercase)).then_some(Level::ERROR)
}

/// `PROGRAM: error: no such card`, as programs of Unix print.
fn program(line: &[u8]) -> Option<Level> {
    let name = line.iter().position(|byte| byte.is_ascii_whitespace())?;
    let (name, rest) = line.split_at_checked(name)?;
    if !name.ends_with(b":") {
        return None;
    }
    match rest {
        _ if rest.starts_with(b" error: ") || rest.starts_with(b" fatal: ") => Some(Level::ERROR),
        _ if rest.starts_with(b" warning: ") => Some(Level::WARN),
        _ => None,
    }
}

/// The names of a level's key, in JSON and in `key=value`.
const KEYS: [&[u8]; 5] = [b"level", b"levelname", b"severity", b"log.level", b"lvl"];

/// `{"level": "error", "event": "no such card"}`, and the numbers of pino and bunyan.
fn json(line: &[u8]) -> Option<Level> {
    KEYS.iter().find_map(|key| {
        let quoted = [b"\"", *key, b"\""].concat();
        let at = line.windows(quoted.len()).position(|part| part == quoted)? + quoted.len();
        let value = line.get(at..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        if let Some(text) = value.strip_prefix(b"\"") {
            let word = text.split(|&byte| byte == b'"').next()?;
            return named(word, true);
        }
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match value.get(..digits)? {
            b"50" | b"60" => Some(Level::ERROR),
            b"40" => Some(Level::WARN),
            _ => None,
        }
    })
}

/// `time=2026-01-01T00:00:00Z level=error msg="no such card"`
fn logfmt(line: &[u8]) -> Option<Level> {
    let head = line.get(..HEAD).unwrap_or(line);
    head.split(|&byte| byte == b' ').find_map(|part| {
        let at = part.iter().position(|&byte| byte == b'=')?;
        let (key, value) = part.split_at_checked(at)?;
        let value = value.get(1..)?.trim_ascii();
        let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        KEYS.contains(&key).then(|| named(value, true)).flatten()
    })
}

/// The first word that is a level: in capitals, or in brackets.
fn word(line: &[u8]) -> Option<Level> {
    let head = line.get(..HEAD).unwrap_or(line);
    let mut before = None;
    let (mut words, mut at) = (0, 0);
    for token in head.split_inclusive(|byte| !byte.is_ascii_alphanumeric()) {
        let (name, after) = match token.split_last() {
            Some((&last, name)) if !last.is_ascii_alphanumeric() => (name, Some(last)),
            _ => (token, None),
        };
        at += token.len();
        let stands = matches!(before, None | Some(b' ' | b'[' | b'.' | b'|' | b'(' | b'<' | b'-'))
            && matches!(after, None | Some(b' ' | b':' | b']' | b'|' | b')' | b'>' | b'-' | b',' | b'/'));
        // `[error]`, and `[error    ]` of structlog
        let in_brackets = before == Some(b'[')
            && (after == Some(b']')
                || head.get(at..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"]")));
        if stands && let Some(level) = named(name, in_brackets) {
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

/// `any_case`: its position allows only a level.
fn named(word: &[u8], any_case: bool) -> Option<Level> {
    let capitals;
    let word = match any_case {
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
    let is_warning = contains(head, b": warning: ")
        || (head.starts_with(b"(node:") && contains(head, b"Warning: "))
        || head.split(|&byte| byte == b' ').skip(1).take(2).any(|word| word.ends_with(b"Warning:"));
    is_warning.then_some(Level::WARN)
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
