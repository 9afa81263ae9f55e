//! A handler that panics costs its own request, over real sockets and in both versions of HTTP.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Mutex;

use http::Request as Head;
use keepwarm_net::{BindAddress, bind};
use keepwarm_telemetry::counters;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::*;
use crate::{Exchange, Handler, Outcome, Refusal, Request, ResponseOutcome};

/// Panics if the path asks for it.
#[derive(Default)]
struct PanickingApp {
    finished: Mutex<Vec<(u16, ResponseOutcome, Option<&'static str>)>>,
}

impl Handler for PanickingApp {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        // In the call itself, before there is a future.
        assert_ne!(exchange.request().path(), b"/call", "at once");
        Box::pin(async move {
            let path = exchange.request().path().to_vec();
            if path == b"/before-head" {
                tokio::task::yield_now().await;
                panic!("before the head");
            }
            exchange.head(200, Some(10), false, std::iter::empty()).unwrap();
            if path == b"/after-head" {
                panic!("after the head, of which nothing has left");
            }
            exchange.data(b"half.");
            if path == b"/in-body" {
                poll_fn(|cx| exchange.poll_flush(cx)).await.unwrap();
                panic!("in the body");
            }
            exchange.data(b"whole");
            exchange.end();
        })
    }
}

impl Frontend for PanickingApp {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        crate::respond_with_refusal(exchange, refusal);
    }

    fn finished(&self, request: &Request, outcome: &Outcome) {
        self.finished.lock().unwrap().push((outcome.status, outcome.fate, request.notes.reason));
        assert_ne!(request.path(), b"/finished", "when all is over");
    }
}

struct TestListener {
    app: Arc<PanickingApp>,
    address: SocketAddr,
    open: Arc<OpenConnections>,
    _stop: StopListening,
}

fn listening() -> TestListener {
    let app = Arc::new(PanickingApp::default());
    let open = Arc::new(OpenConnections::new(100));
    let context = Arc::new(ListenerContext {
        handler: Arc::clone(&app) as Arc<dyn Frontend>,
        limits: ConnectionLimits { http2: true, ..ConnectionLimits::default() },
        proxy_protocol: None,
        draining: Arc::default(),
        open: Arc::clone(&open),
        meter: keepwarm_telemetry::meters::listener("panics"),
        tls: None,
    });
    let bound = bind(BindAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = bound.address.unwrap();
    let (stop, stopped) = stop_listening();
    tokio::task::spawn_local(keepwarm_net::run_ticker());
    tokio::task::spawn_local(serve(bound, context, stopped));
    TestListener { app, address, open, _stop: stop }
}

async fn run(test: impl Future<Output = ()>) {
    let bound = Duration::from_secs(30);
    tokio::time::timeout(bound, LocalSet::new().run_until(test)).await.expect("in time");
}

/// The whole output for one request on a connection of its own.
async fn ask(address: SocketAddr, path: &str) -> String {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n").as_bytes()).await.unwrap();
    let mut all = Vec::new();
    // A response that is cut ends with a reset.
    while client.read_buf(&mut all).await.is_ok_and(|got| got > 0) {
        if all.ends_with(b"half.whole") {
            break;
        }
    }
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn a_panic_costs_an_http_1_connection_and_no_other() {
    run(async {
        let listening = listening();
        let mut other = TcpStream::connect(listening.address).await.unwrap();
        other.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n").await.unwrap();
        let before = counters::PANICS.value("request");
        for path in ["/call", "/before-head", "/after-head"] {
            let response = ask(listening.address, path).await;
            assert!(response.starts_with("HTTP/1.1 500 "), "{path}: {response}");
            assert!(
                response.contains("Connection: close") && response.contains("Request id: "),
                "{path}: {response}"
            );
        }
        let cut = ask(listening.address, "/in-body").await;
        assert!(cut.starts_with("HTTP/1.1 200 ") && cut.ends_with("half."), "{cut}");
        assert!(ask(listening.address, "/finished").await.ends_with("half.whole"));
        // The other test of this process counts, too.
        assert!(counters::PANICS.value("request") >= before + 4);
        // The existing connection is served, and everything the others held was released.
        other.write_all(b"\r\n").await.unwrap();
        let mut first = [0; 12];
        other.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        listening.open.none_busy(|_| false).await;
        listening.open.until(|| listening.open.count() == 1).await;
        let finished = listening.app.finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let panicked = (500, ResponseOutcome::Complete, Some("panicked"));
        assert_eq!(
            finished[..4],
            [panicked, panicked, panicked, (200, ResponseOutcome::Cut, Some("panicked"))]
        );
    })
    .await;
}

#[tokio::test]
async fn a_panic_costs_an_http_2_stream_and_not_its_connection() {
    run(async {
        let listening = listening();
        let stream = TcpStream::connect(listening.address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::task::spawn_local(async move { drop(connection.await) });
        for path in ["/call", "/before-head", "/after-head", "/in-body", "/", "/finished", "/"] {
            let head = Head::get(format!("http://a.test{path}")).body(()).unwrap();
            let (response, _) = client.send_request(head, true).unwrap();
            let cut = path == "/in-body";
            let (parts, mut body) = match response.await {
                Ok(response) => response.into_parts(),
                // The reset has overtaken the head.
                Err(error) if cut && error.reason() == Some(h2::Reason::INTERNAL_ERROR) => continue,
                Err(error) => panic!("{path}: {error}"),
            };
            let status = if path.ends_with("head") || path == "/call" { 500 } else { 200 };
            assert_eq!(parts.status, status, "{path}");
            let (mut bytes, mut reset) = (Vec::new(), None);
            while let Some(data) = body.data().await {
                match data {
                    Ok(data) => bytes.extend_from_slice(&data),
                    Err(error) => reset = error.reason(),
                }
            }
            assert_eq!(reset, cut.then_some(h2::Reason::INTERNAL_ERROR), "{path}: {}", bytes.escape_ascii());
        }
        assert_eq!(listening.open.count(), 1, "its connection is the same");
        listening.open.none_busy(|_| false).await;
    })
    .await;
}

#[tokio::test]
async fn accepting_goes_on_after_a_panic_in_it() {
    run(async {
        let listening = listening();
        PANIC_ON_ACCEPT.set(true);
        let mut first = TcpStream::connect(listening.address).await.unwrap();
        assert!(!matches!(first.read(&mut [0; 1]).await, Ok(1..)), "its connection is lost");
        assert!(ask(listening.address, "/").await.ends_with("half.whole"));
        assert_eq!(counters::PANICS.value("accept"), 1);
    })
    .await;
}
