//! A server of HTTP/1.1, by a script: what it does with each request stands in the plan.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::PeerListener;
use tokio::task::JoinSet;

use crate::line::Line;
use crate::pattern;
use crate::response::{Pace, Reader};
use crate::tls::TlsServer;
use crate::tunnel::{self, TunnelPlan};
use crate::worker::{BodyRead, Fault, Observations};

/// The plan for one request.
#[derive(Debug, Clone)]
pub(crate) struct OriginPlan {
    pub(crate) status: u16,
    /// Informational responses before it.
    pub(crate) informs: usize,
    pub(crate) delay: Duration,
    pub(crate) reads: BodyRead,
    pub(crate) body: usize,
    pub(crate) framing: Framing,
    /// Bytes in one write.
    pub(crate) piece: usize,
    /// Between two writes.
    pub(crate) pause: Duration,
    pub(crate) trailers: usize,
    /// Bytes of fields that its head has beside the others.
    pub(crate) fill: usize,
    /// Names a file of the same length in place of its body, which is then something else.
    pub(crate) hands: bool,
    /// Closes after the response; announces it, or does not.
    pub(crate) closes: Option<bool>,
    /// Switches to a tunnel, where the request offers that.
    pub(crate) tunnel: Option<TunnelPlan>,
    pub(crate) fault: Fault,
    pub(crate) noise: Option<Noise>,
}

/// Bytes it sends that are not part of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noise {
    /// In place of the head.
    Head,
    /// In place of the second half of the body.
    Inside,
    /// A response that was not requested, after the one that was. The connection ends with it: the part that comes after the next request is taken for the response to
    /// that, since the two cannot be told apart, and so would be all that follow.
    Behind,
}

/// How it says where its body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Chunked(usize),
    Close,
}

pub(crate) type Plans = Rc<dyn Fn(&str) -> Option<(u64, OriginPlan)>>;

/// Serves until it is dropped, and its connections with it. `tls`: under TLS.
pub(crate) async fn serve(
    listener: PeerListener,
    tls: Option<Rc<TlsServer>>,
    plans: Plans,
    seen: Rc<RefCell<Observations>>,
) {
    let mut connections = JoinSet::new();
    loop {
        let line = accept(&listener, tls.as_deref()).await;
        let (plans, seen) = (Rc::clone(&plans), Rc::clone(&seen));
        connections.spawn_local(async move { connection(&*line, plans, seen).await });
    }
}

/// The next connection.
pub(crate) async fn accept(listener: &PeerListener, tls: Option<&TlsServer>) -> Box<dyn Line> {
    let peer = listener.accept().await;
    match tls {
        Some(tls) => tls.accept(peer),
        None => Box::new(peer),
    }
}

async fn connection(peer: &dyn Line, plans: Plans, seen: Rc<RefCell<Observations>>) {
    let mut reader = Reader::new(peer, Pace::FAST);
    while let Ok(request) = reader.request().await {
        let Some((id, plan)) = plans(&request.path) else {
            panic!("a request nobody sent: {}", request.path)
        };
        *seen.borrow_mut().begun.entry(id).or_default() += 1;
        let keeps = exchange(peer, &mut reader, &request, id, &plan, &seen).await;
        if !keeps {
            if plan.fault == Fault::None {
                // Closed over unread bytes, the connection would be reset, and the response lost with it.
                peer.shutdown_write();
                let mut rest = Vec::new();
                while let Ok(1..) = peer.read(&mut rest, 64 * 1024).await {
                    rest.clear();
                }
            }
            return;
        }
    }
}

/// `false`: the connection is over.
async fn exchange(
    peer: &dyn Line,
    reader: &mut Reader<'_>,
    request: &crate::response::Request,
    id: u64,
    plan: &OriginPlan,
    seen: &RefCell<Observations>,
) -> bool {
    tokio::time::sleep(plan.delay).await;
    if plan.fault == Fault::DiesBefore {
        return false;
    }
    if plan.fault == Fault::Hangs {
        peer.peer().closed().await;
        return false;
    }
    let failed = Cell::new(false);
    let check = |at: usize, bytes: &[u8]| match pattern::check(id, at, bytes) {
        Err(wrong) => panic!("bytes: the request body of {id:x} is wrong at {wrong}"),
        Ok(()) => Ok(()),
    };
    if request.expects
        && plan.reads != BodyRead::Never
        && peer.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err()
    {
        return false;
    }
    let wants = plan.reads != BodyRead::Never;
    let read = async {
        if !wants {
            return;
        }
        match reader.body(&request.head, false, check).await {
            Ok((size, _)) => drop(seen.borrow_mut().whole.insert(id, size)),
            Err(_) => failed.set(true),
        }
    };
    if plan.reads == BodyRead::Before {
        read.await;
        if failed.get() || !respond(peer, request, id, plan).await {
            return false;
        }
    } else {
        let (sent, ()) = tokio::join!(respond(peer, request, id, plan), read);
        if !sent || failed.get() {
            return false;
        }
    }
    if let Some(through) = plan.tunnel.as_ref().filter(|_| request.upgrades) {
        let rest = reader.left();
        if tunnel::run(peer, id, rest, through).await {
            seen.borrow_mut().tunnels.insert(id);
        }
        return false;
    }
    let unread = !wants && request.has_body();
    plan.closes.is_none() && plan.framing != Framing::Close && !unread
}

/// `false`: it broke off.
async fn respond(peer: &dyn Line, request: &crate::response::Request, id: u64, plan: &OriginPlan) -> bool {
    let mut bytes = Vec::new();
    for _ in 0..plan.informs {
        bytes.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n");
    }
    if plan.tunnel.is_some() && request.upgrades {
        bytes.extend_from_slice(format!("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nX-Id: {id:x}\r\n\r\n").as_bytes());
        return peer.write(&bytes).await.is_ok();
    }
    bytes.extend_from_slice(format!("HTTP/1.1 {} X\r\nX-Id: {id:x}\r\n", plan.status).as_bytes());
    bytes.extend_from_slice(filling(id, plan.fill).as_bytes());
    if plan.hands {
        bytes.extend_from_slice(format!("X-Accel-Redirect: {HANDED}{id:x}\r\n").as_bytes());
    }
    let unread = plan.reads == BodyRead::Never && request.has_body();
    if plan.closes == Some(true) || plan.framing == Framing::Close || unread {
        bytes.extend_from_slice(b"Connection: close\r\n");
    }
    let bodiless = request.is_head || matches!(plan.status, 204 | 304);
    match plan.framing {
        _ if plan.status == 204 => {}
        Framing::Length => bytes.extend_from_slice(format!("Content-Length: {}\r\n", plan.body).as_bytes()),
        Framing::Chunked(_) => bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Close => {}
    }
    bytes.extend_from_slice(b"\r\n");
    if !bodiless {
        encode_body(&mut bytes, id, plan);
    }
    match plan.noise {
        Some(Noise::Head) => bytes = b"HTTP/1.1 OK 200\r\n\r\n".repeat(1 + plan.body / 100),
        // In the middle of other bodies nothing is noise: they end there.
        Some(Noise::Inside) if !matches!(plan.framing, Framing::Chunked(_)) => {
            bytes.truncate(bytes.len() / 2)
        }
        Some(Noise::Behind) if plan.framing != Framing::Close => {
            bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\nX-Id: wild\r\nContent-Length: 4\r\n\r\nwild");
        }
        _ => {}
    }
    let most = match plan.fault {
        Fault::DiesInside | Fault::Resets => bytes.len() / 2,
        _ => bytes.len(),
    };
    let mut sent = 0;
    while sent < most {
        let count = plan.piece.max(1).min(most - sent);
        if peer.write(&bytes[sent..sent + count]).await.is_err() {
            return false;
        }
        sent += count;
        if plan.pause > Duration::ZERO {
            tokio::time::sleep(plan.pause).await;
        }
    }
    most == bytes.len() && plan.noise.is_none()
}

/// Fields of this many bytes; each line is shorter than any limit of a line.
pub(crate) fn filling(id: u64, bytes: usize) -> String {
    let text = pattern::text(id, bytes);
    let lines = text.as_bytes().chunks(4000).enumerate();
    let field = |(at, value): (usize, &[u8])| format!("X-Fill-{at}: {}\r\n", String::from_utf8_lossy(value));
    lines.map(field).collect()
}

/// The prefix of what [`OriginPlan::hands`] names.
pub(crate) const HANDED: &str = "/handed/";

/// Bytes of the body that it sends itself.
pub(crate) fn own_body(id: u64, at: usize, count: usize, plan: &OriginPlan) -> Vec<u8> {
    match plan.hands {
        true => vec![b'!'; count],
        false => pattern::bytes(id, at, count),
    }
}

fn encode_body(bytes: &mut Vec<u8>, id: u64, plan: &OriginPlan) {
    let Framing::Chunked(chunk) = plan.framing else {
        bytes.extend(own_body(id, 0, plan.body, plan));
        return;
    };
    let mut at = 0;
    while at < plan.body {
        if plan.noise == Some(Noise::Inside) && at >= plan.body / 2 {
            bytes.extend_from_slice(b"zz\r\nzz\r\n\r\n");
            return;
        }
        let count = chunk.max(1).min(plan.body - at);
        bytes.extend_from_slice(format!("{count:x}\r\n").as_bytes());
        bytes.extend(own_body(id, at, count, plan));
        bytes.extend_from_slice(b"\r\n");
        at += count;
    }
    bytes.extend_from_slice(b"0\r\n");
    for number in 0..plan.trailers {
        bytes.extend_from_slice(format!("X-Trailer-{number}: 1\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
}
