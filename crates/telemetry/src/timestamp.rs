//! Timestamps of log lines.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time as `2026-01-01T00:00:00.000Z` (RFC 3339, UTC). All but the milliseconds is formatted once a second and thread.
#[must_use]
pub fn timestamp(time: SystemTime) -> [u8; 24] {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let second = since.as_secs();
    let (cached, mut text) = LATEST.get();
    if cached != Some(second) {
        text = format_second(second);
        LATEST.set((Some(second), text));
    }
    set_digits(&mut text, 20, since.subsec_millis().into());
    text
}

thread_local! {
    static LATEST: Cell<(Option<u64>, [u8; 24])> = const { Cell::new((None, [0; 24])) };
}

fn format_second(second: u64) -> [u8; 24] {
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let (year, month, day) = civil(second / 86_400);
    let of_day = second % 86_400;
    let numbers =
        [(0, year), (5, month), (8, day), (11, of_day / 3600), (14, of_day / 60 % 60), (17, of_day % 60)];
    for (at, number) in numbers {
        set_digits(&mut text, at, number);
    }
    text
}

/// Writes a number over the zeros, or the digits, that begin at `at` and end before the next separator.
fn set_digits(text: &mut [u8; 24], at: usize, mut number: u64) {
    let digits = text.iter_mut().skip(at).take_while(|byte| byte.is_ascii_digit()).count();
    // Counted first, since the iterator above cannot be run from its end.
    for byte in text.iter_mut().skip(at).take(digits).rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day of a count of days since 1970-01-01, in the Gregorian calendar: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`, for days that are not negative.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_date() {
        // From `date -u -d @N +%FT%T`.
        let cases = [
            (0, 0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, 1, "2000-02-28T23:59:59.001Z"),
            (951_782_400, 999, "2000-02-29T00:00:00.999Z"),
            (951_868_800, 20, "2000-03-01T00:00:00.020Z"),
            (1_767_225_599, 999, "2025-12-31T23:59:59.999Z"),
            (1_767_225_600, 0, "2026-01-01T00:00:00.000Z"),
            (1_767_225_600, 7, "2026-01-01T00:00:00.007Z"),
            (4_107_542_399, 500, "2100-02-28T23:59:59.500Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000Z"),
        ];
        for (seconds, millis, expected) in cases {
            let time = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis);
            assert_eq!(std::str::from_utf8(&timestamp(time)).unwrap(), expected);
        }
    }
}
