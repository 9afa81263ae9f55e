use std::time::Duration;

use super::hops::{Hop, IdleTimeout, promised, watch};
use super::rules;
use crate::client::Response;
use crate::finding::Verdict;
use crate::probes::mock::{MockResponse, serve};
use crate::probes::scripted::context_of;
use crate::server::Server;
use crate::settings::Settings;

fn hop(server: Server, idle: IdleTimeout) -> Hop {
    Hop { url: "http://inner.example/".to_owned(), server, status: 200, took: Duration::from_millis(3), idle }
}

fn said(seconds: u64) -> IdleTimeout {
    IdleTimeout::Promised(Duration::from_secs(seconds))
}

#[test]
fn the_inner_server_keeps_idle_connections_longer() {
    let cases = [
        (hop(Server::Envoy, IdleTimeout::Untold), said(5), Verdict::Warning),
        (
            hop(Server::Envoy, IdleTimeout::Untold),
            IdleTimeout::Longer(Duration::from_secs(130)),
            Verdict::Unknown,
        ),
        (
            hop(Server::Caddy, IdleTimeout::Untold),
            IdleTimeout::Longer(Duration::from_secs(130)),
            Verdict::Good,
        ),
        (hop(Server::Apache, said(5)), said(65), Verdict::Warning),
        (hop(Server::Nginx, IdleTimeout::Untold), said(5), Verdict::Unknown),
        (hop(Server::Nginx, IdleTimeout::Untold), said(75), Verdict::Good),
        // A load balancer of 60 s before Node's 5 s, and before 65 s.
        (
            hop(Server::Unknown, IdleTimeout::Measured(Duration::from_secs(60))),
            IdleTimeout::Measured(Duration::from_secs(5)),
            Verdict::Warning,
        ),
        (hop(Server::Unknown, said(60)), said(65), Verdict::Good),
        (hop(Server::Unknown, IdleTimeout::Untold), said(65), Verdict::Unknown),
        (hop(Server::Envoy, IdleTimeout::Untold), IdleTimeout::Untold, Verdict::Unknown),
        (hop(Server::Envoy, IdleTimeout::Untold), IdleTimeout::Never, Verdict::Good),
    ];
    for (outer, idle, verdict) in cases {
        let found = rules::idle(&outer, &hop(Server::Unknown, idle));
        assert_eq!(found.verdict, verdict, "{outer:?} before {idle:?}: {found:?}");
    }
}

#[test]
fn the_outer_server_waits_longer() {
    let responded = |status, seconds| Hop {
        status,
        took: Duration::from_secs(seconds),
        ..hop(Server::Unknown, IdleTimeout::Untold)
    };
    for (outer, inner, verdict) in [
        (responded(504, 10), responded(200, 12), Verdict::Bad),
        (responded(504, 10), responded(200, 1), Verdict::Unknown),
        (responded(504, 10), responded(504, 10), Verdict::Good),
        (responded(502, 10), responded(503, 9), Verdict::Good),
        (responded(200, 1), responded(200, 1), Verdict::Unknown),
    ] {
        let found = rules::responds(&outer, &inner);
        assert_eq!(found.verdict, verdict, "{found:?}");
    }
}

#[test]
fn promises_are_read() {
    for (fields, idle) in [
        (&[("Keep-Alive", "timeout=5, max=100")][..], said(5)),
        (&[("Keep-Alive", "max=100, Timeout=\"75\"")], said(75)),
        (&[("Keep-Alive", "300")], IdleTimeout::Untold),
        (&[("Keep-Alive", "timeout=soon")], IdleTimeout::Untold),
        (&[("Content-Length", "0")], IdleTimeout::Untold),
    ] {
        assert_eq!(promised(&Response::for_tests(200, fields)), idle, "{fields:?}");
    }
}

fn page(seconds: u64) -> impl Fn(&str) -> MockResponse + Send + Sync {
    let page = format!("HTTP/1.1 200 OK\r\nKeep-Alive: timeout={seconds}\r\nContent-Length: 2\r\n\r\nok");
    move |_| MockResponse::of(&[&page])
}

#[tokio::test]
async fn each_server_of_a_row_is_compared_with_the_next() {
    let (front, middle, back) =
        (serve(false, page(60)).await, serve(false, page(65)).await, serve(false, page(5)).await);
    let mut gone = back.clone();
    gone.port = 1;
    let context = context_of(&front, Settings { via: vec![middle, back, gone], ..Settings::default() }).await;
    let found: Vec<_> = super::examine(&context).await.into_iter().map(|one| (one.id, one.verdict)).collect();
    assert_eq!(
        found,
        [
            (rules::HOPS, Verdict::Unknown),
            (rules::IDLE, Verdict::Good),
            (rules::RESPONSES, Verdict::Unknown),
            (rules::IDLE, Verdict::Warning),
            (rules::RESPONSES, Verdict::Unknown),
        ]
    );
}

#[tokio::test]
async fn without_a_row_there_is_advice() {
    let context = context_of(&serve(false, page(5)).await, Settings::default()).await;
    let found = super::examine(&context).await;
    assert!(found[0].evidence.contains("--via") && found[0].verdict == Verdict::Unknown, "{found:?}");
}

#[tokio::test]
async fn an_idle_connection_is_watched_until_it_is_closed() {
    let kept = context_of(&serve(false, page(5)).await, Settings::default()).await;
    let (connection, _) = kept.once(&kept.ordinary_request()).await.expect("a connection");
    let moment = Duration::from_millis(50);
    assert_eq!(watch(connection, moment).await, IdleTimeout::Longer(moment));
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let closed =
        context_of(&serve(false, move |_| MockResponse::of(&[whole]).closing()).await, Settings::default())
            .await;
    let (connection, _) = closed.once(&closed.ordinary_request()).await.expect("a connection");
    assert!(matches!(watch(connection, Duration::from_secs(30)).await, IdleTimeout::Measured(_)));
}
