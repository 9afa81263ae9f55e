//! Frames that cannot be written leave the vector as it was.

use super::*;
use crate::frame::{FromWorker, MAX_PAYLOAD, Strings, ToWorker};

const FIXED: RequestStrings<'static> = RequestStrings {
    method: b"GET",
    protocol: b"HTTP/1.1",
    scheme: b"http",
    path: b"/",
    raw_path: b"/",
    query: b"",
    script_name: b"",
    server_name: b"localhost",
    server_port: b"80",
    client_address: b"",
    client_port: b"",
};

/// Writes after bytes that must stay, and returns the result.
fn behind<T: Copy>(
    write: impl FnOnce(&mut Vec<u8>) -> Result<T, EncodeError>,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = b"before".to_vec();
    let result = write(&mut out);
    assert!(out.starts_with(b"before"));
    let written = out.split_off(6);
    match result {
        Ok(_) => Ok(written),
        Err(error) => {
            assert!(written.is_empty(), "{error}, but {written:?} was left");
            Err(error)
        }
    }
}

fn request(write: impl FnOnce(&mut RequestWriter<'_>), flags: u8) -> Result<Vec<u8>, EncodeError> {
    behind(|out| {
        let mut writer = RequestWriter::begin(out, 1, None);
        write(&mut writer);
        writer.finish(flags)
    })
}

fn response(status: u16, body: &[u8], flags: u8) -> Result<Vec<u8>, EncodeError> {
    behind(|out| {
        let mut writer = ResponseWriter::begin(out, 1, status);
        writer.field(b"a", b"b");
        writer.body(body);
        writer.finish(flags)
    })
}

#[test]
fn a_nul_cannot_be_written() {
    for at in 0..11 {
        let written = request(
            |writer| (0..11).for_each(|index| writer.string(if index == at { b"a\0b" } else { b"x" })),
            0,
        );
        assert_eq!(written, Err(EncodeError::Nul), "string {at}");
    }
    for (name, value) in [(&b"\0"[..], &b""[..]), (b"a\0", b"b"), (b"a", b"\0b"), (b"a", b"b\0c\0d")] {
        let fields = |writer: &mut RequestWriter<'_>| {
            writer.fixed(&FIXED);
            writer.field(name, value);
            writer.body(b"\0\0");
        };
        assert_eq!(request(fields, 0), Err(EncodeError::Nul));
        assert_eq!(behind(|out| encode_trailers(out, 1, [(name, value)])), Err(EncodeError::Nul));
        assert_eq!(behind(|out| encode_inform(out, 1, 103, [(name, value)])), Err(EncodeError::Nul));
    }
    // The path that hides it in a count of two: "a\0b" alone is not two strings.
    assert_eq!(behind(|out| encode_trailers(out, 1, [(&b"a\0b"[..], &b"c"[..])])), Err(EncodeError::Nul));
}

#[test]
fn nuls_belong_in_bodies() {
    let bytes = request(
        |writer| {
            writer.fixed(&FIXED);
            writer.body(b"\0");
            writer.body(b"\0\0");
        },
        flags::END,
    );
    let bytes = bytes.unwrap();
    let Ok(Some((ToWorker::Request(request), used))) = ToWorker::decode(&bytes) else { panic!() };
    assert_eq!((request.body, used), (&b"\0\0\0"[..], bytes.len()));
    assert_eq!(request.fixed(), FIXED);
}

#[test]
fn a_request_needs_its_strings_in_order() {
    assert_eq!(request(|_| {}, 0), Err(EncodeError::Fields));
    assert_eq!(request(|writer| (0..10).for_each(|_| writer.string(b"x")), 0), Err(EncodeError::Fields));
    assert_eq!(request(|writer| (0..12).for_each(|_| writer.string(b"x")), 0), Err(EncodeError::Fields));
    let late_field = |writer: &mut RequestWriter<'_>| {
        writer.fixed(&FIXED);
        writer.body(b"body");
        writer.field(b"a", b"b");
    };
    assert_eq!(request(late_field, 0), Err(EncodeError::Fields));
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let mut out = b"before".to_vec();
    let mut writer = RequestWriter::begin(&mut out, 1, None);
    writer.fixed(&FIXED);
    drop(writer);
    assert_eq!(out, b"before");
}

#[test]
fn flags_and_statuses_are_the_frame_s_own() {
    let fixed = |writer: &mut RequestWriter<'_>| writer.fixed(&FIXED);
    assert_eq!(request(fixed, 0x80), Err(EncodeError::Flags));
    assert_eq!(request(fixed, flags::USER), Err(EncodeError::Fields));
    assert_eq!(request(fixed, flags::WEBSOCKET), Err(EncodeError::Flags));
    assert!(request(fixed, 0x3f).is_ok());
    assert_eq!(response(200, b"", 4), Err(EncodeError::Flags));
    assert_eq!(response(101, b"", flags::END), Err(EncodeError::Flags));
    assert_eq!(response(101, b"x", 0), Err(EncodeError::TooLong));
    for status in [0, 100, 102, 199, 1000] {
        assert_eq!(response(status, b"", 0), Err(EncodeError::Number));
    }
    for status in [0, 100, 101, 200] {
        assert_eq!(behind(|out| encode_inform(out, 1, status, [])), Err(EncodeError::Number));
    }
}

#[test]
fn stream_0_is_the_connection() {
    let result = behind(|out| {
        let mut writer = RequestWriter::begin(out, 0, None);
        writer.fixed(&FIXED);
        writer.finish(0)
    });
    assert_eq!(result, Err(EncodeError::StreamId));
    assert_eq!(behind(|out| ResponseWriter::begin(out, 0, 200).finish(0)), Err(EncodeError::StreamId));
    assert_eq!(behind(|out| encode_data(out, 0, b"", true)), Err(EncodeError::StreamId));
    assert_eq!(behind(|out| encode_text(out, 0, b"", true)), Err(EncodeError::StreamId));
    assert_eq!(behind(|out| encode_binary(out, 0, b"", true)), Err(EncodeError::StreamId));
    assert_eq!(behind(|out| encode_close(out, 0, 1000, "")), Err(EncodeError::StreamId));
    assert_eq!(behind(|out| encode_reset(out, 0, ResetCode::CANCELLED, "")), Err(EncodeError::StreamId));
    assert_eq!(behind(|out| encode_trailers(out, 0, [])), Err(EncodeError::StreamId));
    assert_eq!(behind(|out| encode_want(out, 0)), Err(EncodeError::StreamId));
    assert_eq!(data_header(0, 1, true), Err(EncodeError::StreamId));
}

#[test]
fn bodies_are_at_most_64_kib() {
    let longest = vec![0; MAX_BODY + 1];
    assert_eq!(behind(|out| encode_data(out, 1, &longest, false)), Err(EncodeError::TooLong));
    assert_eq!(data_header(1, MAX_BODY + 1, false), Err(EncodeError::TooLong));
    assert_eq!(response(200, &longest, 0), Err(EncodeError::TooLong));
    assert!(response(200, &longest[1..], 0).is_ok());
    let in_pieces = |writer: &mut RequestWriter<'_>| {
        writer.fixed(&FIXED);
        writer.body(&longest[1..]);
        writer.body(b"x");
    };
    assert_eq!(request(in_pieces, 0), Err(EncodeError::TooLong));
}

#[test]
fn payloads_are_at_most_128_kib() {
    // The head of the payload and ten NULs, the strings, a NUL, an empty name, a NUL.
    let rest = MAX_PAYLOAD - 14 - 10 - FIXED.in_order().iter().map(|string| string.len()).sum::<usize>() - 2;
    for (len, fits) in [(rest, true), (rest + 1, false)] {
        let value = vec![b'x'; len];
        let written = request(
            |writer| {
                writer.fixed(&FIXED);
                writer.field(b"", &value);
            },
            0,
        );
        assert_eq!(written.is_ok(), fits);
        assert_eq!(written.is_err_and(|error| error == EncodeError::TooLong), !fits);
    }
}

#[test]
fn strings_are_at_most_65535() {
    let fields = |count: usize| std::iter::repeat_n((&b""[..], &b""[..]), count);
    assert!(behind(|out| encode_trailers(out, 1, fields(32_767))).is_ok());
    assert_eq!(behind(|out| encode_trailers(out, 1, fields(32_768))), Err(EncodeError::TooManyStrings));
}

#[test]
fn a_body_can_be_written_by_the_caller() {
    let head = request(
        |writer| {
            writer.fixed(&FIXED);
            writer.body_elsewhere(4);
        },
        flags::END,
    );
    let frame = [&head.unwrap()[..], b"body"].concat();
    let Ok(Some((ToWorker::Request(request), used))) = ToWorker::decode(&frame) else { panic!() };
    assert_eq!((request.body, used), (&b"body"[..], frame.len()));

    let frame = [&data_header(3, 4, true).unwrap()[..], b"body"].concat();
    let data = FromWorker::Data { stream: 3, bytes: b"body", end: true };
    assert_eq!(FromWorker::decode(&frame), Ok(Some((data, frame.len()))));
}

#[test]
fn reasons_are_cut_at_a_character() {
    let long = "\u{20ac}".repeat(400); // three bytes each
    let bytes = behind(|out| encode_reset(out, 1, ResetCode::APP_ERROR, &long)).unwrap();
    let Ok(Some((FromWorker::Reset { reason, .. }, _))) = FromWorker::decode(&bytes) else { panic!() };
    assert_eq!(reason.len(), 1_023);
    let bytes = behind(|out| encode_close(out, 1, 1000, &long[..])).unwrap();
    let Ok(Some((FromWorker::Close { reason, .. }, _))) = FromWorker::decode(&bytes) else { panic!() };
    assert_eq!(reason.len(), 123);
    let bytes = behind(|out| encode_close(out, 1, 1000, &format!("a{long}"))).unwrap();
    let Ok(Some((FromWorker::Close { reason, .. }, _))) = FromWorker::decode(&bytes) else { panic!() };
    assert_eq!(reason.len(), 121);
}

#[test]
fn numbers_have_limits() {
    for amount in [0, MAX_CREDIT + 1] {
        assert_eq!(behind(|out| encode_credit(out, 1, amount)), Err(EncodeError::Number));
    }
    let hello = Hello {
        version: 1,
        streams: 1,
        stream_credit: MIN_INITIAL_CREDIT,
        connection_credit: MIN_INITIAL_CREDIT,
        about: Strings::default(),
    };
    assert!(behind(|out| encode_hello(out, &hello, [])).is_ok());
    for wrong in [
        Hello { version: 0, ..hello },
        Hello { streams: 0, ..hello },
        Hello { streams: MAX_STREAMS + 1, ..hello },
        Hello { stream_credit: MIN_INITIAL_CREDIT - 1, ..hello },
        Hello { connection_credit: MAX_CREDIT + 1, ..hello },
    ] {
        assert_eq!(behind(|out| encode_hello(out, &wrong, [])), Err(EncodeError::Number));
    }
    let welcome = Welcome {
        version_min: 1,
        version_max: 1,
        stream_credit: MIN_INITIAL_CREDIT,
        connection_credit: MIN_INITIAL_CREDIT,
        about: Strings::default(),
    };
    assert!(behind(|out| encode_welcome(out, &welcome, [])).is_ok());
    for wrong in [
        Welcome { version_min: 0, ..welcome },
        Welcome { version_min: 2, ..welcome },
        Welcome { stream_credit: 0, ..welcome },
        Welcome { connection_credit: MAX_CREDIT + 1, ..welcome },
    ] {
        assert_eq!(behind(|out| encode_welcome(out, &wrong, [])), Err(EncodeError::Number));
    }
}
