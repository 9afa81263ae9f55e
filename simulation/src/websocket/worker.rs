//! A worker whose app speaks WebSocket messages over the wire, by a script. It keeps Keepwarm to the rules of `spec/wire.md`, the credit included.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::Peer;
use keepwarm_wire::encode::{
    ResponseWriter, encode_binary, encode_close, encode_credit, encode_hello, encode_pong, encode_reset,
    encode_text,
};
use keepwarm_wire::frame::{Hello, ResetCode, ToWorker, flags};
use tokio::sync::Notify;

use super::frames;
use super::plan::{AppFault, AppPlan, ClientEnd, Closer, ConversationPlan, LONGEST, MessagePlan, Violation};
use crate::outbox::Outbox;

/// A worker's announcements.
#[derive(Debug, Clone)]
pub(crate) struct WorkerPlan {
    pub(crate) streams: u32,
    /// Credit for Keepwarm: on a stream, and in all.
    pub(crate) stream_credit: u32,
    pub(crate) connection_credit: u32,
    /// Returns credit in steps of this.
    pub(crate) credit_step: u32,
}

/// The app's observations of a WebSocket.
#[derive(Debug, Default)]
pub(super) struct Observations {
    pub(super) begun: usize,
    /// Messages that came whole.
    pub(super) received: usize,
    pub(super) sent: usize,
    pub(super) close: Option<(u16, String)>,
    pub(super) reset: bool,
}

/// The plan of a path, and the ids of the client's messages and the app's.
pub(super) type Conversations = Rc<dyn Fn(&str) -> Option<(usize, ConversationPlan, (u64, u64))>>;
pub(super) type ObservationsById = Rc<RefCell<BTreeMap<usize, Observations>>>;

/// The cost of a frame of a message (spec §6).
fn cost(bytes: usize) -> u32 {
    bytes.max(64) as u32
}

/// Runs a worker until its wire ends.
pub(super) async fn run(
    peer: Rc<Peer>,
    plan: WorkerPlan,
    conversations: Conversations,
    seen: ObservationsById,
    killed: Rc<Notify>,
) {
    let worker = Rc::new(Worker {
        peer,
        window: Cell::new(i64::from(plan.connection_credit)),
        plan,
        conversations,
        seen,
        out: Outbox::default(),
        credit: Cell::new(0),
        stream_credit: Cell::new(0),
        sockets: RefCell::default(),
        owed: Cell::new(0),
        died: Notify::new(),
    });
    let writer = tokio::task::spawn_local(Rc::clone(&worker).write_all());
    tokio::select! {
        biased;
        () = worker.died.notified() => {}
        () = killed.notified() => {}
        () = Rc::clone(&worker).read_all() => {}
    }
    writer.abort();
    for (_, socket) in std::mem::take(&mut *worker.sockets.borrow_mut()) {
        socket.tasks.take().iter().for_each(tokio::task::AbortHandle::abort);
    }
}

struct Worker {
    peer: Rc<Peer>,
    plan: WorkerPlan,
    conversations: Conversations,
    seen: ObservationsById,
    out: Outbox,
    /// Credit of this worker: on the connection, and at the beginning of a stream.
    credit: Cell<i64>,
    stream_credit: Cell<i64>,
    /// Credit of Keepwarm on the connection.
    window: Cell<i64>,
    sockets: RefCell<BTreeMap<u32, Rc<Socket>>>,
    owed: Cell<u32>,
    died: Notify,
}

struct Socket {
    number: u32,
    index: usize,
    conversation: ConversationPlan,
    ids: (u64, u64),
    credit: Cell<i64>,
    window: Cell<i64>,
    owed: Cell<u32>,
    /// Type and received bytes of the incoming message.
    within: Cell<Option<(bool, usize)>>,
    received: Cell<usize>,
    /// Costs of the frames that the app has not read.
    unread: RefCell<VecDeque<u32>>,
    accepted: Cell<bool>,
    hangs: Cell<bool>,
    /// Keepwarm has sent CLOSE, or RESET.
    closed: Cell<bool>,
    over: Cell<bool>,
    changed: Notify,
    tasks: RefCell<Vec<tokio::task::AbortHandle>>,
}

impl Socket {
    fn change(&self) {
        self.changed.notify_waiters();
    }
}

impl Worker {
    fn say(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.out.say(encode);
    }

    async fn write_all(self: Rc<Self>) {
        self.out.write_all(&self.peer, || false).await;
    }

    async fn read_all(self: Rc<Self>) {
        let mut buffer = Vec::new();
        loop {
            let mut used = 0;
            loop {
                match ToWorker::decode(&buffer[used..]) {
                    Ok(Some((frame, length))) => {
                        if !self.handle(frame) {
                            return;
                        }
                        used += length;
                    }
                    Ok(None) => break,
                    Err(fault) => panic!("Keepwarm broke the rules of the wire: {fault}"),
                }
            }
            buffer.drain(..used);
            match self.peer.read(&mut buffer, 64 * 1024).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    /// `false`: it should exit.
    fn handle(self: &Rc<Self>, frame: ToWorker<'_>) -> bool {
        match frame {
            ToWorker::Welcome(welcome) => {
                self.credit.set(i64::from(welcome.connection_credit));
                self.stream_credit.set(i64::from(welcome.stream_credit));
                let hello = Hello {
                    version: 1,
                    streams: self.plan.streams,
                    stream_credit: self.plan.stream_credit,
                    connection_credit: self.plan.connection_credit,
                    about: Default::default(),
                };
                let about: [(&[u8], &[u8]); 2] = [(b"adapter", b"simulated"), (b"websocket", b"1")];
                self.say(|out| encode_hello(out, &hello, about).expect("a hello"));
            }
            ToWorker::Request(request) => {
                let path = String::from_utf8_lossy(request.fixed().path).into_owned();
                assert!(request.flags & flags::WEBSOCKET != 0, "the opening of a WebSocket says so");
                self.open(request.stream, &path);
            }
            ToWorker::Text { stream, bytes, end } => self.take(stream, true, bytes, end),
            ToWorker::Binary { stream, bytes, end } => self.take(stream, false, bytes, end),
            ToWorker::Close { stream, code, reason } => self.handle_close(stream, code, reason),
            ToWorker::Credit { stream: 0, amount } => {
                self.credit.set(self.credit.get() + i64::from(amount));
                self.sockets.borrow().values().for_each(|socket| socket.change());
            }
            ToWorker::Credit { stream, amount } => {
                if let Some(socket) = self.sockets.borrow().get(&stream) {
                    socket.credit.set(socket.credit.get() + i64::from(amount));
                    socket.change();
                }
            }
            ToWorker::Reset { stream, .. } => {
                let socket = self.sockets.borrow().get(&stream).cloned();
                if let Some(socket) = socket {
                    self.note(&socket, |seen| seen.reset = true);
                    self.say(|out| encode_reset(out, stream, ResetCode::CANCELLED, "").expect("a reset"));
                    self.end(&socket);
                }
            }
            ToWorker::Ping { payload } => self.say(|out| encode_pong(out, payload)),
            ToWorker::Drain => return false,
            ToWorker::HalfClose { .. } => {}
            ToWorker::Data { .. } | ToWorker::Trailers { .. } => panic!("a body on a WebSocket"),
            ToWorker::Leaks { .. } => panic!("its HELLO has no such capability"),
        }
        true
    }

    fn note(&self, socket: &Socket, change: impl FnOnce(&mut Observations)) {
        change(self.seen.borrow_mut().entry(socket.index).or_default());
    }

    fn open(self: &Rc<Self>, number: u32, path: &str) {
        let Some((index, conversation, ids)) = (self.conversations)(path) else {
            panic!("a request nobody sent: {path}")
        };
        let socket = Rc::new(Socket {
            number,
            index,
            conversation,
            ids,
            credit: Cell::new(self.stream_credit.get()),
            window: Cell::new(i64::from(self.plan.stream_credit)),
            owed: Cell::new(0),
            within: Cell::new(None),
            received: Cell::new(0),
            unread: RefCell::default(),
            accepted: Cell::new(false),
            hangs: Cell::new(false),
            closed: Cell::new(false),
            over: Cell::new(false),
            changed: Notify::new(),
            tasks: RefCell::default(),
        });
        self.note(&socket, |seen| *seen = Observations { begun: seen.begun + 1, ..Observations::default() });
        self.sockets.borrow_mut().insert(number, Rc::clone(&socket));
        let conversations =
            tokio::task::spawn_local(Rc::clone(self).conversation(Rc::clone(&socket))).abort_handle();
        let reads = tokio::task::spawn_local(Rc::clone(self).read(Rc::clone(&socket))).abort_handle();
        socket.tasks.borrow_mut().extend([conversations, reads]);
    }

    // -- from the client -------------------------------------------------------------------------

    /// A frame of a message: checks whose it is, and whether it may come.
    fn take(self: &Rc<Self>, number: u32, text: bool, bytes: &[u8], end: bool) {
        let cost = cost(bytes.len());
        self.window.set(self.window.get() - i64::from(cost));
        assert!(self.window.get() >= 0, "more messages than the connection has credit for");
        let Some(socket) = self.sockets.borrow().get(&number).cloned() else {
            // The stream is over: it is read at once.
            return self.give_back(None, cost);
        };
        socket.window.set(socket.window.get() - i64::from(cost));
        assert!(socket.window.get() >= 0, "more messages than the stream has credit for");
        assert!(socket.accepted.get(), "a message before the WebSocket was accepted");
        assert!(!socket.closed.get(), "a message behind the close");
        let message = socket.conversation.client.messages.get(socket.received.get());
        let Some(message) = message else {
            self.take_bomb(&socket, text, bytes, end);
            socket.unread.borrow_mut().push_back(cost);
            return socket.change();
        };
        let (kind, got) = socket.within.get().unwrap_or((text, 0));
        assert!(
            kind == text && text == message.text,
            "message {} is of the wrong type",
            socket.received.get()
        );
        let id = socket.ids.0 | socket.received.get() as u64;
        let whole = got + bytes.len();
        assert!(whole <= message.size, "message {id:x} is longer than it was");
        if let Err(wrong) = frames::check(id, text, message.size, got, bytes) {
            panic!("at the app: {wrong}");
        }
        socket.within.set((!end).then_some((text, whole)));
        if end {
            assert_eq!(whole, message.size, "message {id:x} looks whole");
            socket.received.set(socket.received.get() + 1);
            self.note(&socket, |seen| seen.received += 1);
        }
        socket.unread.borrow_mut().push_back(cost);
        socket.change();
    }

    /// The part of a message that is inflated before it is known to be too long. Only this may come without a message of the plan: it never ends.
    fn take_bomb(&self, socket: &Socket, text: bool, bytes: &[u8], end: bool) {
        let is_bomb = socket.conversation.client.end == ClientEnd::Breaks(Violation::Bomb);
        assert!(is_bomb && !text && !end, "a message that the client has not sent: {} bytes", bytes.len());
        let whole = socket.within.get().map_or(0, |(_, got)| got) + bytes.len();
        assert!(whole <= LONGEST, "{whole} bytes of a message with the limit {LONGEST}");
        assert!(bytes.iter().all(|byte| *byte == b'a'), "not the client's bytes");
        socket.within.set(Some((text, whole)));
    }

    /// The app reads, which returns credit.
    async fn read(self: Rc<Self>, socket: Rc<Socket>) {
        let AppPlan { hold, rest, .. } = socket.conversation.app;
        tokio::time::sleep(hold).await;
        loop {
            let next = if socket.hangs.get() { None } else { socket.unread.borrow_mut().pop_front() };
            let Some(cost) = next else {
                socket.changed.notified().await;
                continue;
            };
            self.give_back(Some(&socket), cost);
            if rest > Duration::ZERO && socket.conversation.client.messages.len() < 20 {
                tokio::time::sleep(rest).await;
            }
        }
    }

    fn give_back(&self, socket: Option<&Socket>, cost: u32) {
        let step = self.plan.credit_step;
        self.owed.set(self.owed.get() + cost);
        if self.owed.get() >= step {
            let owed = self.owed.take();
            self.window.set(self.window.get() + i64::from(owed));
            self.say(|out| encode_credit(out, 0, owed).expect("a credit"));
        }
        if let Some(socket) = socket {
            socket.owed.set(socket.owed.get() + cost);
            if socket.owed.get() >= step {
                let owed = socket.owed.take();
                socket.window.set(socket.window.get() + i64::from(owed));
                self.say(|out| encode_credit(out, socket.number, owed).expect("a credit"));
            }
        }
    }

    fn handle_close(self: &Rc<Self>, number: u32, code: u16, reason: &str) {
        let Some(socket) = self.sockets.borrow().get(&number).cloned() else { return };
        assert!(socket.accepted.get() && !socket.closed.replace(true), "a close that has no place");
        assert!(socket.within.get().is_none() || code == 1006 || code == 1001, "a close within a message");
        self.note(&socket, |seen| seen.close = Some((code, reason.to_owned())));
        if !socket.hangs.get() {
            self.close(&socket, if matches!(code, 1005 | 1006) { 1000 } else { code }, "");
        }
    }

    // -- to the client ---------------------------------------------------------------------------

    fn close(&self, socket: &Rc<Socket>, code: u16, reason: &str) {
        self.say(|out| encode_close(out, socket.number, code, reason).expect("a close"));
        self.end(socket);
    }

    /// The stream is over: what its app has not read counts as read.
    fn end(&self, socket: &Rc<Socket>) {
        socket.over.set(true);
        socket.closed.set(true);
        self.sockets.borrow_mut().remove(&socket.number);
        let unread: u32 = socket.unread.borrow_mut().drain(..).sum();
        self.give_back(None, unread);
        socket.change();
        socket.tasks.take().iter().for_each(tokio::task::AbortHandle::abort);
    }

    async fn conversation(self: Rc<Self>, socket: Rc<Socket>) {
        let (number, plan) = (socket.number, &socket.conversation.app);
        tokio::time::sleep(plan.delay).await;
        if plan.fault == AppFault::Refuses {
            self.say(|out| encode_reset(out, number, ResetCode::REFUSED, "by the plan").expect("a reset"));
            return self.end(&socket);
        }
        let status = plan.refuses.unwrap_or(101);
        socket.accepted.set(status == 101);
        self.say(|out| {
            let response = ResponseWriter::begin(out, number, status);
            response.finish(if status == 101 { 0 } else { flags::END }).expect("a response");
        });
        if status != 101 {
            return self.end(&socket);
        }
        for (at, message) in plan.messages.iter().enumerate() {
            if self.fails(&socket, at).await {
                return;
            }
            tokio::time::sleep(plan.pause).await;
            self.send(&socket, socket.ids.1 | at as u64, message).await;
            self.note(&socket, |seen| seen.sent += 1);
        }
        if self.fails(&socket, plan.messages.len()).await {
            return;
        }
        if plan.fault == AppFault::BadCode {
            return self.close(&socket, 1005, "");
        }
        if socket.conversation.closer != Closer::Client {
            let waits = socket.conversation.polite && socket.conversation.closer == Closer::App;
            while waits && socket.received.get() < socket.conversation.client.messages.len() {
                socket.changed.notified().await;
            }
            self.close(&socket, plan.code, "the app's reason");
        }
    }

    /// Does what goes wrong now; `true`: it goes no further.
    async fn fails(&self, socket: &Rc<Socket>, at: usize) -> bool {
        match socket.conversation.app.fault {
            AppFault::Resets(when) if when == at => {
                self.say(|out| {
                    encode_reset(out, socket.number, ResetCode::APP_ERROR, "by the plan").expect("a reset");
                });
                self.end(socket);
                true
            }
            AppFault::Dies(when) if when == at => {
                self.died.notify_one();
                std::future::pending().await
            }
            AppFault::Hangs(when) if when == at => {
                socket.hangs.set(true);
                std::future::pending().await
            }
            _ => false,
        }
    }

    async fn send(&self, socket: &Socket, id: u64, message: &MessagePlan) {
        let mut at = 0;
        loop {
            let room = self.credit.get().min(socket.credit.get());
            if room < 64 {
                socket.changed.notified().await;
                continue;
            }
            let count = message.piece.min(message.size - at).min(room as usize).min(64 * 1024);
            let cost = i64::from(cost(count));
            self.credit.set(self.credit.get() - cost);
            socket.credit.set(socket.credit.get() - cost);
            let bytes: Vec<u8> =
                (at..at + count).map(|at| frames::byte(id, message.text, message.size, at)).collect();
            at += count;
            let end = at == message.size;
            let encode = if message.text { encode_text } else { encode_binary };
            self.say(|out| encode(out, socket.number, &bytes, end).expect("a message"));
            if end {
                return;
            }
        }
    }
}
