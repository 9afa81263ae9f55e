//! A WebSocket client, by a script.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use keepwarm_net::simulation::{Peer, Rng};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::deflate::{self, Deflate};
use super::frames::{self, BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, close_payload, masked};
use super::plan::{ClientEnd, Closer, ConversationPlan, LONGEST, MessagePlan, Offer, ReadMode, Violation};
use crate::response::{Broken, Head, Reader};

/// How it went.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The status of the opening; 0: none came.
    pub(super) status: u16,
    /// Messages that came whole.
    pub(super) received: usize,
    /// The server's close: code (1005 for none) and reason.
    pub(super) close: Option<(u16, String)>,
    pub(super) broken: Option<Broken>,
}

const FIN: u8 = 0x80;
const RSV1: u8 = 0x40;
/// The sample of RFC 6455 §1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// A client that does not read gives up when its bytes are not taken for this long.
const TIMEOUT: Duration = Duration::from_secs(5);

struct Client<'t> {
    conversation: &'t ConversationPlan,
    id: u64,
    /// Of the app's messages.
    their_id: u64,
    peer: &'t Peer,
    rng: RefCell<Rng>,
    /// Frames to send before the next of the plan: pongs, and the response to a close.
    control: RefCell<VecDeque<Vec<u8>>>,
    changed: Notify,
    accepted: Cell<bool>,
    /// Where compression was agreed on.
    deflate: RefCell<Option<Deflate>>,
    received_all: Cell<bool>,
    sent_all: Cell<bool>,
    /// A close frame was sent: nothing follows it.
    closed: Cell<bool>,
    pings: Cell<u64>,
    sent: Cell<usize>,
    since: Cell<usize>,
}

/// The part of a message received so far.
struct ReadState {
    got: usize,
    /// Its bytes, where it is compressed.
    compressed: Option<Vec<u8>>,
}

/// The client has left by its plan, or its peer takes nothing more.
struct Disconnected;

/// Plays the client of one WebSocket. `ids`: of its messages, and of the app's.
pub(super) async fn run(conversation: &ConversationPlan, path: &str, ids: (u64, u64), peer: Peer) -> Outcome {
    let client = Client {
        conversation,
        id: ids.0,
        their_id: ids.1,
        peer: &peer,
        rng: RefCell::new(Rng::new(ids.0)),
        control: RefCell::default(),
        changed: Notify::new(),
        accepted: Cell::new(false),
        deflate: RefCell::new(None),
        received_all: Cell::new(conversation.app.messages.is_empty()),
        sent_all: Cell::new(false),
        closed: Cell::new(false),
        pings: Cell::new(0),
        sent: Cell::new(0),
        since: Cell::new(0),
    };
    let mut outcome = Outcome::default();
    {
        let write = client.write(path);
        let read = client.read(&mut outcome);
        let (mut write, mut read) = (std::pin::pin!(write), std::pin::pin!(read));
        tokio::select! {
            biased;
            () = &mut read => {}
            Disconnected = &mut write => {}
        }
    }
    if matches!(conversation.client.end, ClientEnd::Resets(_)) {
        peer.reset();
    }
    outcome
}

impl Client<'_> {
    async fn until(&self, reached: impl Fn() -> bool) {
        while !reached() {
            self.changed.notified().await;
        }
    }

    fn change(&self) {
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    // -- writing ---------------------------------------------------------------------------------

    async fn write(&self, path: &str) -> Disconnected {
        let plan = &self.conversation.client;
        match plan.reads {
            ReadMode::Never => match timeout(TIMEOUT, self.write_all(path)).await {
                Ok(left) => left.err().unwrap_or(Disconnected),
                Err(_) => Disconnected,
            },
            _ => match self.write_all(path).await {
                Err(left) => {
                    if matches!(plan.end, ClientEnd::Resets(_) | ClientEnd::Drops(_)) {
                        return left;
                    }
                    // The peer takes nothing more: the reader learns why.
                    self.sent_all.set(true);
                    self.change();
                    std::future::pending().await
                }
                Ok(()) => std::future::pending().await,
            },
        }
    }

    async fn write_all(&self, path: &str) -> Result<(), Disconnected> {
        let plan = &self.conversation.client;
        let opening = format!(
            "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {KEY}\r\n{}\r\n",
            plan.offer.field()
        );
        self.send(opening.as_bytes()).await?;
        if !plan.eager {
            self.until(|| self.accepted.get()).await;
        }
        for (number, message) in plan.messages.iter().enumerate() {
            self.write_message(number as u64, message).await?;
        }
        for number in 1..=plan.flood {
            self.write_control().await?;
            self.ping().await?;
            if number % 1000 == 0 {
                // A closed end takes bytes without a limit: this keeps the loop from running for ever.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        self.sent_all.set(true);
        self.change();
        match plan.end {
            ClientEnd::HalfCloses => self.peer.shutdown_write(),
            ClientEnd::Breaks(violation) => self.violation(violation).await?,
            ClientEnd::Resets(_) | ClientEnd::Drops(_) => return Err(Disconnected),
            ClientEnd::CloseHandshake => self.close().await?,
        }
        std::future::pending().await
    }

    /// Closes, when it is the one to do it, and sends what the reader has for it until then and after.
    async fn close(&self) -> Result<(), Disconnected> {
        let closes = self.conversation.closer != Closer::App;
        let may = || {
            !self.conversation.polite || self.received_all.get() || self.conversation.closer == Closer::Both
        };
        loop {
            self.write_control().await?;
            if closes && may() && !self.closed.get() {
                // Its pongs come first.
                let reason = if self.conversation.client.code.is_some() { "the client's reason" } else { "" };
                let close = self.frame(FIN | CLOSE, close_payload(self.conversation.client.code, reason));
                self.closed.set(true);
                self.send(&close).await?;
                continue;
            }
            self.until(|| !self.control.borrow().is_empty() || (closes && may() && !self.closed.get())).await;
        }
    }

    async fn write_message(&self, number: u64, message: &MessagePlan) -> Result<(), Disconnected> {
        let id = self.id | number;
        let (per_mille, _) = self.conversation.client.pings;
        let bytes = (0..message.size).map(|at| frames::byte(id, message.text, message.size, at));
        let mut payload: Vec<u8> = bytes.collect();
        let compresses = self.rng.borrow_mut().chance(self.conversation.client.compressed);
        let mut rsv1 = 0;
        if let Some(deflate) = self.deflate.borrow_mut().as_mut().filter(|_| compresses) {
            payload = deflate.compress(&payload);
            rsv1 = RSV1;
        }
        let mut at = 0;
        loop {
            self.write_control().await?;
            if self.rng.borrow_mut().chance(per_mille) {
                self.ping().await?;
            }
            let count = message.piece.min(payload.len() - at);
            let first = match (at, message.text) {
                (1.., _) => CONTINUATION,
                (0, true) => TEXT | rsv1,
                (0, false) => BINARY | rsv1,
            };
            let end = at + count == payload.len();
            let piece = payload[at..at + count].iter().copied();
            let frame = masked(if end { FIN | first } else { first }, self.mask(), piece);
            self.send(&frame).await?;
            at += count;
            if end {
                return Ok(());
            }
        }
    }

    fn mask(&self) -> [u8; 4] {
        let mut rng = self.rng.borrow_mut();
        if rng.chance(100) { [0; 4] } else { (rng.next() as u32).to_be_bytes() }
    }

    fn frame(&self, first: u8, payload: Vec<u8>) -> Vec<u8> {
        masked(first, self.mask(), payload.into_iter())
    }

    async fn ping(&self) -> Result<(), Disconnected> {
        let number = self.pings.get() + 1;
        self.pings.set(number);
        let ping = self.frame(FIN | PING, ping_payload(number, self.conversation.client.pings.1));
        self.send(&ping).await
    }

    async fn write_control(&self) -> Result<(), Disconnected> {
        loop {
            let Some(frame) = self.control.borrow_mut().pop_front() else { return Ok(()) };
            self.send(&frame).await?;
            if frame[0] & 0x0f == CLOSE {
                // Nothing follows it.
                std::future::pending().await
            }
        }
    }

    async fn violation(&self, violation: Violation) -> Result<(), Disconnected> {
        let frame = match violation {
            Violation::Unmasked => vec![FIN | TEXT, 1, b'a'],
            Violation::Reserved => self.frame(FIN | 0x20 | TEXT, vec![b'a']),
            Violation::ReservedOnPing => self.frame(FIN | RSV1 | PING, vec![b'a']),
            Violation::NotDeflate => self.frame(FIN | RSV1 | BINARY, vec![0xff; 3]),
            Violation::Bomb => self.frame(FIN | RSV1 | BINARY, deflate::bomb(LONGEST + 1)),
            Violation::Opcode => self.frame(FIN | 3, vec![b'a']),
            Violation::NotUtf8 => self.frame(FIN | TEXT, vec![b'a', 0xff]),
            Violation::LongPing => self.frame(FIN | PING, vec![b'a'; 126]),
            Violation::Continuation => self.frame(FIN | CONTINUATION, vec![b'a']),
            // Its head says enough.
            Violation::TooLong => {
                let mut head = vec![FIN | BINARY, 0x80 | 127];
                head.extend_from_slice(&(LONGEST as u64 + 1).to_be_bytes());
                head.extend_from_slice(&[0; 4]);
                head
            }
            Violation::OneByteClose => self.frame(FIN | CLOSE, vec![3]),
        };
        self.closed.set(true);
        self.send(&frame).await
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), Disconnected> {
        let plan = &self.conversation.client;
        let most = match plan.end {
            ClientEnd::Resets(at) | ClientEnd::Drops(at) => at,
            _ => usize::MAX,
        };
        for part in bytes.chunks(plan.write.max(1)) {
            let part = &part[..part.len().min(most.saturating_sub(self.sent.get()))];
            if part.is_empty() || self.peer.write(part).await.is_err() {
                return Err(Disconnected);
            }
            self.sent.set(self.sent.get() + part.len());
            self.since.set(self.since.get() + part.len());
            if self.since.get() >= plan.every {
                self.since.set(0);
                tokio::time::sleep(plan.pause).await;
            }
        }
        Ok(())
    }

    // -- reading ---------------------------------------------------------------------------------

    async fn read(&self, outcome: &mut Outcome) {
        match self.read_all(outcome).await {
            Ok(()) => {}
            Err(broken) => outcome.broken = Some(broken),
        }
    }

    async fn read_all(&self, outcome: &mut Outcome) -> Result<(), Broken> {
        let mut reader = Reader::new(self.peer, self.conversation.client.pace);
        let head = reader.head().await?;
        outcome.status = head.status;
        if head.status != 101 {
            return reader.body(&head, false, |_, _| Ok(())).await.map(drop);
        }
        self.check_opening(&head)?;
        self.accepted.set(true);
        self.change();
        match self.conversation.client.reads {
            ReadMode::Beside => {}
            ReadMode::AfterSending => self.until(|| self.sent_all.get()).await,
            ReadMode::Later(pause) => tokio::time::sleep(pause).await,
            ReadMode::Never => std::future::pending().await,
        }
        let mut within = None;
        let mut ponged = 0;
        let deflates = self.deflate.borrow().is_some();
        while let Some(head) = frames::head(&mut reader, deflates).await? {
            if outcome.close.is_some() {
                return Err(Broken::Wrong("a frame behind the close".to_owned()));
            }
            match head.opcode {
                TEXT | BINARY | CONTINUATION => {
                    self.read_data(&mut reader, head, &mut within, outcome).await?
                }
                _ => {
                    let payload = reader.take(head.length, "control frame").await?;
                    self.handle_control(head.opcode, &payload, &mut ponged, outcome)?;
                }
            }
        }
        match outcome.close {
            Some(_) => Ok(()),
            None if within.is_some() => Err(Broken::Cut("message")),
            None => Err(Broken::Ended),
        }
    }

    /// A frame of a message; `within`: the part received before.
    async fn read_data(
        &self,
        reader: &mut Reader<'_>,
        head: frames::Head,
        within: &mut Option<ReadState>,
        outcome: &mut Outcome,
    ) -> Result<(), Broken> {
        let wrong = |what: String| Err(Broken::Wrong(what));
        let number = outcome.received;
        let Some(message) = self.conversation.app.messages.get(number) else {
            return wrong(format!("a message that nobody sent: {head:?}"));
        };
        let mut so_far = match (within.take(), head.opcode) {
            (None, CONTINUATION) | (Some(_), TEXT | BINARY) => {
                return wrong(format!("fragments of two messages: {head:?}"));
            }
            (Some(within), _) => within,
            (None, opcode) if (opcode == TEXT) == message.text => {
                ReadState { got: 0, compressed: head.rsv1.then(Vec::new) }
            }
            (None, _) => return wrong(format!("message {number} is of the wrong type")),
        };
        let id = self.their_id | number as u64;
        let mut check = |at: usize, bytes: &[u8]| frames::check(id, message.text, message.size, at, bytes);
        match &mut so_far.compressed {
            Some(compressed) => {
                if compressed.len() + head.length > message.size + message.size / 8 + 1024 {
                    return wrong(format!("message {number} has become longer: {head:?}"));
                }
                compressed.extend(reader.take(head.length, "message").await?);
                if head.fin {
                    let mut deflate = self.deflate.borrow_mut();
                    let deflate = deflate.as_mut().expect("RSV1 is refused without it");
                    let whole = deflate.inflate(compressed, message.size).map_err(Broken::Wrong)?;
                    check(0, &whole).map_err(Broken::Wrong)?;
                    if whole.len() != message.size {
                        return wrong(format!(
                            "message {number} has {} of {} bytes",
                            whole.len(),
                            message.size
                        ));
                    }
                }
            }
            None => {
                let got = so_far.got + head.length;
                if got > message.size || (head.fin && got != message.size) {
                    return wrong(format!("message {number} has {got} of {} bytes", message.size));
                }
                reader.exactly(head.length, &mut so_far.got, &mut check, "message").await?;
            }
        }
        *within = (!head.fin).then_some(so_far);
        if head.fin {
            outcome.received += 1;
            if outcome.received == self.conversation.app.messages.len() {
                self.received_all.set(true);
                self.change();
            }
        }
        Ok(())
    }

    fn check_opening(&self, head: &Head) -> Result<(), Broken> {
        let wrong = |what: &str| Err(Broken::Wrong(format!("{what}: {head:?}")));
        if head.field("sec-websocket-accept") != Some(ACCEPT) {
            return wrong("the opening is not accepted rightly");
        }
        if !head.field("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
            || !head.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("upgrade"))
        {
            return wrong("a 101 that does not upgrade");
        }
        // RFC 6455 §9.1: only what was offered, and always where that can be met.
        let offer: Offer = self.conversation.client.offer;
        match (head.field("sec-websocket-extensions"), offer.is_good()) {
            (None, false) => Ok(()),
            (Some(said), true) => {
                *self.deflate.borrow_mut() = Some(Deflate::agree(offer, said).map_err(Broken::Wrong)?);
                Ok(())
            }
            _ => wrong("an extension that was not offered, or none that was"),
        }
    }

    fn handle_control(
        &self,
        opcode: u8,
        payload: &[u8],
        ponged: &mut u64,
        outcome: &mut Outcome,
    ) -> Result<(), Broken> {
        match opcode {
            PING => {
                let pong = self.frame(FIN | PONG, payload.to_vec());
                if !self.closed.get() {
                    self.control.borrow_mut().push_back(pong);
                }
            }
            PONG => {
                // One pong may respond to several pings: to the last of them (RFC 6455 §5.5.3).
                let size = self.conversation.client.pings.1;
                let responses =
                    (*ponged + 1..=self.pings.get()).find(|ping| ping_payload(*ping, size) == payload);
                *ponged = responses
                    .ok_or_else(|| Broken::Wrong(format!("a pong that answers nothing: {payload:02x?}")))?;
            }
            _ => {
                let close = match payload {
                    [] => (1005, String::new()),
                    [one, other, reason @ ..] => {
                        let reason = std::str::from_utf8(reason)
                            .map_err(|_| Broken::Wrong("a reason that is not UTF-8".to_owned()))?;
                        (u16::from_be_bytes([*one, *other]), reason.to_owned())
                    }
                    _ => return Err(Broken::Wrong("a close of one byte".to_owned())),
                };
                let code = (close.0 != 1005).then_some(close.0);
                outcome.close = Some(close);
                if !self.closed.replace(true) {
                    let response = self.frame(FIN | CLOSE, close_payload(code, ""));
                    self.control.borrow_mut().push_back(response);
                }
            }
        }
        self.change();
        Ok(())
    }
}

fn ping_payload(number: u64, size: usize) -> Vec<u8> {
    number.to_be_bytes().into_iter().rev().cycle().take(size).collect()
}
