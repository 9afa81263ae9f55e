//! The vectors' JSON, as `spec/vectors/README.md` describes it.

use keepwarm_wire::WireFault;
use keepwarm_wire::encode::EncodeError;
use keepwarm_wire::frame::{FromWorker, Hello, Request, Response, Strings, ToWorker, Welcome, flags};
use serde_json::{Value, json};

/// A frame of either side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Either<'a> {
    Keepwarm(ToWorker<'a>),
    Worker(FromWorker<'a>),
}

pub(crate) fn load(file: &str) -> Vec<Value> {
    let text = match file {
        "frames.json" => include_str!("../../../../spec/vectors/frames.json"),
        "faults.json" => include_str!("../../../../spec/vectors/faults.json"),
        "partials.json" => include_str!("../../../../spec/vectors/partials.json"),
        "sessions.json" => include_str!("../../../../spec/vectors/sessions.json"),
        _ => panic!("no file {file}"),
    };
    let Value::Array(vectors) = serde_json::from_str(text).unwrap() else { panic!("{file}: no list") };
    assert!(vectors.len() > 10, "{file}: only {} vectors", vectors.len());
    vectors
}

pub(crate) fn text<'v>(vector: &'v Value, key: &str) -> &'v str {
    vector[key].as_str().unwrap_or_else(|| panic!("{vector}: no {key}"))
}

pub(crate) fn from_keepwarm(vector: &Value) -> bool {
    match text(vector, "from") {
        "keepwarm" => true,
        "worker" => false,
        other => panic!("from {other}"),
    }
}

/// `hex` and `pad`.
pub(crate) fn bytes(vector: &Value) -> Vec<u8> {
    let mut bytes = unhex(text(vector, "hex"));
    if let Some(pad) = vector.get("pad") {
        let times = pad["times"].as_u64().unwrap() as usize;
        bytes.extend(unhex(text(pad, "hex")).repeat(times));
    }
    bytes
}

/// The frame that a vector names, with its body written out.
pub(crate) fn expected(frame: &Value) -> Value {
    let mut frame = frame.clone();
    if let Some(body) = frame.get("body").filter(|body| body.is_object()) {
        frame["body"] = text(body, "repeat").repeat(body["times"].as_u64().unwrap() as usize).into();
    }
    frame
}

impl<'a> Either<'a> {
    pub(crate) fn decode(keepwarm: bool, input: &'a [u8]) -> Result<Option<(Self, usize)>, WireFault> {
        Ok(match keepwarm {
            true => ToWorker::decode(input)?.map(|(frame, used)| (Self::Keepwarm(frame), used)),
            false => FromWorker::decode(input)?.map(|(frame, used)| (Self::Worker(frame), used)),
        })
    }

    pub(crate) fn frame_len(keepwarm: bool, input: &[u8]) -> Result<Option<usize>, WireFault> {
        if keepwarm { ToWorker::frame_len(input) } else { FromWorker::frame_len(input) }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Keepwarm(frame) => frame.encode(out),
            Self::Worker(frame) => frame.encode(out),
        }
    }

    /// The frame in the vectors' form.
    pub(crate) fn to_json(self) -> Value {
        match self {
            Self::Keepwarm(ToWorker::Welcome(welcome)) => welcome_json(&welcome),
            Self::Keepwarm(ToWorker::Request(request)) => request_json(&request),
            Self::Worker(FromWorker::Hello(hello)) => hello_json(&hello),
            Self::Worker(FromWorker::Response(response)) => response_json(&response),
            Self::Worker(FromWorker::Inform { stream, status, fields }) => {
                json!({"type": "INFORM", "stream": stream, "status": status, "fields": pairs(fields.pairs())})
            }
            Self::Worker(FromWorker::Hijack { stream }) => json!({"type": "HIJACK", "stream": stream}),
            Self::Worker(FromWorker::Want { stream }) => json!({"type": "WANT", "stream": stream}),
            Self::Keepwarm(ToWorker::Data { stream, bytes, end })
            | Self::Worker(FromWorker::Data { stream, bytes, end }) => body_json("DATA", stream, bytes, end),
            Self::Keepwarm(ToWorker::Text { stream, bytes, end })
            | Self::Worker(FromWorker::Text { stream, bytes, end }) => body_json("TEXT", stream, bytes, end),
            Self::Keepwarm(ToWorker::Binary { stream, bytes, end })
            | Self::Worker(FromWorker::Binary { stream, bytes, end }) => {
                body_json("BINARY", stream, bytes, end)
            }
            Self::Keepwarm(ToWorker::Trailers { stream, fields })
            | Self::Worker(FromWorker::Trailers { stream, fields }) => {
                json!({"type": "TRAILERS", "stream": stream, "fields": pairs(fields.pairs())})
            }
            Self::Keepwarm(ToWorker::Credit { stream, amount })
            | Self::Worker(FromWorker::Credit { stream, amount }) => {
                json!({"type": "CREDIT", "stream": stream, "amount": amount})
            }
            Self::Keepwarm(ToWorker::Reset { stream, code, reason })
            | Self::Worker(FromWorker::Reset { stream, code, reason }) => {
                json!({"type": "RESET", "stream": stream, "code": code.0, "reason": reason})
            }
            Self::Keepwarm(ToWorker::HalfClose { stream }) => json!({"type": "HALF_CLOSE", "stream": stream}),
            Self::Keepwarm(ToWorker::Close { stream, code, reason })
            | Self::Worker(FromWorker::Close { stream, code, reason }) => {
                json!({"type": "CLOSE", "stream": stream, "code": code, "reason": reason})
            }
            Self::Keepwarm(ToWorker::Ping { payload }) => {
                json!({"type": "PING", "stream": 0, "payload": hex(&payload)})
            }
            Self::Worker(FromWorker::Pong { payload }) => {
                json!({"type": "PONG", "stream": 0, "payload": hex(&payload)})
            }
            Self::Keepwarm(ToWorker::Drain) | Self::Worker(FromWorker::Drain) => {
                json!({"type": "DRAIN", "stream": 0})
            }
            Self::Worker(FromWorker::Busy { end }) => {
                json!({"type": "BUSY", "stream": 0, "flags": if end { vec!["END"] } else { Vec::new() }})
            }
            Self::Worker(FromWorker::Samples(samples)) => json!({
                "type": "SAMPLES",
                "stream": 0,
                "request": samples.request,
                "dropped": samples.dropped,
                "stacks": pairs(samples.stacks.pairs()),
            }),
            Self::Keepwarm(ToWorker::Leaks { end }) => {
                json!({"type": "LEAKS", "stream": 0, "flags": if end { vec!["END"] } else { Vec::new() }})
            }
            Self::Worker(FromWorker::Growth(growth)) => json!({
                "type": "GROWTH",
                "stream": 0,
                "request": growth.request,
                "microseconds": growth.microseconds,
                "changes": pairs(growth.changes.pairs()),
            }),
        }
    }
}

fn welcome_json(welcome: &Welcome<'_>) -> Value {
    json!({
        "type": "WELCOME",
        "stream": 0,
        "version_min": welcome.version_min,
        "version_max": welcome.version_max,
        "stream_credit": welcome.stream_credit,
        "connection_credit": welcome.connection_credit,
        "about": pairs(welcome.about.pairs()),
    })
}

fn hello_json(hello: &Hello<'_>) -> Value {
    json!({
        "type": "HELLO",
        "stream": 0,
        "version": hello.version,
        "streams": hello.streams,
        "stream_credit": hello.stream_credit,
        "connection_credit": hello.connection_credit,
        "about": pairs(hello.about.pairs()),
    })
}

fn request_json(request: &Request<'_>) -> Value {
    const NAMES: [(&str, u8); 7] = [
        ("END", flags::END),
        ("EXPECT", flags::EXPECT),
        ("REPEATS", flags::REPEATS),
        ("EARLY_HINTS", flags::EARLY_HINTS),
        ("WEBSOCKET", flags::WEBSOCKET),
        ("TRAILERS", flags::TRAILERS),
        ("USER", flags::USER),
    ];
    let set: Vec<_> =
        NAMES.iter().filter(|(_, bit)| request.flags & bit != 0).map(|(name, _)| *name).collect();
    let fixed = request.fixed();
    let mut frame = json!({
        "type": "REQUEST",
        "stream": request.stream,
        "flags": set,
        "content_length": request.content_length,
        "method": latin1(fixed.method),
        "protocol": latin1(fixed.protocol),
        "scheme": latin1(fixed.scheme),
        "path": latin1(fixed.path),
        "raw_path": latin1(fixed.raw_path),
        "query": latin1(fixed.query),
        "script_name": latin1(fixed.script_name),
        "server_name": latin1(fixed.server_name),
        "server_port": latin1(fixed.server_port),
        "client_address": latin1(fixed.client_address),
        "client_port": latin1(fixed.client_port),
        "fields": pairs(request.fields()),
        "body": latin1(request.body),
    });
    if let Some((user, auth_type)) = request.user() {
        (frame["user"], frame["auth_type"]) = (latin1(user).into(), latin1(auth_type).into());
    }
    frame
}

fn response_json(response: &Response<'_>) -> Value {
    let names = [("END", response.end), ("CLOSE", response.close)];
    let set: Vec<_> = names.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
    json!({
        "type": "RESPONSE",
        "stream": response.stream,
        "flags": set,
        "status": response.status,
        "fields": pairs(response.fields.pairs()),
        "body": latin1(response.body),
    })
}

fn body_json(name: &str, stream: u32, bytes: &[u8], end: bool) -> Value {
    let flags: &[&str] = if end { &["END"] } else { &[] };
    json!({"type": name, "stream": stream, "flags": flags, "body": latin1(bytes)})
}

fn pairs<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Value {
    pairs.map(|(name, value)| json!([latin1(name), latin1(value)])).collect()
}

/// The contents of a block, as names and values.
pub(crate) fn owned_pairs(block: Strings<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    block.pairs().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "half a byte");
    hex.as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
