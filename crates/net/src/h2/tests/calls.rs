//! Calls that succeed.

use std::cell::{Cell, RefCell};

use h2::server::Builder;
use http::HeaderMap;
use keepwarm_http1::ResponseBody;

use super::peer::*;
use super::*;

#[tokio::test]
async fn a_get_says_what_it_must_and_no_more() {
    run(async {
        let (listener, endpoint) = listen().await;
        let seen = Rc::new(RefCell::new(None));
        let keep = Rc::clone(&seen);
        serve(listener, Builder::new(), move |request, respond| {
            *keep.borrow_mut() =
                Some((request.method().clone(), request.uri().clone(), request.headers().clone()));
            hello(request, respond)
        });
        let mut call = pool().acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        assert_eq!(call.idle(), None);
        let fields = [
            ("Host", "other.example"),
            ("Connection", "keep-alive, x"),
            ("Keep-Alive", "timeout=5"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "AAA"),
            ("TE", "gzip"),
            ("Cookie", "a=1; b=2"),
            ("Accept", "*/*"),
            ("Accept", "text/html"),
        ];
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        call.begin(CallHead {
            method: &Method::GET,
            scheme: Scheme::Http,
            authority: b"shop.example:8080",
            target: b"/a%2Fb?q=`x`&r={}",
            fields,
            framing: RequestBody::None,
            expect: true,
            te_trailers: true,
            upgrade: None,
            websocket_accept: None,
        });
        call.end(&Fields::new());
        flush(&mut call).await;
        let response = read(&mut call).await.unwrap();
        assert_eq!((response.head.status.as_u16(), response.body.as_slice()), (200, b"hello".as_slice()));
        assert_eq!(response.head.body, ResponseBody::Chunked);
        assert!(call.has_sent() && call.has_heard());
        let (method, uri, headers) = seen.take().unwrap();
        assert_eq!(method, Method::GET);
        assert_eq!(uri.authority().unwrap(), "shop.example:8080");
        assert_eq!(uri.scheme_str(), Some("http"));
        assert!(uri.path_and_query().unwrap().as_str().starts_with("/a%2Fb?q="), "{uri}");
        let mut names: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        names.sort();
        assert_eq!(names, ["accept: */*", "accept: text/html", "cookie: a=1; b=2", "te: trailers"]);
    })
    .await;
}

#[tokio::test]
async fn bodies_and_trailers_go_both_ways() {
    run(async {
        let (listener, endpoint) = listen().await;
        serve(listener, Builder::new(), |request, mut respond| async move {
            let length = request.headers().get("content-length").cloned();
            let (body, trailers) = body_of(request).await;
            let mut head = Response::new(());
            if let Some(length) = length {
                head.headers_mut().insert("content-length", length);
            }
            let mut send = respond.send_response(head, false).unwrap();
            send.send_data(body.into(), trailers.is_none()).unwrap();
            if let Some(mut trailers) = trailers {
                trailers.insert("content-length", "9".parse().unwrap());
                send.send_trailers(trailers).unwrap();
            }
        });
        let (pool, body) = (pool(), vec![b'x'; 300_000]);
        for (framing, trailers) in [
            (RequestBody::Length(300_000), Fields::new()),
            (RequestBody::Chunked, Fields::new()),
            (
                RequestBody::Chunked,
                [("grpc-status", "0"), ("content-type", "no")].into_iter().fold(
                    Fields::new(),
                    |mut fields, (name, value)| {
                        fields.push(name.as_bytes(), value.as_bytes());
                        fields
                    },
                ),
            ),
        ] {
            let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            call.begin(post(framing));
            for piece in body.chunks(70_000) {
                call.send(piece);
                flush(&mut call).await;
            }
            call.end(&trailers);
            flush(&mut call).await;
            let response = read(&mut call).await.unwrap();
            assert_eq!(response.body, body);
            let length = matches!(framing, RequestBody::Length(_)).then_some(300_000);
            assert_eq!(response.head.content_length, length);
            assert_eq!(response.trailers.len(), usize::from(!trailers.is_empty()), "{:?}", response.trailers);
            assert_eq!(response.trailers.first("grpc-status"), trailers.first("grpc-status"));
        }
    })
    .await;
}

#[tokio::test]
async fn informational_responses_come_in_order_and_any_number() {
    run(async {
        let (listener, endpoint) = listen().await;
        serve(listener, Builder::new(), |request, mut respond| async move {
            for round in 0..1000 {
                let status = if round % 2 == 0 { 103 } else { 102 };
                respond.send_informational(Response::builder().status(status).body(()).unwrap()).unwrap();
            }
            hello(request, respond).await;
        });
        let response = ask(&pool(), &endpoint).await.unwrap();
        assert_eq!(response.informational.len(), 1000);
        assert!(response.informational.chunks(2).all(|pair| pair == [103, 102]));
        assert_eq!(response.body, b"hello");
    })
    .await;
}

#[tokio::test]
async fn responses_without_a_body_end_with_their_head() {
    run(async {
        let (listener, endpoint) = listen().await;
        serve(listener, Builder::new(), |request, mut respond| async move {
            let status: u16 = request.uri().path().trim_start_matches('/').parse().unwrap();
            let mut head = Response::builder().status(status);
            if *request.method() == Method::HEAD || status == 304 {
                head = head.header("content-length", "1234");
            }
            respond.send_response(head.body(()).unwrap(), true).unwrap();
        });
        let pool = pool();
        for (method, target, body, length) in [
            (Method::GET, "/204", ResponseBody::None, None),
            (Method::GET, "/304", ResponseBody::None, Some(1234)),
            (Method::HEAD, "/200", ResponseBody::None, Some(1234)),
            (Method::GET, "/200", ResponseBody::Length(0), None),
        ] {
            let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            call.begin(CallHead { method: &method, target: target.as_bytes(), ..get() });
            call.end(&Fields::new());
            let response = read(&mut call).await.unwrap();
            assert_eq!(
                (response.head.body, response.head.content_length),
                (body, length),
                "{method} {target}"
            );
            assert!(response.body.is_empty());
        }
        assert_eq!(pool.count(&endpoint), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_gives_little_room_holds_the_body_back() {
    run(async {
        let (listener, endpoint) = listen().await;
        let mut builder = Builder::new();
        builder.initial_window_size(1000);
        let gate = Rc::new(tokio::sync::Notify::new());
        let open = Rc::clone(&gate);
        serve(listener, builder, move |request, mut respond| {
            let gate = Rc::clone(&gate);
            async move {
                gate.notified().await;
                let (body, _) = body_of(request).await;
                let mut send = respond.send_response(Response::new(()), false).unwrap();
                send.send_data(body.len().to_string().into(), true).unwrap();
            }
        });
        let pool = pool();
        // Settings first: before they come, 64 KiB may go.
        let mut first = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        first.begin(get());
        first.end(&Fields::new());
        open.notify_one();
        assert_eq!(read(&mut first).await.unwrap().body, b"0");
        let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        call.begin(post(RequestBody::Chunked));
        call.send(&[b'x'; 100_000]);
        call.end(&Fields::new());
        let flushed = tokio::time::timeout(Duration::from_millis(50), flush(&mut call)).await;
        assert!(flushed.is_err());
        assert_eq!(call.unsent(), 99_000);
        open.notify_one();
        flush(&mut call).await;
        assert_eq!(call.unsent(), 0);
        assert_eq!(read(&mut call).await.unwrap().body, b"100000");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_holds_up_its_own_response_alone() {
    run(async {
        let (listener, endpoint) = listen().await;
        let sent = Rc::new(Cell::new(0_usize));
        let count = Rc::clone(&sent);
        serve(listener, Builder::new(), move |request, mut respond| {
            let count = Rc::clone(&count);
            async move {
                if *request.method() == Method::GET {
                    return hello(request, respond).await;
                }
                let mut send = respond.send_response(Response::new(()), false).unwrap();
                for _ in 0..64 {
                    send.reserve_capacity(64 * 1024);
                    let mut left = 64 * 1024;
                    while left > 0 {
                        let Some(Ok(room)) = poll_fn(|cx| send.poll_capacity(cx)).await else { return };
                        let take = room.min(left);
                        send.send_data(vec![b'x'; take].into(), false).unwrap();
                        left -= take;
                        count.set(count.get() + take);
                    }
                }
                send.send_data(Bytes::new(), true).unwrap();
            }
        });
        let pool = pool();
        let mut slow = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        slow.begin(CallHead { method: &Method::DELETE, ..get() });
        slow.end(&Fields::new());
        assert_eq!(read_head(&mut slow).await.unwrap(), 200);
        until(|| sent.get() >= 1 << 20).await;
        for _ in 0..20 {
            assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
        }
        assert_eq!(sent.get(), 1 << 20, "one window and no more");
        let rest = read_body(&mut slow).await;
        assert_eq!(rest, 4 << 20);
    })
    .await;
}

async fn read_body(call: &mut Http2Call) -> usize {
    let mut total = 0;
    poll_fn(|cx| {
        loop {
            match std::task::ready!(call.poll_response(cx)).unwrap() {
                ResponsePart::Data(bytes) => total += bytes.len(),
                ResponsePart::End => return Poll::Ready(total),
                other => panic!("{other:?}"),
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_response_before_the_body_is_whole() {
    run(async {
        let (listener, endpoint) = listen().await;
        tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            for _ in 0..10 {
                let stream = peer.request().await;
                peer.write(HEADERS, END | END_HEADERS, stream, b"\x08\x03413").await;
                // RFC 9113 §8.1: the server wants no more of the request.
                peer.reset(stream, 0).await;
            }
            while peer.read().await.is_some() {}
        });
        let pool = pool();
        for _ in 0..10 {
            let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            call.begin(post(RequestBody::Length(10_000_000)));
            let sending = async {
                while call.unsent() < 1 << 20 && read_head_now(&mut call).await.is_none() {
                    call.send(&[b'x'; 64 * 1024]);
                }
            };
            sending.await;
            let response = match call.head().status.as_u16() {
                413 => read(&mut call).await.map(|_| 413),
                _ => read(&mut call).await.map(|whole| whole.head.status.as_u16()),
            };
            assert_eq!(response.unwrap(), 413);
        }
        assert_eq!(pool.count(&endpoint), (1, 0));
    })
    .await;
}

/// The head, if it has arrived; queued bytes are written meanwhile.
async fn read_head_now(call: &mut Http2Call) -> Option<u16> {
    tokio::task::yield_now().await;
    poll_fn(|cx| {
        let _ = call.poll_flush(cx);
        match call.poll_response(cx) {
            Poll::Ready(response) => match response.unwrap() {
                ResponsePart::Head(head) => Poll::Ready(Some(head.status.as_u16())),
                other => panic!("{other:?}"),
            },
            Poll::Pending => Poll::Ready(None),
        }
    })
    .await
}

#[tokio::test]
async fn both_messages_stream_side_by_side() {
    run(async {
        let (listener, endpoint) = listen().await;
        serve(listener, Builder::new(), |request, mut respond| async move {
            let mut send = respond.send_response(Response::new(()), false).unwrap();
            let mut body = request.into_body();
            while let Some(Ok(data)) = body.data().await {
                body.flow_control().release_capacity(data.len()).unwrap();
                send.send_data(data, false).unwrap();
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "7".parse().unwrap());
            trailers.insert("grpc-message", "no".parse().unwrap());
            send.send_trailers(trailers).unwrap();
        });
        let mut call = pool().acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        call.begin(CallHead { te_trailers: true, ..post(RequestBody::Chunked) });
        assert_eq!(read_head(&mut call).await.unwrap(), 200);
        for round in 0..50_u8 {
            call.send(&[round; 10]);
            flush(&mut call).await;
            let echoed = poll_fn(|cx| match call.poll_response(cx) {
                Poll::Ready(Ok(ResponsePart::Data(bytes))) => Poll::Ready(bytes.to_vec()),
                Poll::Ready(other) => panic!("{other:?}"),
                Poll::Pending => Poll::Pending,
            })
            .await;
            assert_eq!(echoed, [round; 10]);
        }
        call.end(&Fields::new());
        flush(&mut call).await;
        let response = read(&mut call).await.unwrap();
        assert_eq!(response.trailers.first("grpc-status"), Some(b"7".as_slice()));
        assert_eq!(response.trailers.first("grpc-message"), Some(b"no".as_slice()));
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_dropped_is_called_off_and_no_other() {
    run(async {
        let (listener, endpoint) = listen().await;
        let reset = Rc::new(Cell::new(None));
        let told = Rc::clone(&reset);
        serve(listener, Builder::new(), move |request, mut respond| {
            let told = Rc::clone(&told);
            async move {
                if *request.method() == Method::GET {
                    return hello(request, respond).await;
                }
                told.set(poll_fn(|cx| respond.poll_reset(cx)).await.ok());
            }
        });
        let pool = pool();
        ask(&pool, &endpoint).await.unwrap();
        let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        call.begin(post(RequestBody::Chunked));
        until(|| call.has_sent()).await;
        drop(call);
        until(|| reset.get().is_some()).await;
        assert_eq!(reset.get(), Some(h2::Reason::CANCEL));
        assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
        assert_eq!(pool.count(&endpoint), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_body_of_another_length_than_announced_is_never_whole() {
    run(async {
        let (listener, endpoint) = listen().await;
        serve(listener, Builder::new(), |request, respond| async move {
            body_of(request).await;
            drop(respond);
        });
        let pool = pool();
        for sizes in [[5, 6].as_slice(), &[5, 4], &[11]] {
            let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            call.begin(post(RequestBody::Length(10)));
            for size in sizes {
                call.send(&vec![b'x'; *size]);
            }
            call.end(&Fields::new());
            flush(&mut call).await;
            assert_eq!(read(&mut call).await.unwrap_err().name(), "request_length");
        }
    })
    .await;
}
