//! The naive twin: it keeps the history of every stream and derives everything from it.

use super::super::{CONFIG, data, response};
use super::random::Random;
use crate::FaultKind;
use crate::frame::{FromWorker, MAX_CREDIT, ResetCode, Strings};
use crate::session::SessionEvent;

static ZEROS: [u8; 65_536] = [0; 65_536];

#[derive(Debug, Clone, Copy, PartialEq)]
enum SentFrame {
    Response,
    Accept,
    Want,
    Text(bool),
    Binary(bool),
}

/// Every stream that was ever opened; the first has id 1.
pub(super) struct Twin {
    places: usize,
    pub(super) streams: Vec<TwinStream>,
    may_send: u64,
    window: TwinWindow,
}

#[derive(Default)]
pub(super) struct TwinStream {
    websocket: bool,
    said: Vec<SentFrame>,
    pub(super) over: bool,
    reset: bool,
    may_send: u64,
    window: TwinWindow,
    held: usize,
}

/// All bytes that ever arrived, left memory, and were returned as credit.
#[derive(Default, Clone, Copy)]
struct TwinWindow {
    received: u64,
    released: u64,
    given: u64,
}

impl TwinWindow {
    fn left(&self, first: u32) -> u64 {
        u64::from(first) + self.given - self.received
    }

    fn exceeds(&self, first: u32) -> bool {
        self.received > u64::from(first) + self.given
    }

    fn give(&mut self, first: u32) -> Option<u32> {
        let owed = self.released - self.given;
        (owed * 4 >= u64::from(first)).then(|| {
            self.given += owed;
            owed as u32
        })
    }
}

/// The expected event.
#[derive(Debug)]
pub(super) struct ExpectedEvent {
    dropped: bool,
    over: bool,
    bytes: usize,
}

impl ExpectedEvent {
    pub(super) fn compare(&self, event: SessionEvent<'_>) {
        assert_eq!(event.ended().is_some(), self.over, "{event:?}");
        match event {
            SessionEvent::Dropped { bytes, .. } => assert_eq!((true, bytes), (self.dropped, self.bytes)),
            _ => assert_eq!((false, event.held()), (self.dropped, self.bytes), "{event:?}"),
        }
    }
}

impl Twin {
    pub(super) fn new(places: usize) -> Self {
        Self { places, streams: Vec::new(), may_send: 131_072, window: TwinWindow::default() }
    }

    pub(super) fn open(&mut self, websocket: bool) -> Option<u32> {
        if self.streams.iter().filter(|stream| !stream.over).count() == self.places {
            return None;
        }
        self.streams.push(TwinStream { websocket, may_send: 65_536, ..TwinStream::default() });
        Some(self.streams.len() as u32)
    }

    fn get(&mut self, id: u32) -> Option<&mut TwinStream> {
        self.streams.get_mut((id as usize).checked_sub(1)?)
    }

    pub(super) fn reset(&mut self, id: u32) -> bool {
        let Some(stream) = self.get(id).filter(|stream| !stream.over && !stream.reset) else { return false };
        stream.reset = true;
        true
    }

    pub(super) fn send_credit(&self, stream: &TwinStream) -> u64 {
        if stream.over || stream.reset { 0 } else { stream.may_send.min(self.may_send) }
    }

    pub(super) fn spend(&mut self, id: u32, bytes: usize) {
        self.may_send -= bytes as u64;
        if let Some(stream) = self.get(id) {
            stream.may_send -= bytes as u64;
        }
    }

    pub(super) fn held(&mut self, id: u32) -> usize {
        self.get(id).map_or(0, |stream| stream.held)
    }

    pub(super) fn release(&mut self, id: u32, bytes: usize) -> Vec<(u32, u32)> {
        let mut given = Vec::new();
        if let Some(stream) = self.get(id) {
            stream.held -= bytes;
            stream.window.released += bytes as u64;
            if !stream.over && !stream.reset {
                given.extend(stream.window.give(CONFIG.stream_credit).map(|amount| (id, amount)));
            }
        }
        self.window.released += bytes as u64;
        given.extend(self.poll());
        given
    }

    pub(super) fn poll(&mut self) -> Vec<(u32, u32)> {
        self.window.give(CONFIG.connection_credit).map(|amount| (0, amount)).into_iter().collect()
    }

    pub(super) fn hear(&mut self, frame: &FromWorker<'_>) -> Result<ExpectedEvent, FaultKind> {
        if let FromWorker::Credit { stream: 0, amount } = *frame {
            self.may_send += u64::from(amount);
            let heard = ExpectedEvent { dropped: false, over: false, bytes: 0 };
            return if self.may_send > MAX_CREDIT.into() {
                Err(FaultKind::CreditOverflow)
            } else {
                Ok(heard)
            };
        }
        let Some(stream) = self.get(frame.stream()) else { return Err(FaultKind::UnknownStream) };
        if stream.over {
            return Err(FaultKind::StreamOver);
        }
        stream.judge(frame)?;
        let (bytes, over) = match *frame {
            FromWorker::Data { bytes, end, .. } => (bytes.len(), end),
            FromWorker::Text { bytes, .. } | FromWorker::Binary { bytes, .. } => (bytes.len().max(64), false),
            FromWorker::Response(response) => (0, response.end),
            FromWorker::Trailers { .. } | FromWorker::Reset { .. } | FromWorker::Close { .. } => (0, true),
            _ => (0, false),
        };
        let dropped = stream.reset;
        stream.over = over;
        stream.window.received += bytes as u64;
        if stream.window.exceeds(CONFIG.stream_credit) {
            return Err(FaultKind::CreditSpent);
        }
        if !dropped {
            stream.held += bytes;
        }
        self.window.received += bytes as u64;
        if self.window.exceeds(CONFIG.connection_credit) {
            return Err(FaultKind::CreditSpent);
        }
        if dropped {
            self.window.released += bytes as u64;
        }
        Ok(ExpectedEvent { dropped, over, bytes })
    }

    /// Mostly an open one; sometimes one that is over, sometimes one that never existed.
    pub(super) fn some_stream(&self, random: &mut Random) -> u32 {
        let open: Vec<u32> =
            (1..).zip(&self.streams).filter(|(_, twin)| !twin.over).map(|(id, _)| id).collect();
        match random.below(1_000) {
            0 => self.streams.len() as u32 + 1,
            1 if !self.streams.is_empty() => random.below(self.streams.len()) as u32 + 1,
            _ if open.is_empty() => 1.max(self.streams.len() as u32),
            _ => open[random.below(open.len())],
        }
    }

    /// How much the worker may send.
    fn allowed(&mut self, id: u32) -> usize {
        let connection = self.window.left(CONFIG.connection_credit);
        self.get(id).map_or(0, |stream| stream.window.left(CONFIG.stream_credit).min(connection) as usize)
    }

    /// Mostly one that fits the stream's state, so that a run makes progress.
    pub(super) fn some_frame(&mut self, random: &mut Random) -> FromWorker<'static> {
        let stream = self.some_stream(random);
        let most = if random.one_in(400) { ZEROS.len() } else { self.allowed(stream).min(ZEROS.len()) };
        let bytes = &ZEROS[..random.up_to(most)];
        let (end, amount) = (random.one_in(4), random.below(30_000) as u32 + 1);
        let fields = Strings::default();
        if self.streams.iter().all(|twin| twin.over) && !random.one_in(100) {
            return FromWorker::Credit { stream: 0, amount };
        }
        let Some(twin) = self.get(stream) else { return response(stream, 200, end) };
        let last = twin.said.last().copied();
        if random.one_in(300) {
            let any = [
                response(stream, [200, 101][random.below(2)], false),
                data(stream, bytes),
                FromWorker::Trailers { stream, fields },
                FromWorker::Inform { stream, status: 103, fields },
                FromWorker::Text { stream, bytes, end },
                FromWorker::Binary { stream, bytes, end },
                FromWorker::Close { stream, code: 1000, reason: "" },
                FromWorker::Credit { stream: stream * amount % 2, amount: MAX_CREDIT },
            ];
            return any[random.below(any.len())];
        }
        match random.below(10) {
            0 => FromWorker::Want { stream },
            1 => FromWorker::Credit { stream, amount },
            2 => FromWorker::Credit { stream: 0, amount },
            3 if random.one_in(3) => FromWorker::Reset { stream, code: ResetCode::REFUSED, reason: "" },
            _ if !twin.responded() && random.one_in(4) => FromWorker::Inform { stream, status: 103, fields },
            _ if !twin.responded() && twin.websocket && !random.one_in(4) => response(stream, 101, false),
            _ if !twin.responded() => response(stream, 200, end),
            _ if !twin.said.contains(&SentFrame::Accept) && end => FromWorker::Trailers { stream, fields },
            _ if !twin.said.contains(&SentFrame::Accept) => {
                FromWorker::Data { stream, bytes, end: random.one_in(9) }
            }
            _ if most < 64 => FromWorker::Want { stream },
            4 if end => FromWorker::Close { stream, code: 1000, reason: "" },
            _ => match last {
                Some(SentFrame::Text(false)) => FromWorker::Text { stream, bytes, end },
                Some(SentFrame::Binary(false)) => FromWorker::Binary { stream, bytes, end },
                Some(SentFrame::Text(true)) => FromWorker::Binary { stream, bytes, end },
                _ => FromWorker::Text { stream, bytes, end },
            },
        }
    }
}

impl TwinStream {
    fn responded(&self) -> bool {
        self.said.contains(&SentFrame::Response) || self.said.contains(&SentFrame::Accept)
    }

    fn judge(&mut self, frame: &FromWorker<'_>) -> Result<(), FaultKind> {
        let (responded, accepted) = (self.responded(), self.said.contains(&SentFrame::Accept));
        let open = self.said.iter().rev().find_map(|said| match said {
            SentFrame::Text(end) => Some((0, *end)),
            SentFrame::Binary(end) => Some((1, *end)),
            _ => None,
        });
        let mixes = |kind| open.is_some_and(|(other, ended)| other != kind && !ended);
        let said = match *frame {
            FromWorker::Response(_) if responded => return Err(FaultKind::SecondResponse),
            FromWorker::Response(head) if head.status != 101 => SentFrame::Response,
            FromWorker::Response(_) if self.websocket => SentFrame::Accept,
            FromWorker::Response(_) => return Err(FaultKind::NotWebsocket),
            FromWorker::Data { .. } | FromWorker::Trailers { .. } if !responded => {
                return Err(FaultKind::BeforeResponse);
            }
            FromWorker::Data { .. } | FromWorker::Trailers { .. } if accepted => {
                return Err(FaultKind::WebsocketBody);
            }
            FromWorker::Inform { .. } if responded => return Err(FaultKind::LateInform),
            FromWorker::Text { .. } | FromWorker::Binary { .. } | FromWorker::Close { .. } if !accepted => {
                let waits = self.websocket && !responded;
                return Err(if waits { FaultKind::BeforeResponse } else { FaultKind::NotWebsocket });
            }
            FromWorker::Text { .. } if mixes(0) => return Err(FaultKind::MixedMessage),
            FromWorker::Binary { .. } if mixes(1) => return Err(FaultKind::MixedMessage),
            FromWorker::Text { end, .. } => SentFrame::Text(end),
            FromWorker::Binary { end, .. } => SentFrame::Binary(end),
            FromWorker::Credit { amount, .. } => {
                self.may_send += u64::from(amount);
                if self.may_send > MAX_CREDIT.into() {
                    return Err(FaultKind::CreditOverflow);
                }
                return Ok(());
            }
            FromWorker::Want { .. } => return Ok(()),
            _ => SentFrame::Want,
        };
        self.said.push(said);
        Ok(())
    }
}
