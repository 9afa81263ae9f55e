use super::*;

/// The lines of `input`, fed in pieces of `step` bytes.
fn lines(input: &[u8], step: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut lines = LineSplitter::default();
    for piece in input.chunks(step) {
        lines.handle_bytes(piece, |line| found.push(line.to_vec()));
    }
    lines.finish(|line| found.push(line.to_vec()));
    found
}

#[test]
fn lines_are_the_same_however_they_come() {
    let input = b"one\n\ntwo\r\nthr\ree\nlast";
    for step in [1, 2, 3, 100] {
        assert_eq!(lines(input, step), [&b"one"[..], b"", b"two", b"thr\ree", b"last"]);
    }
}

#[test]
fn a_long_line_is_split_at_8_kib() {
    let input = [vec![b'x'; 20_000], b"\nshort\n".to_vec()].concat();
    for step in [1, 1000, LINE_MAX, 100_000] {
        let lengths: Vec<_> = lines(&input, step).iter().map(Vec::len).collect();
        assert_eq!(lengths, [8192, 8192, 3616, 5]);
    }
}

#[test]
fn a_line_of_exactly_8_kib_keeps_its_bytes() {
    let input = [vec![b'x'; LINE_MAX], b"\nnext\n".to_vec()].concat();
    assert_eq!(lines(&input, 4096).concat(), [vec![b'x'; LINE_MAX], b"next".to_vec()].concat());
}

#[test]
fn a_split_never_cuts_a_character() {
    for character in ["ä", "€", "🦀"] {
        for shift in 0..4 {
            let input = format!("{}{}", "x".repeat(shift), character.repeat(5000));
            let found = lines(input.as_bytes(), 1000);
            assert!(found.len() > 1);
            for line in &found {
                assert!(line.len() <= LINE_MAX && std::str::from_utf8(line).is_ok(), "{character} {shift}");
            }
            assert_eq!(found.concat(), input.as_bytes());
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_split_too() {
    let input = vec![0x80; 20_000];
    assert_eq!(lines(&input, 777).concat(), input);
}

#[test]
fn what_is_kept_is_bounded_and_begins_with_a_line() {
    let boot_output = BootOutput::new(true);
    for number in 0..20_000 {
        boot_output.handle_bytes(format!("line {number}\n").as_bytes());
    }
    let bytes = boot_output.take_bytes();
    assert!(bytes.len() <= KEPT_MAX && bytes.len() > KEPT_MAX - 20);
    assert!(bytes.starts_with(b"line ") && bytes.ends_with(b"line 19999\n"));
}

#[test]
fn nothing_is_kept_after_the_boot() {
    let source = OutputSource::worker(Arc::from("shop"), 1, 2);
    let boot_output = BootOutput::new(true);
    boot_output.handle_bytes(b"boot\n");
    boot_output.handle_record(&source, "stderr", Level::INFO, b"boot");
    assert!(boot_output.hold_until().is_some());
    boot_output.finish_boot(&source);
    assert!(boot_output.hold_until().is_none());
    boot_output.handle_bytes(b"later\n");
    assert_eq!(boot_output.take_bytes(), b"");
}
