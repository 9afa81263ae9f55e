//! Which connection a call gets, and when connections end.

use std::cell::Cell;
use std::pin::{Pin, pin};

use h2::server::Builder;

use super::peer::*;
use super::*;
use crate::pool::{Giver, Seeks};
use crate::thread_index;
use crate::{AcquireError, Calls, Protocol};

/// Answers once it is told to.
fn gated(
    gate: &Rc<tokio::sync::Semaphore>,
) -> impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> Gated + use<> {
    let gate = Rc::clone(gate);
    move |request, respond| {
        let gate = Rc::clone(&gate);
        Box::pin(async move {
            let _permit = gate.acquire().await.unwrap();
            hello(request, respond).await;
        })
    }
}

/// A server that takes so many at once, and answers as its gate lets them through; the connections that were made to it.
fn serve_gated(
    listener: TcpListener,
    streams: u32,
) -> (Rc<tokio::sync::Semaphore>, Rc<std::cell::Cell<usize>>) {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(streams);
    let gate = Rc::new(tokio::sync::Semaphore::new(0));
    let connections = serve(listener, builder, gated(&gate));
    (gate, connections)
}

type Gated = Pin<Box<dyn Future<Output = ()>>>;

/// Asks that many at once.
async fn ask_all(
    pool: &Arc<Http2Pool>,
    endpoint: &Endpoint,
    count: usize,
) -> Vec<Result<Whole, ClientError>> {
    let asks: Vec<_> = (0..count)
        .map(|_| {
            let (pool, endpoint) = (Arc::clone(pool), endpoint.clone());
            tokio::task::spawn_local(async move { ask(&pool, &endpoint).await })
        })
        .collect();
    let mut answers = Vec::new();
    for ask in asks {
        answers.push(ask.await.unwrap());
    }
    answers
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
        for answer in ask_all(&pool, &endpoint, 100).await {
            assert_eq!(answer.unwrap().body, b"hello");
        }
        assert_eq!((connections.get(), pool.count(&endpoint)), (1, (1, 0)));
        let call = pool.acquire(&endpoint, Need::Any).await.unwrap();
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
        for answer in ask_all(&pool, &endpoint, 20).await {
            assert_eq!(answer.unwrap().body, b"hello");
        }
        assert_eq!((connections.get(), pool.count(&endpoint)), (3, (3, 0)));
    })
    .await;
}

/// Because of either limit: so many wait, each for so long.
#[tokio::test]
async fn who_waits_because_of_a_limit_is_in_the_queue() {
    let limits = [(1, usize::MAX), (usize::MAX, 1)];
    for (max, max_in_all) in limits {
        run(async {
            let (listener, endpoint) = listen().await;
            let (gate, _connections) = serve_gated(listener, 1);
            let pool = Http2Pool::new(PoolSettings { max, max_in_all, ..PoolSettings::default() });
            pool.places.queue().set(1, BOUND);
            let both = tokio::task::spawn_local({
                let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
                async move { ask_all(&pool, &endpoint, 2).await }
            });
            until(|| pool.count(&endpoint) == (1, 1) && pool.places.queue().join().is_none()).await;
            let refused = pool.acquire(&endpoint, Need::Any).await.unwrap_err();
            assert!(matches!(refused, AcquireError::QueueFull), "{refused}");
            pool.places.queue().set(2, Duration::from_millis(1));
            let waited = pool.acquire(&endpoint, Need::Any).await.unwrap_err();
            assert!(matches!(waited, AcquireError::NoneFree(_)), "{waited}");
            gate.add_permits(2);
            assert!(both.await.unwrap().into_iter().all(|answer| answer.unwrap().body == b"hello"));
        })
        .await;
    }
}

/// Whoever waits for room on it is on the way, and nobody else wants its place.
#[tokio::test]
async fn a_connection_is_not_closed_for_those_who_wait_for_it() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, connections) = serve_gated(listener, 2);
        let pool = Http2Pool::new(PoolSettings { max_in_all: 1, ..PoolSettings::default() });
        let all = tokio::task::spawn_local({
            let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
            async move { ask_all(&pool, &endpoint, 20).await }
        });
        let seeks = Seeks { endpoint: endpoint.clone(), thread: Some(thread_index()) };
        until(|| pool.count(&endpoint) == (1, 2) && pool.places.waiting(&seeks) == 18).await;
        gate.add_permits(20);
        assert!(all.await.unwrap().into_iter().all(|answer| answer.unwrap().body == b"hello"));
        assert_eq!(connections.get(), 1);
    })
    .await;
}

/// The limit over all endpoints: what is idle makes room, and what is in use at one endpoint leaves its place to another in turn.
#[tokio::test]
async fn endpoints_share_the_places_there_are() {
    run(async {
        let (first, second) = (listen().await, listen().await);
        let gate = Rc::new(tokio::sync::Semaphore::new(0));
        let permits = Rc::clone(&gate);
        let one_by_one = move |request, respond| {
            let permits = Rc::clone(&permits);
            async move {
                permits.acquire().await.unwrap().forget();
                hello(request, respond).await;
            }
        };
        let connections =
            [serve(first.0, Builder::new(), one_by_one), serve(second.0, Builder::new(), hello)];
        let pool = Http2Pool::new(PoolSettings { max_in_all: 1, ..PoolSettings::default() });
        let busy = tokio::task::spawn_local({
            let (pool, at) = (Arc::clone(&pool), first.1.clone());
            async move { ask_all(&pool, &at, 3).await }
        });
        until(|| pool.count(&first.1) == (1, 3)).await;
        let other = tokio::task::spawn_local({
            let (pool, at) = (Arc::clone(&pool), second.1.clone());
            async move { ask(&pool, &at).await }
        });
        until(|| {
            pool.places.waiting(&Seeks { endpoint: second.1.clone(), thread: Some(thread_index()) }) == 1
        })
        .await;
        // Longer than a turn.
        tokio::time::sleep(Duration::from_millis(150)).await;
        gate.add_permits(1);
        until(|| pool.count(&first.1).0 == 0).await;
        assert_eq!(connections[1].get(), 0, "it is still open");
        gate.add_permits(2);
        assert!(busy.await.unwrap().into_iter().all(|answer| answer.unwrap().body == b"hello"));
        assert_eq!(other.await.unwrap().unwrap().body, b"hello");
        assert_eq!((connections[0].get(), connections[1].get()), (1, 1));
        // The idle one makes room at once.
        gate.add_permits(1);
        assert_eq!(ask(&pool, &first.1).await.unwrap().body, b"hello");
        assert_eq!((pool.count(&first.1), pool.count(&second.1)), ((1, 0), (0, 0)));
    })
    .await;
}

/// One connection for two threads: they take turns, and nobody waits for ever.
#[test]
fn threads_take_turns_where_there_are_too_few_places() {
    let (address, server) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(LocalSet::new().run_until(async {
            let (listener, endpoint) = listen().await;
            let _count = serve(listener, Builder::new(), hello);
            address.send(endpoint).unwrap();
            std::future::pending::<()>().await;
        }));
    });
    let endpoint = server.recv().unwrap();
    let plane = crate::DataPlane::start(2).unwrap();
    let pool = Http2Pool::new(PoolSettings { max_in_all: 1, ..PoolSettings::default() });
    let (done, results) = std::sync::mpsc::channel();
    for caller in 0..6 {
        let (pool, endpoint, done) = (Arc::clone(&pool), endpoint.clone(), done.clone());
        plane.remotes()[caller % 2].spawn(move || async move {
            for _ in 0..200 {
                assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
            }
            done.send(()).unwrap();
        });
    }
    (0..6).for_each(|_| results.recv_timeout(BOUND).expect("every call ends"));
    let state = pool.state(None);
    assert!(state.idle + state.in_use <= 1 && state.waiting == 0, "{state:?}");
    plane.stop();
}

#[tokio::test]
async fn who_waits_for_a_connection_learns_why_there_is_none() {
    run(async {
        let (listener, endpoint) = listen().await;
        drop(listener);
        let pool = pool();
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
                tokio::task::spawn_local(async move { pool.acquire(&endpoint, Need::Any).await.map(drop) })
            })
            .collect();
        for waiting in waiting {
            assert!(waiting.await.unwrap().unwrap_err().is_refused());
        }
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
        assert!(pool.take(&endpoint, Need::Any).is_none());
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
            peer.answer(stream).await;
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
        let mut call = pool.acquire(&endpoint, Need::Any).await.unwrap();
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

/// Whether it has no end yet, after one look.
async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn a_dial_that_ends_after_its_endpoint_was_forgotten_leaves_nothing() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        {
            let mut call = std::pin::pin!(pool.acquire(&endpoint, Need::Any));
            assert!(is_pending(call.as_mut()).await);
        }
        assert_eq!(pool.state(None).dialling, 1);
        pool.forget(&endpoint);
        // The dial goes on: its connection is made, says goodbye, and is gone.
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
        let mut call = std::pin::pin!(pool.acquire(&endpoint, Need::Any));
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
            peer.answer(stream).await;
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
            present.answer(stream).await;
            (vanished, present)
        });
        let pool = Http2Pool::new(PoolSettings {
            connect_timeout: Duration::from_millis(100),
            ..PoolSettings::default()
        });
        let mut calls = Vec::new();
        for _ in 0..2 {
            let mut call = pool.acquire(&endpoint, Need::Any).await.unwrap();
            call.begin(get());
            call.end(&Fields::new());
            until(|| call.has_sent()).await;
            calls.push(call);
        }
        // Somebody loses patience. The other learns that nobody is there.
        drop(calls.pop());
        let error = read(&mut calls[0]).await.unwrap_err();
        assert!(matches!(&error, ClientError::Unanswered(Some(why)) if why.kind() == std::io::ErrorKind::TimedOut), "{error}");
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
            peer.answer(quick).await;
            let first = peer.request().await;
            for _ in 0..3 {
                match peer.read().await.unwrap() {
                    Frame { kind: PING, payload, .. } => peer.write(PING, END, 0, &payload).await,
                    Frame { kind: HEADERS, stream, .. } => peer.answer(stream).await,
                    Frame { kind, .. } => assert_eq!(kind, RST_STREAM),
                }
            }
            while peer.read().await.is_some() {}
            first
        });
        let pool = pool();
        ask(&pool, &endpoint).await.unwrap();
        let mut call = pool.acquire(&endpoint, Need::Any).await.unwrap();
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
        assert!(matches!(error, ClientError::Unanswered(Some(_))), "{error}");
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
        drop(pool.acquire(&endpoint, Need::Fresh).await.unwrap());
        assert_eq!(connections.get(), 1);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(2)).await;
        tokio::time::resume();
        assert!(pool.take(&endpoint, Need::Fresh).is_none());
        drop(pool.acquire(&endpoint, Need::Fresh).await.unwrap());
        assert_eq!(pool.count(&endpoint), (2, 0));
        drop(pool.acquire(&endpoint, Need::New).await.unwrap());
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
            first.answer(stream).await;
            closing.await.unwrap();
            drop(first);
            let mut second = Peer::accept(&listener, &[]).await;
            let stream = second.request().await;
            second.answer(stream).await;
            while second.read().await.is_some() {}
        });
        let pool = pool();
        ask(&pool, &endpoint).await.unwrap();
        close.send(()).unwrap();
        // It runs, and nothing else does: the reactor is not asked before the next call is under way.
        tokio::task::yield_now().await;
        let mut call = pool.acquire(&endpoint, Need::Any).await.unwrap();
        assert_eq!(call.idle(), None, "a new one");
        call.begin(get());
        read(&mut call).await.unwrap();
        let totals = pool.totals();
        assert_eq!((totals.dialled, totals.reused, totals.closed_idle), (2, 0, 1));
    })
    .await;
}

/// A PING of the server is no reason to do without the connection.
#[tokio::test]
async fn a_connection_that_says_something_harmless_is_used() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (say, saying) = tokio::sync::oneshot::channel::<()>();
        tokio::task::spawn_local(async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            let stream = peer.request().await;
            peer.answer(stream).await;
            saying.await.unwrap();
            peer.write(PING, 0, 0, &[1; 8]).await;
            let stream = peer.request().await;
            peer.answer(stream).await;
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
    let (told, answered) = std::sync::mpsc::channel();
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
        answered.recv_timeout(BOUND).unwrap();
    }
    assert_eq!((pool.count(&endpoint), pool.totals().dialled, pool.totals().reused), ((2, 0), 2, 38));
    plane.stop();
}

/// `min_idle`: there before a call, there again after it was lost or when the server comes back, and gone with the endpoint.
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
        let call = calls.acquire(&endpoint, Need::Any).await.unwrap();
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

#[tokio::test]
async fn a_caller_that_gives_up_waits_no_more() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        // Without the server's SETTINGS, a connection takes one call: whoever comes next waits.
        let _first = pool.acquire(&endpoint, Need::Any).await.unwrap();
        let _peer = Peer::accept_silently(&listener).await;
        for _ in 0..3 {
            let mut second = Box::pin(pool.acquire(&endpoint, Need::Any));
            let mut third = Box::pin(pool.acquire(&endpoint, Need::Any));
            poll_fn(|cx| {
                assert!(second.as_mut().poll(cx).is_pending() && third.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            assert_eq!(pool.state(None).waiting, 2, "two callers of one task are two");
            drop((second, third));
            assert_eq!(pool.state(None).waiting, 0);
        }
    })
    .await;
}

/// The one connection is full, and others wait for room on it.
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
        // Who waited has a connection of its own, and the first call ends on the old one.
        until(|| pool.count(&endpoint) == (1, 1) && connections.get() == 2).await;
        gate.add_permits(2);
        assert!(both.await.unwrap().into_iter().all(|answer| answer.unwrap().body == b"hello"));
        until(|| pool.count(&endpoint) == (1, 0)).await;
        gate.add_permits(1);
        assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
        assert_eq!(connections.get(), 2, "it pools as before");
    })
    .await;
}

/// All who wait for it hear of its end, and the next call makes another.
#[tokio::test]
async fn a_dial_that_panics_fails_those_who_wait_for_it_and_no_other() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, connections) = serve_gated(listener, 10);
        let pool = Http2Pool::new(PoolSettings { max_in_all: 1, ..PoolSettings::default() });
        crate::connect::PANIC_ON_DIAL.set(true);
        let acquire = || async { pool.acquire(&endpoint, Need::Any).await.map(drop) };
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

/// Threads that want a place find one idle connection: it is given up once.
#[tokio::test]
async fn an_idle_connection_is_given_up_once_however_many_ask() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, _connections) = serve_gated(listener, 1);
        let pool = pool();
        for _ in 0..200 {
            gate.add_permits(1);
            assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
            until(|| pool.count(&endpoint) == (1, 0)).await;
            let begin = Arc::new(std::sync::Barrier::new(8));
            let threads = [(); 8].map(|()| {
                let (pool, begin) = (Arc::clone(&pool), Arc::clone(&begin));
                std::thread::spawn(move || {
                    begin.wait();
                    pool.give_one_up()
                })
            });
            let given: Vec<bool> = threads.map(|thread| thread.join().unwrap()).into();
            assert_eq!(given.iter().filter(|given| **given).count(), 1, "{given:?}");
        }
    })
    .await;
}

/// The largest number of calls is not only said once (RFC 9113 §6.5.2).
#[tokio::test]
async fn a_server_that_takes_more_calls_than_before_gets_those_that_wait() {
    run(async {
        let (listener, endpoint) = listen().await;
        let settings = PoolSettings { max: 1, ..PoolSettings::default() };
        let pool = Http2Pool::new(settings);
        let accept = Peer::accept(&listener, &[(MAX_CONCURRENT_STREAMS, 1)]);
        let (first, mut peer) = tokio::join!(pool.acquire(&endpoint, Need::Any), accept);
        let mut first = first.unwrap();
        first.begin(get());
        first.end(&Fields::new());
        peer.request().await;
        let mut second = pin!(pool.acquire(&endpoint, Need::Any));
        assert!(is_pending(second.as_mut()).await, "there is no room, and no second connection");
        let two = [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &2_u32.to_be_bytes()].concat();
        peer.write(SETTINGS, 0, 0, &two).await;
        drop(second.await.unwrap());
    })
    .await;
}

/// A call that cannot be sent again does not trust one that has been idle, and where there may be no other beside it, it would wait in vain.
#[tokio::test]
async fn an_idle_connection_that_will_not_do_makes_room_where_there_may_be_no_more() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, connections) = serve_gated(listener, 10);
        gate.add_permits(1);
        let pool = Http2Pool::new(PoolSettings { max: 1, ..PoolSettings::default() });
        assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
        until(|| pool.count(&endpoint) == (1, 0)).await;
        drop(pool.acquire(&endpoint, Need::New).await.unwrap());
        assert_eq!((connections.get(), pool.count(&endpoint)), (2, (1, 0)));
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_nothing_behind() {
    run(async {
        let ((listener, endpoint), (_other_listener, other)) = (listen().await, listen().await);
        let (gate, _connections) = serve_gated(listener, 10);
        let pool = Http2Pool::new(PoolSettings { max_in_all: 1, ..PoolSettings::default() });
        let held = pool.acquire(&endpoint, Need::Any).await.unwrap();
        {
            let mut waiting = pin!(pool.acquire(&other, Need::Any));
            assert!(is_pending(waiting.as_mut()).await, "there is no place for a second connection");
            assert!(pool.has_shelves(&other));
        }
        assert!(!pool.has_shelves(&other));
        drop((held, gate));
    })
    .await;
}
