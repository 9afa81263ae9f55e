//! A reader of `GET /events`.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Client, Failure, Server, admin};

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
    #[track_caller]
    pub fn line(&mut self) -> String {
        match self.try_line() {
            Ok(line) => line,
            Err(failure) => panic!("a line wanted: {failure:?}\n{}", self.0),
        }
    }

    fn try_line(&mut self) -> Result<String, Failure> {
        loop {
            let line = self.0.try_read_through(b"\n")?;
            let line = String::from_utf8(line).expect("UTF-8");
            let line = line.trim_end_matches(['\r', '\n']);
            let is_chunk_size = line.len() < 8 && u32::from_str_radix(line, 16).is_ok();
            if !line.is_empty() && !is_chunk_size {
                return Ok(line.to_owned());
            }
        }
    }

    /// The next snapshot.
    #[track_caller]
    pub fn snapshot(&mut self) -> Value {
        match self.try_snapshot() {
            Ok(snapshot) => snapshot,
            Err(failure) => panic!("a snapshot wanted: {failure:?}\n{}", self.0),
        }
    }

    /// The next snapshot of a stream that may end.
    ///
    /// # Errors
    /// It ended before.
    pub fn try_snapshot(&mut self) -> Result<Value, Failure> {
        let mut line = self.try_line()?;
        while !line.starts_with("data: ") {
            line = self.try_line()?;
        }
        // A large snapshot comes in several chunks.
        let mut json = line["data: ".len()..].to_owned();
        loop {
            match serde_json::from_str(&json) {
                Ok(snapshot) => return Ok(snapshot),
                Err(error) => assert!(error.is_eof(), "{error}: {json}"),
            }
            json.push_str(&self.try_line()?);
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
