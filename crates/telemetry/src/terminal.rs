//! Log lines for a person at a terminal: local time without a date, one prefix for what an app prints, statuses in color.
//!
//! ```text
//! 14:03:07 WARN  shop/2 worker replaced reason=memory
//! 14:03:07 shop/2 | Traceback (most recent call last):
//!          shop/2 |   File "shop.py", line 3, in pay
//! 14:03:07 200 GET /products 1.2 ms
//! ```

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tz::TimeZone;

use crate::escape::push_readable;

/// A request that takes this long is marked as slow. The number is arbitrary: a second is what a visitor notices as waiting.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// The beginning of a continued line: as wide as the time before the first.
pub(crate) const NO_TIME: &[u8] = b"         ";

/// A color or weight, as the parameters of SGR (ECMA-48 §8.3.117).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

impl Paint {
    fn code(self) -> &'static [u8] {
        match self {
            Self::Plain => b"",
            Self::Bold => b"\x1b[1m",
            Self::Dim => b"\x1b[2m",
            Self::Red => b"\x1b[31m",
            Self::Green => b"\x1b[32m",
            Self::Yellow => b"\x1b[33m",
            Self::Blue => b"\x1b[34m",
            Self::Magenta => b"\x1b[35m",
            Self::Cyan => b"\x1b[36m",
        }
    }

    /// Runs `write` in this color, if colors are wanted.
    pub(crate) fn over(self, out: &mut Vec<u8>, color: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let painted = color && self != Self::Plain;
        if painted {
            out.extend_from_slice(self.code());
        }
        write(out);
        if painted {
            out.extend_from_slice(b"\x1b[0m");
        }
    }

    /// That of a response's status.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Green,
            300..=399 => Self::Cyan,
            400..=499 => Self::Yellow,
            500..=599 | 0 => Self::Red,
            _ => Self::Plain,
        }
    }

    /// That of a worker, so that neighbors differ.
    pub(crate) fn of_worker(prefix: &[u8]) -> Self {
        const ALL: [Paint; 4] = [Paint::Cyan, Paint::Magenta, Paint::Blue, Paint::Green];
        let sum = prefix.iter().fold(0_usize, |sum, &byte| sum.wrapping_add(byte.into()));
        ALL.get(sum % ALL.len()).copied().unwrap_or(Paint::Plain)
    }
}

/// Appends `14:03:07 `, in the time zone of the system or of `TZ`.
pub(crate) fn push_clock(out: &mut Vec<u8>, time: SystemTime, color: bool) {
    let second = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (cached, mut text) = LATEST.get();
    if cached != Some(second) {
        text = clock(second, &LOCAL);
        LATEST.set((Some(second), text));
    }
    Paint::Dim.over(out, color, |out| out.extend_from_slice(&text));
    out.push(b' ');
}

/// The local time of day: `14:02`.
#[must_use]
pub fn local_minute(time: SystemTime) -> String {
    let second = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let text = clock(second, &LOCAL);
    String::from_utf8_lossy(text.get(..5).unwrap_or_default()).into_owned()
}

thread_local! {
    static LATEST: Cell<(Option<u64>, [u8; 8])> = const { Cell::new((None, [0; 8])) };
}

/// Read once: UTC where the system has no zone.
static LOCAL: LazyLock<TimeZone> = LazyLock::new(|| TimeZone::local().unwrap_or_else(|_| TimeZone::utc()));

fn clock(second: u64, zone: &TimeZone) -> [u8; 8] {
    let second = i64::try_from(second).unwrap_or_default();
    let offset = zone.find_local_time_type(second).map_or(0, |kind| kind.ut_offset());
    let of_day = (second + i64::from(offset)).rem_euclid(86_400);
    let digits = |number: i64| [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
    let ([h, i], [m, n], [s, t]) = (digits(of_day / 3600), digits(of_day / 60 % 60), digits(of_day % 60));
    [h, i, b':', m, n, b':', s, t]
}

/// Appends a time as a person reads it: `0.2 ms`, `140 ms`, `1.24 s`.
pub(crate) fn push_elapsed(out: &mut Vec<u8>, elapsed: Duration) {
    let micros = elapsed.as_micros();
    let text = match micros {
        ..10_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..10_000_000 => format!("{}.{:02} s", micros / 1_000_000, micros / 10_000 % 100),
        _ => format!("{} s", micros / 1_000_000),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Appends a line that an app printed: tabs and colors stay (colors only where they are wanted); everything else that controls a terminal is escaped.
pub(crate) fn push_app_line(out: &mut Vec<u8>, line: &str, color: bool) {
    let mut rest = line;
    let mut is_painted = false;
    while let Some(at) = rest.find(['\t', '\x1b']) {
        let (plain, odd) = rest.split_at_checked(at).unwrap_or((rest, ""));
        push_readable(out, plain);
        let length = match sgr(odd) {
            Some(length) => {
                if color {
                    out.extend_from_slice(odd.as_bytes().get(..length).unwrap_or_default());
                    is_painted = true;
                }
                length
            }
            None if odd.starts_with('\t') => {
                out.push(b'\t');
                1
            }
            None => {
                push_readable(out, "\x1b");
                1
            }
        };
        rest = odd.get(length..).unwrap_or_default();
    }
    push_readable(out, rest);
    if is_painted {
        out.extend_from_slice(b"\x1b[0m");
    }
}

/// The length of the color sequence (`ESC [ numbers m`) at the beginning.
fn sgr(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\x1b[")?;
    let numbers =
        rest.bytes().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')).count();
    rest.as_bytes().get(numbers).filter(|&&end| end == b'm').map(|_| 2 + numbers + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn clocks_follow_the_zone_and_its_summer_time() {
        // From `TZ=Europe/Berlin date -d @N +%T`, and the same for New York and Kolkata.
        for (zone, second, expected) in [
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1_767_225_600, "01:00:00"),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1_774_745_999, "01:59:59"),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1_774_746_000, "03:00:00"),
            ("EST5EDT,M3.2.0,M11.1.0", 1_767_225_600, "19:00:00"),
            ("IST-5:30", 1_767_225_600, "05:30:00"),
            ("UTC0", 86_399, "23:59:59"),
            ("EST5EDT,M3.2.0,M11.1.0", 0, "19:00:00"),
        ] {
            let zone = TimeZone::from_posix_tz(zone).unwrap();
            assert_eq!(std::str::from_utf8(&clock(second, &zone)).unwrap(), expected);
        }
    }

    #[test]
    fn times_are_rounded_down_to_what_matters() {
        for (micros, expected) in [
            (0, "0.0 ms"),
            (199, "0.1 ms"),
            (9_999, "9.9 ms"),
            (10_000, "10 ms"),
            (999_999, "999 ms"),
            (1_000_000, "1.00 s"),
            (1_249_999, "1.24 s"),
            (10_000_000, "10 s"),
            (3_600_000_000, "3600 s"),
        ] {
            assert_eq!(with(|out| push_elapsed(out, Duration::from_micros(micros))), expected);
        }
    }

    #[test]
    fn an_apps_colors_stay_and_nothing_else_controls_the_terminal() {
        for (line, colored, plain) in [
            ("plain", "plain", "plain"),
            ("\tindented", "\tindented", "\tindented"),
            ("\x1b[31mred\x1b[0m.", "\x1b[31mred\x1b[0m.\x1b[0m", "red."),
            ("\x1b[38;5;9mx", "\x1b[38;5;9mx\x1b[0m", "x"),
            ("\x1b[2Jx", "\\x1b[2Jx", "\\x1b[2Jx"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07", "\\x1b]0;title\\x07"),
            ("\x1b", "\\x1b", "\\x1b"),
            ("\x1b[31", "\\x1b[31", "\\x1b[31"),
            ("naïve\rcafé", "naïve\\x0dcafé", "naïve\\x0dcafé"),
        ] {
            assert_eq!(with(|out| push_app_line(out, line, true)), colored, "{line:?}");
            assert_eq!(with(|out| push_app_line(out, line, false)), plain, "{line:?}");
        }
    }
}
