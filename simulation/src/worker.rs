//! A worker that speaks the wire, by a script: the plan defines what it does with each request.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{Peer, Rng};
use keepwarm_wire::encode::{
    ResponseWriter, encode_credit, encode_data, encode_hello, encode_inform, encode_pong, encode_reset,
    encode_trailers, encode_want,
};
use keepwarm_wire::frame::{Hello, ResetCode, ToWorker, flags};
use tokio::sync::Notify;

use crate::outbox::Outbox;
use crate::pattern;
use crate::progress;

/// A worker's announcements.
#[derive(Debug, Clone)]
pub(crate) struct WorkerPlan {
    /// `wsgi`, which takes one request at a time, or `asgi`.
    pub(crate) blocking: bool,
    pub(crate) streams: u32,
    pub(crate) ahead: u32,
    /// Returns credit only in steps of this many bytes.
    pub(crate) credit_step: u32,
}

impl WorkerPlan {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let blocking = rng.chance(500);
        let streams = if blocking { 1 } else { *rng.pick(&[1, 2, 100]) };
        Self {
            blocking,
            streams,
            ahead: if streams == 1 { *rng.pick(&[0, 0, 3]) } else { 0 },
            credit_step: *rng.pick(&[1, 4096, 16 * 1024]),
        }
    }
}

/// The plan for one request.
#[derive(Debug, Clone)]
pub(crate) struct ResponsePlan {
    pub(crate) status: u16,
    /// Informational responses before it.
    pub(crate) informs: usize,
    pub(crate) delay: Duration,
    /// When it reads the request's body.
    pub(crate) reads: BodyRead,
    pub(crate) body: usize,
    /// In DATA frames of this size; `None`: all in RESPONSE, if that takes it.
    pub(crate) frames: Option<usize>,
    /// Between two frames.
    pub(crate) pause: Duration,
    /// Declares its length.
    pub(crate) declares: bool,
    pub(crate) trailers: usize,
    pub(crate) close: bool,
    pub(crate) fault: Fault,
    pub(crate) kind: ResponseKind,
}

/// What a response is beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// Of no type.
    Plain,
    /// Of a type that is compressed. `lockstep`: the next part is sent once the client has the part before.
    Text { lockstep: bool },
}

/// When the request's body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyRead {
    Before,
    Beside,
    Never,
    /// Beside the response, which ends after the body.
    Throughout,
}

/// The fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// RESET before the response.
    Refuses,
    /// RESET in its middle.
    Resets,
    /// The process dies before, or in the middle of it.
    DiesBefore,
    DiesInside,
    /// Nothing more comes.
    Hangs,
    /// The bytes are not a message, or more than one: only of scripts that are servers.
    Garbage,
    SaysMore,
}

/// Observations at the worker, for the checks.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    /// How often each request was begun.
    pub(crate) begun: BTreeMap<u64, usize>,
    /// Bodies that came whole.
    pub(crate) whole: BTreeMap<u64, usize>,
    /// The address and scheme of each request's client.
    pub(crate) clients: BTreeMap<u64, (String, String)>,
    /// Tunnels through which everything came.
    pub(crate) tunnels: BTreeSet<u64>,
}

/// The plan of a path, and the id of its request.
pub(crate) type Responses = Rc<dyn Fn(&str) -> Option<(u64, ResponsePlan)>>;

/// Runs a worker until its wire ends.
pub(crate) async fn run(
    peer: Rc<Peer>,
    plan: WorkerPlan,
    responses: Responses,
    seen: Rc<RefCell<Observations>>,
    killed: Rc<Notify>,
) {
    let worker = Rc::new(Worker {
        peer,
        plan,
        out: Outbox::default(),
        credit: Cell::new(0),
        stream_credit: Cell::new(0),
        credited: Notify::new(),
        streams: RefCell::default(),
        owed: Cell::new(0),
        turn: tokio::sync::Mutex::new(()),
        dead: Cell::new(false),
        died: Notify::new(),
        draining: Cell::new(false),
    });
    let writer = tokio::task::spawn_local(Rc::clone(&worker).write_all());
    tokio::select! {
        biased;
        () = worker.died.notified() => {}
        () = killed.notified() => {}
        () = Rc::clone(&worker).read_all(responses, seen) => {}
    }
    worker.dead.set(true);
    worker.credited.notify_waiters();
    writer.abort();
    let streams = std::mem::take(&mut *worker.streams.borrow_mut());
    for (_, stream) in streams {
        stream.changed.notify_waiters();
        if let Some(task) = stream.task.take() {
            task.abort();
        }
    }
}

struct Worker {
    peer: Rc<Peer>,
    plan: WorkerPlan,
    out: Outbox,
    /// Credit of the connection, and the one that streams begin with.
    credit: Cell<i64>,
    stream_credit: Cell<i64>,
    credited: Notify,
    streams: RefCell<BTreeMap<u32, Rc<Stream>>>,
    /// Credit of the connection not yet given back.
    owed: Cell<u32>,
    /// One request at a time.
    turn: tokio::sync::Mutex<()>,
    dead: Cell<bool>,
    died: Notify,
    draining: Cell<bool>,
}

#[derive(Default)]
struct Stream {
    body: RefCell<Vec<u8>>,
    /// Bytes at the front of the body that came in REQUEST, and so without credit.
    free: Cell<usize>,
    ended: Cell<bool>,
    cancelled: Cell<bool>,
    credit: Cell<i64>,
    owed: Cell<u32>,
    over: Cell<bool>,
    /// All of the body, of one that is read throughout.
    read: Cell<bool>,
    changed: Notify,
    task: Cell<Option<tokio::task::AbortHandle>>,
}

impl Worker {
    fn say(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.out.say(encode);
    }

    async fn write_all(self: Rc<Self>) {
        let was_all = || self.draining.get() && self.streams.borrow().is_empty();
        if self.out.write_all(&self.peer, was_all).await {
            self.die();
        }
    }

    async fn read_all(self: Rc<Self>, responses: Responses, seen: Rc<RefCell<Observations>>) {
        let mut buffer = Vec::new();
        loop {
            loop {
                let taken = match ToWorker::decode(&buffer) {
                    Ok(Some((frame, length))) => {
                        self.handle(frame, &responses, &seen);
                        length
                    }
                    Ok(None) => break,
                    Err(fault) => panic!("Keepwarm broke the rules of the wire: {fault}"),
                };
                buffer.drain(..taken);
            }
            match self.peer.read(&mut buffer, 64 * 1024).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn handle(self: &Rc<Self>, frame: ToWorker<'_>, responses: &Responses, seen: &Rc<RefCell<Observations>>) {
        match frame {
            ToWorker::Welcome(welcome) => {
                self.credit.set(i64::from(welcome.connection_credit));
                self.stream_credit.set(i64::from(welcome.stream_credit));
                let hello = Hello {
                    version: 1,
                    streams: self.plan.streams,
                    stream_credit: 64 * 1024,
                    connection_credit: 256 * 1024,
                    about: Default::default(),
                };
                let [first, second]: [&[u8]; 2] = if self.plan.blocking {
                    [b"blocking", b"cgi_names"]
                } else {
                    [b"websocket", b"half_close"]
                };
                let ahead = self.plan.ahead.to_string();
                let about: [(&[u8], &[u8]); 4] =
                    [(b"adapter", b"simulated"), (first, b"1"), (second, b"1"), (b"ahead", ahead.as_bytes())];
                let about = about.into_iter().take(if self.plan.streams == 1 { 4 } else { 3 });
                self.say(|out| encode_hello(out, &hello, about).expect("a hello"));
            }
            ToWorker::Request(request) => {
                let path = String::from_utf8_lossy(request.fixed().path).into_owned();
                let Some((id, plan)) = responses(&path) else { panic!("a request nobody sent: {path}") };
                let fixed = request.fixed();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                seen.borrow_mut().clients.insert(id, (text(fixed.client_address), text(fixed.scheme)));
                let stream = Rc::new(Stream::default());
                stream.credit.set(self.stream_credit.get());
                stream.body.borrow_mut().extend_from_slice(request.body);
                stream.free.set(request.body.len());
                stream.ended.set(request.end());
                self.streams.borrow_mut().insert(request.stream, Rc::clone(&stream));
                let expects = request.flags & flags::EXPECT != 0;
                let number = request.stream;
                let serve =
                    Rc::clone(self).serve(number, Rc::clone(&stream), id, plan, expects, Rc::clone(seen));
                stream.task.set(Some(tokio::task::spawn_local(serve).abort_handle()));
            }
            ToWorker::Data { stream, bytes, end } => self.take(stream, bytes, end),
            ToWorker::Trailers { stream, .. } => self.take(stream, &[], true),
            ToWorker::Credit { stream, amount } => {
                match stream {
                    0 => self.credit.set(self.credit.get() + i64::from(amount)),
                    _ => {
                        if let Some(stream) = self.streams.borrow().get(&stream) {
                            stream.credit.set(stream.credit.get() + i64::from(amount));
                        }
                    }
                }
                self.credited.notify_waiters();
            }
            ToWorker::Reset { stream, .. } => {
                if let Some(stream) = self.streams.borrow().get(&stream) {
                    stream.cancelled.set(true);
                    stream.changed.notify_waiters();
                    self.credited.notify_waiters();
                }
            }
            ToWorker::Ping { payload } => self.say(|out| encode_pong(out, payload)),
            ToWorker::Drain => {
                self.draining.set(true);
                self.out.look_again();
            }
            _ => {}
        }
    }

    fn take(&self, number: u32, bytes: &[u8], end: bool) {
        let stream = self.streams.borrow().get(&number).cloned();
        match stream.filter(|stream| !stream.over.get()) {
            Some(stream) => {
                assert!(!stream.ended.get(), "bytes behind the end of a request's body");
                stream.body.borrow_mut().extend_from_slice(bytes);
                stream.ended.set(end);
                stream.changed.notify_waiters();
            }
            // The stream is over: consumed for the connection.
            None => self.give_back(None, bytes.len()),
        }
    }

    /// Returns credit for bytes that were read.
    fn give_back(&self, stream: Option<(u32, &Stream)>, bytes: usize) {
        let bytes = bytes as u32;
        if bytes == 0 {
            return;
        }
        let step = self.plan.credit_step;
        self.owed.set(self.owed.get() + bytes);
        if self.owed.get() >= step {
            let owed = self.owed.take();
            self.say(|out| encode_credit(out, 0, owed).expect("a credit"));
        }
        if let Some((number, stream)) = stream {
            stream.owed.set(stream.owed.get() + bytes);
            if stream.owed.get() >= step && !stream.ended.get() {
                let owed = stream.owed.take();
                self.say(|out| encode_credit(out, number, owed).expect("a credit"));
            }
        }
    }

    async fn serve(
        self: Rc<Self>,
        number: u32,
        stream: Rc<Stream>,
        id: u64,
        plan: ResponsePlan,
        expects: bool,
        seen: Rc<RefCell<Observations>>,
    ) {
        let in_order = (self.plan.streams == 1).then_some(());
        let turn = match in_order {
            Some(()) => Some(self.turn.lock().await),
            None => None,
        };
        *seen.borrow_mut().begun.entry(id).or_default() += 1;
        self.respond(number, &stream, id, &plan, expects, &seen).await;
        // Bytes received and not read count as consumed.
        let unread = stream.body.take().len();
        self.give_back(None, unread - stream.free.take().min(unread));
        stream.over.set(true);
        self.streams.borrow_mut().remove(&number);
        drop(turn);
        self.out.look_again();
    }

    async fn respond(
        &self,
        number: u32,
        stream: &Stream,
        id: u64,
        plan: &ResponsePlan,
        expects: bool,
        seen: &RefCell<Observations>,
    ) {
        if plan.fault == Fault::Hangs {
            while !stream.cancelled.get() {
                stream.changed.notified().await;
            }
        }
        if stream.cancelled.get() {
            return self.reset(number, ResetCode::CANCELLED);
        }
        if plan.fault == Fault::Refuses {
            return self.reset(number, ResetCode::APP_ERROR);
        }
        let read = Cell::new(0);
        if expects && plan.reads != BodyRead::Never {
            self.say(|out| encode_want(out, number).expect("a want"));
        }
        if plan.reads == BodyRead::Before {
            self.read_body(number, stream, id, &read, (seen, Duration::ZERO)).await;
        }
        tokio::time::sleep(plan.delay).await;
        if plan.fault == Fault::DiesBefore {
            return self.die();
        }
        for _ in 0..plan.informs {
            let fields: [(&[u8], &[u8]); 1] = [(b"link", b"</a>; rel=preload")];
            self.say(|out| encode_inform(out, number, 103, fields).expect("an inform"));
        }
        match plan.reads {
            BodyRead::Beside => {
                tokio::join!(
                    async {
                        self.send_response(number, stream, id, plan).await;
                        stream.over.set(true);
                        stream.changed.notify_waiters();
                    },
                    self.read_body(number, stream, id, &read, (seen, Duration::ZERO))
                );
            }
            BodyRead::Throughout => {
                let read = async {
                    // Slowly, so that the client waits for credit.
                    let pause = Duration::from_millis(1);
                    self.read_body(number, stream, id, &read, (seen, pause)).await;
                    stream.read.set(true);
                    stream.changed.notify_waiters();
                };
                let respond = async {
                    self.send_response(number, stream, id, plan).await;
                    stream.over.set(true);
                    stream.changed.notify_waiters();
                };
                tokio::join!(respond, read);
            }
            BodyRead::Before | BodyRead::Never => self.send_response(number, stream, id, plan).await,
        }
    }

    async fn read_body(
        &self,
        number: u32,
        stream: &Stream,
        id: u64,
        read: &Cell<usize>,
        (seen, pause): (&RefCell<Observations>, Duration),
    ) {
        loop {
            if stream.over.get() {
                return;
            }
            let bytes = stream.body.take();
            if let Err(at) = pattern::check(id, read.get(), &bytes) {
                panic!("bytes: the request body of {id:x} is wrong at {at}");
            }
            read.set(read.get() + bytes.len());
            let free = stream.free.get().min(bytes.len());
            stream.free.set(stream.free.get() - free);
            self.give_back(Some((number, stream)), bytes.len() - free);
            if stream.ended.get() {
                seen.borrow_mut().whole.insert(id, read.get());
                return;
            }
            if stream.cancelled.get() || stream.over.get() {
                return;
            }
            if bytes.is_empty() {
                stream.changed.notified().await;
            } else if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }

    async fn send_response(&self, number: u32, stream: &Stream, id: u64, plan: &ResponsePlan) {
        let at_once = match plan.frames {
            Some(_) => 0,
            None => plan.body.min(64 * 1024),
        };
        let whole = at_once == plan.body && plan.frames.is_none() && plan.trailers == 0;
        let whole = whole && plan.fault != Fault::DiesInside && plan.fault != Fault::Resets;
        let throughout = plan.reads == BodyRead::Throughout;
        let whole = whole && !throughout;
        self.say(|out| {
            let mut response = ResponseWriter::begin(out, number, plan.status);
            response.field(b"x-id", format!("{id:x}").as_bytes());
            if plan.declares {
                response.field(b"content-length", plan.body.to_string().as_bytes());
            }
            if plan.kind != ResponseKind::Plain {
                response.field(b"content-type", b"text/plain");
            }
            if plan.close {
                response.field(b"connection", b"close");
            }
            response.body(&pattern::bytes(id, 0, at_once));
            response.finish(if whole { flags::END } else { 0 }).expect("a response");
        });
        if whole {
            return;
        }
        let mut sent = at_once;
        let piece = plan.frames.unwrap_or(64 * 1024).clamp(1, 64 * 1024);
        while sent < plan.body {
            if plan.fault == Fault::DiesInside && sent * 2 >= plan.body {
                return self.die();
            }
            if stream.cancelled.get() || (plan.fault == Fault::Resets && sent * 2 >= plan.body) {
                return self.reset(number, ResetCode::CANCELLED);
            }
            let allowed = self.credit.get().min(stream.credit.get());
            if allowed <= 0 {
                self.credited.notified().await;
                continue;
            }
            let count = piece.min(plan.body - sent).min(allowed as usize);
            self.credit.set(self.credit.get() - count as i64);
            stream.credit.set(stream.credit.get() - count as i64);
            let end = sent + count == plan.body && plan.trailers == 0 && !throughout;
            let bytes = pattern::bytes(id, sent, count);
            self.say(|out| encode_data(out, number, &bytes, end).expect("a data frame"));
            sent += count;
            if end {
                return;
            }
            if plan.kind == (ResponseKind::Text { lockstep: true }) {
                self.until_received(stream, id, sent).await;
            }
            if plan.pause > Duration::ZERO {
                tokio::time::sleep(plan.pause).await;
            }
        }
        match plan.fault {
            Fault::DiesInside => return self.die(),
            Fault::Resets => return self.reset(number, ResetCode::CANCELLED),
            _ => {}
        }
        while throughout && !stream.read.get() && !stream.cancelled.get() {
            stream.changed.notified().await;
        }
        if throughout && stream.cancelled.get() {
            return self.reset(number, ResetCode::CANCELLED);
        }
        if plan.trailers > 0 {
            let trailers: Vec<_> = (0..plan.trailers).map(|at| (format!("x-trailer-{at}"), "1")).collect();
            let pairs = trailers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            self.say(|out| encode_trailers(out, number, pairs).expect("trailers"));
        } else {
            self.say(|out| encode_data(out, number, &[], true).expect("an end"));
        }
    }

    /// Waits until the client has this many bytes of the response, or the request is cancelled.
    async fn until_received(&self, stream: &Stream, id: u64, bytes: usize) {
        while !stream.cancelled.get() && progress::received(id) < bytes {
            tokio::select! {
                biased;
                () = stream.changed.notified() => {}
                () = progress::changed() => {}
            }
        }
    }

    fn reset(&self, number: u32, code: ResetCode) {
        self.say(|out| encode_reset(out, number, code, "by the plan").expect("a reset"));
    }

    fn die(&self) {
        self.dead.set(true);
        self.died.notify_one();
    }
}
