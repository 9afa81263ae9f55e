//! Times and sizes in the units of other tools, as keepwarm.toml writes them.

/// A time of nginx: `30`, `30s`, `5m`, `1h`, `1d`, `500ms`, `1h30m`.
pub(crate) fn nginx_time(text: &str) -> Option<u64> {
    let mut millis: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest.get(..end)?.parse().ok()?;
        let unit = rest.get(end..)?;
        let length = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        let factor = match unit.get(..length)?.trim() {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        millis = millis.checked_add(number.checked_mul(factor)?)?;
        rest = unit.get(length..)?;
    }
    Some(millis)
}

/// Milliseconds with the largest unit that fits.
pub(crate) fn time(millis: u64) -> String {
    match millis {
        0 => "0s".to_owned(),
        millis if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        millis if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        millis if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}

/// A size with a letter for KiB, MiB, GiB.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(['b', 'B']);
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text.get(..end)?.parse().ok()?;
    let factor = match text.get(end..)?.trim() {
        "" => 1,
        "k" | "K" | "Ki" => 1 << 10,
        "m" | "M" | "Mi" => 1 << 20,
        "g" | "G" | "Gi" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Bytes with the largest unit that fits.
pub(crate) fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes > 0 && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes() {
        for (text, written) in
            [("60", "1m"), ("90s", "90s"), ("1h30m", "90m"), ("500ms", "500ms"), ("1d", "24h"), ("0", "0s")]
        {
            assert_eq!(time(nginx_time(text).unwrap()), written, "{text}");
        }
        for (text, written) in [
            ("8m", "8MiB"),
            ("100M", "100MiB"),
            ("1500", "1500B"),
            ("64k", "64KiB"),
            ("1G", "1GiB"),
            ("0", "0B"),
        ] {
            assert_eq!(size(bytes(text).unwrap()), written, "{text}");
        }
        for wrong in ["", "x", "1x", "-1"] {
            assert_eq!(nginx_time(wrong), None);
            assert_eq!(bytes(wrong), None);
        }
    }
}
