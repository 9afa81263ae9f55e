//! TLS against the tests' own servers.

mod accept;
mod ends;
mod errors;
mod idle;
pub(crate) mod kit;
mod on_demand;
mod peers;
pub(crate) mod programs;

use std::future::poll_fn;
use std::io::{Read, Write};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Method;
use keepwarm_http1::{Fields, RequestBody, RequestOptions};

use crate::client::Client;
use crate::pool::tests::{HELLO, ask, begin, run, until};
use crate::{ConnectionNeed, Dial, Endpoint, Http1, Pool, PoolSettings, RequestLine, ResponsePart};
use kit::{Authority, V12, V13, close_notify, read_head, responding, server, start};

pub(crate) async fn dial(
    endpoint: &Endpoint,
    tls: &crate::ClientTls,
) -> Result<Client<Http1>, crate::AcquireError> {
    let limit = Duration::from_secs(10);
    let dial = Dial { endpoint, tls: Some(tls), connect_timeout: limit, handshake_timeout: limit };
    let (transport, times) = dial.run().await?;
    assert!(times.handshake.is_some());
    Ok(Client::new(transport))
}

#[tokio::test]
async fn a_request_is_encrypted_and_its_response_decrypted_with_either_version() {
    run(async {
        let authority = Authority::new();
        for version in [V12, V13] {
            let server = start(server(&authority.identity("a.test"), version), responding(HELLO));
            let mut client = dial(&server.endpoint, &authority.client("a.test")).await.unwrap();
            for _ in 0..3 {
                assert!(!client.has_sent() || client.requests() > 0, "a handshake is no request");
                assert_eq!(ask(&mut client).await.unwrap(), (200, b"hello".to_vec()));
                assert!(client.has_sent() && client.is_reusable());
            }
            assert_eq!(server.connections(), 1);
        }
    })
    .await;
}

/// One upstream has one store of sessions: a second connection costs no certificate.
#[tokio::test]
async fn the_second_handshake_resumes_the_first_with_either_version() {
    run(async {
        let authority = Authority::new();
        for version in [V12, V13] {
            let server = start(server(&authority.identity("a.test"), version), responding(HELLO));
            let tls = authority.client("a.test");
            for expected in [false, true, true] {
                let mut client = dial(&server.endpoint, &tls).await.unwrap();
                let facts = client.transport().handshake().unwrap();
                assert_eq!(facts.resumed, expected);
                assert!(facts.certificate_bytes > 200, "{facts:?}");
                // With 1.3 the ticket comes after the handshake.
                ask(&mut client).await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn head_and_small_body_leave_in_one_record_and_what_is_large_arrives_whole() {
    run(async {
        let authority = Authority::new();
        const LARGE: usize = 8 << 20;
        let server = start(server(&authority.identity("a.test"), V13), |mut stream| {
            let mut bytes = [0; 16 * 1024];
            let got = stream.read(&mut bytes).unwrap();
            assert!(bytes[..got].ends_with(b"\r\n\r\nbody"), "in one record");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let block: Vec<u8> = (0..LARGE).map(|at| (at / 7) as u8).collect();
            stream.write_all(&block).unwrap();
            // And back.
            let head = read_head(&mut stream).unwrap();
            assert!(head.contains(&format!("Content-Length: {LARGE}")));
            let mut all = vec![0; LARGE];
            stream.read_exact(&mut all).unwrap();
            assert!(all == block);
            stream.write_all(HELLO.as_bytes()).unwrap();
            let _ = stream.read(&mut bytes);
        });
        let mut client = dial(&server.endpoint, &authority.client("a.test")).await.unwrap();
        begin(&mut client, &Method::POST, RequestBody::Length(4));
        client.send(b"body");
        client.end(&Fields::new());
        poll_fn(|cx| client.poll_flush(cx)).await;
        let body = read_body(&mut client).await.unwrap();
        assert_eq!(body.len(), LARGE);
        assert!(body.iter().enumerate().all(|(at, byte)| *byte == (at / 7) as u8));
        begin(&mut client, &Method::POST, RequestBody::Length(LARGE as u64));
        client.send(&body);
        client.end(&Fields::new());
        poll_fn(|cx| client.poll_flush(cx)).await;
        assert_eq!(client.unsent(), 0);
        assert_eq!(read_body(&mut client).await.unwrap(), b"hello");
    })
    .await;
}

async fn read_body(client: &mut Client<Http1>) -> Result<Vec<u8>, crate::ClientError> {
    let mut body = Vec::new();
    poll_fn(|cx| {
        loop {
            match std::task::ready!(client.poll_response(cx)) {
                Ok(ResponsePart::Data(bytes)) => body.extend_from_slice(bytes),
                Ok(ResponsePart::End) => return Poll::Ready(Ok(())),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    })
    .await?;
    Ok(body)
}

/// A response that comes before the request has left: half of it is still to be sent, in part encrypted already.
#[tokio::test]
async fn a_request_that_has_not_left_keeps_a_connection_from_being_used_again() {
    run(async {
        let authority = Authority::new();
        const LARGE: usize = 16 << 20;
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let server = start(server(&authority.identity("a.test"), V13), move |mut stream| {
            read_head(&mut stream);
            stream.write_all(HELLO.as_bytes()).unwrap();
            let _ = wait.lock().unwrap().recv();
        });
        let mut client = dial(&server.endpoint, &authority.client("a.test")).await.unwrap();
        begin(&mut client, &Method::POST, RequestBody::Length(LARGE as u64));
        client.send(&vec![0; LARGE]);
        client.end(&Fields::new());
        let body = {
            let flushed = poll_fn(|cx| Poll::Ready(client.poll_flush(cx).is_ready())).await;
            assert!(!flushed, "more than sockets hold");
            read_body(&mut client).await.unwrap()
        };
        assert_eq!(body, b"hello");
        assert!(client.has_sent() && client.unsent() > 0 && !client.is_reusable());
        drop(go);
    })
    .await;
}

/// Any network node can send a FIN (RFC 9112 §9.8).
#[tokio::test]
async fn a_body_that_a_close_ends_is_whole_only_after_a_close_notify() {
    run(async {
        let authority = Authority::new();
        for version in [V12, V13] {
            for announced in [true, false] {
                let server = start(server(&authority.identity("a.test"), version), move |mut stream| {
                    read_head(&mut stream);
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it").unwrap();
                    if announced {
                        close_notify(&mut stream);
                    }
                });
                let mut client = dial(&server.endpoint, &authority.client("a.test")).await.unwrap();
                match ask(&mut client).await {
                    Ok((_, body)) => assert!(announced && body == b"all of it"),
                    Err(error) => assert!(!announced && error.name() == "truncated", "{error}"),
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_close_before_the_response_is_one_announced_or_not() {
    run(async {
        let authority = Authority::new();
        for announced in [true, false] {
            let server = start(server(&authority.identity("a.test"), V13), move |mut stream| {
                read_head(&mut stream);
                if announced {
                    close_notify(&mut stream);
                }
            });
            let mut client = dial(&server.endpoint, &authority.client("a.test")).await.unwrap();
            let error = ask(&mut client).await.unwrap_err();
            assert!(matches!(error, crate::ClientError::NoResponse(None)), "{error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_tunnel_ends_with_a_close_notify_each_way() {
    run(async {
        let authority = Authority::new();
        let server = start(server(&authority.identity("a.test"), V13), |mut stream| {
            read_head(&mut stream);
            let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
            stream.write_all(switch.as_bytes()).unwrap();
            // An end that was not announced would be an error.
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
            close_notify(&mut stream);
        });
        let mut client = dial(&server.endpoint, &authority.client("a.test")).await.unwrap();
        let line = RequestLine { method: &Method::GET, target: b"/", authority: b"a" };
        let options = RequestOptions { keep_alive: true, upgrade: Some(b"x"), ..RequestOptions::default() };
        client
            .begin(|codec, out| codec.encode_head(out, line, std::iter::empty(), RequestBody::None, options));
        client.end(&Fields::new());
        poll_fn(|cx| client.poll_flush(cx)).await;
        poll_fn(|cx| {
            client.poll_response(cx).map(|response| assert!(matches!(response, Ok(ResponsePart::Head(_)))))
        })
        .await;
        client.send_tunnel(b"there and back");
        poll_fn(|cx| client.poll_flush(cx)).await;
        client.shutdown_write();
        let mut back = Vec::new();
        loop {
            let bytes = poll_fn(|cx| client.poll_tunnel(cx).map(|bytes| bytes.unwrap().to_vec())).await;
            if bytes.is_empty() {
                break;
            }
            back.extend(bytes);
        }
        assert_eq!(back, b"there and back");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_dropped_says_goodbye() {
    run(async {
        let authority = Authority::new();
        let (told, heard) = std::sync::mpsc::channel();
        let server = start(server(&authority.identity("a.test"), V13), move |mut stream| {
            // `Ok(0)` only after a close_notify.
            told.send(stream.read(&mut [0; 16]).map_err(|error| error.to_string())).unwrap();
        });
        drop(dial(&server.endpoint, &authority.client("a.test")).await.unwrap());
        assert_eq!(heard.recv_timeout(Duration::from_secs(10)).unwrap(), Ok(0));
    })
    .await;
}

/// The session goes with its socket to another thread's reactor.
#[test]
fn an_encrypted_connection_moves_to_the_thread_that_takes_it() {
    let authority = Authority::new();
    let server = start(server(&authority.identity("a.test"), V13), responding(HELLO));
    let plane = crate::DataPlane::start(2).unwrap();
    let pool: Arc<Pool<Http1>> = Pool::new(PoolSettings::default());
    pool.set_tls(Some(authority.client("a.test")));
    let (done, results) = std::sync::mpsc::channel();
    for at in [0, 1, 0, 1] {
        let (pool, endpoint, done) = (Arc::clone(&pool), server.endpoint.clone(), done.clone());
        plane.remotes()[at].spawn(move || async move {
            let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            let response = ask(&mut lease).await.unwrap();
            lease.finish();
            done.send(response.0).unwrap();
        });
        assert_eq!(results.recv_timeout(Duration::from_secs(20)).unwrap(), 200);
    }
    assert_eq!(server.connections(), 1);
    plane.stop();
}

/// Nobody waits for a handshake that is no longer needed; and the handshake is not wasted.
#[tokio::test]
async fn a_connection_that_comes_back_is_used_before_one_that_is_being_made() {
    run(async {
        let authority = Authority::new();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(Some(wait));
        let first = std::sync::atomic::AtomicBool::new(true);
        let server = start(server(&authority.identity("a.test"), V13), move |stream| {
            if !first.swap(false, std::sync::atomic::Ordering::SeqCst) {
                let wait = wait.lock().unwrap().take();
                wait.unwrap().recv().unwrap();
            }
            responding(HELLO)(stream);
        });
        let pool: Arc<Pool<Http1>> = Pool::new(PoolSettings::default());
        pool.set_tls(Some(authority.client("a.test")));
        let mut first = pool.acquire(&server.endpoint, ConnectionNeed::Any).await.unwrap();
        assert!(first.dialled().unwrap().handshake.is_some());
        ask(&mut first).await.unwrap();
        let second = {
            let (pool, endpoint) = (Arc::clone(&pool), server.endpoint.clone());
            tokio::task::spawn_local(
                async move { pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap() },
            )
        };
        until(|| pool.state(None).dialling == 1).await;
        first.finish();
        let mut second = second.await.unwrap();
        assert!(second.idle().is_some() && second.dialled().is_none());
        ask(&mut second).await.unwrap();
        second.finish();
        go.send(()).unwrap();
        until(|| pool.count(&server.endpoint) == (2, 2)).await;
        let totals = pool.totals();
        assert_eq!((totals.dialled, totals.reused, totals.handshakes_avoided), (2, 1, 1));
        assert_eq!(totals.handshakes_full + totals.handshakes_resumed, 2);
        assert!(totals.certificate_bytes_avoided > 200 && totals.handshake_time > Duration::ZERO);
        assert_eq!(server.connections(), 2);
    })
    .await;
}
