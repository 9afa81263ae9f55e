//! The server's role, against the `h2` crate's client and a client that writes its frames by hand.

mod compression;
mod limits;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request};
use keepwarm_net::BindAddress;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::{
    BodyProgress, ConnectionLimits, Exchange, Frontend, Handler, ListenerContext, OpenConnections, Outcome,
    Refusal, ResponseOutcome,
};

const BOUND: Duration = Duration::from_secs(30);

async fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, LocalSet::new().run_until(test)).await.expect("in time")
}

/// Waits for a condition that no event reports.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Responds by path.
#[derive(Default)]
struct TestApp {
    finished: std::sync::Mutex<Vec<(u16, ResponseOutcome)>>,
    gone: AtomicUsize,
}

impl Handler for TestApp {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            match exchange.request().path() {
                b"/echo" => echo(exchange).await,
                b"/fields" => fields(exchange),
                b"/large" => large(exchange).await,
                b"/compressed" => compression::compressed(exchange).await,
                b"/limited" => limits::limited(exchange).await,
                b"/hints" => limits::hints(exchange),
                b"/empty" => {
                    exchange.head(200, None, false, [(&b"grpc-status"[..], &b"5"[..])].into_iter()).unwrap();
                    exchange.end();
                }
                b"/empty-with-trailers" => {
                    exchange.head(200, Some(0), false, std::iter::empty()).unwrap();
                    exchange.end_with_trailers([(&b"grpc-status"[..], &b"0"[..])].into_iter());
                }
                b"/short" => {
                    exchange.head(200, Some(10), false, std::iter::empty()).unwrap();
                    exchange.data(b"half");
                    let _ = poll_fn(|cx| exchange.poll_flush(cx)).await;
                    exchange.end();
                }
                b"/taken-back" => {
                    exchange.informational(103, [(&b"link"[..], &b"</a>"[..])].into_iter());
                    let length = exchange.request().head.query().map(|_| 40_000);
                    exchange
                        .head(200, length, false, [(&b"x-of"[..], &b"the first"[..])].into_iter())
                        .unwrap();
                    exchange.data(b"begun");
                    assert!(exchange.take_back() && !exchange.responded() && !exchange.take_back());
                    exchange.head(502, Some(5), false, std::iter::empty()).unwrap();
                    exchange.data(b"sorry");
                    exchange.end();
                    assert!(!exchange.take_back(), "it is complete");
                }
                b"/hang" => {
                    poll_fn(|cx| exchange.poll_gone(cx)).await;
                    self.gone.fetch_add(1, Ordering::Relaxed);
                    exchange.abort("client_reset");
                }
                _ => {
                    exchange.informational(103, [(&b"link"[..], &b"</a>"[..])].into_iter());
                    exchange
                        .head(200, Some(5), false, [(&b"Connection"[..], &b"close"[..])].into_iter())
                        .unwrap();
                    exchange.data(b"hello");
                    exchange.end();
                }
            }
        })
    }
}

impl Frontend for TestApp {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        exchange.head(refusal.status, Some(0), true, std::iter::empty()).unwrap();
        exchange.end();
    }

    fn finished(&self, _: &crate::Request, outcome: &Outcome) {
        self.finished.lock().unwrap().push((outcome.status, outcome.fate));
    }
}

/// Sends the body back as it comes, followed by its trailers.
async fn echo(exchange: &mut Exchange<'_>) {
    exchange.head(200, None, false, std::iter::empty()).unwrap();
    let mut block = Vec::new();
    loop {
        block.clear();
        let read = poll_fn(|cx| {
            let _ = exchange.poll_flush(cx)?;
            exchange.poll_body(cx, &mut block, 16 * 1024).map_err(|_| crate::ClientLoss::Reset)
        });
        let Ok(progress) = read.await else { return exchange.abort("body") };
        exchange.data(&block);
        if poll_fn(|cx| exchange.poll_flush(cx)).await.is_err() {
            return exchange.abort("gone");
        }
        if progress == BodyProgress::Done || exchange.body_done() && block.is_empty() {
            break;
        }
    }
    let trailers = exchange.trailers().clone();
    exchange.end_with_trailers(trailers.iter());
}

/// Returns the request's fields.
fn fields(exchange: &mut Exchange<'_>) {
    let head = &exchange.request().head;
    let mut text = format!("{} {}\n", head.method, head.target().escape_ascii());
    for (name, value) in head.fields.iter() {
        text += &format!("{}: {}\n", name.escape_ascii(), value.escape_ascii());
    }
    exchange.head(200, Some(text.len() as u64), false, std::iter::empty()).unwrap();
    exchange.data(text.as_bytes());
    exchange.end();
}

const LARGE: usize = 4 << 20;

async fn large(exchange: &mut Exchange<'_>) {
    exchange.head(200, Some(LARGE as u64), false, std::iter::empty()).unwrap();
    for _ in 0..LARGE / 65536 {
        exchange.data(&[b'x'; 65536]);
        if poll_fn(|cx| exchange.poll_flush(cx)).await.is_err() {
            return exchange.abort("gone");
        }
    }
    exchange.end();
}

struct TestListener {
    app: Arc<TestApp>,
    address: SocketAddr,
    draining: Arc<AtomicBool>,
    open: Arc<OpenConnections>,
    _stop: crate::StopListening,
}

fn listening(limits: ConnectionLimits) -> TestListener {
    let app = Arc::new(TestApp::default());
    let (draining, open) = (Arc::new(AtomicBool::new(false)), Arc::new(OpenConnections::new(1000)));
    let context = Arc::new(ListenerContext {
        handler: Arc::clone(&app) as Arc<dyn Frontend>,
        limits: ConnectionLimits { http2: true, ..limits },
        proxy_protocol: None,
        draining: Arc::clone(&draining),
        open: Arc::clone(&open),
        meter: keepwarm_telemetry::meters::listener("test"),
        tls: None,
    });
    let bound = keepwarm_net::bind(BindAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = bound.address.unwrap();
    let (stop, stopped) = crate::stop_listening();
    tokio::task::spawn_local(keepwarm_net::run_ticker());
    tokio::task::spawn_local(crate::serve(bound, context, stopped));
    TestListener { app, address, draining, open, _stop: stop }
}

async fn client(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::task::spawn_local(async move { drop(connection.await) });
    client
}

fn request(method: Method, target: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://a.test{target}")).body(()).unwrap()
}

struct TestResponse {
    status: u16,
    headers: http::HeaderMap,
    ended: bool,
    body: Vec<u8>,
    trailers: Option<http::HeaderMap>,
}

async fn whole(response: h2::client::ResponseFuture) -> Result<TestResponse, h2::Error> {
    let (parts, mut body) = response.await?.into_parts();
    let ended = body.is_end_stream();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    let trailers = body.trailers().await?;
    Ok(TestResponse { status: parts.status.as_u16(), headers: parts.headers, ended, body: bytes, trailers })
}

async fn get(client: &mut SendRequest<Bytes>, target: &str) -> Result<TestResponse, h2::Error> {
    let (response, _) = client.send_request(request(Method::GET, target), true)?;
    whole(response).await
}

#[tokio::test]
async fn a_request_is_answered_by_the_handler_of_http_1() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let (mut response, _) = client.send_request(request(Method::GET, "/"), true).unwrap();
        let early = poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
        assert_eq!((early.status().as_u16(), &early.headers()["link"]), (103, &"</a>".parse().unwrap()));
        let response = whole(response).await.unwrap();
        assert_eq!((response.status, response.body.as_slice()), (200, b"hello".as_slice()));
        assert_eq!(response.headers["content-length"], "5");
        assert!(response.headers.contains_key("date") && !response.headers.contains_key("connection"));
        until(|| listening.app.finished.lock().unwrap().len() == 1).await;
        assert_eq!(listening.app.finished.lock().unwrap()[0], (200, ResponseOutcome::Complete));
    })
    .await;
}

#[tokio::test]
async fn heads_are_told_as_those_of_http_1() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let mut asked = request(Method::GET, "/fields?x");
        for (name, value) in [("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers"), ("x", "y")] {
            asked.headers_mut().append(name, value.parse().unwrap());
        }
        let (response, _) = client.send_request(asked, true).unwrap();
        let text = String::from_utf8(whole(response).await.unwrap().body).unwrap();
        assert_eq!(text, "GET /fields?x\nhost: a.test\nte: trailers\nx: y\ncookie: a=1; b=2\n");
        let mut wrong = request(Method::GET, "/");
        wrong.headers_mut().insert("host", "b.test".parse().unwrap());
        let (response, _) = client.send_request(wrong, true).unwrap();
        assert_eq!(whole(response).await.unwrap().status, 400);
    })
    .await;
}

#[tokio::test]
async fn trailers_follow_a_body_of_length_zero() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        for method in [Method::GET, Method::HEAD] {
            let mut asked = request(method.clone(), "/empty-with-trailers");
            asked.headers_mut().insert("te", "trailers".parse().unwrap());
            let (response, _) = client.send_request(asked, true).unwrap();
            let response = whole(response).await.unwrap();
            let status = response.trailers.and_then(|trailers| trailers.get("grpc-status").cloned());
            assert_eq!(status.is_some(), method == Method::GET);
        }
        let response = get(&mut client, "/empty-with-trailers").await.unwrap();
        assert_eq!(response.headers["content-length"], "0");
        assert!(response.ended && response.trailers.is_none(), "nobody asked for them");
    })
    .await;
}

#[tokio::test]
async fn bodies_and_trailers_are_streamed_both_ways() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let mut asked = request(Method::POST, "/echo");
        asked.headers_mut().insert("te", "trailers".parse().unwrap());
        let (response, mut send) = client.send_request(asked, false).unwrap();
        let (parts, mut body) = response.await.unwrap().into_parts();
        assert_eq!(parts.status, 200);
        for round in 0..20_u8 {
            send.send_data(vec![round; 1000].into(), false).unwrap();
            let mut got = Vec::new();
            while got.len() < 1000 {
                let data = body.data().await.unwrap().unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                got.extend_from_slice(&data);
            }
            assert_eq!(got, vec![round; 1000]);
        }
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        send.send_trailers(trailers).unwrap();
        assert!(body.data().await.is_none());
        assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    })
    .await;
}

#[tokio::test]
async fn what_has_no_body_ends_with_its_head() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let response = get(&mut client, "/empty").await.unwrap();
        assert!(response.ended && response.trailers.is_none());
        assert_eq!(response.headers["grpc-status"], "5");
        let (response, _) = client.send_request(request(Method::HEAD, "/"), true).unwrap();
        let response = whole(response).await.unwrap();
        // A length is never computed for HEAD.
        assert!(response.ended && !response.headers.contains_key("content-length"));
    })
    .await;
}

#[tokio::test]
async fn a_response_that_cannot_be_completed_is_reset_and_no_other() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let error = get(&mut client, "/short").await.err().unwrap();
        assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR));
        assert_eq!(get(&mut client, "/").await.unwrap().body, b"hello");
    })
    .await;
}

/// A response that breaks off before anything of it was written is not counted as cut, in either version.
#[tokio::test]
async fn a_response_of_which_nothing_was_written_can_be_taken_back() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        for target in ["/taken-back", "/taken-back?long"] {
            let response = get(&mut client, target).await.unwrap();
            assert_eq!((response.status, response.body.as_slice()), (502, b"sorry".as_slice()));
            assert!(response.headers["content-length"] == "5" && !response.headers.contains_key("x-of"));
            for version in ["1.1", "1.0"] {
                let mut stream = TcpStream::connect(listening.address).await.unwrap();
                // An HTTP/1.0 response on a kept connection is held back without a length.
                let keep = if version == "1.0" { "Connection: keep-alive\r\n" } else { "" };
                let head = format!("GET {target} HTTP/{version}\r\nHost: a\r\n{keep}\r\n");
                let last = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n");
                stream.write_all((head + &last).as_bytes()).await.unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).await.unwrap();
                assert_eq!(text.starts_with("HTTP/1.1 103"), version == "1.1", "{text}");
                assert!(text.contains("HTTP/1.1 502 ") && !text.contains("x-of"), "{text}");
                assert!(text.contains("\r\n\r\nsorryHTTP/1.1 ") && text.ends_with("hello"), "{text}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_calls_off_is_gone() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let (response, mut send) = client.send_request(request(Method::GET, "/hang"), true).unwrap();
        get(&mut client, "/").await.unwrap();
        send.send_reset(h2::Reason::CANCEL);
        drop((response, send));
        until(|| listening.app.gone.load(Ordering::Relaxed) == 1).await;
        // And the end of the connection is the end of all its requests.
        let (_response, _send) = client.send_request(request(Method::GET, "/hang"), true).unwrap();
        get(&mut client, "/").await.unwrap();
        drop((_response, _send, client));
        until(|| listening.app.gone.load(Ordering::Relaxed) == 2).await;
        until(|| listening.open.count() == 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_holds_up_its_own_response_alone() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let (response, _) = client.send_request(request(Method::GET, "/large"), true).unwrap();
        let (_, mut body) = response.await.unwrap().into_parts();
        // Only the stream's 64 KiB of the connection's window are used up: other streams need room, too.
        let first = body.data().await.unwrap().unwrap();
        body.flow_control().release_capacity(first.len()).unwrap();
        assert!(listening.app.finished.lock().unwrap().is_empty());
        let mut got = first.len();
        while let Some(data) = body.data().await {
            let data = data.unwrap();
            body.flow_control().release_capacity(data.len()).unwrap();
            got += data.len();
        }
        assert_eq!(got, LARGE);
    })
    .await;
}

#[tokio::test]
async fn http_1_is_spoken_on_the_same_listener() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        // Cut where the two versions cannot be told apart.
        for begin in ["G", "P", "PR"] {
            let mut stream = TcpStream::connect(listening.address).await.unwrap();
            stream.write_all(begin.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            let rest = match begin {
                "G" => "ET",
                "P" => "OST",
                _ => "OPFIND",
            };
            let head = format!("{rest} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(text.contains("HTTP/1.1 200 OK") && text.ends_with("hello"), "{text}");
        }
        let mut stream = TcpStream::connect(listening.address).await.unwrap();
        for byte in keepwarm_net::h2::PREFACE {
            stream.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        let mut header = [0; 9];
        stream.read_exact(&mut header).await.unwrap();
        assert_eq!(header[3], 4, "SETTINGS");
    })
    .await;
}

#[tokio::test]
async fn a_drain_says_goodbye_and_finishes_what_is_there() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let (response, mut send) = client.send_request(request(Method::POST, "/echo"), false).unwrap();
        let response = response.await.unwrap();
        listening.draining.store(true, Ordering::Relaxed);
        // The client's own side refuses new requests, once it has seen GOAWAY.
        while poll_fn(|cx| client.poll_ready(cx)).await.is_ok() && get(&mut client, "/").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        send.send_data(Bytes::from_static(b"last"), true).unwrap();
        let mut body = response.into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "last");
        drop((send, body, client));
        until(|| listening.open.count() == 0).await;
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_says_goodbye_to_make_room_for_another() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        listening.open.set_limit(1);
        let mut client = client(listening.address).await;
        assert_eq!(get(&mut client, "/").await.unwrap().status, 200);
        let mut next = TcpStream::connect(listening.address).await.unwrap();
        next.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        next.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("hello"), "{text}");
        // It saw GOAWAY, and has not lost a request.
        assert!(poll_fn(|cx| client.poll_ready(cx)).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_client_that_resets_all_the_time_is_told_to_calm_down() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let stream = TcpStream::connect(listening.address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        let ended = Rc::new(RefCell::new(None));
        let told = Rc::clone(&ended);
        tokio::task::spawn_local(async move { *told.borrow_mut() = Some(connection.await) });
        for _ in 0..1000 {
            let Ok((response, send)) = client.send_request(request(Method::GET, "/hang"), true) else {
                break;
            };
            tokio::task::yield_now().await;
            drop((response, send));
            if ended.borrow().is_some() {
                break;
            }
        }
        until(|| ended.borrow().is_some()).await;
        // It may notice by a write that fails.
        let error = ended.take().unwrap().unwrap_err();
        assert!(error.is_io() || error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM), "{error}");
        until(|| listening.open.count() == 0).await;
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_ends() {
    run(async {
        let limits = ConnectionLimits { idle: Duration::from_millis(50), ..ConnectionLimits::default() };
        let listening = listening(limits);
        let mut client = client(listening.address).await;
        get(&mut client, "/").await.unwrap();
        until(|| listening.open.count() == 0).await;
    })
    .await;
}

#[tokio::test]
async fn nonsense_behind_the_preface_ends_the_connection_and_no_other() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut other = client(listening.address).await;
        let mut seed = 1_u32;
        for _ in 0..50 {
            let mut stream = TcpStream::connect(listening.address).await.unwrap();
            let mut bytes = keepwarm_net::h2::PREFACE.to_vec();
            for _ in 0..2000 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bytes.push((seed >> 24) as u8);
            }
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            // It gets GOAWAY or nothing, and it ends.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            assert_eq!(get(&mut other, "/").await.unwrap().status, 200);
        }
        until(|| listening.open.count() == 1).await;
    })
    .await;
}
