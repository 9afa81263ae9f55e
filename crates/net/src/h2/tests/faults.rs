//! Calls that fail, and what is then known of the request.

use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connections::is_pending;
use super::peer::*;
use super::*;
use crate::PoolState;

/// Begins a call without waiting for anything.
async fn begin(pool: &Arc<Http2Pool>, endpoint: &Endpoint) -> Http2Call {
    let mut call = pool.acquire(endpoint, ConnectionNeed::Any).await.unwrap();
    call.begin(get());
    call.end(&Fields::new());
    call
}

fn unprocessed(error: &ClientError) -> bool {
    matches!(error, ClientError::NotProcessed(_))
}

#[tokio::test]
async fn a_refused_stream_was_not_processed() {
    run(async {
        let (listener, endpoint) = listen().await;
        serve(listener, h2::server::Builder::new(), |_, mut respond| async move {
            respond.send_reset(h2::Reason::REFUSED_STREAM);
        });
        let pool = pool();
        let error = ask(&pool, &endpoint).await.unwrap_err();
        assert!(unprocessed(&error), "{error:?}");
        assert_eq!(error.name(), "refused_stream");
        assert_eq!(pool.count(&endpoint), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn goaway_lets_what_is_below_it_finish_and_gives_the_rest_back() {
    run(async {
        let (listener, endpoint) = listen().await;
        let peer = tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let first = peer.request().await;
            let second = peer.request().await;
            peer.goaway(first, 0).await;
            let mut next = Peer::accept(&listener, &[]).await;
            let third = next.request().await;
            next.respond(third).await;
            peer.write(HEADERS, END_HEADERS, first, OK).await;
            peer.write(DATA, END, first, b"late").await;
            // Once it has nothing open any more, the client closes.
            while peer.read().await.is_some() {}
            (first, second, next)
        });
        let pool = pool();
        let mut first = begin(&pool, &endpoint).await;
        until(|| first.has_sent()).await;
        let mut second = begin(&pool, &endpoint).await;
        let error = read(&mut second).await.unwrap_err();
        assert!(unprocessed(&error), "{error:?}");
        assert_eq!(error.name(), "goaway");
        assert_eq!(ask(&pool, &endpoint).await.unwrap().head.status.as_u16(), 200);
        assert_eq!(read(&mut first).await.unwrap().body, b"late");
        drop((first, second));
        let (first, second, _) = peer.await.unwrap();
        assert!(first < second);
        assert_eq!(pool.count(&endpoint), (1, 0));
    })
    .await;
}

/// A frame of GOAWAY that the RFC has treated as an error of the connection (RFC 9113 §4.2, §6.8, §6.10) promises nothing.
#[tokio::test]
async fn a_malformed_goaway_does_not_say_that_a_request_was_not_processed() {
    run(async {
        let (listener, endpoint) = listen().await;
        static LONG: [u8; 16_385] = [0; 16_385];
        let malformed: [(bool, u32, &[u8]); 6] = [
            (false, 0, &[]),
            (false, 0, &[0; 4]),
            (false, 0, &[0; 7]),
            (false, 1, &[0; 8]),
            (false, 0, &LONG),
            (true, 0, &[0; 8]),
        ];
        let server = tokio::task::spawn_local(async move {
            for (in_head, goaway_stream, payload) in malformed {
                let mut peer = Peer::accept(&listener, &[]).await;
                let stream = peer.request().await;
                if in_head {
                    peer.write(HEADERS, 0, stream, OK).await;
                }
                peer.write(GOAWAY, 0, goaway_stream, payload).await;
                while peer.read().await.is_some() {}
            }
        });
        for (in_head, stream, payload) in malformed {
            let error = ask(&pool(), &endpoint).await.unwrap_err();
            let size = payload.len();
            assert!(!unprocessed(&error), "{size} bytes, stream {stream}, in a head: {in_head}: {error:?}");
            assert_eq!(error.name(), "http2_fault");
        }
        server.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_it_open_what_was_processed() {
    run(async {
        let (listener, endpoint) = listen().await;
        tokio::task::spawn_local(async move {
            for heads in 0..2 {
                let mut peer = Peer::accept(&listener, &[]).await;
                let stream = peer.request().await;
                if heads > 0 {
                    peer.write(HEADERS, END_HEADERS, stream, OK).await;
                }
            }
        });
        let pool = pool();
        let mut call = begin(&pool, &endpoint).await;
        let error = read(&mut call).await.unwrap_err();
        assert!(matches!(error, ClientError::NoResponse(_)), "{error:?}");
        assert!(call.has_sent() && !call.has_heard());
        drop(call);
        let error = ask(&pool, &endpoint).await.unwrap_err();
        assert_eq!(error.name(), "truncated");
    })
    .await;
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_response_cuts_it() {
    run(async {
        let (listener, endpoint) = listen().await;
        tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let stream = peer.request().await;
            peer.write(HEADERS, END_HEADERS, stream, OK).await;
            peer.write(DATA, 0, stream, b"half").await;
            peer.reset(stream, 2).await;
            peer.request().await;
        });
        let pool = pool();
        let error = ask(&pool, &endpoint).await.unwrap_err();
        assert_eq!(error.name(), "reset_internal_error");
        assert!(matches!(error, ClientError::Fault(_)));
        assert_eq!(pool.count(&endpoint), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_body_shorter_or_longer_than_announced_is_a_fault() {
    run(async {
        let (listener, endpoint) = listen().await;
        let ends = [(b"four".as_slice(), END), (b"sixsix", END), (b"sixsix", 0), (b"", END)];
        tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            for (body, end) in ends {
                let stream = peer.request().await;
                // `content-length: 5`, a literal with the name of HPACK's static table.
                let head = [OK, &[0x0f, 0x0d, 0x01, b'5']].concat();
                peer.write(HEADERS, END_HEADERS, stream, &head).await;
                peer.write(DATA, end, stream, body).await;
            }
        });
        let pool = pool();
        for (body, end) in ends {
            let error = ask(&pool, &endpoint).await.unwrap_err();
            assert_eq!(error.name(), "length_mismatch", "{body:?} {end} {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_malformed_head_is_a_fault_of_its_own_call_alone() {
    run(async {
        let (listener, endpoint) = listen().await;
        // `connection: x`, which HTTP/2 forbids; no status; 101.
        let heads: [&[u8]; 3] = [b"\x88\x00\x0aconnection\x01x", b"\x00\x01a\x01x", b"\x08\x03101"];
        tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let good = peer.request().await;
            for head in heads {
                let stream = peer.request().await;
                peer.write(HEADERS, END | END_HEADERS, stream, head).await;
            }
            peer.respond(good).await;
            while peer.read().await.is_some() {}
        });
        let pool = pool();
        let mut good = begin(&pool, &endpoint).await;
        for head in heads {
            let error = ask(&pool, &endpoint).await.unwrap_err();
            assert!(matches!(error, ClientError::Fault(_)), "{head:?}: {error:?}");
        }
        assert_eq!(read(&mut good).await.unwrap().head.status.as_u16(), 200);
    })
    .await;
}

#[tokio::test]
async fn heads_beyond_the_limits_are_refused() {
    run(async {
        let (listener, endpoint) = listen().await;
        serve(listener, h2::server::Builder::new(), |request, mut respond| async move {
            let fields: usize = request.uri().path().trim_start_matches('/').parse().unwrap();
            let mut head = Response::builder();
            for number in 0..fields {
                head = head.header(format!("x-{number}"), "y".repeat(20_000 / fields));
            }
            respond.send_response(head.body(()).unwrap(), true).unwrap();
        });
        let pool = pool();
        for (target, name) in
            [("/100", None), ("/129", Some("too_many_fields")), ("/1000", Some("malformed"))]
        {
            let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            call.begin(CallHead { target: target.as_bytes(), ..get() });
            call.end(&Fields::new());
            let response = read(&mut call).await;
            assert_eq!(response.as_ref().err().map(ClientError::name), name, "{target}");
        }
        assert_eq!(pool.count(&endpoint), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_storm_of_informational_responses_takes_no_memory() {
    run(async {
        let (listener, endpoint) = listen().await;
        let peer = tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let stream = peer.request().await;
            for _ in 0..1000 {
                peer.write(HEADERS, END_HEADERS, stream, b"\x08\x03103").await;
            }
            while peer.read().await.is_some() {}
        });
        let pool = Http2Pool::new(PoolSettings {
            connect_timeout: Duration::from_millis(200),
            ..PoolSettings::default()
        });
        let mut call = begin(&pool, &endpoint).await;
        // It reads nothing. Then a little, and again nothing.
        until(|| call.has_sent()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..3 {
            let next = poll_fn(|cx| {
                call.poll_response(cx).map(|response| matches!(response, Ok(ResponsePart::Informational(_))))
            });
            assert!(next.await);
        }
        until(|| pool.count(&endpoint) == (0, 0)).await;
        peer.await.unwrap();
        let error = read(&mut call).await;
        assert_eq!(error.unwrap_err().name(), "too_many_heads");
    })
    .await;
}

#[tokio::test]
async fn a_server_of_http_1_is_named_as_such() {
    run(async {
        let (listener, endpoint) = listen().await;
        tokio::task::spawn_local(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1000]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            let _ = stream.read(&mut [0; 1000]).await;
        });
        let error = ask(&pool(), &endpoint).await.unwrap_err();
        assert_eq!(error.name(), "not_http2");
        assert_eq!(error.to_string(), "the server speaks HTTP/1, not HTTP/2");
    })
    .await;
}

#[tokio::test]
async fn a_goaway_with_an_error_says_which() {
    run(async {
        let (listener, endpoint) = listen().await;
        tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let stream = peer.request().await;
            peer.goaway(stream, 11).await;
            peer.shutdown().await;
            while peer.read().await.is_some() {}
        });
        let error = ask(&pool(), &endpoint).await.unwrap_err();
        assert!(matches!(error, ClientError::NoResponse(Some(_))), "{error:?}");
        assert!(error.to_string().ends_with("the server sent GOAWAY with ENHANCE_YOUR_CALM"), "{error}");
    })
    .await;
}

/// A balancer without a server closes what it accepts; a server that stops sends GOAWAY at once; one of HTTP/1 rejects the preface. Callers would dial again and again, as fast as that.
#[tokio::test]
async fn a_connection_that_ends_before_it_has_a_call_is_not_dialled_again_and_again() {
    const GOES: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
    const IS_BUSY: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b";
    let cases: [(&[u8], &str, &str); 5] = [
        (b"", "closed_without_response", "closed the connection before a request was sent"),
        (GOES, "goaway", "accepts no further requests on this connection"),
        (IS_BUSY, "closed_without_response", "the server sent GOAWAY with ENHANCE_YOUR_CALM"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not_http2", "speaks HTTP/1, not HTTP/2"),
        (b"\0\0\0\x06\0\0\0\0\0", "http2_fault", "violated HTTP/2"),
    ];
    for (bytes, name, sentence) in cases {
        run(async {
            let (listener, endpoint) = listen().await;
            tokio::task::spawn_local(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    stream.read_exact(&mut [0; 24]).await.unwrap();
                    stream.write_all(bytes).await.unwrap();
                    stream.shutdown().await.unwrap();
                    let read_on =
                        async move { while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {} };
                    tokio::task::spawn_local(read_on);
                }
            });
            let pool = pool();
            let mut call = pin!(pool.acquire(&endpoint, ConnectionNeed::Any));
            assert!(is_pending(call.as_mut()).await);
            // The caller has its turn only once the connection has come and gone.
            until(|| pool.state(None) == PoolState { waiting: 1, ..PoolState::default() }).await;
            let error = call.await.unwrap_err();
            assert_eq!(error.name(), name, "{error}");
            assert!(error.to_string().contains(sentence), "{error}");
            assert_eq!(pool.dials(), 1);
            assert!(!pool.has_shelves(&endpoint));
        })
        .await;
    }
}
