//! The clients: what each asks, and what it saw.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keepwarm_tests::Client;
use keepwarm_tests::oracle::{
    self, BodyMode, ExpectedResponse, ObservedRequest, PlannedRequest, Random, crc32,
};

use crate::APPS;

/// How a client behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One connection for as long as it is kept.
    Kept,
    /// A connection for each request.
    Single,
    /// Several requests at once, then their responses.
    Pipelined,
    /// Streams only.
    Streaming,
    /// Bodies, in pieces.
    Uploading,
    /// Goes away before it has its response.
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

const PATIENCE: Duration = Duration::from_secs(90);
const PART: usize = 3_000;

/// Asks until `stop`.
pub(crate) fn run(
    kind: Kind,
    address: SocketAddr,
    number: u64,
    seed: u64,
    stop: &AtomicBool,
) -> Vec<ObservedRequest> {
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
                    let request = row.ask();
                    row.seen.push(oracle::send_and_leave(client, request, &mut row.random));
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
    seen: Vec<ObservedRequest>,
}

impl Row {
    /// Sends one request; returns whether the connection continues.
    fn one(&mut self, client: &mut Client) -> bool {
        let request = self.ask();
        let (seen, goes_on) = oracle::send_one(client, request, self.kind == Kind::Single, &mut self.random);
        self.seen.push(seen);
        goes_on
    }

    /// Asks several things at once.
    fn several(&mut self, client: &mut Client) -> bool {
        let all = (0..self.random.below(5) + 2).map(|_| self.ask()).collect();
        let (seen, goes_on) = oracle::send_pipelined(client, all);
        self.seen.extend(seen);
        goes_on
    }

    fn ask(&mut self) -> PlannedRequest {
        self.next += 1;
        let id = self.next;
        let app = self.random.one_of(&APPS);
        let action = self.action();
        let method = match action {
            "upload" => "POST",
            _ => self.random.one_of(&["GET", "GET", "POST"]),
        };
        let parts = 2 + self.random.below(30);
        let body = match method {
            "POST" => self.body(action == "upload"),
            _ => Vec::new(),
        };
        let name = id.to_string();
        let response = match action {
            "upload" => format!("{name} {} {}", body.len(), crc32(&body)).into_bytes(),
            "stream" | "cut" => {
                let part = format!("{name};").repeat(PART / (name.len() + 1));
                part.repeat(parts as usize).into_bytes()
            }
            _ => name.clone().into_bytes(),
        };
        let ms = self.random.below(8);
        PlannedRequest {
            id,
            method,
            action,
            target: format!("/{app}/{action}?id={name}&n={parts}&ms={ms}"),
            fields: String::new(),
            sending: BodyMode::Length,
            body_length: body.len(),
            body,
            expected: ExpectedResponse::Response(200, response),
        }
    }

    /// What the application is to do: harm is rare.
    fn action(&mut self) -> &'static str {
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
        self.random.bytes(length)
    }
}
