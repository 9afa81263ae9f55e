//! The clients: what each asks, and what it saw.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keepwarm_tests::{Client, Failure};

use crate::APPS;
use crate::seed::Random;

/// How a client behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One connection for as long as it is kept.
    Kept,
    /// A connection for each request.
    Single,
    /// Several requests at once, then their answers.
    Pipelined,
    /// Streams only.
    Streaming,
    /// Bodies, in pieces.
    Uploading,
    /// Goes away before it has its answer.
    Leaving,
}

pub(crate) const KINDS: [Kind; 10] = [
    Kind::Kept,
    Kind::Kept,
    Kind::Kept,
    Kind::Single,
    Kind::Single,
    Kind::Pipelined,
    Kind::Streaming,
    Kind::Uploading,
    Kind::Uploading,
    Kind::Leaving,
];

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Its name: different for each.
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    /// What the application is to do.
    pub(crate) deed: &'static str,
    target: String,
    body: Vec<u8>,
    /// What a whole answer looks like.
    expected: Vec<u8>,
}

impl Asked {
    pub(crate) fn body_length(&self) -> usize {
        self.body.len()
    }
}

/// A request, and what became of it as its client sees it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) asked: Asked,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 200 and the answer that it has to be.
    Right,
    /// 200 and another.
    Wrong(String),
    /// Another status.
    Status(u16),
    /// A head, and the end of the connection before the end of the answer.
    Cut,
    /// The end of the connection before the first byte.
    Nothing,
    /// It stood behind an answer after which the server closes, or one that was cut: nobody may have seen it.
    Behind,
    /// The client went away.
    Left,
    /// No answer for longer than anything may take, or what is no answer.
    Bad(String),
}

const PATIENCE: Duration = Duration::from_secs(90);
const PART: usize = 3_000;

/// Asks until `stop`.
pub(crate) fn run(kind: Kind, address: SocketAddr, number: u64, seed: u64, stop: &AtomicBool) -> Vec<Seen> {
    let mut row =
        Row { kind, random: Random::new(seed, number), next: (number + 1) * 1_000_000, seen: Vec::new() };
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::connect(address).patient(PATIENCE);
        let many = match kind {
            Kind::Kept | Kind::Uploading | Kind::Streaming => row.random.below(200) + 1,
            Kind::Pipelined => row.random.below(10) + 1,
            Kind::Single | Kind::Leaving => 1,
        };
        for _ in 0..many {
            let goes_on = match kind {
                Kind::Pipelined => row.several(&mut client),
                Kind::Leaving => {
                    row.leave(client);
                    break;
                }
                _ => row.one(&mut client),
            };
            if !goes_on || stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    row.seen
}

/// What one client asks, one after the other.
struct Row {
    kind: Kind,
    random: Random,
    next: u64,
    seen: Vec<Seen>,
}

impl Row {
    /// Asks one thing; whether the connection goes on.
    fn one(&mut self, client: &mut Client) -> bool {
        let asked = self.ask();
        let close = self.kind == Kind::Single;
        if !self.send(client, &asked, close) {
            self.note(asked, Outcome::Nothing);
            return false;
        }
        let (outcome, goes_on) = answer(client, &asked);
        self.note(asked, outcome);
        goes_on
    }

    /// Sends several requests in one write, and reads their answers.
    fn several(&mut self, client: &mut Client) -> bool {
        let all: Vec<Asked> = (0..self.random.below(5) + 2).map(|_| self.ask()).collect();
        let bytes: Vec<u8> = all.iter().flat_map(|asked| bytes(asked, false)).collect();
        let mut goes_on = client.try_send(&bytes).is_ok();
        let mut first = true;
        for asked in all {
            let outcome = match goes_on {
                true => {
                    let (outcome, more) = answer(client, &asked);
                    goes_on = more;
                    outcome
                }
                false if first => Outcome::Nothing,
                false => Outcome::Behind,
            };
            first = false;
            self.note(asked, outcome);
        }
        goes_on
    }

    /// Sends a request, or the beginning of one, and goes.
    fn leave(&mut self, mut client: Client) {
        let asked = self.ask();
        let bytes = bytes(&asked, false);
        let part = match self.random.below(3) {
            0 => self.random.below(bytes.len() as u64) as usize,
            _ => bytes.len(),
        };
        let _ = client.try_send(&bytes[..part]);
        // Until the application may have it, or not.
        std::thread::sleep(Duration::from_millis(self.random.below(40)));
        if self.random.below(2) == 0 {
            client.reset();
        }
        self.note(asked, Outcome::Left);
    }

    /// Sends it, an upload in pieces.
    fn send(&mut self, client: &mut Client, asked: &Asked, close: bool) -> bool {
        let bytes = bytes(asked, close);
        let head = bytes.len() - asked.body.len();
        let piece = match self.random.below(3) {
            0 => bytes.len(),
            1 => 1 + self.random.below(2_000) as usize,
            _ => 1 + self.random.below(80_000) as usize,
        };
        if client.try_send(&bytes[..head]).is_err() {
            return false;
        }
        // A server that has answered already need not read the rest: its answer says what became of it.
        let _ = asked.body.chunks(piece.max(500)).try_for_each(|part| client.try_send(part));
        true
    }

    fn ask(&mut self) -> Asked {
        self.next += 1;
        let id = self.next;
        let app = self.random.one_of(&APPS);
        let deed = self.deed();
        let method = match deed {
            "upload" => "POST",
            _ => self.random.one_of(&["GET", "GET", "POST"]),
        };
        let parts = 2 + self.random.below(30);
        let body = match method {
            "POST" => self.body(deed == "upload"),
            _ => Vec::new(),
        };
        let name = id.to_string();
        let expected = match deed {
            "upload" => format!("{name} {} {}", body.len(), crc32(&body)).into_bytes(),
            "stream" | "cut" => {
                let part = format!("{name};").repeat(PART / (name.len() + 1));
                part.repeat(parts as usize).into_bytes()
            }
            _ => name.clone().into_bytes(),
        };
        let ms = self.random.below(8);
        let target = format!("/{app}/{deed}?id={name}&n={parts}&ms={ms}");
        Asked { id, method, deed, target, body, expected }
    }

    /// What the application is to do: harm is rare.
    fn deed(&mut self) -> &'static str {
        match (self.kind, self.random.below(1000)) {
            (_, 0..4) => "die",
            (_, 4..7) => "leave",
            (_, 7..11) => "cut",
            (_, 11..13) => "hang",
            (_, 13..40) => "leak",
            (_, 40..100) => "say",
            (Kind::Streaming, _) | (_, 100..200) => "stream",
            (Kind::Uploading, _) | (_, 200..300) => "upload",
            _ => "work",
        }
    }

    fn body(&mut self, large: bool) -> Vec<u8> {
        let length = match (large, self.random.below(4)) {
            (true, 0) => self.random.below(400_000),
            (true, _) => self.random.below(70_000),
            (false, _) => self.random.below(50),
        };
        let first = self.random.next();
        (0..length).map(|at| (first.wrapping_add(at * 7) >> 3) as u8).collect()
    }

    fn note(&mut self, asked: Asked, outcome: Outcome) {
        self.seen.push(Seen { asked, outcome });
    }
}

fn bytes(asked: &Asked, close: bool) -> Vec<u8> {
    let close = if close { "Connection: close\r\n" } else { "" };
    let Asked { method, target, body, .. } = asked;
    let mut bytes =
        format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{close}Content-Length: {}\r\n\r\n", body.len())
            .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads an answer: what it is, and whether the connection goes on.
fn answer(client: &mut Client, asked: &Asked) -> (Outcome, bool) {
    match client.try_response(asked.method) {
        Ok(response) if response.status == 200 => {
            let outcome = match response.body == asked.expected {
                true => Outcome::Right,
                false => {
                    let begin: String = String::from_utf8_lossy(&response.body).chars().take(60).collect();
                    Outcome::Wrong(format!("{} bytes: {begin}", response.body.len()))
                }
            };
            (outcome, !response.says_close())
        }
        Ok(response) => (Outcome::Status(response.status), !response.says_close()),
        Err(Failure::Closed) => (Outcome::Nothing, false),
        Err(Failure::Reset(bytes)) if bytes.is_empty() => (Outcome::Nothing, false),
        Err(Failure::Reset(_) | Failure::Cut(_)) => (Outcome::Cut, false),
        Err(bad) => {
            let text: String = format!("{bad:?}").chars().take(200).collect();
            (Outcome::Bad(text), false)
        }
    }
}

/// CRC-32 (ISO 3309), as zlib has it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}
