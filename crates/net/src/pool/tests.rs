//! The pool and the client against the tests' own servers, over real sockets.

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use keepwarm_http1::{Fields, RequestBody, RequestOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::*;
use crate::connect::DialTimes;
use crate::{ClientError, Http1, RequestLine, ResponsePart};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

const BOUND: Duration = Duration::from_secs(20);

pub(crate) async fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, LocalSet::new().run_until(test)).await.expect("in time")
}

pub(crate) async fn listen() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    (listener, Endpoint::Tcp(address))
}

fn pool(settings: PoolSettings) -> Arc<Pool<Http1>> {
    Pool::new(settings)
}

pub(crate) fn begin(client: &mut Client<Http1>, method: &Method, framing: RequestBody) {
    let line = RequestLine { method, target: b"/x?y", authority: b"app" };
    let options = RequestOptions { keep_alive: true, ..RequestOptions::default() };
    client.begin(|codec, out| codec.encode_head(out, line, std::iter::empty(), framing, options));
}

/// Sends a request and reads the response to its end: status and body.
pub(crate) async fn ask(client: &mut Client<Http1>) -> Result<(u16, Vec<u8>), ClientError> {
    begin(client, &Method::GET, RequestBody::None);
    client.end(&Fields::new());
    poll_fn(|cx| client.poll_flush(cx)).await;
    let (mut status, mut body) = (0, Vec::new());
    poll_fn(|cx| {
        loop {
            match std::task::ready!(client.poll_response(cx)) {
                Ok(ResponsePart::Head(head)) => status = head.status.as_u16(),
                Ok(ResponsePart::Data(bytes)) => body.extend_from_slice(bytes),
                Ok(ResponsePart::Informational(_) | ResponsePart::Trailers(_)) => {}
                Ok(ResponsePart::End) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    })
    .await?;
    Ok((status, body))
}

/// Reads up to the empty line.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(text).unwrap()
}

/// Responds to every request on every connection, and counts the connections.
fn serve(listener: TcpListener, response: &'static str) -> Rc<std::cell::Cell<usize>> {
    let connections = Rc::new(std::cell::Cell::new(0));
    let count = Rc::clone(&connections);
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.set(count.get() + 1);
            tokio::task::spawn_local(async move {
                let mut bytes = [0; 1024];
                while stream.read(&mut bytes).await.is_ok_and(|got| got > 0) {
                    stream.write_all(response.as_bytes()).await.unwrap();
                }
            });
        }
    });
    connections
}

pub(crate) const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Waits for a condition that depends on the pool's watchers.
pub(crate) async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_connection_is_used_again_and_the_newest_first() {
    run(async {
        let (listener, endpoint) = listen().await;
        let connections = serve(listener, HELLO);
        let pool = pool(PoolSettings::default());
        let mut first = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        let mut second = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        assert_eq!(ask(&mut first).await.unwrap(), (200, b"hello".to_vec()));
        assert_eq!(ask(&mut second).await.unwrap(), (200, b"hello".to_vec()));
        let opened = first.opened();
        second.finish();
        first.finish();
        assert_eq!(pool.count(&endpoint), (2, 2));
        let mut again = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        assert_eq!((again.opened(), again.requests()), (opened, 1));
        assert!(again.idle().is_some());
        ask(&mut again).await.unwrap();
        assert_eq!(connections.get(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_close_of_an_idle_connection_is_learnt_at_once() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool(PoolSettings::default());
        let server = tokio::task::spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(HELLO.as_bytes()).await.unwrap();
            (stream, listener)
        });
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut lease).await.unwrap();
        lease.finish();
        assert_eq!(pool.count(&endpoint), (1, 1));
        let (stream, _listener) = server.await.unwrap();
        drop(stream);
        until(|| pool.count(&endpoint) == (0, 0)).await;
    })
    .await;
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_end_a_connection() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool(PoolSettings::default());
        let _count = serve(listener, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        assert_eq!(ask(&mut lease).await.unwrap_err().name(), "unsolicited");
        assert!(!lease.is_reusable());
        lease.finish();
        assert_eq!(pool.count(&endpoint), (0, 0));
    })
    .await;
}

/// A server may announce that it times out an idle connection (RFC 9110 §15.5.9): that is not the response to the next request.
#[tokio::test]
async fn bytes_that_come_while_it_is_idle_end_a_connection() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool(PoolSettings::default());
        let server = tokio::task::spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(HELLO.as_bytes()).await.unwrap();
            stream
        });
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut lease).await.unwrap();
        lease.finish();
        let mut stream = server.await.unwrap();
        stream.write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        until(|| pool.count(&endpoint) == (0, 0)).await;
    })
    .await;
}

#[tokio::test]
async fn at_the_limit_a_request_waits_for_a_connection_to_come_back() {
    run(async {
        let (listener, endpoint) = listen().await;
        let connections = serve(listener, HELLO);
        let pool = pool(PoolSettings { max: 1, ..PoolSettings::default() });
        let mut first = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut first).await.unwrap();
        let (waiting, slot) = (Arc::clone(&pool), endpoint.clone());
        let second =
            tokio::task::spawn_local(
                async move { waiting.acquire(&slot, ConnectionNeed::Any).await.unwrap() },
            );
        tokio::task::yield_now().await;
        first.finish();
        let mut second = second.await.unwrap();
        ask(&mut second).await.unwrap();
        assert_eq!(connections.get(), 1);
        drop(second);
        // One that was dropped makes room as well.
        pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
    })
    .await;
}

/// With slots for two: the waiter takes one of the returned ones, and the other is kept.
#[tokio::test]
async fn a_connection_is_not_closed_for_who_has_been_given_another() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool(PoolSettings { max_in_all: 2, ..PoolSettings::default() });
        let connections = serve(listener, HELLO);
        let mut leases = Vec::new();
        for _ in 0..2 {
            leases.push(pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap());
        }
        for lease in &mut leases {
            ask(lease).await.unwrap();
        }
        let third = tokio::task::spawn_local({
            let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
            async move { pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap() }
        });
        until(|| pool.slots.waiting(&SlotPurpose::anywhere(&endpoint)) == 1).await;
        leases.into_iter().for_each(Lease::finish);
        let third = third.await.unwrap();
        assert_eq!((pool.state(None).idle, connections.get()), (1, 2));
        drop(third);
        // A caller that wants a new one has the idle one closed, even if that was returned first.
        let kept = pool.take(&endpoint, ConnectionNeed::Any).unwrap();
        let other = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        let anew = tokio::task::spawn_local({
            let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
            async move { pool.acquire(&endpoint, ConnectionNeed::New).await.unwrap() }
        });
        until(|| pool.slots.waiting(&SlotPurpose::anywhere(&endpoint)) == 1).await;
        let mut kept = kept;
        ask(&mut kept).await.unwrap();
        kept.finish();
        assert_eq!(pool.state(None).idle, 0, "it is closed for it");
        assert!(anew.await.unwrap().idle().is_none());
        drop(other);
    })
    .await;
}

#[tokio::test]
async fn more_idle_ones_than_are_kept_are_closed_the_oldest_first() {
    run(async {
        let (listener, endpoint) = listen().await;
        let _count = serve(listener, HELLO);
        let pool = pool(PoolSettings { idle: 1, ..PoolSettings::default() });
        let mut first = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        let mut second = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut first).await.unwrap();
        ask(&mut second).await.unwrap();
        let newest = second.opened();
        first.finish();
        second.finish();
        assert_eq!(pool.count(&endpoint), (1, 1));
        assert_eq!(pool.take(&endpoint, ConnectionNeed::Any).unwrap().opened(), newest);
    })
    .await;
}

#[tokio::test]
async fn age_and_number_of_requests_end_a_connection() {
    run(async {
        let (listener, endpoint) = listen().await;
        let connections = serve(listener, HELLO);
        let pool = pool(PoolSettings { max_requests: 2, ..PoolSettings::default() });
        for _ in 0..4 {
            let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            ask(&mut lease).await.unwrap();
            lease.finish();
        }
        assert_eq!(connections.get(), 2);
        pool.set_settings(PoolSettings { max_age: Duration::ZERO, ..PoolSettings::default() });
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut lease).await.unwrap();
        lease.finish();
        assert_eq!(pool.count(&endpoint), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_ends_after_its_time() {
    run(async {
        let (listener, endpoint) = listen().await;
        let _count = serve(listener, HELLO);
        let pool = pool(PoolSettings { idle_timeout: Duration::from_millis(30), ..PoolSettings::default() });
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut lease).await.unwrap();
        lease.finish();
        until(|| pool.count(&endpoint) == (0, 0)).await;
    })
    .await;
}

#[tokio::test]
async fn what_the_server_states_bounds_the_idle_time() {
    run(async {
        let (listener, endpoint) = listen().await;
        let _count = serve(listener, "HTTP/1.1 204 No Content\r\nKeep-Alive: max=9, timeout=5\r\n\r\n");
        let pool = pool(PoolSettings::default());
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut lease).await.unwrap();
        lease.finish();
        assert_eq!(pool.idle_limit(&endpoint), Some(Duration::from_secs(4)));
    })
    .await;
}

/// A server that closes silently: the first lost request teaches its idle timeout.
#[tokio::test]
async fn a_request_that_is_lost_bounds_the_idle_time() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool(PoolSettings::default());
        let server = tokio::task::spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(HELLO.as_bytes()).await.unwrap();
            // The second causes a reset, because its bytes are not read.
            stream.peek(&mut [0]).await.unwrap();
        });
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut lease).await.unwrap();
        lease.finish();
        // Shorter ones are never an idle timeout.
        tokio::time::sleep(Duration::from_millis(150)).await;
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        let idle = lease.idle().unwrap();
        assert!(matches!(ask(&mut lease).await, Err(ClientError::NoResponse(_))));
        assert_eq!(pool.idle_limit(&endpoint), None);
        drop(lease);
        assert_eq!(pool.idle_limit(&endpoint), Some(idle * 4 / 5));
        pool.count_lost(&endpoint, true);
        let totals = pool.totals();
        assert_eq!((totals.lost_retried, totals.lost_failed, totals.reused), (1, 0, 1));
        server.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_forgotten_endpoint_keeps_nothing() {
    run(async {
        let (listener, endpoint) = listen().await;
        let _count = serve(listener, HELLO);
        let pool = pool(PoolSettings::default());
        let mut kept = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        let mut used = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut kept).await.unwrap();
        ask(&mut used).await.unwrap();
        kept.finish();
        pool.forget(&endpoint);
        assert_eq!(pool.count(&endpoint), (0, 1));
        used.finish();
        assert_eq!(pool.count(&endpoint), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn nobody_listening_is_told_from_other_failures() {
    run(async {
        let (listener, endpoint) = listen().await;
        drop(listener);
        let pool = pool(PoolSettings::default());
        assert!(pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap_err().is_refused());
        let nowhere = Endpoint::Unix("/nonexistent/app.sock".into());
        assert!(pool.acquire(&nowhere, ConnectionNeed::Any).await.unwrap_err().is_refused());
        assert_eq!(pool.count(&endpoint), (0, 0));
    })
    .await;
}

/// A connection returned by another thread is used, on the reactor of the thread that takes it.
#[test]
fn a_connection_moves_to_the_thread_that_takes_it() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(server.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = server.accept().unwrap();
        let mut bytes = [0; 1024];
        while stream.read(&mut bytes).is_ok_and(|got| got > 0) {
            stream.write_all(HELLO.as_bytes()).unwrap();
        }
    });
    let plane = crate::DataPlane::start(2).unwrap();
    let pool = pool(PoolSettings::default());
    let (done, results) = std::sync::mpsc::channel();
    for remote in [&plane.remotes()[0], &plane.remotes()[1], &plane.remotes()[0]] {
        let (pool, endpoint, done) = (Arc::clone(&pool), endpoint.clone(), done.clone());
        remote.spawn(move || async move {
            let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            let response = ask(&mut lease).await.unwrap();
            let reused = lease.idle().is_some();
            lease.finish();
            done.send((response.0, reused)).unwrap();
        });
        let (status, _) = results.recv_timeout(BOUND).unwrap();
        assert_eq!(status, 200);
    }
    // The server takes one connection only: it was used three times.
    assert_eq!(pool.count(&endpoint), (1, 1));
    pool.forget(&endpoint);
    plane.stop();
    serving.join().unwrap();
}

mod client {
    use super::*;

    async fn pair() -> (Client<Http1>, TcpStream) {
        let (listener, endpoint) = listen().await;
        let io = endpoint.connect().await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (Client::new(io), stream)
    }

    #[tokio::test]
    async fn head_and_small_body_leave_in_one_segment() {
        run(async {
            let (mut client, mut server) = pair().await;
            begin(&mut client, &Method::POST, RequestBody::Length(4));
            client.send(b"body");
            client.end(&Fields::new());
            assert!(!client.has_sent());
            poll_fn(|cx| client.poll_flush(cx)).await;
            assert!(client.has_sent());
            let mut bytes = [0; 1024];
            let got = server.read(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..got]).into_owned();
            assert_eq!(text, "POST /x?y HTTP/1.1\r\nHost: app\r\nContent-Length: 4\r\n\r\nbody");
        })
        .await;
    }

    /// After a write meets a reset, the read sees only the end of the stream.
    #[tokio::test]
    async fn a_response_that_a_close_would_end_is_cut_by_a_reset_that_a_write_has_heard_of() {
        run(async {
            let (mut client, mut server) = pair().await;
            begin(&mut client, &Method::POST, RequestBody::Length(100));
            poll_fn(|cx| client.poll_flush(cx)).await;
            read_head(&mut server).await;
            server.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf").await.unwrap();
            server.set_zero_linger().unwrap();
            drop(server);
            client.send(b"body");
            poll_fn(|cx| client.poll_flush(cx)).await;
            assert!(matches!(poll_fn(|cx| client.poll_response(cx).map_ok(drop)).await, Ok(())));
            let mut body = Vec::new();
            let end = poll_fn(|cx| {
                loop {
                    match ready!(client.poll_response(cx)) {
                        Ok(ResponsePart::Data(bytes)) => body.extend_from_slice(bytes),
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => return Poll::Ready(error),
                    }
                }
            });
            assert!(matches!(end.await, ClientError::Fault(fault) if fault.name == "truncated"));
            assert_eq!(body, b"half");
        })
        .await;
    }

    #[tokio::test]
    async fn a_chunked_body_ends_with_its_trailers() {
        run(async {
            let (mut client, mut server) = pair().await;
            begin(&mut client, &Method::POST, RequestBody::Chunked);
            client.send(b"one");
            client.send(b"");
            let mut trailers = Fields::new();
            trailers.push(b"checksum", b"1");
            client.end(&trailers);
            poll_fn(|cx| client.poll_flush(cx)).await;
            read_head(&mut server).await;
            let mut rest = vec![0; "3\r\none\r\n0\r\nchecksum: 1\r\n\r\n".len()];
            server.read_exact(&mut rest).await.unwrap();
            assert_eq!(rest, b"3\r\none\r\n0\r\nchecksum: 1\r\n\r\n");
        })
        .await;
    }

    /// A response in single bytes is the same response.
    #[tokio::test]
    async fn informational_responses_body_and_trailers_come_in_order_whatever_the_pieces() {
        const RESPONSE: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: t\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nt: 1\r\n\r\n";
        for piece in [1, 7, RESPONSE.len()] {
            run(async {
                let (mut client, mut server) = pair().await;
                begin(&mut client, &Method::GET, RequestBody::None);
                client.end(&Fields::new());
                poll_fn(|cx| client.poll_flush(cx)).await;
                let writing = tokio::task::spawn_local(async move {
                    for part in RESPONSE.chunks(piece) {
                        server.write_all(part).await.unwrap();
                        tokio::task::yield_now().await;
                    }
                    server
                });
                let mut told = Vec::new();
                poll_fn(|cx| {
                    loop {
                        match std::task::ready!(client.poll_response(cx)).unwrap() {
                            ResponsePart::Informational(head) => {
                                told.push(format!("1xx {}", head.status.as_u16()))
                            }
                            ResponsePart::Head(head) => told.push(format!("head {}", head.status.as_u16())),
                            ResponsePart::Data(bytes) => {
                                told.extend(bytes.iter().map(|b| (*b as char).to_string()))
                            }
                            ResponsePart::Trailers(fields) => told.push(format!("trailers {}", fields.len())),
                            ResponsePart::End => return Poll::Ready(()),
                        }
                    }
                })
                .await;
                assert_eq!(
                    told.join(" "),
                    "1xx 103 1xx 100 head 200 a b c d e trailers 1",
                    "in pieces of {piece}"
                );
                assert!(client.is_reusable());
                // Pieces may come together; what was written as one comes as one.
                assert!(piece < RESPONSE.len() || !client.head_came_in_pieces());
                drop(writing.await.unwrap());
            })
            .await;
        }
    }

    #[tokio::test]
    async fn a_close_before_the_response_is_told_from_one_in_its_middle() {
        run(async {
            for (response, name, heard) in
                [("", "closed_without_response", false), ("HTTP/1.1 2", "truncated", true), (HELLO, "", true)]
            {
                let (mut client, mut server) = pair().await;
                let asked = async { ask(&mut client).await };
                let served = async {
                    read_head(&mut server).await;
                    server.write_all(response.as_bytes()).await.unwrap();
                    drop(server);
                };
                let (asked, ()) = tokio::join!(asked, served);
                assert_eq!(asked.map_or_else(|error| error.name(), |_| ""), name);
                assert_eq!(client.has_heard(), heard);
            }
        })
        .await;
    }

    /// Bytes after a response put it in doubt, except for the body of a response without one, and an empty line after the last chunk.
    #[tokio::test]
    async fn bytes_after_a_response_are_a_fault_of_it() {
        const CASES: [(Method, &str, &str); 11] = [
            (Method::GET, "200 OK\r\nContent-Length: 2\r\n\r\nok!", "unsolicited"),
            (Method::GET, "200 OK\r\nContent-Length: 0\r\n\r\n\r\n", "unsolicited"),
            (Method::GET, "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n!", "unsolicited"),
            (Method::GET, "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r\n\r\n", "unsolicited"),
            (Method::GET, "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\n", ""),
            (Method::GET, "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r", ""),
            (Method::GET, "204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n", "unsolicited"),
            (Method::HEAD, "200 OK\r\nContent-Length: 2\r\n\r\nHTTP/1.1 200 OK\r\n", "unsolicited"),
            (Method::HEAD, "200 OK\r\nContent-Length: 2\r\n\r\nok", ""),
            (Method::GET, "204 No Content\r\n\r\nok", ""),
            (Method::GET, "304 Not Modified\r\nContent-Length: 2\r\n\r\nok", ""),
        ];
        run(async {
            for (method, response, name) in CASES {
                let (mut client, mut server) = pair().await;
                begin(&mut client, &method, RequestBody::None);
                client.end(&Fields::new());
                poll_fn(|cx| client.poll_flush(cx)).await;
                server.write_all(format!("HTTP/1.1 {response}").as_bytes()).await.unwrap();
                let told = poll_fn(|cx| {
                    loop {
                        match std::task::ready!(client.poll_response(cx)) {
                            Ok(ResponsePart::End) => return Poll::Ready(""),
                            Ok(_) => {}
                            Err(error) => return Poll::Ready(error.name()),
                        }
                    }
                })
                .await;
                assert_eq!(told, name, "{method} {response}");
                assert!(!client.is_reusable(), "{method} {response}");
            }
        })
        .await;
    }

    /// A server that rejects a body without reading it, and closes, has responded.
    #[tokio::test]
    async fn a_response_that_came_before_the_request_was_written_is_read() {
        run(async {
            let (mut client, mut server) = pair().await;
            begin(&mut client, &Method::POST, RequestBody::Length(64 << 20));
            poll_fn(|cx| client.poll_flush(cx)).await;
            read_head(&mut server).await;
            server.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            server.shutdown().await.unwrap();
            let status = poll_fn(|cx| match std::task::ready!(client.poll_response(cx)).unwrap() {
                ResponsePart::Head(head) => Poll::Ready(head.status.as_u16()),
                other => panic!("{other:?}"),
            })
            .await;
            assert_eq!(status, 413);
            drop(server);
            // Nobody reads: in the end the socket takes no more, which is not an error of the response.
            let block = vec![0; 1 << 20];
            for _ in 0..64 {
                client.send(&block);
                poll_fn(|cx| client.poll_flush(cx)).await;
            }
            assert!(poll_fn(|cx| client.poll_response(cx).map(|a| matches!(a, Ok(ResponsePart::End)))).await);
            assert!(!client.is_reusable(), "half of a request is on it");
        })
        .await;
    }

    #[tokio::test]
    async fn a_tunnel_passes_bytes_from_the_first() {
        run(async {
            let (mut client, mut server) = pair().await;
            let line = RequestLine { method: &Method::GET, target: b"/", authority: b"app" };
            let options =
                RequestOptions { keep_alive: true, upgrade: Some(b"websocket"), ..RequestOptions::default() };
            client.begin(|codec, out| {
                codec.encode_head(out, line, std::iter::empty(), RequestBody::None, options)
            });
            client.end(&Fields::new());
            poll_fn(|cx| client.poll_flush(cx)).await;
            let head = read_head(&mut server).await;
            assert!(head.contains("Upgrade: websocket\r\nConnection: upgrade\r\n"), "{head}");
            let switch =
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nfirst";
            server.write_all(switch).await.unwrap();
            poll_fn(|cx| {
                client
                    .poll_response(cx)
                    .map(|response| assert!(matches!(response, Ok(ResponsePart::Head(_)))))
            })
            .await;
            assert!(client.codec().is_tunnel());
            let first = poll_fn(|cx| client.poll_tunnel(cx).map(|bytes| bytes.unwrap().to_vec())).await;
            assert_eq!(first, b"first");
            client.send_tunnel(b"back");
            poll_fn(|cx| client.poll_flush(cx)).await;
            let mut back = [0; 4];
            server.read_exact(&mut back).await.unwrap();
            assert_eq!(&back, b"back");
            drop(server);
            let end = poll_fn(|cx| client.poll_tunnel(cx).map(|bytes| bytes.unwrap().len())).await;
            assert_eq!(end, 0);
            assert!(!client.is_reusable());
        })
        .await;
    }
}

/// A connection for the idle list that is closed at once is not redialled at once.
#[tokio::test]
async fn a_server_that_closes_at_once_is_not_dialled_in_a_loop() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool(PoolSettings { min_idle: 1, ..PoolSettings::default() });
        let accepted = Rc::new(std::cell::Cell::new(0));
        let count = Rc::clone(&accepted);
        tokio::task::spawn_local(async move {
            while listener.accept().await.is_ok() {
                count.set(count.get() + 1);
            }
        });
        pool.warm(&endpoint);
        let waits = |entry: &EndpointPool<Http1>| {
            let (lacks, later) = entry.lacks(1, usize::MAX, Instant::now());
            lacks == 0 && later.is_some() && entry.idle.is_empty()
        };
        until(|| accepted.get() >= 2 && pool.lock().entries.get(&endpoint).is_some_and(waits)).await;
    })
    .await;
}

/// Dials for the idle list begin together, and fail together: that counts as one failure.
#[test]
fn connections_that_fail_together_put_off_the_next_no_longer_than_one() {
    let mut entry: EndpointPool<Http1> = EndpointPool::default();
    entry.warm = true;
    let now = Instant::now();
    let next = |entry: &EndpointPool<Http1>, now| entry.lacks(32, usize::MAX, now);
    (0..32).for_each(|_| entry.prewarm.handle_failure(now));
    let first = now + Duration::from_millis(250);
    assert_eq!(next(&entry, now), (0, Some(first)));
    assert_eq!(next(&entry, first), (32, None));
    (0..32).for_each(|_| entry.prewarm.handle_failure(first));
    assert_eq!(next(&entry, first), (0, Some(first + Duration::from_millis(500))));
}

/// The data of an unused endpoint is dropped in time; that of a prewarmed one is kept.
#[test]
fn an_endpoint_that_nobody_calls_is_forgotten_in_time() {
    let mut entry: EndpointPool<Http1> = EndpointPool::default();
    let now = Instant::now();
    let later = now + Duration::from_secs(3600);
    assert!(!entry.is_stale(now) && entry.is_stale(later));
    entry.warm = true;
    assert!(!entry.is_stale(later));
    entry.warm = false;
    assert!(!entry.is_stale(later), "it counts anew");
    drop(entry.forget(1));
    assert!(entry.is_stale(later) && entry.is_over());
}

/// Uses up the budget of the task: from now on nothing seems ready to it.
fn use_up_the_budget(cx: &mut Context<'_>) {
    while std::pin::pin!(tokio::task::coop::consume_budget()).poll(cx).is_ready() {}
}

#[tokio::test]
async fn a_close_is_heard_of_by_a_task_without_budget_too() {
    run(async {
        let (listener, endpoint) = listen().await;
        let mut client = Client::<Http1>::new(endpoint.connect().await.unwrap());
        drop(listener.accept().await.unwrap());
        assert_eq!(poll_fn(|cx| client.poll_noise(cx)).await, IdleState::Closed);
        poll_fn(|cx| {
            use_up_the_budget(cx);
            assert_eq!(client.heard_of(Waker::noop()), IdleState::Closed);
            Poll::Ready(())
        })
        .await;
    })
    .await;
}

/// It would count as closed while idle, and teach a short idle timeout.
#[tokio::test]
async fn a_connection_that_was_closed_with_its_response_is_not_kept_by_a_task_without_budget() {
    run(async {
        let (listener, endpoint) = listen().await;
        tokio::task::spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(HELLO.as_bytes()).await.unwrap();
        });
        let pool = pool(PoolSettings::default());
        let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut lease).await.unwrap();
        assert_eq!(poll_fn(|cx| lease.poll_noise(cx)).await, IdleState::Closed);
        let mut lease = Some(lease);
        poll_fn(|cx| {
            use_up_the_budget(cx);
            lease.take().unwrap().finish();
            assert_eq!(pool.count(&endpoint), (0, 0));
            Poll::Ready(())
        })
        .await;
    })
    .await;
}

/// A caller that looked between "being dialled" and "idle" made one too many.
#[tokio::test]
async fn a_connection_made_for_nobody_is_never_counted_as_in_use() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool(PoolSettings::default());
        let (looking, looks_at) = (Arc::new(AtomicBool::new(true)), endpoint.clone());
        let (watched, until) = (Arc::clone(&pool), Arc::clone(&looking));
        let watcher = std::thread::spawn(move || {
            while until.load(Ordering::SeqCst) {
                assert_eq!(watched.state(Some(&looks_at)).in_use, 0);
            }
        });
        for _ in 0..300 {
            let transport = endpoint.connect().await.unwrap();
            let peer = listener.accept().await.unwrap();
            pool.keep(&endpoint, transport.into(), &DialTimes { connect: Duration::ZERO, handshake: None });
            pool.forget(&endpoint);
            drop(peer);
        }
        looking.store(false, Ordering::SeqCst);
        watcher.join().unwrap();
    })
    .await;
}

/// A panic in the middle of a change.
pub(crate) fn break_lock<T>(lock: &std::sync::Mutex<T>) {
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _held = lock.lock().unwrap();
        panic!("as the test wants it");
    }));
    assert!(broken.is_err() && lock.is_poisoned());
}

/// At its limit, with one connection in use and a waiter.
#[tokio::test]
async fn a_pool_that_a_panic_has_broken_begins_anew() {
    run(async {
        let (listener, endpoint) = listen().await;
        let connections = serve(listener, HELLO);
        let pool = pool(PoolSettings { max: 1, ..PoolSettings::default() });
        let mut held = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut held).await.unwrap();
        let waiting = tokio::task::spawn_local({
            let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
            async move { pool.acquire(&endpoint, ConnectionNeed::Any).await }
        });
        until(|| pool.state(Some(&endpoint)).waiting == 1).await;
        break_lock(&pool.inner);
        assert_eq!(pool.count(&endpoint), (0, 0), "what was counted is not known any more");
        let mut lease = waiting.await.unwrap().unwrap();
        assert_eq!(ask(&mut lease).await.unwrap(), (200, b"hello".to_vec()));
        assert_eq!(connections.get(), 2);
        held.finish();
        lease.finish();
        for _ in 0..3 {
            let mut again = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            ask(&mut again).await.unwrap();
            again.finish();
        }
        assert_eq!(connections.get(), 2, "it pools as before");
        let (idle, open) = pool.count(&endpoint);
        assert!((1..=2).contains(&idle) && open <= 2, "{idle} {open}");
        break_lock(&pool.inner);
        assert_eq!(pool.count(&endpoint), (0, 0), "what lay idle is closed");
        let mut last = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        ask(&mut last).await.unwrap();
        assert_eq!(connections.get(), 3);
    })
    .await;
}

/// It belongs to its caller, and leaves nothing that others would wait for.
#[tokio::test]
async fn a_dial_that_panics_gives_its_place_to_the_next() {
    run(async {
        let (listener, endpoint) = listen().await;
        let _connections = serve(listener, HELLO);
        for limits in [
            PoolSettings { max: 1, ..PoolSettings::default() },
            PoolSettings { max_in_all: 1, ..PoolSettings::default() },
        ] {
            let pool = pool(limits);
            crate::connect::PANIC_ON_DIAL.set(true);
            let acquire = || {
                let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
                tokio::task::spawn_local(async move {
                    pool.acquire(&endpoint, ConnectionNeed::Any).await.map(|_| ())
                })
            };
            let (first, second) = (acquire(), acquire());
            assert!(first.await.unwrap_err().is_panic());
            second.await.unwrap().unwrap();
            assert_eq!(pool.state(Some(&endpoint)).dialling, 0);
        }
    })
    .await;
}

/// To a pool, one server is several: each header's connections are its own client's.
#[tokio::test]
async fn a_connection_that_names_a_client_is_for_that_client_only() {
    run(async {
        let (listener, server) = listen().await;
        let count = serve_behind_headers(listener);
        let pool = pool(PoolSettings { idle: 2, max: 3, ..PoolSettings::default() });
        let [one, two, three] = ["one", "two", "three"].map(|name| server.proxied(named(name)));
        for (endpoint, name, connections) in
            [(&one, "one", 1), (&two, "two", 2), (&one, "one", 2), (&two, "two", 2), (&three, "three", 3)]
        {
            let mut lease = pool.acquire(endpoint, ConnectionNeed::Any).await.unwrap();
            assert_eq!(ask(&mut lease).await.unwrap(), (200, named(name)));
            lease.finish();
            assert_eq!(count.get(), connections, "{name}");
            assert_eq!(endpoint.to_string(), server.to_string());
        }
        // Of three idle ones, the oldest was closed, and its client's data with it.
        assert_eq!(pool.count(&server), (2, 2));
        assert!(pool.take(&one, ConnectionNeed::Any).is_none());
        assert_eq!(pool.state(Some(&server)).idle, 2);
        // The limit is the server's: an idle connection makes room.
        let first = pool.acquire(&one, ConnectionNeed::Any).await.unwrap();
        let second = pool.acquire(&one, ConnectionNeed::Any).await.unwrap();
        assert_eq!(pool.count(&server), (1, 3));
        drop((first, second));
        pool.forget(&server);
        assert_eq!((pool.count(&server), pool.lock().entries.len()), ((0, 0), 0));
    })
    .await;
}

/// A header of the tests: eight bytes.
fn named(name: &str) -> Vec<u8> {
    format!("{name:<8}").into_bytes()
}

/// Responds to every request with the header of its connection, and counts connections.
fn serve_behind_headers(listener: TcpListener) -> Rc<std::cell::Cell<usize>> {
    let connections = Rc::new(std::cell::Cell::new(0));
    let count = Rc::clone(&connections);
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.set(count.get() + 1);
            tokio::task::spawn_local(async move {
                let mut header = [0; 8];
                let mut read = stream.read_exact(&mut header).await.map(drop);
                while read.is_ok() {
                    let mut text = Vec::new();
                    while !text.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => text.push(byte),
                            Err(_) => return,
                        }
                    }
                    let response =
                        [b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n".as_slice(), &header].concat();
                    read = stream.write_all(&response).await;
                }
            });
        }
    });
    connections
}
