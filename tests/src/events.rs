//! A reader of `GET /events`.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Client, Server, admin};

/// How long a snapshot may take.
const BOUND: Duration = Duration::from_secs(60);

/// A stream of snapshots.
pub struct Events(pub Client);

impl Events {
    /// Opens one.
    #[track_caller]
    pub fn open(server: &Server) -> Self {
        Self::with(server, "")
    }

    /// The same, with these further field lines.
    #[track_caller]
    pub fn with(server: &Server, fields: &str) -> Self {
        let mut client = Client::connect(admin::address(server)).patient(BOUND);
        client.send(format!("GET /events HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        let (status, fields) = client.head("GET");
        assert_eq!(status, 200, "{fields:?}");
        Self(client)
    }

    /// The next line of the stream, without what frames it in HTTP.
    pub fn line(&mut self) -> String {
        loop {
            let line = self.0.read_through(b"\n");
            let line = String::from_utf8(line).expect("UTF-8");
            let line = line.trim_end_matches(['\r', '\n']);
            let is_chunk_size = line.len() < 8 && u32::from_str_radix(line, 16).is_ok();
            if !line.is_empty() && !is_chunk_size {
                return line.to_owned();
            }
        }
    }

    /// The next snapshot.
    pub fn snapshot(&mut self) -> Value {
        let mut line = self.line();
        while !line.starts_with("data: ") {
            line = self.line();
        }
        // A large snapshot comes in several chunks.
        let mut json = line["data: ".len()..].to_owned();
        loop {
            match serde_json::from_str(&json) {
                Ok(snapshot) => return snapshot,
                Err(error) => assert!(error.is_eof(), "{error}: {json}"),
            }
            json.push_str(&self.line());
        }
    }

    /// Waits for a snapshot that is as wanted.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + BOUND;
        loop {
            let snapshot = self.snapshot();
            if wanted(&snapshot) {
                return snapshot;
            }
            assert!(Instant::now() < deadline, "not within {BOUND:?}: {what}\n{snapshot:#}");
        }
    }
}
