//! One table of server outputs, each fed whole, byte by byte, and followed by other bytes.

use super::encode::{
    ParamsWriter, encode_abort, encode_begin, encode_get_values, encode_stdin, encode_stdin_end,
};
use super::record::{HEADER_LEN, MAX_CONTENT, RecordHeader, RecordType};
use super::*;

/// A record of the server.
fn record(record_type: u8, request: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let [id1, id0] = request.to_be_bytes();
    let [length1, length0] = (content.len() as u16).to_be_bytes();
    let mut bytes = vec![1, record_type, id1, id0, length1, length0, padding, 0];
    bytes.extend_from_slice(content);
    bytes.extend(std::iter::repeat_n(0xEE, padding.into()));
    bytes
}

const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const END: u8 = 3;

/// The decoded form of some bytes: the two streams, the end, the fault.
#[derive(Debug, Default, PartialEq, Eq)]
struct DecodedOutput {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<(u32, ProtocolStatus)>,
    values: bool,
    fault: Option<FastCgiFault>,
    left: usize,
}

fn hear(connection: &mut Connection, pieces: &[&[u8]]) -> DecodedOutput {
    let mut heard = DecodedOutput::default();
    let mut buffer = Vec::new();
    'pieces: for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let decoded = match connection.decode(&buffer) {
                Ok(decoded) => decoded,
                Err(fault) => {
                    heard.fault = Some(fault);
                    break 'pieces;
                }
            };
            match decoded.event {
                Event::Stdout(range) => heard.stdout.extend_from_slice(&buffer[range]),
                Event::Stderr(range) => heard.stderr.extend_from_slice(&buffer[range]),
                Event::End { app_status, protocol } => heard.end = Some((app_status, protocol)),
                Event::Values => heard.values = true,
                Event::NeedMore => {
                    buffer.drain(..decoded.consumed);
                    break;
                }
            }
            buffer.drain(..decoded.consumed);
        }
    }
    heard.left = if heard.fault.is_some() { 0 } else { buffer.len() };
    heard
}

/// Whole and byte by byte.
fn hear_both_ways(make: impl Fn() -> Connection, bytes: &[u8]) -> (DecodedOutput, Connection) {
    let mut whole = make();
    let heard = hear(&mut whole, &[bytes]);
    let mut cut = make();
    assert_eq!(heard, hear(&mut cut, &bytes.chunks(1).collect::<Vec<_>>()), "cut into single bytes");
    (heard, whole)
}

fn asked() -> Connection {
    let mut connection = Connection::new();
    assert_eq!(connection.begin(), Some(1));
    connection
}

#[test]
fn a_response_is_its_two_streams_and_its_end() {
    let bytes = [
        record(STDERR, 1, b"PHP Notice", 0),
        record(STDOUT, 1, b"Content-Type: text/html\r\n\r\n<p>", 5),
        record(STDOUT, 1, b"</p>", 255),
        record(STDOUT, 1, b"", 0),
        record(STDERR, 1, b"", 3),
        record(END, 1, &[0, 0, 1, 2, 0, 9, 9, 9], 7),
    ]
    .concat();
    let (heard, connection) = hear_both_ways(asked, &bytes);
    assert_eq!(heard.stdout, b"Content-Type: text/html\r\n\r\n<p></p>");
    assert_eq!(heard.stderr, b"PHP Notice");
    assert_eq!(heard.end, Some((258, ProtocolStatus::Complete)));
    assert_eq!((heard.fault, heard.left, connection.is_idle()), (None, 0, true));
}

#[test]
fn what_breaks_the_rules_is_named() {
    use RecordFault as F;
    let cases: [(&str, Vec<u8>, RecordFault); 16] = [
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), F::Version),
        ("a line of text", b"Fatal error: out of memory\n".to_vec(), F::Version),
        ("no such type", record(12, 1, b"", 0), F::UnknownType),
        ("type 0", record(0, 1, b"", 0), F::UnknownType),
        ("BEGIN_REQUEST", record(1, 1, &[0; 8], 0), F::Direction),
        ("ABORT_REQUEST", record(2, 1, b"", 0), F::Direction),
        ("PARAMS", record(4, 1, b"", 0), F::Direction),
        ("STDIN", record(5, 1, b"", 0), F::Direction),
        ("DATA", record(8, 1, b"", 0), F::Direction),
        ("GET_VALUES", record(9, 0, b"", 0), F::Direction),
        ("another request's response", record(STDOUT, 2, b"secret", 0), F::WrongRequest),
        ("nobody's answer", record(STDOUT, 0, b"secret", 0), F::WrongRequest),
        ("another request's end", record(END, 7, &[0; 8], 0), F::WrongRequest),
        ("a short end", record(END, 1, &[0; 7], 0), F::Length),
        ("a long end", record(END, 1, &[0; 9], 0), F::Length),
        ("a status of its own", record(END, 1, &[0, 0, 0, 0, 4, 0, 0, 0], 0), F::ProtocolStatus),
    ];
    for (what, bytes, kind) in cases {
        let (heard, mut connection) = hear_both_ways(asked, &bytes);
        assert_eq!(heard.fault.map(|fault| fault.kind), Some(kind), "{what}");
        assert_eq!(heard.stdout, b"", "{what}: nothing of it is used");
        assert_eq!(connection.decode(b"").err(), heard.fault, "{what}: a fault is final");
        assert_eq!((connection.begin(), connection.is_idle()), (None, false), "{what}");
    }
}

#[test]
fn a_stream_does_not_go_on_after_its_end() {
    for stream in [STDOUT, STDERR] {
        let bytes =
            [record(stream, 1, b"a", 0), record(stream, 1, b"", 0), record(stream, 1, b"b", 0)].concat();
        let (heard, _) = hear_both_ways(asked, &bytes);
        assert_eq!(heard.fault.map(|fault| fault.kind), Some(RecordFault::StreamOver));
        assert_eq!(heard.stdout.len() + heard.stderr.len(), 1);
    }
}

/// The bug that would give one client another client's response.
#[test]
fn records_of_an_earlier_request_are_never_taken_for_the_next_ones() {
    let mut connection = asked();
    assert_eq!(connection.begin(), None, "one at a time");
    assert!(hear(&mut connection, &[&record(END, 1, &[0; 8], 0)]).end.is_some());
    assert_eq!(connection.begin(), Some(2));
    let heard = hear(&mut connection, &[&record(STDOUT, 1, b"of the first", 0)]);
    assert_eq!((heard.fault.unwrap().kind, heard.stdout), (RecordFault::WrongRequest, Vec::new()));

    let mut connection = asked();
    let bytes = [record(END, 1, &[0; 8], 0), record(STDOUT, 1, b"late", 0)].concat();
    assert_eq!(hear(&mut connection, &[&bytes]).fault.unwrap().kind, RecordFault::Unasked);
}

#[test]
fn ids_go_round_and_leave_out_the_one_that_means_none() {
    let mut connection = Connection::new();
    for wanted in (1..=u16::MAX).chain(1..=3) {
        assert_eq!(connection.begin(), Some(wanted));
        assert!(hear(&mut connection, &[&record(END, wanted, &[0; 8], 0)]).end.is_some());
    }
}

#[test]
fn a_server_says_that_it_is_alive_when_asked_and_only_then() {
    let asking = || {
        let mut connection = Connection::new();
        assert!(connection.ask());
        connection
    };
    for (response, ok) in [
        (record(10, 0, b"\x0f\x01FCGI_MPXS_CONNS0", 3), true),
        (record(11, 0, &[9, 0, 0, 0, 0, 0, 0, 0], 0), true),
        (record(10, 1, b"", 0), false),
        (record(10, 0, &[0; 5000], 0), false),
        (record(11, 0, b"", 0), false),
    ] {
        let (heard, connection) = hear_both_ways(asking, &response);
        assert_eq!((heard.values, heard.fault.is_none(), connection.is_idle()), (ok, ok, ok), "{response:?}");
    }
    let (heard, _) = hear_both_ways(asked, &record(10, 0, b"", 0));
    assert_eq!(heard.fault.unwrap().kind, RecordFault::Unasked);
}

#[test]
fn a_connection_that_ends_says_whether_a_response_was_due() {
    assert!(Connection::new().handle_eof());
    assert!(!asked().handle_eof());
    let mut padded = asked();
    hear(&mut padded, &[&record(END, 1, &[0; 8], 2)[..17]]);
    assert!(!padded.is_idle(), "in the padding");
}

/// Parses the records of one request, as a server would.
fn parse(bytes: &[u8], request: u16) -> Vec<(RecordType, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let header = RecordHeader::decode(rest).unwrap();
        assert_eq!((header.version, header.padding), (1, 0));
        let record_type = RecordType::from_byte(header.type_byte).unwrap();
        assert_eq!(header.request, if record_type == RecordType::GetValues { 0 } else { request });
        let (content, behind) = rest[HEADER_LEN..].split_at(header.content.into());
        found.push((record_type, content.to_vec()));
        rest = behind;
    }
    found
}

fn parse_pairs(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn length(bytes: &mut &[u8]) -> usize {
        let take = if bytes[0] < 128 { 1 } else { 4 };
        let (length, rest) = bytes.split_at(take);
        *bytes = rest;
        length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)) & 0x7fff_ffff
    }
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        pairs.push((bytes[..name].to_vec(), bytes[name..name + value].to_vec()));
        bytes = &bytes[name + value..];
    }
    pairs
}

#[test]
fn a_request_is_a_begin_two_streams_and_their_ends() {
    let mut out = Vec::new();
    encode_begin(&mut out, 300);
    let mut params = ParamsWriter::begin(&mut out, 300);
    params.pair(b"A", b"");
    params.pair_of(b"SCRIPT_FILENAME", &[b"/srv", b"/x.php"]);
    params.pair(&[b'N'; 128], &[b'V'; 127]);
    params.finish().unwrap();
    encode_stdin(&mut out, 300, b"");
    encode_stdin(&mut out, 300, &[7; MAX_CONTENT + 1]);
    encode_stdin_end(&mut out, 300);
    encode_abort(&mut out, 300);
    encode_get_values(&mut out);

    let records = parse(&out, 300);
    let types: Vec<_> = records.iter().map(|(record_type, content)| (*record_type, content.len())).collect();
    use RecordType::{AbortRequest, BeginRequest, GetValues, Params, Stdin};
    let params_len = 3 + 27 + 5 + 128 + 127;
    let expected = [
        (BeginRequest, 8),
        (Params, params_len),
        (Params, 0),
        (Stdin, MAX_CONTENT),
        (Stdin, 1),
        (Stdin, 0),
        (AbortRequest, 0),
        (GetValues, 17),
    ];
    assert_eq!(types, expected);
    assert_eq!(records[0].1, [0, 1, 1, 0, 0, 0, 0, 0], "responder, kept");
    let pairs = parse_pairs(&records[1].1);
    assert_eq!(pairs[0], (b"A".to_vec(), Vec::new()));
    assert_eq!(pairs[1], (b"SCRIPT_FILENAME".to_vec(), b"/srv/x.php".to_vec()));
    assert_eq!(pairs[2], (vec![b'N'; 128], vec![b'V'; 127]));
}

/// PHP parses each record separately.
#[test]
fn no_parameter_is_cut_by_the_end_of_a_record() {
    let big = |size: usize, byte: u8| vec![byte; size];
    let given = [
        (b"A".to_vec(), big(MAX_CONTENT - 10, 1)),
        (b"B".to_vec(), big(40_000, 2)),
        (b"C".to_vec(), Vec::new()),
        (b"D".to_vec(), big(40_000, 3)),
        // Fills a record exactly.
        (b"E".to_vec(), big(MAX_CONTENT - 6, 4)),
        (b"F".to_vec(), big(1, 5)),
    ];
    let mut out = b"before".to_vec();
    let mut params = ParamsWriter::begin(&mut out, 5);
    given.iter().for_each(|(name, value)| params.pair(name, value));
    params.finish().unwrap();
    let records = parse(&out[6..], 5);
    let (end, records) = records.split_last().unwrap();
    assert_eq!(end.1, b"", "an empty record ends it, and no other is empty");
    let pairs: Vec<Vec<_>> = records.iter().map(|(_, content)| parse_pairs(content)).collect();
    assert_eq!(pairs.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1, 1, 1]);
    assert_eq!(pairs.concat(), given);
}

#[test]
fn a_parameter_that_no_record_holds_is_left_out_and_told() {
    let mut out = Vec::new();
    let mut params = ParamsWriter::begin(&mut out, 5);
    params.pair(b"A", b"1");
    params.pair_of(b"B", &[&[2; 40_000], &[2; 40_000]]);
    params.pair(b"C", b"3");
    assert_eq!(params.finish(), Err(crate::encode::EncodeError::TooLong));
    let records = parse(&out, 5);
    assert_eq!(parse_pairs(&records[0].1), [(b"A".to_vec(), b"1".to_vec()), (b"C".to_vec(), b"3".to_vec())]);
}

/// Feeds a head whole, byte by byte, and followed by a body: all must agree.
fn head(text: &[u8]) -> Result<(CgiHead, usize), CgiFault> {
    let mut whole = CgiHead::new(SMALL);
    let result = whole.push(text);
    let mut cut = CgiHead::new(SMALL);
    let (mut used, mut cut_result) = (0, Ok(None));
    for byte in text.chunks(1) {
        cut_result = cut.push(byte);
        match cut_result {
            Ok(None) => used += 1,
            Ok(Some(_)) => {
                used += 1;
                break;
            }
            Err(_) => break,
        }
    }
    assert_eq!(cut_result.map(|done| done.map(|_| used)), result, "{:?}", text.escape_ascii());
    assert!(cut.fields().eq(whole.fields()));
    Ok((whole, result?.ok_or(CgiFault::Truncated)?))
}

const SMALL: CgiLimits = CgiLimits { bytes: 300, fields: 5 };

impl CgiHead {
    fn shown(&self) -> String {
        let fields = self.fields().map(|(name, value)| format!("{}={};", text(name), text(value)));
        let response = match self.response() {
            CgiResponse::Client(status) => status.to_string(),
            CgiResponse::Local(path) => format!("local {}", text(path)),
        };
        format!("{response} {}", fields.collect::<String>())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn heads_of_scripts() {
    let cases: [(&str, &str); 15] = [
        ("Content-Type: text/html\r\n\r\n", "200 Content-Type=text/html;"),
        ("Content-Type: text/html\n\n", "200 Content-Type=text/html;"),
        ("X-A: 1\r\nX-B:2\n\r\n", "200 X-A=1;X-B=2;"),
        ("Status: 404 Not Found\r\nX: \t y \t\r\n\r\n", "404 X=y;"),
        ("X: y\nstatus:204\n\n", "204 X=y;"),
        ("STATUS: 500\n\n", "500 "),
        ("\r\n", "200 "),
        ("\n", "200 "),
        ("X:\n\n", "200 X=;"),
        ("Location: /next?a=b\n\n", "local /next?a=b"),
        ("Location: /\n\n", "local /"),
        ("Location: //evil.example/\n\n", "302 Location=//evil.example/;"),
        ("Location: https://a.example/\n\n", "302 Location=https://a.example/;"),
        ("Location: /next\nContent-Type: a/b\n\n", "302 Location=/next;Content-Type=a/b;"),
        ("Status: 201 Created\nLocation: /new\n\n", "201 Location=/new;"),
    ];
    for (input, expected) in cases {
        let (parsed, used) = head(input.as_bytes()).unwrap_or_else(|fault| panic!("{input:?}: {fault}"));
        assert_eq!(used, input.len(), "{input:?}");
        let shown = parsed.shown();
        let shown = if expected.starts_with("local") {
            shown.split(" Location").next().unwrap_or_default().trim_end()
        } else {
            &shown
        };
        assert_eq!(shown, expected, "{input:?}");
        let with_body = format!("{input}\n\r\nX: body");
        assert_eq!(head(with_body.as_bytes()).unwrap().1, input.len(), "a body behind {input:?}");
    }
}

#[test]
fn folds_and_blanks_before_colons_are_mended() {
    let cases = [
        ("A : v\n\n", "200 A=v;", false, true),
        ("Status\t: 404 Not\n\n", "404 ", false, true),
        ("A: v\n w\nB: x\n\n", "200 A=v  w;B=x;", true, false),
        ("A: v \r\n\t w \r\n x\r\n\r\n", "200 A=v     w    x;", true, false),
        ("A:\n v\n\n", "200 A=v;", true, false),
        ("A: v\n \n\n", "200 A=v;", true, false),
        ("A: v\nStatus: 201\n Created\nB: x\n\n", "201 A=v;B=x;", true, false),
        ("A: v\n B: x\n\n", "200 A=v  B: x;", true, false),
    ];
    for (input, expected, folded, space_before_colon) in cases {
        let (parsed, used) = head(input.as_bytes()).unwrap_or_else(|fault| panic!("{input:?}: {fault}"));
        assert_eq!(used, input.len(), "{input:?}");
        assert_eq!(parsed.shown(), expected, "{input:?}");
        assert_eq!(parsed.mended(), CgiNormalizations { folded, space_before_colon }, "{input:?}");
    }
    assert_eq!(head(b"A: v\n\n").unwrap().0.mended(), CgiNormalizations::default());
}

#[test]
fn heads_that_are_none() {
    use CgiFault as F;
    let many = "X: 1\n".repeat(6) + "\n";
    let long = format!("X: {}\n\n", "a".repeat(300));
    let cases: [(&[u8], CgiFault); 19] = [
        (b"<html>\n\n", F::NotAField),
        (b"Warning: something\n<br>\n\n", F::NotAField),
        (b": v\n\n", F::NotAField),
        (b"A B: v\n\n", F::NotAField),
        (b" : v\n\n", F::NotAField),
        (b"A\xa0: v\n\n", F::NotAField),
        (b" A: v\n\n", F::NotAField),
        (b"A: v\n w\0\n\n", F::Value),
        (b"A: a\0b\n\n", F::Value),
        (b"A: a\rb\n\n", F::Value),
        (b"A: v\r\r\n\n", F::Value),
        (b"Status: 99\n\n", F::Status),
        (b"Status: 100 Continue\n\n", F::Status),
        (b"Status: 1000\n\n", F::Status),
        (b"Status: 2000\n\n", F::Status),
        (b"Status: OK\n\n", F::Status),
        (b"Status: 200\nStatus: 200\n\n", F::TwoStatuses),
        (many.as_bytes(), F::TooManyFields),
        (long.as_bytes(), F::TooLarge),
    ];
    for (input, fault) in cases {
        assert_eq!(head(input).err(), Some(fault), "{}", input.escape_ascii());
    }
    assert_eq!(head(b"A: v\n").err(), Some(F::Truncated), "need more is no fault; its end would be");
    assert_eq!(CgiHead::new(SMALL).push(b"A: v\n"), Ok(None));
}

#[test]
fn every_fault_has_one_name() {
    let names = [RecordFault::Version.name(), RecordFault::WrongRequest.name(), CgiFault::TooLarge.name()];
    assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    let fault = FastCgiFault { kind: RecordFault::WrongRequest, type_byte: 6, request: 9 };
    assert_eq!(fault.to_string(), "STDOUT of request 9: the record belongs to another request");
    let garbage = FastCgiFault { kind: RecordFault::Version, type_byte: 0, request: 0 };
    assert_eq!(garbage.to_string(), "what came is no FastCGI record of version 1");
}
