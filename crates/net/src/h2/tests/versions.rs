//! Which version is spoken: by ALPN, by prior knowledge; to nginx, and to servers with only HTTP/1.1.

use super::*;
use crate::tls::tests::kit::{Authority, Identity, V13, responding, server, start};
use crate::tls::tests::programs::{self, Program};
use crate::{AcquireError, Call, Calls, Protocol};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LARGE: usize = 8 << 20;

/// Its responses give the version spoken, and the number of the request on its connection.
async fn nginx(identity: Option<&Identity>, http2: &str) -> (Program, Endpoint) {
    let directives = "location /x { return 200 \"$server_protocol $connection_requests\"; }";
    programs::nginx(identity, http2, directives, LARGE).await
}

/// Makes a call over the version that was agreed.
async fn ask_for(calls: &Arc<Calls>, endpoint: &Endpoint, target: &[u8]) -> (Call, Vec<u8>) {
    let mut call = calls.acquire(endpoint, ConnectionNeed::Any).await.unwrap();
    call.begin(CallHead { target, authority: b"a.test", scheme: Scheme::Https, ..get() });
    call.end(&Fields::new());
    poll_fn(|cx| call.poll_flush(cx)).await;
    let mut body = Vec::new();
    poll_fn(|cx| {
        loop {
            match std::task::ready!(call.poll_response(cx)).unwrap() {
                ResponsePart::Data(bytes) => body.extend_from_slice(bytes),
                ResponsePart::End => return Poll::Ready(()),
                _ => {}
            }
        }
    })
    .await;
    (call, body)
}

async fn text(calls: &Arc<Calls>, endpoint: &Endpoint) -> String {
    let (call, body) = ask_for(calls, endpoint, b"/x").await;
    call.finish();
    String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn alpn_chooses_http_2_where_the_server_has_it() {
    run(async {
        let authority = Authority::new();
        let (_nginx, endpoint) = nginx(Some(&authority.identity("a.test")), "http2").await;
        for protocol in [Protocol::Auto, Protocol::Http2] {
            let calls = Calls::new(PoolSettings::default(), protocol);
            calls.set_tls(Some(authority.client("a.test")));
            for number in 1..=3 {
                assert_eq!(text(&calls, &endpoint).await, format!("HTTP/2.0 {number}"));
            }
            let (_, body) = ask_for(&calls, &endpoint, b"/large").await;
            assert_eq!(body.len(), LARGE);
            assert_eq!(calls.http2().count(&endpoint), (1, 0));
            assert_eq!(calls.http1().count(&endpoint), (0, 0));
        }
        let calls = Calls::new(PoolSettings::default(), Protocol::Http1);
        calls.set_tls(Some(authority.client("a.test")));
        assert_eq!(text(&calls, &endpoint).await, "HTTP/1.1 1");
    })
    .await;
}

#[tokio::test]
async fn many_calls_at_once_go_over_one_connection_of_nginx() {
    run(async {
        let authority = Authority::new();
        let (_nginx, endpoint) = nginx(Some(&authority.identity("a.test")), "http2").await;
        let calls = Calls::new(PoolSettings::default(), Protocol::Auto);
        calls.set_tls(Some(authority.client("a.test")));
        let asks: Vec<_> = (0..60)
            .map(|number| {
                let (calls, endpoint) = (Arc::clone(&calls), endpoint.clone());
                let target: &[u8] = if number % 6 == 0 { b"/large" } else { b"/x" };
                tokio::task::spawn_local(async move { ask_for(&calls, &endpoint, target).await.1.len() })
            })
            .collect();
        for (number, ask) in asks.into_iter().enumerate() {
            assert_eq!(ask.await.unwrap() == LARGE, number % 6 == 0);
        }
        assert_eq!(calls.http2().count(&endpoint), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn prior_knowledge_is_http_2_in_clear() {
    run(async {
        let (_nginx, endpoint) = nginx(None, "http2").await;
        let calls = Calls::new(PoolSettings::default(), Protocol::Http2);
        for number in 1..=3 {
            assert_eq!(text(&calls, &endpoint).await, format!("HTTP/2.0 {number}"));
        }
        let (_, body) = ask_for(&calls, &endpoint, b"/large").await;
        assert_eq!(body.len(), LARGE);
    })
    .await;
}

#[tokio::test]
async fn auto_is_http_1_in_clear() {
    run(async {
        let (_nginx, endpoint) = nginx(None, "").await;
        let calls = Calls::new(PoolSettings::default(), Protocol::Auto);
        assert_eq!(text(&calls, &endpoint).await, "HTTP/1.1 1");
        assert_eq!(text(&calls, &endpoint).await, "HTTP/1.1 2");
    })
    .await;
}

/// The connection that shows it is used; no dial is wasted.
#[tokio::test]
async fn a_server_that_chooses_http_1_is_remembered_and_its_connection_kept() {
    run(async {
        let authority = Authority::new();
        for alpn in [vec![b"http/1.1".to_vec()], Vec::new()] {
            let mut config = server(&authority.identity("a.test"), V13);
            config.alpn_protocols = alpn;
            let server = start(config, responding(HELLO));
            let calls = Calls::new(PoolSettings::default(), Protocol::Auto);
            calls.set_tls(Some(authority.client("a.test")));
            for _ in 0..3 {
                assert_eq!(text(&calls, &server.endpoint).await, "hello");
                assert_eq!(server.connections(), 1);
            }
            assert_eq!(calls.http1().count(&server.endpoint), (1, 1));
            assert_eq!(calls.http2().count(&server.endpoint), (0, 0));
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_without_http_2_is_refused_where_that_is_to_be_spoken() {
    run(async {
        let authority = Authority::new();
        let server = start(server(&authority.identity("a.test"), V13), responding(HELLO));
        let calls = Calls::new(PoolSettings::default(), Protocol::Http2);
        calls.set_tls(Some(authority.client("a.test")));
        let error = calls.acquire(&server.endpoint, ConnectionNeed::Any).await.unwrap_err();
        assert!(matches!(error, AcquireError::NotHttp2), "{error}");
        assert_eq!(error.name(), "not_http2");
    })
    .await;
}

#[tokio::test]
async fn a_request_that_offers_to_switch_takes_http_1() {
    run(async {
        let authority = Authority::new();
        let (_nginx, endpoint) = nginx(Some(&authority.identity("a.test")), "http2").await;
        let calls = Calls::new(PoolSettings::default(), Protocol::Auto);
        calls.set_tls(Some(authority.client("a.test")));
        assert_eq!(text(&calls, &endpoint).await, "HTTP/2.0 1");
        let call = calls
            .acquire_to_switch(&endpoint, ConnectionNeed::Any, crate::SwitchTarget::WebSocket)
            .await
            .unwrap();
        assert!(matches!(call, Call::Http1(_)));
    })
    .await;
}

#[tokio::test]
async fn a_wrong_certificate_is_told_to_everybody_who_waits() {
    run(async {
        let authority = Authority::new();
        let (_nginx, endpoint) = nginx(Some(&authority.identity("b.test")), "http2").await;
        let calls = Calls::new(PoolSettings::default(), Protocol::Auto);
        calls.set_tls(Some(authority.client("a.test")));
        let asks: Vec<_> = (0..3)
            .map(|_| {
                let (calls, endpoint) = (Arc::clone(&calls), endpoint.clone());
                tokio::task::spawn_local(async move {
                    calls.acquire(&endpoint, ConnectionNeed::Any).await.map(drop)
                })
            })
            .collect();
        for ask in asks {
            let error = ask.await.unwrap().unwrap_err().to_string();
            assert!(error.contains("a.test") && error.contains("b.test"), "{error}");
        }
    })
    .await;
}
