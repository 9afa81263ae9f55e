//! What RFC 6455 has a server do with every kind of frame, by the groups of the Autobahn test suite: framing, pings, reserved bits and opcodes, fragments,
//! UTF-8, closes, sizes. The peer is an application that echoes.

use std::sync::OnceLock;
use std::time::Duration;

use keepwarm_tests::{ASGI, Client, Server, websocket};
use websocket::{frame, open, read};

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(ASGI).warm("/pong"))
}

/// The reply, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Back {
    Message(u8, Vec<u8>),
    Pong(Vec<u8>),
    /// Code, 1005 for a close that says none.
    Close(u16),
}
use Back::{Close, Message, Pong};

/// The name, the frames, and the replies.
type Well<'n> = (&'n str, Vec<Vec<u8>>, Vec<Back>);
/// The name, the frames, the messages before the breach, and the code of the close.
type Ill<'n> = (&'n str, Vec<Vec<u8>>, Vec<Back>, u16);

fn text(bytes: &[u8]) -> Back {
    Message(1, bytes.to_vec())
}

fn binary(bytes: &[u8]) -> Back {
    Message(2, bytes.to_vec())
}

/// The client's own close, which ends what it says.
fn bye() -> Vec<u8> {
    frame(0x88, &1000_u16.to_be_bytes())
}

/// Reads until the close; replies as a peer does, and sees the connection end.
fn read_back(client: &mut Client, says_close: bool) -> Vec<Back> {
    let (mut all, mut begun) = (Vec::new(), None::<(u8, Vec<u8>)>);
    loop {
        let (first, payload) = read(client);
        assert_eq!(first & 0x70, 0, "reserved bits\n{client}");
        match first & 0x0f {
            0x8 => {
                let code = payload.get(..2).map_or(1005, |code| u16::from_be_bytes([code[0], code[1]]));
                if !says_close {
                    let _ = client.try_send(&frame(0x88, payload.get(..2).unwrap_or_default()));
                }
                client.expect_end();
                all.push(Close(code));
                return all;
            }
            0xa => all.push(Pong(payload)),
            0x9 => panic!("a ping within seconds\n{client}"),
            opcode => {
                let message = begun.get_or_insert((opcode, Vec::new()));
                message.1.extend(payload);
                if first & 0x80 != 0 {
                    let (opcode, whole) = begun.take().expect("begun");
                    all.push(Message(opcode, whole));
                }
            }
        }
    }
}

/// Sends the frames, all at once or byte by byte.
fn play(frames: &[Vec<u8>], bytewise: bool, says_close: bool) -> Vec<Back> {
    let mut client = server().client().patient(Duration::from_secs(60));
    open(&mut client, "/ws", "");
    let bytes = frames.concat();
    match bytewise {
        // A refusal may come before the last byte is sent.
        true => bytes.iter().for_each(|byte| drop(client.try_send(&[*byte]))),
        false => drop(client.try_send(&bytes)),
    }
    read_back(&mut client, says_close)
}

/// Cases that go well: pongs may overtake messages, which take their way through the application; among themselves both keep their order.
fn well(cases: Vec<Well<'_>>) {
    let mut faults = Vec::new();
    for (name, mut frames, wanted) in cases {
        let size: usize = frames.iter().map(Vec::len).sum();
        // The client's close comes when it has all that it waits for.
        frames.push(frame(0x81, b"last"));
        for bytewise in [false, true] {
            if bytewise && size > 2000 {
                continue;
            }
            let mut client = server().client().patient(Duration::from_secs(60));
            open(&mut client, "/ws", "");
            match bytewise {
                true => client.send_bytewise(frames.concat()),
                false => drop(client.send(frames.concat())),
            }
            let mut got = Vec::new();
            let is_pong = |back: &Back| matches!(back, Pong(_));
            let pongs = wanted.iter().filter(|back| is_pong(back)).count();
            let messages = wanted.len() - pongs + 1;
            while got.iter().filter(|back| is_pong(back)).count() < pongs
                || got.iter().filter(|back| !is_pong(back)).count() < messages
            {
                let (mut opcode, mut whole) = (0, Vec::new());
                loop {
                    let (first, payload) = read(&mut client);
                    if first & 0x0f == 0xa {
                        got.push(Pong(payload));
                        continue;
                    }
                    if first & 0x0f == 8 {
                        got.push(Close(u16::from_be_bytes([payload[0], payload[1]])));
                        break;
                    }
                    opcode |= first & 0x0f;
                    whole.extend(payload);
                    if first & 0x80 != 0 {
                        got.push(Message(opcode, whole));
                        break;
                    }
                    if whole.is_empty() && opcode == 0 {
                        break;
                    }
                }
                if got.iter().any(|back| matches!(back, Close(_))) {
                    break;
                }
            }
            client.send(bye());
            let (got_pongs, got_rest): (Vec<_>, Vec<_>) = got.into_iter().partition(is_pong);
            let (pongs, mut rest): (Vec<_>, Vec<_>) = wanted.clone().into_iter().partition(is_pong);
            rest.push(text(b"last"));
            if (got_pongs, got_rest) != (pongs, rest) {
                faults.push(format!("{name}{}", if bytewise { ", byte by byte" } else { "" }));
            }
            let (first, payload) = read(&mut client);
            if first != 0x88 || payload[..2] != 1000_u16.to_be_bytes() {
                faults.push(format!("{name}: no close"));
            }
            client.expect_end();
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Cases that are breaches: the close has this code, and of the messages before it none is wrong.
fn ill(cases: Vec<Ill<'_>>) {
    let mut faults = Vec::new();
    for (name, mut frames, before, code) in cases {
        let size: usize = frames.iter().map(Vec::len).sum();
        // Nothing after it is looked at.
        frames.push(frame(0x89, b"behind"));
        for bytewise in [false, true] {
            if bytewise && size > 2000 {
                continue;
            }
            let got = play(&frames, bytewise, false);
            let (close, rest) = got.split_last().expect("a close");
            let messages: Vec<_> = rest.iter().filter(|back| !matches!(back, Pong(_))).cloned().collect();
            if *close != Close(code)
                || !before.starts_with(&messages)
                || rest.contains(&Pong(b"behind".to_vec()))
            {
                faults.push(format!("{name}: {got:?}, not a close with {code}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pings_and_pongs() {
    let any: Vec<u8> = (0..125).map(|at| 0x83 ^ at).collect();
    well(vec![
        ("a ping of nothing", vec![frame(0x89, b"")], vec![Pong(Vec::new())]),
        ("a ping of text", vec![frame(0x89, b"hello, world")], vec![Pong(b"hello, world".to_vec())]),
        ("a ping of bytes", vec![frame(0x89, &any)], vec![Pong(any.clone())]),
        ("an unasked pong", vec![frame(0x8a, b"")], vec![]),
        ("an unasked pong with bytes", vec![frame(0x8a, b"unasked")], vec![]),
        ("pong, ping", vec![frame(0x8a, b"a"), frame(0x89, b"b")], vec![Pong(b"b".to_vec())]),
        (
            "ten pings",
            (0..10).map(|number| frame(0x89, &[number])).collect(),
            (0..10).map(|number| Pong(vec![number])).collect(),
        ),
    ]);
    ill(vec![
        ("a ping of 126 bytes", vec![frame(0x89, &[0xfe; 126])], vec![], 1002),
        ("a pong of 126 bytes", vec![frame(0x8a, &[0xfe; 126])], vec![], 1002),
    ]);
}

#[test]
fn reserved_bits_and_opcodes() {
    let mut cases = Vec::new();
    let hello = || frame(0x81, b"hello");
    for rsv in 1..8_u8 {
        for opcode in [0x1, 0x2, 0x8, 0x9, 0xa] {
            let bytes = frame(0x80 | rsv << 4 | opcode, b"");
            cases.push(("reserved bits", vec![hello(), bytes], vec![text(b"hello")], 1002));
        }
        let within = vec![frame(0x01, b"a"), frame(0x80 | rsv << 4, b"b")];
        cases.push(("reserved bits of a continuation", within, vec![], 1002));
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        for payload in [&b""[..], b"reserved"] {
            let frames = vec![hello(), frame(0x80 | opcode, payload)];
            cases.push(("a reserved opcode", frames, vec![text(b"hello")], 1002));
        }
    }
    ill(cases);
}

#[test]
fn fragments() {
    let ping = || frame(0x89, b"ping");
    let pong = || Pong(b"ping".to_vec());
    well(vec![
        ("two", vec![frame(0x01, b"a"), frame(0x80, b"b")], vec![text(b"ab")]),
        (
            "two, a ping between",
            vec![frame(0x01, b"a"), ping(), frame(0x80, b"b")],
            vec![pong(), text(b"ab")],
        ),
        ("empty ones", vec![frame(0x01, b""), frame(0x00, b""), frame(0x80, b"")], vec![text(b"")]),
        (
            "the middle one is not empty",
            vec![frame(0x02, b""), frame(0x00, b"x"), frame(0x80, b"")],
            vec![binary(b"x")],
        ),
        (
            "five, pings between all",
            [b"1", b"2", b"3"]
                .iter()
                .fold(vec![frame(0x01, b"0")], |mut all, part| {
                    all.extend([ping(), frame(0x00, *part)]);
                    all
                })
                .into_iter()
                .chain([ping(), frame(0x80, b"4")])
                .collect(),
            vec![pong(), pong(), pong(), pong(), text(b"01234")],
        ),
        (
            "a character cut at each of its bytes",
            [0xf0, 0x9f, 0x98]
                .iter()
                .enumerate()
                .map(|(at, byte)| frame(u8::from(at == 0), &[*byte]))
                .chain([frame(0x80, &[0x80])])
                .collect(),
            vec![text("\u{1f600}".as_bytes())],
        ),
    ]);
    ill(vec![
        ("a ping in two", vec![frame(0x09, b"a"), frame(0x80, b"b")], vec![], 1002),
        ("a pong in two", vec![frame(0x0a, b"a"), frame(0x80, b"b")], vec![], 1002),
        ("a close in two", vec![frame(0x08, b""), frame(0x80, b"")], vec![], 1002),
        ("a last continuation of nothing", vec![frame(0x80, b"a"), frame(0x81, b"b")], vec![], 1002),
        ("a continuation of nothing", vec![frame(0x00, b"a"), frame(0x81, b"b")], vec![], 1002),
        (
            "a continuation behind a whole message",
            vec![frame(0x01, b"a"), frame(0x80, b"b"), frame(0x00, b"c")],
            vec![text(b"ab")],
            1002,
        ),
        ("text within text", vec![frame(0x01, b"a"), frame(0x81, b"b")], vec![], 1002),
        ("binary within text", vec![frame(0x01, b"a"), frame(0x02, b"b")], vec![], 1002),
    ]);
}

#[test]
fn utf8() {
    let valid: &[&[u8]] = &[
        "\u{3ba}\u{1f79}\u{3c3}\u{3bc}\u{3b5}".as_bytes(),
        b"\x00",
        b"\x7f",
        b"\xc2\x80",
        b"\xdf\xbf",
        b"\xe0\xa0\x80",
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xef\xbf\xbd",
        b"\xef\xbf\xbf",
        b"\xf0\x90\x80\x80",
        b"\xf0\x9f\xbf\xbe",
        b"\xf4\x8f\xbf\xbf",
    ];
    let cut = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let last = bytes.len() - 1;
        let first = |at: usize| u8::from(at == 0) | if at == last { 0x80 } else { 0 };
        bytes.iter().enumerate().map(|(at, byte)| frame(first(at), &[*byte])).collect()
    };
    well(
        valid
            .iter()
            .flat_map(|bytes| {
                [
                    ("valid", vec![frame(0x81, bytes)], vec![text(bytes)]),
                    ("valid, cut", cut(bytes), vec![text(bytes)]),
                ]
            })
            .collect(),
    );
    let invalid: &[&[u8]] = &[
        b"\x80",
        b"\xbf",
        b"\x80\xbf\x80",
        b"\xc0 ",
        b"\xc2",
        b"\xc2 ",
        b"\xe1\x80",
        b"\xe1\x80 ",
        b"\xf1\x80\x80",
        b"\xf1\x80\x80 ",
        b"\xfe",
        b"\xff",
        b"\xc0\xaf",
        b"\xc1\xbf",
        b"\xe0\x80\xaf",
        b"\xe0\x9f\xbf",
        b"\xf0\x80\x80\xaf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf8\x88\x80\x80\x80",
        b"\xfc\x84\x80\x80\x80\x80",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf7\xbf\xbf\xbf",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
    ];
    ill(invalid
        .iter()
        .flat_map(|bytes| {
            [("invalid", vec![frame(0x81, bytes)], vec![], 1007), ("invalid, cut", cut(bytes), vec![], 1007)]
        })
        .collect());
    // Bytes are bytes.
    well(invalid.iter().map(|bytes| ("binary", vec![frame(0x82, bytes)], vec![binary(bytes)])).collect());
}

/// The rest of the frame never comes: a fault that it cannot fix is refused without it.
#[test]
fn invalid_text_is_refused_before_its_frame_is_complete() {
    for bytes in [&b"\xce\xba\xf4\x90"[..], b"ok\xff", b"\xed\xa0"] {
        let mut client = server().client().patient(Duration::from_secs(20));
        open(&mut client, "/ws", "");
        let whole = frame(0x81, &[bytes, &[b'x'; 100]].concat());
        client.send(&whole[..6 + bytes.len()]);
        assert_eq!(read_back(&mut client, false), [Close(1007)], "{bytes:02x?}");
    }
}

#[test]
fn closes() {
    let says = |frames: Vec<Vec<u8>>| {
        let got = play(&frames, false, true);
        got.into_iter().filter(|back| !matches!(back, Message(..))).collect::<Vec<_>>()
    };
    let close = |code: u16, reason: &[u8]| frame(0x88, &[&code.to_be_bytes(), reason].concat());
    assert_eq!(says(vec![frame(0x88, b"")]), [Close(1005)], "no code");
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        assert_eq!(says(vec![close(code, b"")]), [Close(code)]);
        assert_eq!(says(vec![close(code, "r\u{e9}ason".as_bytes())]), [Close(code)]);
    }
    assert_eq!(says(vec![close(1000, &[b'*'; 123])]), [Close(1000)], "the longest reason");
    assert_eq!(says(vec![close(1000, b""), close(1000, b"")]), [Close(1000)], "two closes");
    assert_eq!(says(vec![close(1000, b""), frame(0x89, b"")]), [Close(1000)], "a ping behind it");
    assert_eq!(says(vec![close(1000, b""), frame(0x81, b"x")]), [Close(1000)], "text behind it");
    assert_eq!(says(vec![close(1000, b""), frame(0xff, b"x")]), [Close(1000)], "a fault behind it");
    let within = vec![frame(0x01, b"a"), close(1000, b""), frame(0x80, b"b")];
    assert_eq!(says(within), [Close(1000)], "within a message");
    let large = vec![frame(0x82, &vec![7; 256 << 10]), close(1000, b""), frame(0x89, b"")];
    assert_eq!(says(large), [Close(1000)], "behind 256 KiB");
    let mut cases = vec![
        ("one byte", vec![frame(0x88, b"\x03")], vec![], 1002),
        ("126 bytes", vec![close(1000, &[b'*'; 124])], vec![], 1002),
        ("a reason that is not UTF-8", vec![close(1000, b"\xce\xba\xed\xa0\x80")], vec![], 1007),
    ];
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        cases.push(("a code that may not be sent", vec![close(code, b"")], vec![], 1002));
    }
    ill(cases);
}

/// To the byte; one more is refused by its head.
#[test]
fn messages_of_16_mib_in_one_frame_or_many() {
    const MOST: usize = 16 << 20;
    let frames = |bytes: &[u8], piece: usize| -> Vec<Vec<u8>> {
        let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
        let first = |at: usize| (if at == 0 { 2 } else { 0 }) | if at + 1 == pieces.len() { 0x80 } else { 0 };
        pieces.iter().enumerate().map(|(at, piece)| frame(first(at), piece)).collect()
    };
    let bytes: Vec<u8> = (0..=MOST).map(|at| (at % 251) as u8).collect();
    let mut cases = Vec::new();
    for size in [MOST - 1, MOST] {
        cases.push(("one frame", frames(&bytes[..size], usize::MAX), vec![binary(&bytes[..size])]));
    }
    cases.push(("frames of 64 KiB", frames(&bytes[..MOST], 65_536), vec![binary(&bytes[..MOST])]));
    cases.push(("frames of 1000 bytes", frames(&bytes[..1 << 20], 1000), vec![binary(&bytes[..1 << 20])]));
    cases.push(("many small frames", frames(&bytes[..100_000], 7), vec![binary(&bytes[..100_000])]));
    well(cases);
    let head = [&[0x82, 0xff][..], &(MOST as u64 + 1).to_be_bytes(), &[0; 4]].concat();
    ill(vec![
        ("a frame above the limit", vec![head], vec![], 1009),
        (
            "a message above the limit",
            frames(&bytes[..MOST], 1 << 20)
                .into_iter()
                .map(|mut frame| {
                    frame[0] &= 0x7f;
                    frame
                })
                .chain([frame(0x80, b"1")])
                .collect(),
            vec![],
            1009,
        ),
    ]);
}
