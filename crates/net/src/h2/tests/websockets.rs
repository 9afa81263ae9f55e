//! WebSockets by extended CONNECT (RFC 8441), opened by requests that offer `Upgrade: websocket`.

use std::cell::RefCell;

use h2::ext::Protocol as ConnectProtocol;
use h2::server::Builder;

use super::peer::*;
use super::*;
use crate::{AcquireError, Call, Calls, Protocol, SwitchTarget};

/// RFC 6455 §1.3.
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const ENABLE_CONNECT_PROTOCOL: u16 = 8;

async fn acquire(endpoint: &Endpoint) -> Result<Call, AcquireError> {
    let calls = Calls::new(PoolSettings::default(), Protocol::Http2);
    calls.acquire_to_switch(endpoint, ConnectionNeed::Any, SwitchTarget::WebSocket).await
}

async fn open(endpoint: &Endpoint) -> Box<Http2Call> {
    let Call::Http2(mut call) = acquire(endpoint).await.unwrap() else { panic!("HTTP/2") };
    let fields = [("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="), ("sec-websocket-version", "13")];
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let (upgrade, websocket_accept) = (Some(&b"websocket"[..]), Some(ACCEPT));
    call.begin(CallHead {
        method: &Method::GET,
        scheme: Scheme::Http,
        authority: b"shop.example",
        target: b"/chat",
        fields,
        framing: RequestBody::None,
        expect: false,
        te_trailers: false,
        upgrade,
        websocket_accept,
    });
    call.end(&Fields::new());
    flush(&mut call).await;
    call
}

/// A tunnel that the peer has accepted, and its stream.
async fn opened() -> (Peer, u32, Box<Http2Call>) {
    let (listener, endpoint) = listen().await;
    let opening = tokio::task::spawn_local(async move { open(&endpoint).await });
    let mut peer = Peer::accept(&listener, &[(ENABLE_CONNECT_PROTOCOL, 1)]).await;
    let stream = peer.request().await;
    peer.write(HEADERS, END_HEADERS, stream, OK).await;
    let mut call = opening.await.unwrap();
    assert_eq!(read_head(&mut call).await.unwrap(), 101);
    (peer, stream, call)
}

async fn next(call: &mut Http2Call) -> Option<Vec<u8>> {
    let bytes = poll_fn(|cx| call.poll_tunnel(cx).map(|read| read.map(<[u8]>::to_vec))).await;
    bytes.ok()
}

#[tokio::test]
async fn an_accepted_websocket_is_a_101_and_a_tunnel() {
    run(async {
        let (listener, endpoint) = listen().await;
        let seen = Rc::new(RefCell::new(None));
        let keep = Rc::clone(&seen);
        let mut builder = Builder::new();
        builder.enable_connect_protocol();
        serve(listener, builder, move |request, mut respond| {
            let protocol = request.extensions().get::<ConnectProtocol>().cloned();
            *keep.borrow_mut() =
                Some((request.method().clone(), request.uri().clone(), protocol, request.headers().clone()));
            async move {
                let accepted = Response::builder().header("sec-websocket-protocol", "chat");
                let mut out = respond.send_response(accepted.body(()).unwrap(), false).unwrap();
                let (bytes, _) = body_of(request).await;
                out.send_data(Bytes::from(bytes), true).unwrap();
            }
        });
        let mut call = open(&endpoint).await;
        assert_eq!(read_head(&mut call).await.unwrap(), 101);
        let head = call.head().clone();
        assert_eq!(head.fields.first("upgrade"), Some(&b"websocket"[..]));
        assert_eq!(head.fields.first("sec-websocket-accept"), Some(ACCEPT.as_bytes()));
        assert_eq!(head.fields.first("sec-websocket-protocol"), Some(&b"chat"[..]));
        let (method, uri, protocol, headers) = seen.take().unwrap();
        assert_eq!((method, protocol.unwrap().as_str()), (Method::CONNECT, "websocket"));
        assert_eq!(uri, "http://shop.example/chat");
        assert!(headers.get("sec-websocket-key").is_none() && headers.get("upgrade").is_none());
        assert_eq!(headers.get("sec-websocket-version").unwrap(), "13");
        call.send(b"hello, ");
        flush(&mut call).await;
        call.send(b"tunnel");
        call.shutdown_write();
        flush(&mut call).await;
        assert_eq!(next(&mut call).await.unwrap(), b"hello, tunnel");
        assert_eq!(next(&mut call).await.unwrap(), b"", "its end");
    })
    .await;
}

#[tokio::test]
async fn a_refused_websocket_has_its_response() {
    run(async {
        let (listener, endpoint) = listen().await;
        let mut builder = Builder::new();
        builder.enable_connect_protocol();
        serve(listener, builder, |request, mut respond| async move {
            let refused = Response::builder().status(403).body(()).unwrap();
            let mut out = respond.send_response(refused, false).unwrap();
            out.send_data(Bytes::from_static(b"not you"), true).unwrap();
            // The request ends too, without a reset.
            assert_eq!(body_of(request).await.0, b"");
        });
        let mut call = open(&endpoint).await;
        let response = read(&mut call).await.unwrap();
        assert_eq!((response.head.status.as_u16(), response.body.as_slice()), (403, &b"not you"[..]));
        flush(&mut call).await;
    })
    .await;
}

/// The SETTINGS decide, however late they come.
#[tokio::test]
async fn a_server_is_asked_for_a_websocket_only_once_it_has_offered_one() {
    run(async {
        let (listener, endpoint) = listen().await;
        for offered in [true, false] {
            let opening = tokio::task::spawn_local({
                let endpoint = endpoint.clone();
                async move { acquire(&endpoint).await.map(drop) }
            });
            let mut peer = Peer::accept_silently(&listener).await;
            // The client's own come first, and no request behind them.
            assert_eq!(peer.read().await.unwrap().kind, SETTINGS);
            assert!(!opening.is_finished());
            let payload = match offered {
                true => [ENABLE_CONNECT_PROTOCOL.to_be_bytes().as_slice(), &1_u32.to_be_bytes()].concat(),
                false => Vec::new(),
            };
            peer.write(SETTINGS, 0, 0, &payload).await;
            match opening.await.unwrap() {
                Ok(()) => assert!(offered),
                Err(error) => {
                    assert!(!offered);
                    assert_eq!(error.name(), "no_extended_connect");
                }
            }
        }
    })
    .await;
}

/// A reset is not an orderly end.
#[tokio::test]
async fn a_reset_tunnel_fails() {
    run(async {
        let (mut peer, stream, mut call) = opened().await;
        peer.write(DATA, 0, stream, b"bye").await;
        assert_eq!(next(&mut call).await.unwrap(), b"bye");
        peer.reset(stream, 8).await;
        assert_eq!(next(&mut call).await, None);
    })
    .await;
}

/// A client that is lost cancels the stream: nothing else tells the server (RFC 8441 §5).
#[tokio::test]
async fn a_dropped_tunnel_is_cancelled() {
    run(async {
        let (mut peer, _, call) = opened().await;
        drop(call);
        assert_eq!(peer.next(RST_STREAM).await.unwrap().payload, 8_u32.to_be_bytes());
    })
    .await;
}
