//! A server of HTTP/2, by a script: the `h2` crate's, over a pipe that changes its frames.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use keepwarm_net::simulation::{PeerListener, Rng};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::frames::{FramePlan, Frames};
use crate::http2_client::{part, trailer_fields};
use crate::line::Line;
use crate::origin::{Framing, OriginPlan, Plans, accept};
use crate::pattern;
use crate::pipe::{Pipe, PipePlan};
use crate::plan::Smaller;
use crate::tls::TlsServer;
use crate::worker::{BodyRead, Fault, Observations};

/// The plan for its connections; [`OriginPlan`] has that for each request.
#[derive(Debug, Clone)]
pub(crate) struct Http2Plan {
    /// SETTINGS_MAX_CONCURRENT_STREAMS, at first and later.
    pub(crate) streams: Option<u32>,
    pub(crate) becomes: Option<(Duration, u32)>,
    /// The window of a stream, in bytes; it becomes the second with the other SETTINGS.
    pub(crate) window: (u32, u32),
    pub(crate) connection_window: u32,
    /// How many connections, the first ones, get GOAWAY, and how long after the beginning.
    pub(crate) goaway: Option<(usize, Duration, Goaway)>,
    /// This many streams, the first of each connection, are refused.
    pub(crate) refuses: usize,
    pub(crate) frames: FramePlan,
    pub(crate) pipe: PipePlan,
    /// It reads nothing while it cannot write, as a server of one thread for each connection.
    pub(crate) waits: bool,
}

/// How it goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goaway {
    /// As RFC 9113 §6.8 has it: requests under way get a response.
    Gently,
    /// At once, with an error.
    Abruptly,
}

/// The window of a stream until SETTINGS say otherwise.
const DEFAULT_WINDOW: u32 = 65_535;

impl Http2Plan {
    pub(crate) fn smaller<P: Clone>(smaller: &mut Smaller<'_, P>, of: impl Fn(&mut P) -> Option<&mut Self>) {
        smaller.with(|plan| of(plan).is_some_and(|it| it.streams != Some(0) && it.becomes.take().is_some()));
        smaller.with(|plan| of(plan).is_some_and(|it| it.streams.take().is_some()));
        smaller.with(|plan| of(plan).is_some_and(|it| it.goaway.take().is_some()));
        smaller.with(|plan| of(plan).is_some_and(|it| std::mem::take(&mut it.refuses) > 0));
        smaller.with(|plan| of(plan).is_some_and(|it| std::mem::take(&mut it.waits)));
        smaller.with(|plan| of(plan).is_some_and(|it| it.frames.becomes_plain()));
        smaller.with(|plan| of(plan).is_some_and(|it| it.pipe.cut.take().is_some()));
        smaller.with(|plan| of(plan).is_some_and(|it| it.pipe.stall.take().is_some()));
        smaller.with(|plan| of(plan).is_some_and(|it| it.pipe.reads.becomes_fast()));
        smaller.with(|plan| of(plan).is_some_and(|it| it.pipe.writes.becomes_fast()));
        const WIDE: (u32, u32) = (1 << 20, 1 << 20);
        smaller.with(|plan| {
            of(plan).is_some_and(|it| it.window != WIDE && std::mem::replace(&mut it.window, WIDE) != WIDE)
        });
    }
}

/// Serves until it is dropped, and its connections with it. `tls`: under TLS.
pub(crate) async fn serve(
    listener: PeerListener,
    tls: Option<Rc<TlsServer>>,
    plan: Http2Plan,
    seed: u64,
    plans: Plans,
    seen: Rc<RefCell<Observations>>,
) {
    let (mut connections, mut rng, mut count) = (JoinSet::new(), Rng::new(seed), 0);
    let plan = Rc::new(plan);
    loop {
        let line = accept(&listener, tls.as_deref()).await;
        let (plan, plans, seen) = (Rc::clone(&plan), Rc::clone(&plans), Rc::clone(&seen));
        let goaway = plan.goaway.filter(|(first, ..)| count < *first).map(|(_, after, how)| (after, how));
        let seed = rng.next();
        count += 1;
        connections.spawn_local(async move {
            // What ends it by itself is the client's, or in the plan.
            let _ = connection(line, &plan, goaway, seed, plans, seen).await;
        });
    }
}

async fn connection(
    line: Box<dyn Line>,
    plan: &Http2Plan,
    goaway: Option<(Duration, Goaway)>,
    seed: u64,
    plans: Plans,
    seen: Rc<RefCell<Observations>>,
) -> Result<(), h2::Error> {
    let streams = [plan.streams, plan.becomes.map(|(_, most)| most)];
    let frames = Frames::of_server(plan.frames.clone(), seed, &streams);
    let pipe = Pipe::new(line, plan.pipe.clone(), Some(frames)).serving().waiting(plan.waits);
    let mut connection: Connection<Pipe, Bytes> = h2::server::Builder::new()
        .initial_window_size(plan.window.0)
        .initial_connection_window_size(plan.connection_window)
        // The client may send as small frames as the windows make them.
        .data_frame_budget(usize::MAX / 2)
        .handshake(pipe)
        .await?;
    let mut streams = JoinSet::new();
    // A client that has not yet received a smaller window sends by the default one (RFC 9113 §6.9.2).
    let narrows = plan.window.0 < DEFAULT_WINDOW || (plan.becomes.is_some() && plan.window.1 < plan.window.0);
    let never = Duration::from_secs(1 << 30);
    let becomes = sleep(plan.becomes.map_or(never, |(after, _)| after));
    let goes = sleep(goaway.map_or(never, |(after, _)| after));
    tokio::pin!(becomes, goes);
    let (mut becomes_due, mut goes_due, mut count) = (true, true, 0);
    loop {
        tokio::select! {
            biased;
            request = connection.accept() => {
                let Some(request) = request else { return Ok(()) };
                let (request, mut respond) = request?;
                count += 1;
                match count > plan.refuses {
                    true => drop(streams.spawn_local(stream(narrows, request, respond, Rc::clone(&plans), Rc::clone(&seen)))),
                    false => respond.send_reset(Reason::REFUSED_STREAM),
                }
            }
            () = &mut becomes, if becomes_due => match connection.set_initial_window_size(plan.window.1) {
                Ok(()) => becomes_due = false,
                // Only one SETTINGS is on its way at a time.
                Err(_) => becomes.set(sleep(Duration::from_millis(10))),
            },
            () = &mut goes, if goes_due => {
                goes_due = false;
                match goaway {
                    Some((_, Goaway::Abruptly)) => connection.abrupt_shutdown(Reason::INTERNAL_ERROR),
                    _ => connection.graceful_shutdown(),
                }
            }
            Some(end) = streams.join_next() => {
                if let Ok(End::Dies) = end {
                    return Ok(());
                }
            }
        }
    }
}

/// The effect of a stream's end on its connection.
enum End {
    Over,
    Dies,
}

async fn stream(
    narrows: bool,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    plans: Plans,
    seen: Rc<RefCell<Observations>>,
) -> End {
    let (head, body) = request.into_parts();
    let Some((id, plan)) = plans(head.uri.path()) else { panic!("a request nobody sent: {}", head.uri) };
    *seen.borrow_mut().begun.entry(id).or_default() += 1;
    sleep(plan.delay).await;
    match plan.fault {
        Fault::DiesBefore => return End::Dies,
        Fault::Refuses => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            return End::Over;
        }
        Fault::Hangs => {
            let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
            return End::Over;
        }
        _ => {}
    }
    let reads = plan.reads != BodyRead::Never;
    if reads && head.headers.contains_key("expect") && inform(&mut respond, 100).is_err() {
        return End::Over;
    }
    let has_failed = Cell::new(false);
    let read = async {
        match receive(body, narrows, id, reads).await {
            Ok(Some(size)) => drop(seen.borrow_mut().whole.insert(id, size)),
            Ok(None) => {}
            Err(_) => has_failed.set(true),
        }
    };
    let is_head = head.method == "HEAD";
    let sent = if plan.reads == BodyRead::Before {
        read.await;
        if has_failed.get() {
            return End::Over;
        }
        send(&mut respond, is_head, id, &plan).await
    } else {
        tokio::join!(send(&mut respond, is_head, id, &plan), read).0
    };
    sent.unwrap_or(End::Over)
}

fn inform(respond: &mut SendResponse<Bytes>, status: u16) -> Result<(), h2::Error> {
    respond.send_informational(Response::builder().status(status).body(()).expect("a head"))
}

/// Reads a body to its end, and returns its length; `None`: the body is not wanted.
async fn receive(
    mut body: RecvStream,
    narrows: bool,
    id: u64,
    wants: bool,
) -> Result<Option<usize>, h2::Error> {
    if !wants {
        return Ok(None);
    }
    let mut got = 0;
    while let Some(part) = part(&mut body, narrows).await {
        let part = part?;
        if let Err(wrong) = pattern::check(id, got, &part) {
            panic!("bytes: the request body of {id:x} is wrong at {wrong}");
        }
        got += part.len();
        body.flow_control().release_capacity(part.len())?;
    }
    body.trailers().await?;
    Ok(Some(got))
}

async fn send(
    respond: &mut SendResponse<Bytes>,
    is_head: bool,
    id: u64,
    plan: &OriginPlan,
) -> Result<End, h2::Error> {
    for _ in 0..plan.informs {
        inform(respond, 103)?;
    }
    let bodiless = is_head || matches!(plan.status, 204 | 304);
    let trailers = if matches!(plan.framing, Framing::Chunked(_)) { plan.trailers } else { 0 };
    let mut head = Response::builder().status(plan.status).header("x-id", format!("{id:x}"));
    if plan.framing == Framing::Length && plan.status != 204 {
        head = head.header("content-length", plan.body);
    }
    let ends = bodiless || (plan.body == 0 && trailers == 0);
    let mut sending = respond.send_response(head.body(()).expect("a head"), ends)?;
    if ends {
        return Ok(End::Over);
    }
    let most = match plan.fault {
        Fault::DiesInside | Fault::Resets => plan.body / 2,
        _ => plan.body,
    };
    let mut sent = 0;
    while sent < most {
        let Some(count) = room(&mut sending, plan.piece.clamp(1, 64 * 1024).min(most - sent)).await? else {
            return Ok(End::Over);
        };
        let last = sent + count == plan.body && trailers == 0;
        sending.send_data(pattern::bytes(id, sent, count).into(), last)?;
        sent += count;
        if plan.pause > Duration::ZERO {
            sleep(plan.pause).await;
        }
    }
    match plan.fault {
        Fault::DiesInside => return Ok(End::Dies),
        Fault::Resets => sending.send_reset(Reason::INTERNAL_ERROR),
        _ if trailers > 0 => sending.send_trailers(trailer_fields(trailers))?,
        _ => {}
    }
    Ok(End::Over)
}

/// Waits for room for some of `want` bytes; `None`: the peer takes no more.
async fn room(sending: &mut SendStream<Bytes>, want: usize) -> Result<Option<usize>, h2::Error> {
    sending.reserve_capacity(want);
    match poll_fn(|cx| sending.poll_capacity(cx)).await {
        Some(room) => Ok(Some(room?.min(want))),
        None => Ok(None),
    }
}
