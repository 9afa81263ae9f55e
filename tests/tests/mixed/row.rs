//! A client: a few kept connections, and its requests on them and on others.

use std::net::SocketAddr;
use std::time::Duration;

use keepwarm_tests::Client;
use keepwarm_tests::oracle::{
    self, BodyMode, ExpectedResponse, ObservedRequest, PlannedRequest, Random, crc32,
};

use crate::kinds::{Exit, Kind};

/// Kept connections of a client.
pub(crate) const CONNECTIONS: usize = 3;
/// A process that has died young is waited for.
const PATIENCE: Duration = Duration::from_secs(100);
const PART: usize = 3_000;
const BOUNDARY: &str = "------------------------d74496d66958873e";

pub(crate) struct Row<'a> {
    kind: &'a Kind,
    address: SocketAddr,
    random: Random,
    next: u64,
    /// How many of a million requests end a process.
    deaths: u64,
    pub(crate) seen: Vec<ObservedRequest>,
}

impl<'a> Row<'a> {
    pub(crate) fn new(kind: &'a Kind, address: SocketAddr, seed: u64, number: u64) -> Self {
        let next = (number + 1) * 10_000_000;
        Self { kind, address, random: Random::new(seed, number), next, deaths: 0, seen: Vec::new() }
    }

    /// Sends at least this many requests, and closes its connections.
    pub(crate) fn ask_many(&mut self, many: u64, deaths: u64) {
        self.deaths = deaths;
        let end = self.next + many;
        let mut kept: Vec<Client> = (0..CONNECTIONS).map(|_| self.connect()).collect();
        while self.next < end {
            let at = self.random.below(CONNECTIONS as u64) as usize;
            match self.random.below(100) {
                0..8 => self.leave(),
                8..20 => {
                    let mut client = self.connect();
                    self.one(&mut client, true);
                }
                20..28 => {
                    let all = (0..self.random.below(5) + 2).map(|_| self.ask(false)).collect();
                    let (seen, goes_on) = oracle::send_pipelined(&mut kept[at], all);
                    self.seen.extend(seen);
                    self.keep(&mut kept[at], goes_on);
                }
                28..40 => {
                    let all = kept.iter().map(|_| self.ask(false)).collect();
                    for (client, (seen, goes_on)) in (0..).zip(oracle::send_across(&mut kept, all)) {
                        self.seen.push(seen);
                        self.keep(&mut kept[client], goes_on);
                    }
                }
                _ => {
                    let goes_on = self.one(&mut kept[at], false);
                    self.keep(&mut kept[at], goes_on);
                }
            }
        }
    }

    fn connect(&self) -> Client {
        Client::connect(self.address).patient(PATIENCE)
    }

    /// A connection that has ended, or now and then another, makes way for a new one.
    fn keep(&mut self, client: &mut Client, goes_on: bool) {
        if !goes_on || self.random.below(200) == 0 {
            *client = self.connect();
        }
    }

    fn one(&mut self, client: &mut Client, close: bool) -> bool {
        let request = self.ask(true);
        let (seen, goes_on) = oracle::send_one(client, request, close, &mut self.random);
        self.seen.push(seen);
        goes_on
    }

    fn leave(&mut self) {
        let (client, request) = (self.connect(), self.ask(false));
        self.seen.push(oracle::send_and_leave(client, request, &mut self.random));
    }

    /// `alone`: it may wait for `100 Continue`.
    fn ask(&mut self, alone: bool) -> PlannedRequest {
        self.next += 1;
        let (id, name) = (self.next, self.next.to_string());
        let action = self.action();
        let method = match action {
            "upload" | "form" | "early" => "POST",
            "work" | "empty" => self.random.one_of(&["GET", "GET", "POST", "HEAD"]),
            _ => self.random.one_of(&["GET", "GET", "POST"]),
        };
        let (mut body, mut fields) = (Vec::new(), String::new());
        if method == "POST" {
            body = self.body(action);
        }
        let parts = 2 + self.random.below(30);
        let expected = self.expected(action, method, &name, parts, &body);
        if action == "form" {
            body = form(&name, &body);
            fields = format!("Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n");
        }
        let sending = match self.random.below(4) {
            0 if method == "POST" => BodyMode::Chunked,
            1 if method == "POST" && alone => BodyMode::Expecting,
            _ => BodyMode::Length,
        };
        let ms = if self.random.below(50) == 0 { 3 } else { 0 };
        let target = format!("/{action}?id={name}&n={parts}&ms={ms}&pause=0");
        PlannedRequest {
            id,
            method,
            action,
            target,
            fields,
            sending,
            body_length: body.len(),
            body,
            expected,
        }
    }

    fn expected(&self, action: &str, method: &str, name: &str, parts: u64, body: &[u8]) -> ExpectedResponse {
        let part = format!("{name};").repeat(PART / (name.len() + 1));
        let response = match action {
            "raise" => return ExpectedResponse::Response(500, Vec::new()),
            "exit" if self.kind.exit == Exit::Replaced => {
                return ExpectedResponse::Response(500, Vec::new());
            }
            "late" if self.kind.late_is_cut => return ExpectedResponse::Cut,
            "late" => part.repeat(parts as usize - 1),
            "empty" => return ExpectedResponse::Response(204, Vec::new()),
            "stream" | "large" => part.repeat(parts as usize),
            "upload" => format!("{name} {} {}", body.len(), crc32(body)),
            "form" => format!("{name} {name} {} {}", body.len(), crc32(body)),
            _ if method == "HEAD" => String::new(),
            _ => name.to_owned(),
        };
        ExpectedResponse::Response(200, response.into_bytes())
    }

    /// The action of the application.
    fn action(&mut self) -> &'static str {
        if self.random.below(1_000_000) < self.deaths {
            return match self.kind.exit {
                Exit::Lost => self.random.one_of(&["die", "exit"]),
                _ => "die",
            };
        }
        match self.random.below(1000) {
            0..3 if self.deaths > 0 && self.kind.exit != Exit::Lost => "exit",
            0..60 => "raise",
            60..100 => "late",
            100..220 => "stream",
            220..280 => "large",
            280..310 => "empty",
            310..340 => "early",
            340..440 if self.kind.forms => "form",
            340..500 => "upload",
            _ => "work",
        }
    }

    fn body(&mut self, action: &str) -> Vec<u8> {
        let length = match (action, self.random.below(8)) {
            ("upload" | "form", 0) => self.random.below(400_000),
            ("upload" | "form", 1..5) => self.random.below(70_000),
            ("early", 0..2) => self.random.below(60_000),
            _ => self.random.below(500),
        };
        self.random.bytes(length)
    }
}

/// A form with a field and a file.
fn form(name: &str, file: &[u8]) -> Vec<u8> {
    let begin = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\n{name}\r\n\
         --{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n"
    );
    [begin.as_bytes(), file, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat()
}
