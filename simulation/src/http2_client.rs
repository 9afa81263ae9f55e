//! A client of HTTP/2, by a script: the `h2` crate's, over a pipe that changes its frames.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::client::{BodyPlan, Outcome, RequestPlan};
use crate::frames::{FramePlan, Frames};
use crate::line::Line;
use crate::pattern;
use crate::pipe::{Pipe, PipePlan};
use crate::response::{Broken, Head, Pace};

/// The plan of one stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamPlan {
    pub(crate) request: RequestPlan,
    pub(crate) start: Duration,
    /// How its body is sent, and the response read.
    pub(crate) writes: Pace,
    pub(crate) reads: Pace,
    /// Nothing is read before everything is sent.
    pub(crate) sends_first: bool,
    /// With an expectation: the body waits for `100 Continue`.
    pub(crate) waits: bool,
    pub(crate) abandon: Option<(StreamReset, bool)>,
}

/// Where a stream is given up: by RST_STREAM, or (`true`) by forgetting it, which the library makes one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamReset {
    Sent(usize),
    Head,
    Received(usize),
}

/// The plan of one connection.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) scheme: &'static str,
    pub(crate) start: Duration,
    /// The window of a stream, in bytes.
    pub(crate) window: u32,
    /// After this time it changes to this value, larger or smaller.
    pub(crate) becomes: Option<(Duration, u32)>,
    pub(crate) connection_window: u32,
    pub(crate) frames: FramePlan,
    pub(crate) pipe: PipePlan,
    pub(crate) streams: Vec<StreamPlan>,
}

impl ClientPlan {
    /// Whether the windows of streams become smaller.
    fn narrows(&self) -> bool {
        self.becomes.is_some_and(|(_, window)| window < self.window)
    }

    /// Whether it keeps to the rules until it has everything.
    pub(crate) fn stays(&self) -> bool {
        self.pipe.cut.is_none() && self.frames.wrong == 0
    }
}

/// How a stream ended.
#[derive(Debug)]
pub(crate) enum End {
    Whole(Outcome),
    /// The script has left it.
    Left,
    Broken(String),
    Wrong(String),
}

impl From<h2::Error> for End {
    fn from(error: h2::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Sends the requests, and returns the result of each. `name(n)`: id and path of the nth.
pub(crate) async fn run(
    plan: Rc<ClientPlan>,
    connect: impl Future<Output = Result<Box<dyn Line>, Broken>>,
    seed: u64,
    name: impl Fn(usize) -> (u64, String),
) -> Vec<End> {
    sleep(plan.start).await;
    let broken = |why: &str| plan.streams.iter().map(|_| End::Broken(why.to_owned())).collect();
    let peer = match connect.await {
        Ok(peer) => peer,
        Err(why) => return broken(&format!("not connected: {why:?}")),
    };
    let frames = Frames::of_client(plan.frames.clone(), seed);
    let pipe = Pipe::new(peer, plan.pipe.clone(), Some(frames));
    let handshake = h2::client::Builder::new()
        .initial_window_size(plan.window)
        .initial_connection_window_size(plan.connection_window)
        .enable_push(false)
        // The server may send as small frames as the windows make them.
        .data_frame_budget(usize::MAX / 2)
        .handshake::<_, Bytes>(pipe);
    let (requests, connection) = match handshake.await {
        Ok(both) => both,
        Err(error) => return broken(&error.to_string()),
    };
    let mut driver = tokio::task::spawn_local(drive(connection, plan.becomes));
    let streams: Vec<_> = (0..plan.streams.len())
        .map(|number| {
            let (plan, requests) = (Rc::clone(&plan), requests.clone());
            let (id, path) = name(number);
            tokio::task::spawn_local(async move {
                let url = format!("{}://a.example{path}", plan.scheme);
                stream(&plan.streams[number], plan.narrows(), requests, id, &url).await
            })
        })
        .collect();
    let mut ends = Vec::new();
    for stream in streams {
        ends.push(stream.await.expect("a stream"));
    }
    drop(requests);
    let _ = timeout(Duration::from_secs(5), &mut driver).await;
    driver.abort();
    ends
}

async fn drive(mut connection: Connection<Pipe, Bytes>, becomes: Option<(Duration, u32)>) {
    if let Some((after, window)) = becomes {
        tokio::select! {
            biased;
            _ = &mut connection => return,
            () = sleep(after) => {}
        }
        // Only one SETTINGS is on its way at a time.
        while connection.set_initial_window_size(window).is_err() {
            tokio::select! {
                biased;
                _ = &mut connection => return,
                () = sleep(Duration::from_millis(10)) => {}
            }
        }
    }
    let _ = connection.await;
}

async fn stream(plan: &StreamPlan, narrows: bool, requests: SendRequest<Bytes>, id: u64, url: &str) -> End {
    sleep(plan.start).await;
    // How the connection ends is for the streams that were begun.
    let Ok(mut requests) = requests.ready().await else { return End::Broken("not begun".to_owned()) };
    let ends = matches!(plan.request.body, BodyPlan::None | BodyPlan::Length(0));
    let (response, sending) = match requests.send_request(head(&plan.request, url), ends) {
        Ok(both) => both,
        Err(error) => return error.into(),
    };
    drop(requests);
    let (informs, wanted, left) = (RefCell::default(), Notify::new(), Notify::new());
    let state = State { plan, id, narrows, wanted, informs, left };
    let over = Cell::new(ends);
    let send = async {
        if !ends {
            state.send(sending).await;
            over.set(true);
        }
    };
    let receive = state.receive(response);
    tokio::pin!(send, receive);
    if plan.sends_first {
        // The response to an expectation arrives concurrently.
        tokio::select! {
            biased;
            () = &mut send => {}
            () = state.left.notified() => return End::Left,
            end = &mut receive, if plan.request.expects => return end,
        }
    }
    loop {
        tokio::select! {
            biased;
            () = state.left.notified() => return End::Left,
            end = &mut receive => return end,
            () = &mut send, if !over.get() => {}
        }
    }
}

fn head(plan: &RequestPlan, url: &str) -> Request<()> {
    let mut request = Request::builder().method(plan.method).uri(url);
    if plan.takes_trailers {
        request = request.header("te", "trailers");
    }
    if plan.expects {
        request = request.header("expect", "100-continue");
    }
    if let BodyPlan::Length(size) = plan.body {
        request = request.header("content-length", size);
    }
    request.body(()).expect("a request")
}

struct State<'p> {
    plan: &'p StreamPlan,
    id: u64,
    /// The connection's windows become smaller.
    narrows: bool,
    wanted: Notify,
    informs: RefCell<Vec<u16>>,
    left: Notify,
}

impl State<'_> {
    /// Sends the body, as far as the server takes it.
    async fn send(&self, mut sending: SendStream<Bytes>) {
        if self.plan.request.expects && self.plan.waits {
            self.wanted.notified().await;
        }
        let (size, trailers) = match self.plan.request.body {
            BodyPlan::Chunked { size, trailers, .. } => (size, trailers),
            ref body => (body.size(), 0),
        };
        let (mut sent, mut since) = (0, 0);
        loop {
            if let Some((StreamReset::Sent(at), forgets)) = self.plan.abandon
                && sent >= at
            {
                return self.leave(Some(&mut sending), forgets);
            }
            let want = self.plan.writes.piece.clamp(1, 64 * 1024).min(size - sent);
            let count = match want {
                0 => 0,
                _ => {
                    sending.reserve_capacity(want);
                    match poll_fn(|cx| sending.poll_capacity(cx)).await {
                        Some(Ok(count)) => count.min(want),
                        Some(Err(_)) | None => return,
                    }
                }
            };
            let ends = sent + count == size;
            if count > 0 || (ends && trailers == 0) {
                let bytes = pattern::bytes(self.id, sent, count);
                if sending.send_data(bytes.into(), ends && trailers == 0).is_err() {
                    return;
                }
            }
            sent += count;
            since += count;
            if ends {
                break;
            }
            if since >= self.plan.writes.every {
                since = 0;
                sleep(self.plan.writes.pause).await;
            }
        }
        if trailers > 0 {
            let _ = sending.send_trailers(trailer_fields(trailers));
        }
    }

    fn leave(&self, sending: Option<&mut SendStream<Bytes>>, forgets: bool) {
        if let Some(sending) = sending.filter(|_| !forgets) {
            sending.send_reset(Reason::CANCEL);
        }
        self.left.notify_one();
    }

    async fn receive(&self, mut response: ResponseFuture) -> End {
        let head = poll_fn(|cx| {
            while let Poll::Ready(Some(Ok(inform))) = response.poll_informational(cx) {
                let status = inform.status().as_u16();
                self.informs.borrow_mut().push(status);
                if status == 100 {
                    self.wanted.notify_one();
                }
            }
            Pin::new(&mut response).poll(cx)
        });
        let (parts, body) = match head.await {
            Ok(response) => response.into_parts(),
            Err(error) => return error.into(),
        };
        let mut head = Head { status: parts.status.as_u16(), fields: Vec::new() };
        for (name, value) in &parts.headers {
            head.fields.push((name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        }
        if matches!(self.plan.abandon, Some((StreamReset::Head, _))) {
            return End::Left;
        }
        self.body(head, body).await
    }

    async fn body(&self, head: Head, mut body: RecvStream) -> End {
        let ours = head.field("x-id").is_some();
        let (mut got, mut since, mut said) = (0, 0, String::new());
        while let Some(part) = part(&mut body, self.narrows).await {
            let part = match part {
                Ok(part) => part,
                Err(error) => return error.into(),
            };
            match pattern::check(self.id, got, &part) {
                Err(wrong) if ours => {
                    return End::Wrong(format!("the body of {:x} is wrong at {wrong}", self.id));
                }
                _ if !ours => said.push_str(&String::from_utf8_lossy(&part)),
                _ => {}
            }
            // At the pace of its reader, however it came.
            let mut left = part.len();
            while left > 0 {
                let count = left.min(self.plan.reads.piece.max(1));
                left -= count;
                got += count;
                since += count;
                if matches!(self.plan.abandon, Some((StreamReset::Received(at), _)) if got >= at) {
                    return End::Left;
                }
                if since >= self.plan.reads.every {
                    since = 0;
                    sleep(self.plan.reads.pause).await;
                }
                let _ = body.flow_control().release_capacity(count);
            }
        }
        let trailers = match body.trailers().await {
            Ok(trailers) => trailers.map_or(0, |fields| fields.len()),
            Err(error) => return error.into(),
        };
        let informs = self.informs.take();
        End::Whole(Outcome { informs, head, body: got, trailers, said })
    }
}

/// The next part of a body. Where the window becomes smaller (`narrows`), the `h2` crate as receiver does not report what was released before and did not reach half
/// of the larger window: the other side waits for it with a window of zero, or less (nghttp2 had the same, its issue 1679). A release of zero bytes has it look again.
pub(crate) async fn part(body: &mut RecvStream, narrows: bool) -> Option<Result<Bytes, h2::Error>> {
    if !narrows {
        return body.data().await;
    }
    loop {
        match timeout(Duration::from_millis(20), body.data()).await {
            Ok(part) => return part,
            Err(_) => drop(body.flow_control().release_capacity(0)),
        }
    }
}

pub(crate) fn trailer_fields(count: usize) -> HeaderMap {
    (0..count)
        .map(|number| {
            let name = format!("x-trailer-{number}");
            (HeaderName::try_from(name).expect("a name"), HeaderValue::from_static("1"))
        })
        .collect()
}
