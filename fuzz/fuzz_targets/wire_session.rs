//! Property: whatever a worker says, a session does not panic, lets no more bytes through than it gave credit for, has
//! no more streams open than HELLO said (one while the worker measures), gives no event of a stream that is over or was never opened, and is dead
//! after a fault.

#![no_main]

use keepwarm_wire::frame::{FromWorker, Growth, Hello, ResetCode, Response, Strings, ToWorker};
use keepwarm_wire::session::{Session, SessionConfig, SessionEvent};
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;

static ZEROS: [u8; 65_536] = [0; 65_536];
const CONFIG: SessionConfig = SessionConfig { stream_credit: 65_536, connection_credit: 131_072 };

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let streams = u32::from(input.byte() % 8) + 1;
    let mut run = Run {
        session: Session::new(CONFIG),
        streams,
        opened: 0,
        open: HashMap::new(),
        connection: CONFIG.connection_credit.into(),
        out: Vec::new(),
    };
    while !input.0.is_empty() {
        if run.step(&mut input).is_err() {
            return;
        }
        assert!(run.session.open_streams() <= run.streams as usize);
        assert_eq!(run.session.open_streams(), run.open.len());
    }
});

struct Run {
    session: Session,
    /// What HELLO says.
    streams: u32,
    opened: u32,
    open: HashMap<u32, Open>,
    /// Bytes that may still come on the connection, by the CREDIT that was written.
    connection: u64,
    out: Vec<u8>,
}

struct Open {
    /// Bytes that may still come, by the CREDIT that was written.
    credit: u64,
    reset: bool,
}

impl Run {
    /// One call of the session; an error when it found a fault.
    fn step(&mut self, input: &mut Input<'_>) -> Result<(), ()> {
        let stream = u32::from(input.byte());
        match input.byte() % 24 {
            op @ 0..=3 => self.open(op == 0),
            4 => {
                let reset = self.session.reset(stream, ResetCode::TIMEOUT, "", &mut Vec::new());
                let open = self.open.get_mut(&stream);
                assert_eq!(reset, open.as_ref().is_some_and(|open| !open.reset));
                if let Some(open) = open {
                    open.reset = true;
                }
            }
            5 => {
                let bytes = input.len().min(self.session.send_credit(stream) as usize);
                self.session.spent(stream, bytes);
                assert!(bytes == 0 || self.open.contains_key(&stream));
            }
            6..=8 => {
                self.session.release(stream, input.len(), &mut self.out);
                self.note_credit();
            }
            9 => match input.byte() {
                0 => self.session.drain(&mut Vec::new()),
                1..=63 => {
                    let begun = self.session.begin_leaks(&mut Vec::new());
                    assert!(!begun || self.open.is_empty());
                }
                64..=99 => drop(self.session.end_leaks(&mut Vec::new())),
                _ => drop(self.session.ping([1; 8], &mut Vec::new())),
            },
            op => self.decode_all(input.frame(op, stream, self.streams))?,
        }
        Ok(())
    }

    fn open(&mut self, websocket: bool) {
        let most = if self.session.is_measuring() { 1 } else { self.streams as usize };
        let room = self.open.len() < most && !self.session.is_growth_awaited();
        let opened = if websocket { self.session.open_websocket() } else { self.session.open() };
        let Some(stream) = opened else { return };
        assert!(room && self.session.is_ready() && !self.session.is_draining());
        assert_eq!(stream, self.opened + 1);
        self.opened = stream;
        self.open.insert(stream, Open { credit: CONFIG.stream_credit.into(), reset: false });
    }

    fn decode_all(&mut self, frame: FromWorker<'_>) -> Result<(), ()> {
        let ready = self.session.is_ready();
        let event = match self.session.handle_frame(frame) {
            Ok(event) => event,
            Err(fault) => {
                assert_eq!(self.session.handle_frame(FromWorker::Drain), Err(fault));
                assert_eq!(self.session.open(), None);
                return Err(());
            }
        };
        assert_eq!(ready, !matches!(event, SessionEvent::Hello(_)));
        assert_eq!(event.stream(), frame.stream());
        if event.stream() != 0 {
            let open = self.open.get_mut(&event.stream()).expect("an event of a stream that is not open");
            let dropped = matches!(event, SessionEvent::Dropped { .. });
            assert_eq!(dropped, open.reset);
            let bytes = match event {
                SessionEvent::Dropped { bytes, .. } => bytes,
                _ => event.held(),
            };
            open.credit = open.credit.checked_sub(bytes as u64).expect("more than the stream's credit");
            self.connection =
                self.connection.checked_sub(bytes as u64).expect("more than the connection's credit");
        }
        if let Some(stream) = event.ended() {
            self.open.remove(&stream);
            assert!(self.session.is_over(stream));
            assert_eq!(self.session.send_credit(stream), 0);
        }
        self.session.poll_credit(&mut self.out);
        self.note_credit();
        Ok(())
    }

    /// Reads the CREDIT that the session has written.
    fn note_credit(&mut self) {
        let mut rest = &self.out[..];
        while let Some((frame, used)) = ToWorker::decode(rest).expect("what is written can be read") {
            let ToWorker::Credit { stream, amount } = frame else { panic!("{frame:?}") };
            let (credit, first) = match stream {
                0 => (&mut self.connection, CONFIG.connection_credit),
                _ => (&mut self.open.get_mut(&stream).expect("an open stream").credit, CONFIG.stream_credit),
            };
            *credit += u64::from(amount);
            assert!(*credit <= first.into(), "more given back than was taken");
            rest = &rest[used..];
        }
        assert!(rest.is_empty());
        self.out.clear();
    }
}

/// The fuzzer's bytes; zeros behind them.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// 0 to 65,536.
    fn len(&mut self) -> usize {
        usize::from(self.byte()) * 257 + usize::from(self.byte() % 2)
    }

    fn frame(&mut self, op: u8, stream: u32, streams: u32) -> FromWorker<'static> {
        let fields = Strings::default();
        let bytes = |input: &mut Self| &ZEROS[..input.len().min(ZEROS.len())];
        // Every frame about a stream names one; the decoder has seen to that.
        let id = stream.max(1);
        match op {
            10 => FromWorker::Hello(Hello {
                version: 1 + u16::from(self.byte() == 255),
                streams,
                stream_credit: 65_536,
                connection_credit: 131_072,
                about: fields,
            }),
            11 => FromWorker::Pong { payload: [1; 8] },
            12 if self.byte() == 0 => FromWorker::Drain,
            13 if self.byte() % 4 == 0 => FromWorker::Hijack { stream: id },
            12 if self.byte() % 4 == 0 => {
                FromWorker::Growth(Growth { request: stream, microseconds: 0, changes: fields })
            }
            12 | 13 => FromWorker::Want { stream: id },
            14 => FromWorker::Inform { stream: id, status: 103, fields },
            15 | 16 => {
                let choice = self.byte();
                let status = if choice & 2 != 0 { 101 } else { 200 };
                let end = choice & 1 != 0 && status != 101;
                FromWorker::Response(Response { stream: id, status, fields, body: b"", end, close: false })
            }
            17 | 18 => FromWorker::Data { stream: id, end: self.byte() % 8 == 0, bytes: bytes(self) },
            19 => FromWorker::Trailers { stream: id, fields },
            20 => {
                let amount = 1 + ((u32::from(self.byte()) << 16 | self.len() as u32) << (self.byte() % 8));
                FromWorker::Credit { stream, amount: amount.min(0x7fff_ffff) }
            }
            21 => FromWorker::Text { stream: id, end: self.byte() % 2 == 0, bytes: bytes(self) },
            22 => FromWorker::Binary { stream: id, end: self.byte() % 2 == 0, bytes: bytes(self) },
            _ if self.byte() % 2 == 0 => FromWorker::Close { stream: id, code: 1000, reason: "" },
            _ => FromWorker::Reset { stream: id, code: ResetCode::REFUSED, reason: "" },
        }
    }
}
