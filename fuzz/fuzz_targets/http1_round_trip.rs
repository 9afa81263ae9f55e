//! Property: what is encoded decodes to itself, requests and responses, with every framing, and nothing of a caller's fields reaches the framing.
#![no_main]

use http::Method;
use keepwarm_fuzz::byte_source::ByteSource;
use keepwarm_http1::{
    CHUNK_TAIL, Event, Limits, RequestBody, RequestDecoder, RequestFacts, RequestHead, RequestOptions,
    ResponseBody, ResponseDecoder, ResponseFacts, ResponseFraming, ResponseHead, ResponseLength, Version,
    encode_chunk_head, encode_request_head, encode_response_head, encode_trailers, plan, scan_app_fields,
    trailer_allowed,
};
use libfuzzer_sys::fuzz_target;

type Pair = (Vec<u8>, Vec<u8>);

fuzz_target!(|data: &[u8]| {
    let mut take = ByteSource(data);
    match take.byte() & 1 {
        0 => request(&mut take),
        _ => respond(&mut take),
    }
});

fn request(take: &mut ByteSource<'_>) {
    const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::HEAD, Method::DELETE];
    let method = METHODS[take.below(4)].clone();
    let target = [
        b"/".as_slice(),
        &map(take.string(), |b| if b > b' ' && !b"\x7f#<>".contains(&b) { b } else { b'x' }),
    ]
    .concat();
    let flags = take.byte();
    let options = RequestOptions {
        keep_alive: flags & 1 == 0,
        expect_continue: flags & 2 != 0,
        te_trailers: flags & 4 != 0,
        upgrade: (flags & 8 != 0).then_some(b"websocket"),
    };
    let chunks = chunks(take);
    let body = chunks.concat();
    let framing = match flags >> 4 & 3 {
        0 => RequestBody::None,
        1 if !body.is_empty() => RequestBody::Length(body.len() as u64),
        _ => RequestBody::Chunked,
    };
    let fields = fields(take);
    let trailers = self::fields(take);

    let mut wire = Vec::new();
    encode_request_head(&mut wire, &method, &target, b"h:1", pairs(&fields), framing, options);
    match framing {
        RequestBody::None => {}
        RequestBody::Length(_) => wire.extend_from_slice(&body),
        RequestBody::Chunked => write_chunks(&mut wire, &chunks, &trailers),
    }

    // What is encoded passes a target on as it came, raw bytes too.
    let limits = Limits { raw_targets: true, ..Limits::default() };
    let mut decoder = RequestDecoder::new(limits);
    let mut head = RequestHead::default();
    let mut read = Vec::new();
    let mut at = 0;
    loop {
        let decoded =
            decoder.decode(&wire[at..], &mut head).unwrap_or_else(|f| panic!("{f}: {}", wire.escape_ascii()));
        match decoded.event {
            Event::Data { start, end } => read.extend_from_slice(&wire[at + start..at + end]),
            Event::NeedMore => panic!("not whole: {}", wire.escape_ascii()),
            Event::Trailers => check_trailers(decoder.trailers().iter(), &trailers),
            _ => {}
        }
        at += decoded.consumed;
        if decoded.event == Event::End {
            break;
        }
    }
    assert_eq!(at, wire.len());
    assert_eq!(
        (&head.method, head.target(), head.authority()),
        (&method, target.as_slice(), b"h:1".as_slice())
    );
    assert_eq!(head.body, framing);
    assert_eq!(head.connection.close, !options.keep_alive);
    assert_eq!(head.expects_continue, options.expect_continue && framing != RequestBody::None);
    assert_eq!(head.upgrade, options.upgrade.is_some());
    assert!(framing == RequestBody::None || read == body);
    check_fields(head.fields.iter(), &fields);
}

fn respond(take: &mut ByteSource<'_>) {
    const STATUSES: [u16; 8] = [200, 204, 205, 304, 404, 500, 206, 999];
    let status = STATUSES[take.below(8)];
    let flags = take.byte();
    let request = RequestFacts {
        version: if flags & 1 == 0 { Version::Http11 } else { Version::Http10 },
        is_head: flags & 2 != 0,
        is_connect: false,
        close: flags & 4 != 0,
        keep_alive: flags & 8 != 0,
        forward_proxy: false,
    };
    let chunks = chunks(take);
    let body = chunks.concat();
    let facts = ResponseFacts {
        status,
        length: if flags & 16 != 0 {
            ResponseLength::Known(body.len() as u64)
        } else {
            ResponseLength::Unknown
        },
        close: flags & 32 != 0,
        first_on_connection: flags & 64 != 0,
        idle_timeout_secs: 75,
        trailers: flags & 128 != 0,
    };
    let fields = fields(take);
    let trailers = self::fields(take);
    if scan_app_fields(pairs(&fields)).is_err() {
        return;
    }
    let plan = plan(request, facts);

    let mut wire = Vec::new();
    encode_response_head(&mut wire, status, &plan, pairs(&fields), None);
    if plan.send_body {
        match plan.framing {
            ResponseFraming::Chunked => {
                write_chunks(&mut wire, &chunks, if plan.trailers { &trailers } else { &[] })
            }
            _ => wire.extend_from_slice(&body),
        }
    }

    let mut decoder = ResponseDecoder::new(Limits::default());
    decoder.begin(if request.is_head { &Method::HEAD } else { &Method::GET });
    let mut head = ResponseHead::default();
    let mut read = Vec::new();
    let mut at = 0;
    loop {
        let decoded =
            decoder.decode(&wire[at..], &mut head).unwrap_or_else(|f| panic!("{f}: {}", wire.escape_ascii()));
        match decoded.event {
            Event::Data { start, end } => read.extend_from_slice(&wire[at + start..at + end]),
            Event::NeedMore => {
                assert_eq!(head.body, ResponseBody::UntilClose);
                assert!(!plan.keep);
                assert_eq!(decoder.handle_eof(), Ok(Some(Event::End)));
                break;
            }
            Event::Trailers => check_trailers(decoder.trailers().iter(), &trailers),
            _ => {}
        }
        at += decoded.consumed;
        if decoded.event == Event::End {
            break;
        }
    }
    assert_eq!(at, wire.len());
    assert_eq!(head.status.as_u16(), status);
    assert_eq!(head.is_persistent(), plan.keep);
    assert!(!head.normalized.any());
    assert_eq!(read, if plan.send_body { body } else { Vec::new() });
    check_fields(head.fields.iter(), &fields);
}

fn chunks(take: &mut ByteSource<'_>) -> Vec<Vec<u8>> {
    (0..take.below(4)).map(|_| take.string().to_vec()).filter(|chunk| !chunk.is_empty()).collect()
}

fn write_chunks(wire: &mut Vec<u8>, chunks: &[Vec<u8>], trailers: &[Pair]) {
    for chunk in chunks {
        encode_chunk_head(wire, chunk.len());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(CHUNK_TAIL);
    }
    encode_trailers(wire, pairs(trailers));
}

/// Names of any kind, those that steer the connection among them, in any case; values of any bytes that may stand in one.
fn fields(take: &mut ByteSource<'_>) -> Vec<Pair> {
    const NAMES: [&str; 12] = [
        "Content-Length",
        "transfer-encoding",
        "Connection",
        "KEEP-ALIVE",
        "te",
        "Trailer",
        "Upgrade",
        "Host",
        "Expect",
        "X-A",
        "Cookie",
        "Proxy-Connection",
    ];
    (0..take.below(5))
        .map(|_| {
            let name = match take.below(16) {
                n @ 0..12 => NAMES[n].as_bytes().to_vec(),
                _ => [
                    b"y".as_slice(),
                    &map(take.string(), |b| if b.is_ascii_alphanumeric() { b } else { b'-' }),
                ]
                .concat(),
            };
            let value = map(take.string(), |b| if b >= b' ' && b != 0x7f || b == b'\t' { b } else { b'.' });
            (name, value)
        })
        .collect()
}

fn map(bytes: &[u8], to: impl Fn(u8) -> u8) -> Vec<u8> {
    bytes.iter().map(|&b| to(b)).collect()
}

fn pairs(fields: &[Pair]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
}

/// Those of the caller's fields that are not ours come out in order, trimmed, names in lower case.
fn check_fields<'a>(found: impl Iterator<Item = (&'a [u8], &'a [u8])>, sent: &[Pair]) {
    const OURS: [&[u8]; 10] = [
        b"content-length",
        b"transfer-encoding",
        b"connection",
        b"keep-alive",
        b"te",
        b"trailer",
        b"upgrade",
        b"host",
        b"expect",
        b"proxy-connection",
    ];
    let found: Vec<_> =
        found.filter(|(name, _)| !OURS.contains(name)).map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
    let sent: Vec<_> =
        normal(sent).into_iter().filter(|(name, _)| !OURS.contains(&name.as_slice())).collect();
    // A response keeps what only a request must not carry.
    assert_eq!(found, sent);
}

fn check_trailers<'a>(found: impl Iterator<Item = (&'a [u8], &'a [u8])>, sent: &[Pair]) {
    let found: Vec<_> = found.map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
    let sent: Vec<_> = normal(sent).into_iter().filter(|(name, _)| trailer_allowed(name)).collect();
    assert_eq!(found, sent);
}

fn normal(fields: &[Pair]) -> Vec<Pair> {
    fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.trim_ascii().to_vec())).collect()
}
