//! Calls over real sockets, to the tests' own servers: the `h2` crate's server for success, and one that writes frames by hand for faults.

mod calls;
mod connections;
mod faults;
mod peer;
mod versions;
mod waiting;
mod websockets;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Method, Request, Response};
use keepwarm_http1::{Fields, RequestBody, ResponseHead};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use super::{Http2Call, Http2Pool};
use crate::{CallHead, ClientError, ConnectionNeed, Endpoint, PoolSettings, ResponsePart, Scheme};

const BOUND: Duration = Duration::from_secs(30);

async fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, LocalSet::new().run_until(test)).await.expect("in time")
}

async fn listen() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    (listener, Endpoint::Tcp(address))
}

/// Waits for a condition that no event reports.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn pool() -> Arc<Http2Pool> {
    Http2Pool::new(PoolSettings::default())
}

/// A plain `GET /`.
fn get() -> CallHead<'static, std::iter::Empty<(&'static [u8], &'static [u8])>> {
    CallHead {
        method: &Method::GET,
        scheme: Scheme::Http,
        authority: b"shop.example",
        target: b"/x?y",
        fields: std::iter::empty(),
        framing: RequestBody::None,
        expect: false,
        te_trailers: false,
        upgrade: None,
        websocket_accept: None,
    }
}

/// A `POST` with a body.
fn post(framing: RequestBody) -> CallHead<'static, std::iter::Empty<(&'static [u8], &'static [u8])>> {
    CallHead { method: &Method::POST, framing, ..get() }
}

/// A response, whole.
#[derive(Debug, Default)]
struct FullResponse {
    informational: Vec<u16>,
    head: ResponseHead,
    body: Vec<u8>,
    trailers: Fields,
}

/// Reads a response to its end.
async fn read(call: &mut Http2Call) -> Result<FullResponse, ClientError> {
    let mut whole = FullResponse::default();
    poll_fn(|cx| {
        loop {
            match std::task::ready!(call.poll_response(cx)) {
                Ok(ResponsePart::Informational(head)) => whole.informational.push(head.status.as_u16()),
                Ok(ResponsePart::Head(head)) => whole.head = head.clone(),
                Ok(ResponsePart::Data(bytes)) => whole.body.extend_from_slice(bytes),
                Ok(ResponsePart::Trailers(fields)) => whole.trailers = fields.clone(),
                Ok(ResponsePart::End) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    })
    .await?;
    Ok(whole)
}

/// Reads as far as the head of the response.
async fn read_head(call: &mut Http2Call) -> Result<u16, ClientError> {
    poll_fn(|cx| {
        loop {
            match std::task::ready!(call.poll_response(cx)) {
                Ok(ResponsePart::Head(head)) => return Poll::Ready(Ok(head.status.as_u16())),
                Ok(ResponsePart::Informational(_)) => {}
                Ok(other) => panic!("{other:?}"),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    })
    .await
}

async fn flush(call: &mut Http2Call) {
    poll_fn(|cx| call.poll_flush(cx)).await;
}

/// Makes a call on a connection of the pool, and reads the response.
async fn ask(pool: &Arc<Http2Pool>, endpoint: &Endpoint) -> Result<FullResponse, ClientError> {
    let mut call = pool.acquire(endpoint, ConnectionNeed::Any).await.unwrap();
    call.begin(get());
    call.end(&Fields::new());
    flush(&mut call).await;
    read(&mut call).await
}

/// Serves every connection with the `h2` crate, each request as a task; counts the connections.
fn serve<F, H>(listener: TcpListener, builder: h2::server::Builder, handle: H) -> Rc<std::cell::Cell<usize>>
where
    F: Future<Output = ()> + 'static,
    H: Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + 'static,
{
    let connections = Rc::new(std::cell::Cell::new(0));
    let (count, handle) = (Rc::clone(&connections), Rc::new(handle));
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.set(count.get() + 1);
            let (builder, handle) = (builder.clone(), Rc::clone(&handle));
            tokio::task::spawn_local(async move {
                let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::task::spawn_local(handle(request, respond));
                }
            });
        }
    });
    connections
}

/// Responds with a short body.
async fn hello(_: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let mut body = respond.send_response(Response::new(()), false).unwrap();
    body.send_data(Bytes::from_static(b"hello"), true).unwrap();
}

/// The body of a request; its room is returned at once.
async fn body_of(request: Request<RecvStream>) -> (Vec<u8>, Option<http::HeaderMap>) {
    let (mut body, mut bytes) = (request.into_body(), Vec::new());
    while let Some(Ok(data)) = body.data().await {
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    (bytes, body.trailers().await.ok().flatten())
}
