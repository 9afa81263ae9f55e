//! Escapes untrusted bytes for a line of a log: none can end the line, forge another, or control a terminal.

/// Appends `bytes` as one token of a text line: printable ASCII as it is, `"` and `\` after a backslash, every other byte as `\xHH`.
pub fn push_text(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let (plain, odd) = split_plain(rest);
        out.extend_from_slice(plain);
        let Some((&byte, tail)) = odd.split_first() else { return };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ => out.extend_from_slice(&[b'\\', b'x', hex(byte >> 4), hex(byte)]),
        }
        rest = tail;
    }
}

/// Appends `bytes` as the inside of a JSON string (RFC 8259 §7). Invalid UTF-8 becomes U+FFFD; characters that control a terminal or the direction of
/// text are escaped although JSON allows them.
pub fn push_json(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let (plain, odd) = split_plain(rest);
        out.extend_from_slice(plain);
        let Some((&byte, tail)) = odd.split_first() else { return };
        rest = match byte {
            b'"' | b'\\' => {
                out.extend_from_slice(&[b'\\', byte]);
                tail
            }
            0..0x80 => {
                push_json_escape(out, byte.into());
                tail
            }
            _ => {
                let end = odd.iter().position(u8::is_ascii).unwrap_or(odd.len());
                let (foreign, tail) = odd.split_at_checked(end).unwrap_or((odd, &[]));
                push_json_foreign(out, foreign);
                tail
            }
        };
    }
}

/// Appends text, with characters that control a terminal as `\xHH` or `\u{HHHH}`. For messages of Keepwarm and of apps.
pub fn push_readable(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        let (plain, odd) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.extend_from_slice(plain.as_bytes());
        let mut chars = odd.chars();
        if let Some(odd) = chars.next() {
            out.extend_from_slice(
                match odd {
                    '\t' => "\\t".to_owned(),
                    '\n' => "\\n".to_owned(),
                    '\0'..'\u{100}' => format!("\\x{:02x}", u32::from(odd)),
                    _ => format!("\\u{{{:x}}}", u32::from(odd)),
                }
                .as_bytes(),
            );
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Up to the first byte that is not printable ASCII, or is `"` or `\`.
fn split_plain(bytes: &[u8]) -> (&[u8], &[u8]) {
    // Nearly all text is plain: one pass without an early exit, which compiles to vector instructions.
    if bytes.iter().fold(true, |plain, &byte| plain & is_plain(byte)) {
        return (bytes, &[]);
    }
    let end = bytes.iter().position(|&b| !is_plain(b)).unwrap_or(bytes.len());
    bytes.split_at_checked(end).unwrap_or((bytes, &[]))
}

fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) & (byte != b'"') & (byte != b'\\')
}

/// Controls (C0, DEL, C1), line separators and marks of direction.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
}

fn push_json_foreign(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match u16::try_from(u32::from(c)) {
                Ok(unit) if is_unsafe(c) => push_json_escape(out, unit),
                _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

fn push_json_escape(out: &mut Vec<u8>, unit: u16) {
    let [high, low] = unit.to_be_bytes();
    out.extend_from_slice(&[b'\\', b'u', hex(high >> 4), hex(high), hex(low >> 4), hex(low)]);
}

/// The digit of the low four bits.
fn hex(nibble: u8) -> u8 {
    match nibble & 0xf {
        digit @ 0..=9 => b'0' + digit,
        letter => b'a' + letter - 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(push: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_of_a_stranger_stays_on_its_line_and_inside_its_quotes() {
        let cases: [(&[u8], &str); 5] = [
            (b"/plain?a=b c", "/plain?a=b c"),
            (b"a\"b\\c", r#"a\"b\\c"#),
            (b"\r\n[2J\x1b[31m\x7f", r"\x0d\x0a[2J\x1b[31m\x7f"),
            ("é\u{9b}".as_bytes(), r"\xc3\xa9\xc2\x9b"),
            (b"", ""),
        ];
        for (bytes, expected) in cases {
            assert_eq!(with(|out| push_text(out, bytes)), expected);
        }
    }

    #[test]
    fn json_round_trips_with_replacements_for_invalid_bytes() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let cases: [&[u8]; 6] = [
            b"plain",
            b"\"\\/\x08\x0c\n\r\t\x00\x1f\x7f",
            "héllo \u{9b}\u{202e}\u{1f600}".as_bytes(),
            b"\xff\xfe ok \xc3",
            &every_byte,
            b"",
        ];
        for bytes in cases {
            let json = with(|out| push_json(out, bytes));
            assert!(!json.chars().any(is_unsafe), "{json:?}");
            let back: String = serde_json::from_str(&format!("\"{json}\"")).unwrap();
            assert_eq!(back, String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_readable_message_keeps_its_letters_and_loses_its_controls() {
        let message = "naïve\tcafé \x1b[31mred\u{202e}\nnext";
        assert_eq!(with(|out| push_readable(out, message)), r"naïve\tcafé \x1b[31mred\u{202e}\nnext");
    }
}
