//! A client's requests, how it sends them, and what it saw.

use std::time::Duration;

use super::Random;
use crate::{Client, Failure, Response};

/// A request.
#[derive(Debug, Clone)]
pub struct PlannedRequest {
    /// Its name: different for each. It stands in the target, and in every response: in the field `X-Name` and in the body.
    pub id: u64,
    pub method: &'static str,
    /// The action of the application.
    pub action: &'static str,
    pub target: String,
    /// Field lines beside those of the framing.
    pub fields: String,
    pub sending: BodyMode,
    pub body: Vec<u8>,
    pub body_length: usize,
    pub expected: ExpectedResponse,
}

/// How a body is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyMode {
    Length,
    Chunked,
    /// With a length, after a 100.
    Expecting,
}

/// The result without a disturbance.
#[derive(Debug, Clone)]
pub enum ExpectedResponse {
    Response(u16, Vec<u8>),
    /// A response that is not brought to its end.
    Cut,
}

/// A request, and its result as its client sees it.
#[derive(Debug, Clone)]
pub struct ObservedRequest {
    /// Without its body.
    pub request: PlannedRequest,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The response that it has to be.
    Correct,
    /// The same status, and another response.
    Incorrect(String),
    /// Another status.
    Status(u16),
    /// A head, and the end of the connection before the end of the response.
    Cut,
    /// The end of the connection before the first byte.
    NoResponse,
    /// It followed a response after which the server closes, or one that was cut: it may never have been read.
    AfterClose,
    /// The client went away.
    ClientLeft,
    /// No response for longer than anything may take, or bytes that are not a response.
    Invalid(String),
}

impl PlannedRequest {
    /// The head as it is sent.
    fn head(&self, close: bool) -> String {
        let close = if close { "Connection: close\r\n" } else { "" };
        let length = match self.sending {
            BodyMode::Length => format!("Content-Length: {}\r\n", self.body.len()),
            BodyMode::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            BodyMode::Expecting => {
                format!("Expect: 100-continue\r\nContent-Length: {}\r\n", self.body.len())
            }
        };
        format!("{} {} HTTP/1.1\r\nHost: a\r\n{close}{}{length}\r\n", self.method, self.target, self.fields)
    }

    /// The body in parts of this size, as they are sent.
    fn parts(&self, size: usize) -> Vec<Vec<u8>> {
        let mut parts: Vec<Vec<u8>> = self.body.chunks(size).map(<[u8]>::to_vec).collect();
        if self.sending == BodyMode::Chunked {
            for part in &mut parts {
                *part = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
            }
            parts.push(b"0\r\n\r\n".to_vec());
        }
        parts
    }

    /// All of it.
    fn bytes(&self, close: bool) -> Vec<u8> {
        let mut bytes = self.head(close).into_bytes();
        self.parts(50_000).iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    pub fn with_outcome(mut self, outcome: Outcome) -> ObservedRequest {
        self.body = Vec::new();
        if let ExpectedResponse::Response(_, body) = &mut self.expected {
            *body = Vec::new();
        }
        ObservedRequest { request: self, outcome }
    }

    fn judge(&self, response: &Response) -> Outcome {
        let ExpectedResponse::Response(status, body) = &self.expected else {
            return Outcome::Status(response.status);
        };
        if response.status != *status {
            return Outcome::Status(response.status);
        }
        // A response to an error is Keepwarm's own, and has no name.
        let name = response.field("x-name").map(str::to_owned);
        let named = *status >= 500 || name.as_deref() == Some(&self.id.to_string());
        if named && (*status >= 500 || response.body == *body) {
            return Outcome::Correct;
        }
        let begin: String = String::from_utf8_lossy(&response.body).chars().take(60).collect();
        Outcome::Incorrect(format!(
            "{name:?}, {} bytes, {} expected: {begin}",
            response.body.len(),
            body.len()
        ))
    }
}

/// Sends a request, its body in pieces, and reads its response: its outcome, and whether the connection continues.
pub fn send_one(
    client: &mut Client,
    request: PlannedRequest,
    close: bool,
    random: &mut Random,
) -> (ObservedRequest, bool) {
    let (sent, early) = send(client, &request, close, random);
    if !sent {
        return (request.with_outcome(Outcome::NoResponse), false);
    }
    let (outcome, goes_on) = match early {
        Some(result) => classify(&request, result),
        None => read_response(client, &request),
    };
    (request.with_outcome(outcome), goes_on)
}

/// Sends several requests in one write, and reads their responses.
pub fn send_pipelined(client: &mut Client, all: Vec<PlannedRequest>) -> (Vec<ObservedRequest>, bool) {
    let bytes: Vec<u8> = all.iter().flat_map(|request| request.bytes(false)).collect();
    let mut goes_on = client.try_send(&bytes).is_ok();
    let mut seen = Vec::new();
    for request in all {
        let outcome = match goes_on {
            true => {
                let (outcome, more) = read_response(client, &request);
                goes_on = more;
                outcome
            }
            false if seen.is_empty() => Outcome::NoResponse,
            false => Outcome::AfterClose,
        };
        seen.push(request.with_outcome(outcome));
    }
    (seen, goes_on)
}

/// Sends a request on each of these connections, and then reads their responses, the last first.
pub fn send_across(clients: &mut [Client], all: Vec<PlannedRequest>) -> Vec<(ObservedRequest, bool)> {
    let sent: Vec<bool> = clients
        .iter_mut()
        .zip(&all)
        .map(|(client, request)| client.try_send(&request.bytes(false)).is_ok())
        .collect();
    let mut seen: Vec<(ObservedRequest, bool)> = Vec::new();
    for ((client, request), sent) in clients.iter_mut().zip(all).zip(sent).rev() {
        let (outcome, goes_on) =
            if sent { read_response(client, &request) } else { (Outcome::NoResponse, false) };
        seen.push((request.with_outcome(outcome), goes_on));
    }
    seen.reverse();
    seen
}

/// Sends a request, or the beginning of one, and goes; sometimes with a part of its response.
pub fn send_and_leave(mut client: Client, request: PlannedRequest, random: &mut Random) -> ObservedRequest {
    let bytes = request.bytes(false);
    let choice = random.below(4);
    let part = match choice {
        0 => random.below(bytes.len() as u64) as usize,
        _ => bytes.len(),
    };
    let _ = client.try_send(&bytes[..part]);
    match choice {
        1 => client.wait_for_something(Duration::from_secs(2)),
        // Until the application may have it, or not.
        _ => std::thread::sleep(Duration::from_millis(random.below(40))),
    }
    if random.below(2) == 0 {
        client.reset();
    }
    request.with_outcome(Outcome::ClientLeft)
}

/// Whether it was sent, and the response if it came instead of `100 Continue`.
fn send(
    client: &mut Client,
    request: &PlannedRequest,
    close: bool,
    random: &mut Random,
) -> (bool, Option<Result<Response, Failure>>) {
    let piece = match random.below(3) {
        0 => usize::MAX,
        1 => 500 + random.below(2_000) as usize,
        _ => 500 + random.below(80_000) as usize,
    };
    if client.try_send(request.head(close).as_bytes()).is_err() {
        return (false, None);
    }
    if request.sending == BodyMode::Expecting {
        match client.try_response(request.method) {
            Ok(response) if response.status == 100 => {}
            other => return (true, Some(other)),
        }
    }
    // A server that has responded already need not read the rest: its response decides.
    let _ = request.parts(piece).iter().try_for_each(|part| client.try_send(part));
    (true, None)
}

/// Reads a response: its outcome, and whether the connection continues.
fn read_response(client: &mut Client, request: &PlannedRequest) -> (Outcome, bool) {
    classify(request, client.try_response(request.method))
}

fn classify(request: &PlannedRequest, result: Result<Response, Failure>) -> (Outcome, bool) {
    match result {
        Ok(response) => (request.judge(&response), !response.says_close()),
        Err(Failure::Closed) => (Outcome::NoResponse, false),
        Err(Failure::Reset(bytes)) if bytes.is_empty() => (Outcome::NoResponse, false),
        Err(Failure::Reset(_) | Failure::Cut(_)) => (Outcome::Cut, false),
        Err(bad) => {
            let text: String = format!("{bad:?}").chars().take(200).collect();
            (Outcome::Invalid(text), false)
        }
    }
}

/// CRC-32 (ISO 3309), as zlib has it.
pub fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(!0, |crc: u32, &byte| TABLE[(crc as u8 ^ byte) as usize] ^ (crc >> 8))
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = (at as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}
