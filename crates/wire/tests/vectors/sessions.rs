//! Transcripts: `Session` produces each of Keepwarm's lines itself, byte for byte, and checks each of the worker's; a naive
//! twin of a worker checks Keepwarm's.

use crate::json::{Either, bytes, expected, from_keepwarm, load, owned_pairs, text};
use crate::worker_twin::WorkerTwin;
use keepwarm_wire::frame::{FromWorker, Request, ToWorker, Welcome, flags, message_cost};
use keepwarm_wire::session::{Session, SessionConfig, SessionEvent};
use serde_json::Value;
use std::collections::BTreeMap;

#[test]
fn transcripts_hold() {
    for transcript in load("sessions.json") {
        let name = text(&transcript, "name");
        let steps = transcript["steps"].as_array().expect(name);
        let mut run = Run { name, ..Run::default() };
        for (number, step) in steps.iter().enumerate() {
            let bytes = bytes(step);
            let (frame, used) = Either::decode(from_keepwarm(step), &bytes).expect(name).expect(name);
            assert_eq!(used, bytes.len(), "{name}: step {number}");
            assert_eq!(frame.to_json(), expected(&step["frame"]), "{name}: step {number}");
            let fault = match frame {
                Either::Keepwarm(frame) => run.keepwarm_says(frame, &bytes, step),
                Either::Worker(frame) => run.worker_says(frame, step),
            };
            assert_eq!(fault, step["fault"].as_str(), "{name}: step {number}");
            if fault.is_some() {
                assert_eq!(number + 1, steps.len(), "{name}: the fault is not the last step");
            }
        }
        assert!(run.unsaid.is_empty(), "{name}: Keepwarm would also have said {:?}", run.unsaid);
    }
}

#[derive(Default)]
struct Run<'t> {
    name: &'t str,
    session: Option<Session>,
    twin: WorkerTwin,
    /// Bytes of each stream that Keepwarm has in memory.
    held: BTreeMap<u32, usize>,
    /// CREDIT that the session has written and the transcript has not reached yet.
    unsaid: Vec<u8>,
}

impl Run<'_> {
    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("a WELCOME")
    }

    fn keepwarm_says(&mut self, frame: ToWorker<'_>, bytes: &[u8], step: &Value) -> Option<&'static str> {
        let ignored = match self.twin.hear(&frame) {
            Err(fault) => return Some(fault),
            Ok(ignored) => ignored,
        };
        let name = self.name;
        assert_eq!(ignored, step["ignored"] == true, "{name}: {frame:?}");
        let mut out = Vec::new();
        match frame {
            ToWorker::Welcome(welcome) => out = self.welcome(&welcome),
            ToWorker::Request(Request { stream, flags, .. }) => {
                let websocket = flags & flags::WEBSOCKET != 0;
                let session = self.session();
                let opened = if websocket { session.open_websocket() } else { session.open() };
                assert_eq!(opened, Some(stream), "{name}");
                return None;
            }
            ToWorker::Data { stream, bytes, .. } => {
                let session = self.session();
                assert_eq!(session.is_over(stream), ignored, "{name}");
                assert!(ignored || bytes.len() <= session.send_credit(stream) as usize, "{name}: {frame:?}");
                session.spent(stream, bytes.len());
                return None;
            }
            ToWorker::Text { stream, bytes, .. } | ToWorker::Binary { stream, bytes, .. } => {
                let session = self.session();
                assert_eq!(session.is_over(stream), ignored, "{name}");
                let may = session.message_credit(stream).is_some_and(|most| bytes.len() <= most);
                assert!(ignored || may, "{name}: {frame:?}");
                session.spent(stream, message_cost(bytes.len()));
                return None;
            }
            ToWorker::Credit { stream, .. } => {
                if ignored {
                    return None; // it crossed the end of the stream
                }
                self.give_credit(stream);
                assert!(self.unsaid.starts_with(bytes), "{name}: {frame:?} but {:?}", self.unsaid);
                self.unsaid.drain(..bytes.len());
                return None;
            }
            ToWorker::HalfClose { stream } => {
                self.session().half_close(stream, &mut out);
                assert_eq!(out.is_empty(), ignored, "{name}");
            }
            ToWorker::Reset { stream, code, reason } => {
                let said = self.session().reset(stream, code, reason, &mut out);
                assert_eq!(said, !ignored, "{name}");
                if ignored {
                    return None;
                }
                assert_eq!(self.session().send_credit(stream), 0, "{name}");
                assert!(!self.session().reset(stream, code, reason, &mut out), "{name}: twice");
            }
            ToWorker::Ping { payload } => assert!(self.session().ping(payload, &mut out), "{name}"),
            ToWorker::Leaks { end } => {
                let session = self.session();
                let said = if end { session.end_leaks(&mut out) } else { session.begin_leaks(&mut out) };
                assert!(said, "{name}");
            }
            ToWorker::Drain => {
                self.session().drain(&mut out);
                assert_eq!(self.session().open(), None, "{name}");
            }
            ToWorker::Trailers { .. } | ToWorker::Close { .. } => return None, // the caller's alone
        }
        assert_eq!(out, bytes, "{name}: {frame:?}");
        None
    }

    fn welcome(&mut self, welcome: &Welcome<'_>) -> Vec<u8> {
        let Welcome { stream_credit, connection_credit, .. } = *welcome;
        let session = self.session.insert(Session::new(SessionConfig { stream_credit, connection_credit }));
        let about = owned_pairs(welcome.about);
        let mut out = Vec::new();
        session.welcome(about.iter().map(|(name, value)| (&name[..], &value[..])), &mut out).unwrap();
        out
    }

    /// Releases held bytes, so that the session writes the CREDIT that the transcript expects next.
    fn give_credit(&mut self, stream: u32) {
        if !self.unsaid.is_empty() {
            return;
        }
        let mut out = Vec::new();
        self.session().poll_credit(&mut out);
        if out.is_empty() {
            for (held, bytes) in std::mem::take(&mut self.held) {
                let wanted = if stream == 0 { self.session().is_over(held) } else { held == stream };
                match wanted {
                    true => self.session().release(held, bytes, &mut out),
                    false => drop(self.held.insert(held, bytes)),
                }
            }
        }
        self.unsaid = out;
    }

    fn worker_says(&mut self, frame: FromWorker<'_>, step: &Value) -> Option<&'static str> {
        let name = self.name;
        let event = match self.session().handle_frame(frame) {
            Err(fault) => {
                assert_eq!(
                    self.session().handle_frame(FromWorker::Drain),
                    Err(fault),
                    "{name}: it must stay dead"
                );
                assert_eq!(self.session().open(), None, "{name}: it must stay dead");
                return Some(fault.name());
            }
            Ok(event) => event,
        };
        assert_eq!(event.stream(), frame.stream(), "{name}");
        let dropped = matches!(event, SessionEvent::Dropped { .. });
        assert_eq!(dropped, step["dropped"] == true, "{name}: {event:?}");
        self.twin.say(&frame, event.ended().is_some());
        *self.held.entry(event.stream()).or_default() += event.held();
        self.held.retain(|_, bytes| *bytes != 0);

        let open = self.twin.streams.len();
        assert_eq!(self.session().open_streams(), open, "{name}: {event:?}");
        if let Some(stream) = event.ended() {
            assert!(self.session().is_over(stream), "{name}");
        }
        None
    }
}
