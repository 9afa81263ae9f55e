//! Which connection a call gets, and when connections end.

use std::cell::Cell;
use std::pin::Pin;

use h2::server::Builder;

use super::peer::*;
use super::*;
use crate::{AcquireError, Calls, Protocol};

/// Responds once the gate opens.
fn gated(
    gate: &Rc<tokio::sync::Semaphore>,
) -> impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> GateFuture + use<> {
    let gate = Rc::clone(gate);
    move |request, respond| {
        let gate = Rc::clone(&gate);
        Box::pin(async move {
            let _permit = gate.acquire().await.unwrap();
            hello(request, respond).await;
        })
    }
}

/// A server that accepts this many streams at once and responds when its gate opens. Returns its gate and its count of connections.
pub(super) fn serve_gated(
    listener: TcpListener,
    streams: u32,
) -> (Rc<tokio::sync::Semaphore>, Rc<std::cell::Cell<usize>>) {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(streams);
    let gate = Rc::new(tokio::sync::Semaphore::new(0));
    let connections = serve(listener, builder, gated(&gate));
    (gate, connections)
}

type GateFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Makes that many calls at once.
pub(super) async fn ask_all(
    pool: &Arc<Http2Pool>,
    endpoint: &Endpoint,
    count: usize,
) -> Vec<Result<FullResponse, ClientError>> {
    let asks: Vec<_> = (0..count)
        .map(|_| {
            let (pool, endpoint) = (Arc::clone(pool), endpoint.clone());
            tokio::task::spawn_local(async move { ask(&pool, &endpoint).await })
        })
        .collect();
    let mut responses = Vec::new();
    for ask in asks {
        responses.push(ask.await.unwrap());
    }
    responses
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    run(async {
        let (listener, endpoint) = listen().await;
        let gate = Rc::new(tokio::sync::Semaphore::new(0));
        let connections = serve(listener, Builder::new(), gated(&gate));
        let pool = pool();
        let (counting, waiting) = (Arc::clone(&pool), Rc::clone(&gate));
        let at = endpoint.clone();
        tokio::task::spawn_local(async move {
            until(|| counting.count(&at) == (1, 100)).await;
            waiting.add_permits(100);
        });
        for response in ask_all(&pool, &endpoint, 100).await {
            assert_eq!(response.unwrap().body, b"hello");
        }
        assert_eq!((connections.get(), pool.count(&endpoint)), (1, (1, 0)));
        let call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        assert!(call.idle().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_full_connection_gets_company_up_to_the_limit() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, connections) = serve_gated(listener, 2);
        let pool = Http2Pool::new(PoolSettings { max: 3, ..PoolSettings::default() });
        let (counting, waiting) = (Arc::clone(&pool), Rc::clone(&gate));
        let at = endpoint.clone();
        tokio::task::spawn_local(async move {
            until(|| counting.count(&at) == (3, 6)).await;
            waiting.add_permits(6);
        });
        for response in ask_all(&pool, &endpoint, 20).await {
            assert_eq!(response.unwrap().body, b"hello");
        }
        assert_eq!((connections.get(), pool.count(&endpoint)), (3, (3, 0)));
    })
    .await;
}

#[tokio::test]
async fn a_connection_is_replaced_after_its_requests_its_age_and_its_idle_time() {
    run(async {
        let (listener, endpoint) = listen().await;
        let connections = serve(listener, Builder::new(), hello);
        let pool = Http2Pool::new(PoolSettings { max_requests: 2, ..PoolSettings::default() });
        for count in [1, 1, 2, 2] {
            ask(&pool, &endpoint).await.unwrap();
            assert_eq!(connections.get(), count);
        }
        pool.set_settings(PoolSettings { max_age: Duration::ZERO, ..PoolSettings::default() });
        // A new one is never too old for its first call.
        assert!(pool.take(&endpoint, ConnectionNeed::Any).is_none());
        pool.set_settings(PoolSettings {
            idle_timeout: Duration::from_millis(20),
            ..PoolSettings::default()
        });
        ask(&pool, &endpoint).await.unwrap();
        assert_eq!(connections.get(), 3);
        until(|| pool.count(&endpoint) == (0, 0)).await;
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_says_goodbye_when_it_is_closed() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        let peer = tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let stream = peer.request().await;
            peer.respond(stream).await;
            let goodbye = peer.next(GOAWAY).await.is_some();
            (goodbye, peer.read().await.is_none())
        });
        ask(&pool, &endpoint).await.unwrap();
        pool.forget(&endpoint);
        assert_eq!(peer.await.unwrap(), (true, true));
        assert_eq!(pool.count(&endpoint), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn what_is_forgotten_finishes_its_calls() {
    run(async {
        let (listener, endpoint) = listen().await;
        let gate = Rc::new(tokio::sync::Semaphore::new(0));
        let connections = serve(listener, Builder::new(), gated(&gate));
        let pool = pool();
        let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        call.begin(get());
        call.end(&Fields::new());
        until(|| call.has_sent()).await;
        pool.forget(&endpoint);
        gate.add_permits(2);
        assert_eq!(read(&mut call).await.unwrap().body, b"hello");
        drop(call);
        ask(&pool, &endpoint).await.unwrap();
        assert_eq!(connections.get(), 2);
    })
    .await;
}

/// Whether it is still pending, after one poll.
pub(super) async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn a_dial_that_ends_after_its_endpoint_was_forgotten_leaves_nothing() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        {
            let mut call = std::pin::pin!(pool.acquire(&endpoint, ConnectionNeed::Any));
            assert!(is_pending(call.as_mut()).await);
        }
        assert_eq!(pool.state(None).dialling, 1);
        pool.forget(&endpoint);
        // The dial continues: its connection is made, sends GOAWAY, and is gone.
        let mut peer = Peer::accept(&listener, &[]).await;
        while peer.read().await.is_some() {}
        until(|| !pool.has_shelves(&endpoint)).await;
        assert_eq!(pool.count(&endpoint), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_forgotten_dial_is_not_that_of_the_next() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        let mut call = std::pin::pin!(pool.acquire(&endpoint, ConnectionNeed::Any));
        assert!(is_pending(call.as_mut()).await);
        let first = pool.dials();
        pool.forget(&endpoint);
        assert!(is_pending(call.as_mut()).await);
        assert_eq!(pool.dials(), first + 1);
        pool.fail_dial(&endpoint, first);
        let state = pool.state(None);
        assert_eq!((state.dialling, state.waiting), (1, 1));
        serve(listener, Builder::new(), hello);
        call.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_pool_that_goes_lets_its_calls_finish_and_closes() {
    run(async {
        let (listener, endpoint) = listen().await;
        let closed = Rc::new(Cell::new(false));
        let told = Rc::clone(&closed);
        tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let stream = peer.request().await;
            peer.respond(stream).await;
            while peer.read().await.is_some() {}
            told.set(true);
        });
        let pool = pool();
        ask(&pool, &endpoint).await.unwrap();
        drop(pool);
        until(|| closed.get()).await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_vanished_is_found_out_by_the_first_call_that_is_given_up() {
    run(async {
        let (listener, endpoint) = listen().await;
        let peers = tokio::task::spawn_local(async move {
            let mut vanished = Peer::accept(&listener, &[]).await;
            vanished.request().await;
            let mut present = Peer::accept(&listener, &[]).await;
            let stream = present.request().await;
            present.respond(stream).await;
            (vanished, present)
        });
        let pool = Http2Pool::new(PoolSettings {
            connect_timeout: Duration::from_millis(100),
            ..PoolSettings::default()
        });
        let mut calls = Vec::new();
        for _ in 0..2 {
            let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
            call.begin(get());
            call.end(&Fields::new());
            until(|| call.has_sent()).await;
            calls.push(call);
        }
        // One caller gives up. The other learns that nobody listens.
        drop(calls.pop());
        let error = read(&mut calls[0]).await.unwrap_err();
        assert!(matches!(&error, ClientError::NoResponse(Some(why)) if why.kind() == std::io::ErrorKind::TimedOut), "{error}");
        until(|| pool.count(&endpoint).0 == 0).await;
        ask(&pool, &endpoint).await.unwrap();
        drop(peers.await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_only_slow_is_kept() {
    run(async {
        let (listener, endpoint) = listen().await;
        let peer = tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let quick = peer.request().await;
            peer.respond(quick).await;
            let first = peer.request().await;
            for _ in 0..3 {
                match peer.read().await.unwrap() {
                    Frame { kind: PING, payload, .. } => peer.write(PING, END, 0, &payload).await,
                    Frame { kind: HEADERS, stream, .. } => peer.respond(stream).await,
                    Frame { kind, .. } => assert_eq!(kind, RST_STREAM),
                }
            }
            while peer.read().await.is_some() {}
            first
        });
        let pool = pool();
        ask(&pool, &endpoint).await.unwrap();
        let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        call.begin(get());
        until(|| call.has_sent()).await;
        drop(call);
        ask(&pool, &endpoint).await.unwrap();
        assert_eq!(pool.count(&endpoint), (1, 0));
        drop(pool);
        assert_eq!(peer.await.unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_says_no_word_is_given_up() {
    run(async {
        let (listener, endpoint) = listen().await;
        let peer = tokio::task::spawn_local(async move {
            let mut peer = Peer::accept_silently(&listener).await;
            while peer.read().await.is_some() {}
        });
        let settings =
            PoolSettings { connect_timeout: Duration::from_millis(100), ..PoolSettings::default() };
        let error = ask(&Http2Pool::new(settings), &endpoint).await.unwrap_err();
        assert!(matches!(error, ClientError::NoResponse(Some(_))), "{error}");
        peer.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_request_that_cannot_be_repeated_takes_no_connection_that_may_be_closing() {
    run(async {
        let (listener, endpoint) = listen().await;
        let connections = serve(listener, Builder::new(), hello);
        let pool = pool();
        ask(&pool, &endpoint).await.unwrap();
        // Just used.
        drop(pool.acquire(&endpoint, ConnectionNeed::Fresh).await.unwrap());
        assert_eq!(connections.get(), 1);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(2)).await;
        tokio::time::resume();
        assert!(pool.take(&endpoint, ConnectionNeed::Fresh).is_none());
        drop(pool.acquire(&endpoint, ConnectionNeed::Fresh).await.unwrap());
        assert_eq!(pool.count(&endpoint), (2, 0));
        drop(pool.acquire(&endpoint, ConnectionNeed::New).await.unwrap());
        assert_eq!(pool.count(&endpoint), (3, 0));
    })
    .await;
}

/// The close is in the socket, and the task that drives the connection has not been woken for it yet.
#[tokio::test]
async fn a_connection_that_was_closed_a_moment_ago_is_not_used() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (close, closing) = tokio::sync::oneshot::channel::<()>();
        tokio::task::spawn_local(async move {
            let mut first = Peer::accept(&listener, &[]).await;
            let stream = first.request().await;
            first.respond(stream).await;
            closing.await.unwrap();
            drop(first);
            let mut second = Peer::accept(&listener, &[]).await;
            let stream = second.request().await;
            second.respond(stream).await;
            while second.read().await.is_some() {}
        });
        let pool = pool();
        ask(&pool, &endpoint).await.unwrap();
        close.send(()).unwrap();
        // Only this task runs: the reactor is not polled before the next call has begun.
        tokio::task::yield_now().await;
        let mut call = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        assert_eq!(call.idle(), None, "a new one");
        call.begin(get());
        read(&mut call).await.unwrap();
        let totals = pool.totals();
        assert_eq!((totals.dialled, totals.reused, totals.closed_idle), (2, 0, 1));
    })
    .await;
}

/// A PING of the server does not make the connection unusable.
#[tokio::test]
async fn a_connection_that_says_something_harmless_is_used() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (say, saying) = tokio::sync::oneshot::channel::<()>();
        tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let stream = peer.request().await;
            peer.respond(stream).await;
            saying.await.unwrap();
            peer.write(PING, 0, 0, &[1; 8]).await;
            let stream = peer.request().await;
            peer.respond(stream).await;
            while peer.read().await.is_some() {}
        });
        let pool = pool();
        ask(&pool, &endpoint).await.unwrap();
        say.send(()).unwrap();
        tokio::task::yield_now().await;
        ask(&pool, &endpoint).await.unwrap();
        let totals = pool.totals();
        assert_eq!((totals.dialled, totals.reused), (1, 1));
    })
    .await;
}

/// Each thread has a connection of its own.
#[test]
fn threads_do_not_share_connections() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let plane = crate::DataPlane::start(3).unwrap();
    let pool = pool();
    let (told, responded) = std::sync::mpsc::channel();
    plane.remotes()[0].spawn(move || async move {
        serve(TcpListener::from_std(listener).unwrap(), Builder::new(), hello);
        std::future::pending().await
    });
    for remote in &plane.remotes()[1..] {
        let (pool, endpoint, told) = (Arc::clone(&pool), endpoint.clone(), told.clone());
        remote.spawn(move || async move {
            for _ in 0..20 {
                assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
            }
            told.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        responded.recv_timeout(BOUND).unwrap();
    }
    assert_eq!((pool.count(&endpoint), pool.totals().dialled, pool.totals().reused), ((2, 0), 2, 38));
    plane.stop();
}

/// `min_idle`: ready before a call, ready again after a loss or when the server returns, and gone with the endpoint.
#[tokio::test]
async fn a_connection_that_is_to_be_there_is_made_again() {
    run(async {
        let (listener, endpoint) = listen().await;
        let settings = PoolSettings { min_idle: 1, ..PoolSettings::default() };
        let calls = Calls::new(settings, Protocol::Http2);
        let warmer = |calls: &Arc<Calls>| {
            tokio::task::spawn_local(Calls::keep_warm(Arc::downgrade(calls), endpoint.clone()))
        };
        let task = warmer(&calls);
        let first = Peer::accept(&listener, &[]).await;
        until(|| calls.http2().count(&endpoint) == (1, 0)).await;
        warmer(&calls).await.expect("one is enough");
        let call = calls.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        assert_eq!(call.idle(), None, "it has carried none");
        drop((call, first));
        let second = Peer::accept(&listener, &[]).await;
        let address = listener.local_addr().unwrap();
        drop((listener, second));
        until(|| calls.totals().dials_failed > 0).await;
        let listener = TcpListener::bind(address).await.unwrap();
        let mut third = Peer::accept(&listener, &[]).await;
        until(|| calls.http2().count(&endpoint) == (1, 0)).await;
        calls.forget(&endpoint);
        task.await.unwrap();
        while third.read().await.is_some() {}
        // Settings that ask for none, and no upstream at all.
        let task = warmer(&calls);
        let _fourth = Peer::accept(&listener, &[]).await;
        until(|| calls.http2().count(&endpoint) == (1, 0)).await;
        calls.set_settings(PoolSettings::default());
        task.await.unwrap();
        calls.set_settings(settings);
        let task = warmer(&calls);
        drop(calls);
        task.await.unwrap();
    })
    .await;
}

/// The only connection is full, and others wait for room on it.
#[tokio::test]
async fn a_pool_that_a_panic_has_broken_begins_anew() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, connections) = serve_gated(listener, 1);
        let pool = Http2Pool::new(PoolSettings { max: 1, ..PoolSettings::default() });
        let both = tokio::task::spawn_local({
            let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
            async move { ask_all(&pool, &endpoint, 2).await }
        });
        until(|| pool.count(&endpoint) == (1, 1) && pool.state(Some(&endpoint)).waiting == 1).await;
        pool.break_lock();
        // The waiter has a connection of its own, and the first call ends on the old one.
        until(|| pool.count(&endpoint) == (1, 1) && connections.get() == 2).await;
        gate.add_permits(2);
        assert!(both.await.unwrap().into_iter().all(|response| response.unwrap().body == b"hello"));
        until(|| pool.count(&endpoint) == (1, 0)).await;
        gate.add_permits(1);
        assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
        assert_eq!(connections.get(), 2, "it pools as before");
    })
    .await;
}

/// All its waiters learn of its end, and the next call makes another.
#[tokio::test]
async fn a_dial_that_panics_fails_those_who_wait_for_it_and_no_other() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, connections) = serve_gated(listener, 10);
        let pool = Http2Pool::new(PoolSettings { max_in_all: 1, ..PoolSettings::default() });
        crate::connect::PANIC_ON_DIAL.set(true);
        let acquire = || async { pool.acquire(&endpoint, ConnectionNeed::Any).await.map(drop) };
        let (first, second) = tokio::join!(acquire(), acquire());
        for failed in [first, second] {
            assert!(matches!(failed, Err(AcquireError::Connect(_))), "{failed:?}");
        }
        assert_eq!((pool.state(Some(&endpoint)).dialling, connections.get()), (0, 0));
        gate.add_permits(1);
        assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
    })
    .await;
}
