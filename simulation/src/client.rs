//! A client of HTTP/1.1, by a script.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::time::Duration;

use keepwarm_net::simulation::Rng;
use tokio::sync::Notify;

use crate::coding::Decoder;
use crate::line::Line;
use crate::pattern;
use crate::progress;
use crate::response::{Broken, Head, Pace, Reader};
use crate::tunnel::{self, TunnelPlan};

/// What one request sends.
#[derive(Debug, Clone)]
pub(crate) struct RequestPlan {
    pub(crate) method: &'static str,
    pub(crate) body: BodyPlan,
    pub(crate) expects: bool,
    pub(crate) takes_trailers: bool,
    /// Offers to switch, and continues through the tunnel: the last request.
    pub(crate) tunnel: Option<TunnelPlan>,
}

impl RequestPlan {
    /// Whether anything follows its head.
    pub(crate) fn has_body(&self) -> bool {
        !matches!(self.body, BodyPlan::None | BodyPlan::Length(0))
    }

    /// Whether its body breaks the rules.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.body, BodyPlan::Broken { .. })
    }
}

/// How its body is framed.
#[derive(Debug, Clone)]
pub(crate) enum BodyPlan {
    None,
    Length(usize),
    /// With chunks up to this size, and this many trailers.
    Chunked {
        size: usize,
        chunk: usize,
        trailers: usize,
    },
    /// The same, but after `size` bytes follow this many that are not a chunk.
    Broken {
        size: usize,
        chunk: usize,
        rest: usize,
    },
}

impl BodyPlan {
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Length(size) | Self::Chunked { size, .. } | Self::Broken { size, .. } => *size,
        }
    }

    /// Half of it; `false`: there is none.
    pub(crate) fn halve(&mut self) -> bool {
        match self {
            Self::Length(size) | Self::Chunked { size, .. } | Self::Broken { size, .. } if *size > 0 => {
                *size /= 2;
                true
            }
            _ => false,
        }
    }
}

/// How a client leaves before it has everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disconnect {
    Never,
    /// After this many bytes of all that it would send.
    Resets(usize),
    Closes(usize),
    /// This long after it has sent everything.
    ResetsLater(Duration),
    /// It shuts its writing side after its last request.
    HalfCloses,
    /// The body of its last request is [`BodyPlan::Broken`].
    AfterBrokenBody,
}

/// How it sends.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) start: Duration,
    /// Bytes in one write, at most.
    pub(crate) piece: usize,
    /// After this many bytes...
    pub(crate) every: usize,
    /// ...it pauses this long.
    pub(crate) pause: Duration,
    /// Requests that are sent ahead of their responses.
    pub(crate) pipelines: bool,
    pub(crate) pace: Pace,
    /// Reads nothing of a response before it has sent all of the request.
    pub(crate) late: bool,
    pub(crate) leave: Disconnect,
    /// The content coding that it accepts.
    pub(crate) accepts: Option<&'static str>,
    pub(crate) requests: Vec<RequestPlan>,
}

/// The responses to one request.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) informs: Vec<u16>,
    pub(crate) head: Head,
    pub(crate) body: usize,
    pub(crate) trailers: usize,
    /// Keepwarm's response in place of the app's: for the message of a failure.
    #[expect(dead_code, reason = "read by Debug alone")]
    pub(crate) said: String,
}

/// Bytes of a request, and where in them its body begins.
fn encode(plan: &RequestPlan, accepts: Option<&str>, (id, path): (u64, &str), seed: u64) -> (Vec<u8>, usize) {
    let mut rng = Rng::new(seed);
    let mut bytes = format!("{} {path} HTTP/1.1\r\nHost: a.example\r\n", plan.method).into_bytes();
    if plan.tunnel.is_some() {
        bytes.extend_from_slice(b"Connection: upgrade\r\nUpgrade: echo\r\n");
    } else if plan.takes_trailers {
        bytes.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
    }
    if let Some(coding) = accepts {
        bytes.extend_from_slice(format!("Accept-Encoding: {coding}\r\n").as_bytes());
    }
    if plan.expects {
        bytes.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    match plan.body {
        BodyPlan::None => bytes.extend_from_slice(b"\r\n"),
        BodyPlan::Length(size) => {
            bytes.extend_from_slice(format!("Content-Length: {size}\r\n\r\n").as_bytes());
        }
        BodyPlan::Chunked { .. } | BodyPlan::Broken { .. } => {
            bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n")
        }
    }
    let begin = bytes.len();
    match plan.body {
        BodyPlan::None => {}
        BodyPlan::Length(size) => bytes.extend(pattern::bytes(id, 0, size)),
        BodyPlan::Chunked { size, chunk, trailers } => {
            encode_chunks(&mut bytes, &mut rng, id, size, chunk);
            bytes.extend_from_slice(b"0\r\n");
            for number in 0..trailers {
                bytes.extend_from_slice(
                    format!("X-Trailer-{number}: {}\r\n", "v".repeat(rng.size(200))).as_bytes(),
                );
            }
            bytes.extend_from_slice(b"\r\n");
        }
        BodyPlan::Broken { size, chunk, rest } => {
            encode_chunks(&mut bytes, &mut rng, id, size, chunk);
            bytes.extend_from_slice(b"zz\r\n");
            bytes.extend(std::iter::repeat_n(b'z', rest));
        }
    }
    (bytes, begin)
}

fn encode_chunks(bytes: &mut Vec<u8>, rng: &mut Rng, id: u64, size: usize, chunk: usize) {
    let mut at = 0;
    while at < size {
        let count = (1 + rng.size(chunk)).min(size - at);
        bytes.extend_from_slice(format!("{count:x}\r\n").as_bytes());
        bytes.extend(pattern::bytes(id, at, count));
        bytes.extend_from_slice(b"\r\n");
        at += count;
    }
}

/// Sends the requests, and shows `on_end` the result of each. `name(n)`: id and path of the nth. Returns how the connection ended, where that was not after the
/// last response.
pub(crate) async fn run(
    plan: &ClientPlan,
    connect: impl Future<Output = Result<Box<dyn Line>, Broken>>,
    seed: u64,
    name: impl Fn(usize) -> (u64, String),
    mut on_end: impl FnMut(usize, &Outcome),
) -> Option<Broken> {
    tokio::time::sleep(plan.start).await;
    let peer = match connect.await {
        Ok(peer) => peer,
        Err(broken) => return Some(broken),
    };
    let state = State {
        begun: RefCell::default(),
        responded: Cell::new(0),
        sent: Cell::new(0),
        wanted: Cell::new(None),
        changed: Notify::new(),
        gone: Cell::new(false),
    };
    let leaves =
        matches!(plan.leave, Disconnect::Resets(_) | Disconnect::Closes(_) | Disconnect::ResetsLater(_));
    let left = {
        let write = write(plan, &*peer, seed, &name, &state);
        let read = read(plan, &*peer, &name, &state, &mut on_end);
        let (mut write, mut read) = (std::pin::pin!(write), std::pin::pin!(read));
        tokio::select! {
            biased;
            ended = &mut read => ended,
            () = &mut write => {
                state.has_sent(usize::MAX);
                match leaves {
                    true => None,
                    false => read.await,
                }
            }
        }
    };
    if matches!(plan.leave, Disconnect::Resets(_) | Disconnect::ResetsLater(_)) {
        peer.reset();
    }
    left
}

/// A 408 to HEAD has nothing after it, or, where the head was not read and its method is unknown, the body that it announces: that and no more.
async fn unknown_method(reader: &mut Reader<'_>, head: &Head) -> Broken {
    if reader.has_more().await
        && let Err(broken) = reader.body(head, false, |_, _| Ok(())).await
    {
        return broken;
    }
    reader.end().await.err().unwrap_or(Broken::Announced)
}

struct State {
    /// How many bytes had been sent before each request.
    begun: RefCell<Vec<usize>>,
    responded: Cell<usize>,
    /// Requests that were sent to their end; all, once nothing more can be sent.
    sent: Cell<usize>,
    /// Requests whose body may be sent: the last that has got its 100.
    wanted: Cell<Option<usize>>,
    changed: Notify,
    gone: Cell<bool>,
}

impl State {
    fn has_sent(&self, requests: usize) {
        self.sent.set(requests);
        self.changed.notify_waiters();
    }

    async fn until(&self, reached: impl Fn() -> bool) {
        while !reached() {
            self.changed.notified().await;
        }
    }

    /// What the end of a connection is where the response to this request was to come.
    fn ended_before(&self, number: usize, peer: &dyn Line) -> Broken {
        match self.begun.borrow().get(number) {
            // Bytes on their way may meet the end.
            Some(begun) if peer.peer().delivered() > *begun => Broken::Ended,
            _ => Broken::Idle,
        }
    }
}

async fn write(
    plan: &ClientPlan,
    peer: &dyn Line,
    seed: u64,
    name: &impl Fn(usize) -> (u64, String),
    state: &State,
) {
    let most = match plan.leave {
        Disconnect::Resets(at) | Disconnect::Closes(at) => at,
        Disconnect::Never
        | Disconnect::HalfCloses
        | Disconnect::AfterBrokenBody
        | Disconnect::ResetsLater(_) => usize::MAX,
    };
    let (mut sent, mut since) = (0, 0);
    for (number, request) in plan.requests.iter().enumerate() {
        if !plan.pipelines {
            state.until(|| state.responded.get() >= number).await;
        }
        let (id, path) = name(number);
        let (bytes, begin) = encode(request, plan.accepts, (id, &path), seed ^ id);
        let mut at = 0;
        state.begun.borrow_mut().push(peer.peer().sent());
        while at < bytes.len() {
            if request.expects && at == begin {
                state.until(|| state.wanted.get() == Some(number) || state.responded.get() > number).await;
                if state.wanted.get() != Some(number) {
                    // A final response and no 100: the body is not wanted, and the connection ends.
                    return;
                }
            }
            let end = if request.expects && at < begin { begin } else { bytes.len() };
            let count = plan.piece.max(1).min(end - at).min(most.saturating_sub(sent));
            if count == 0 || peer.write(&bytes[at..at + count]).await.is_err() {
                return;
            }
            at += count;
            sent += count;
            since += count;
            if since >= plan.every {
                since = 0;
                tokio::time::sleep(plan.pause).await;
            }
        }
        state.has_sent(number + 1);
    }
    state.has_sent(usize::MAX);
    if plan.leave == Disconnect::HalfCloses {
        peer.shutdown_write();
    }
    if let Disconnect::ResetsLater(after) = plan.leave {
        tokio::time::sleep(after).await;
        return;
    }
    if most < usize::MAX {
        // It would have left inside of what it sent; it leaves after it.
        return;
    }
    state.until(|| state.gone.get()).await;
}

async fn read(
    plan: &ClientPlan,
    peer: &dyn Line,
    name: &impl Fn(usize) -> (u64, String),
    state: &State,
    on_end: &mut impl FnMut(usize, &Outcome),
) -> Option<Broken> {
    let mut reader = Reader::new(peer, plan.pace);
    for (number, request) in plan.requests.iter().enumerate() {
        if plan.late && !request.expects {
            state.until(|| state.sent.get() > number).await;
        }
        let (id, _) = name(number);
        let mut informs = Vec::new();
        let head = loop {
            match reader.head().await {
                Ok(head) if head.status == 101 && request.tunnel.is_some() => {
                    let whole = match &request.tunnel {
                        Some(plan) => tunnel::run(peer, id ^ tunnel::UP, reader.left(), plan).await,
                        None => false,
                    };
                    state.gone.set(true);
                    state.changed.notify_waiters();
                    return (!whole).then_some(Broken::Cut("tunnel"));
                }
                Ok(head) if head.status < 200 => {
                    if head.status == 100 {
                        state.wanted.set(Some(number));
                        state.changed.notify_waiters();
                    }
                    informs.push(head.status);
                }
                Ok(head) => break head,
                Err(Broken::Ended) if informs.is_empty() => return Some(state.ended_before(number, peer)),
                Err(broken) => return Some(broken),
            }
        };
        let whose = head.field("x-id").filter(|whose| *whose != "wild");
        if whose.is_some_and(|whose| whose != format!("{id:x}")) {
            return Some(Broken::Wrong(format!("the response to {whose:?} in place of that to {id:x}")));
        }
        let ours = whose.is_some();
        let mut said = String::new();
        let mut decoder = match head.field("content-encoding").map(Decoder::new).transpose() {
            Ok(decoder) => decoder,
            Err(wrong) => return Some(Broken::Wrong(wrong)),
        };
        let bodiless = request.method == "HEAD";
        let mut decoded = 0;
        let mut take = |at: usize, bytes: &[u8]| match pattern::check(id, at, bytes) {
            Err(wrong) if ours => Err(format!("the body of {id:x} is wrong at {wrong}")),
            _ => {
                if !ours {
                    said.push_str(&String::from_utf8_lossy(bytes));
                }
                Ok(())
            }
        };
        let check = |at: usize, bytes: &[u8]| {
            let plain = decoder.as_mut().map(|decoder| decoder.push(bytes)).transpose()?;
            let at = if plain.is_some() { decoded } else { at };
            let bytes = plain.as_deref().unwrap_or(bytes);
            take(at, bytes)?;
            decoded = at + bytes.len();
            if plan.accepts.is_some() && ours {
                progress::note(id, decoded);
            }
            Ok(())
        };
        match reader.body(&head, bodiless, check).await {
            Ok((body, trailers)) => {
                if decoder.as_mut().is_some_and(|decoder| !bodiless && !decoder.is_whole()) {
                    return Some(Broken::Wrong("a body whose coding has no end looks whole".to_owned()));
                }
                let body = if decoder.is_some() { decoded } else { body };
                let outcome = Outcome { informs, head, body, trailers: trailers.len(), said };
                on_end(number, &outcome);
                state.responded.set(number + 1);
                state.changed.notify_waiters();
                if outcome.head.closes() {
                    state.gone.set(true);
                    state.changed.notify_waiters();
                    if outcome.head.status == 408 && request.method == "HEAD" {
                        return Some(unknown_method(&mut reader, &outcome.head).await);
                    }
                    return match reader.end().await {
                        Ok(()) if number + 1 == plan.requests.len() => None,
                        Ok(()) => Some(Broken::Announced),
                        Err(broken) => Some(broken),
                    };
                }
            }
            Err(broken) => return Some(broken),
        }
    }
    let rest = reader.left();
    state.gone.set(true);
    state.changed.notify_waiters();
    (!rest.is_empty()).then(|| Broken::Wrong(format!("{} bytes behind the last response", rest.len())))
}
