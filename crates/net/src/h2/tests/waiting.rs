//! Calls that wait for room on a connection, or for a slot for one.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use h2::server::Builder;

use super::connections::{ask_all, is_pending, serve_gated};
use super::peer::*;
use super::*;
use crate::AcquireError;
use crate::pool::{IdleOwner, SlotPurpose};
use crate::thread_index;

/// For either limit: up to N calls wait, each for the limited time.
#[tokio::test]
async fn who_waits_because_of_a_limit_is_in_the_queue() {
    let limits = [(1, usize::MAX), (usize::MAX, 1)];
    for (max, max_in_all) in limits {
        run(async {
            let (listener, endpoint) = listen().await;
            let (gate, _connections) = serve_gated(listener, 1);
            let pool = Http2Pool::new(PoolSettings { max, max_in_all, ..PoolSettings::default() });
            pool.slots.queue().set(1, BOUND);
            let both = tokio::task::spawn_local({
                let (pool, endpoint) = (Arc::clone(&pool), endpoint.clone());
                async move { ask_all(&pool, &endpoint, 2).await }
            });
            until(|| pool.count(&endpoint) == (1, 1) && pool.slots.queue().join().is_none()).await;
            let refused = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap_err();
            assert!(matches!(refused, AcquireError::QueueFull), "{refused}");
            pool.slots.queue().set(2, Duration::from_millis(1));
            let waited = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap_err();
            assert!(matches!(waited, AcquireError::NoneFree(_)), "{waited}");
            gate.add_permits(2);
            assert!(both.await.unwrap().into_iter().all(|response| response.unwrap().body == b"hello"));
        })
        .await;
    }
}

/// The waiter for room on it is already provided for, and no other caller wants its slot.
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
        let purpose = SlotPurpose { endpoint: endpoint.clone(), thread: Some(thread_index()) };
        until(|| pool.count(&endpoint) == (1, 2) && pool.slots.waiting(&purpose) == 18).await;
        gate.add_permits(20);
        assert!(all.await.unwrap().into_iter().all(|response| response.unwrap().body == b"hello"));
        assert_eq!(connections.get(), 1);
    })
    .await;
}

/// The limit over all endpoints: idle connections make room, and a connection in use at one endpoint leaves its slot to another in turn.
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
            pool.slots.waiting(&SlotPurpose { endpoint: second.1.clone(), thread: Some(thread_index()) }) == 1
        })
        .await;
        // Longer than a turn.
        tokio::time::sleep(Duration::from_millis(150)).await;
        gate.add_permits(1);
        until(|| pool.count(&first.1).0 == 0).await;
        assert_eq!(connections[1].get(), 0, "it is still open");
        gate.add_permits(2);
        assert!(busy.await.unwrap().into_iter().all(|response| response.unwrap().body == b"hello"));
        assert_eq!(other.await.unwrap().unwrap().body, b"hello");
        assert_eq!((connections[0].get(), connections[1].get()), (1, 1));
        // The idle one makes room at once.
        gate.add_permits(1);
        assert_eq!(ask(&pool, &first.1).await.unwrap().body, b"hello");
        assert_eq!((pool.count(&first.1), pool.count(&second.1)), ((1, 0), (0, 0)));
    })
    .await;
}

/// One connection for two threads: they take turns, and no caller waits forever.
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
                tokio::task::spawn_local(async move {
                    pool.acquire(&endpoint, ConnectionNeed::Any).await.map(drop)
                })
            })
            .collect();
        for waiting in waiting {
            assert!(waiting.await.unwrap().unwrap_err().is_refused());
        }
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_gives_up_waits_no_more() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        // Without the server's SETTINGS, a connection takes one call: the next caller waits.
        let _first = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        let _peer = Peer::accept_silently(&listener).await;
        for _ in 0..3 {
            let mut second = Box::pin(pool.acquire(&endpoint, ConnectionNeed::Any));
            let mut third = Box::pin(pool.acquire(&endpoint, ConnectionNeed::Any));
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

/// Threads that want a slot find one idle connection: it is given up once.
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

/// The server may change its limit of concurrent streams at any time (RFC 9113 §6.5.2).
#[tokio::test]
async fn a_server_that_takes_more_calls_than_before_gets_those_that_wait() {
    run(async {
        let (listener, endpoint) = listen().await;
        let settings = PoolSettings { max: 1, ..PoolSettings::default() };
        let pool = Http2Pool::new(settings);
        let accept = Peer::accept(&listener, &[(MAX_CONCURRENT_STREAMS, 1)]);
        let (first, mut peer) = tokio::join!(pool.acquire(&endpoint, ConnectionNeed::Any), accept);
        let mut first = first.unwrap();
        first.begin(get());
        first.end(&Fields::new());
        peer.request().await;
        let mut second = pin!(pool.acquire(&endpoint, ConnectionNeed::Any));
        assert!(is_pending(second.as_mut()).await, "there is no room, and no second connection");
        let two = [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &2_u32.to_be_bytes()].concat();
        peer.write(SETTINGS, 0, 0, &two).await;
        drop(second.await.unwrap());
    })
    .await;
}

/// The task reads them once the socket has taken what must be written first: a caller that woke itself until then would hold the thread.
#[tokio::test]
async fn a_caller_that_waits_for_what_an_idle_connection_has_to_say_does_not_wake_itself() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        let accept = Peer::accept(&listener, &[]);
        let (call, mut peer) = tokio::join!(pool.acquire(&endpoint, ConnectionNeed::Any), accept);
        peer.write(PING, 0, 0, b"12345678").await;
        peer.next(PING).await.unwrap();
        drop(call.unwrap());
        peer.write(PING, 0, 0, b"87654321").await;
        let woken = Arc::new(WakeCounter::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut waiting = Box::pin(pool.acquire(&endpoint, ConnectionNeed::Any));
        // Without a turn for the connection's task in between.
        while let Poll::Ready(call) = waiting.as_mut().poll(&mut cx) {
            // The bytes have not arrived yet.
            drop(call.unwrap());
            waiting = Box::pin(pool.acquire(&endpoint, ConnectionNeed::Any));
        }
        assert_eq!(woken.0.load(Relaxed), 0, "it has woken itself");
        until(|| woken.0.load(Relaxed) > 0).await;
        drop(waiting.await.unwrap());
        assert_eq!(pool.dials(), 1);
    })
    .await;
}

/// Counts how often it wakes.
#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A call that cannot be retried does not trust an idle connection, and at the limit it would wait in vain for another beside it.
#[tokio::test]
async fn an_idle_connection_that_will_not_do_makes_room_where_there_may_be_no_more() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, connections) = serve_gated(listener, 10);
        gate.add_permits(1);
        let pool = Http2Pool::new(PoolSettings { max: 1, ..PoolSettings::default() });
        assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
        until(|| pool.count(&endpoint) == (1, 0)).await;
        drop(pool.acquire(&endpoint, ConnectionNeed::New).await.unwrap());
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
        let held = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
        {
            let mut waiting = pin!(pool.acquire(&other, ConnectionNeed::Any));
            assert!(is_pending(waiting.as_mut()).await, "there is no slot for a second connection");
            assert!(pool.has_shelves(&other));
        }
        assert!(!pool.has_shelves(&other));
        drop((held, gate));
    })
    .await;
}

/// Each new connection would be like those before it.
#[tokio::test]
async fn a_server_that_takes_no_calls_at_all_is_not_asked_on_a_third_connection() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        let mut peers = Vec::new();
        for _ in 0..2 {
            let accept = Peer::accept(&listener, &[(MAX_CONCURRENT_STREAMS, 0)]);
            let (call, mut peer) = tokio::join!(pool.acquire(&endpoint, ConnectionNeed::Any), accept);
            // After the pong it has seen the settings.
            peer.write(PING, 0, 0, b"12345678").await;
            peer.next(PING).await.unwrap();
            drop(call.unwrap());
            peers.push(peer);
        }
        let mut waiting = pin!(pool.acquire(&endpoint, ConnectionNeed::Any));
        assert!(is_pending(waiting.as_mut()).await);
        assert_eq!(pool.dials(), 2);
        let one = [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
        peers[1].write(SETTINGS, 0, 0, &one).await;
        drop(waiting.await.unwrap());
        assert_eq!(pool.dials(), 2);
    })
    .await;
}

/// No further connection would help, and nobody else's call would free one: the wait is bounded as any other in the queue, and its end says what was waited for.
#[tokio::test]
async fn a_call_waits_in_the_queue_for_a_server_that_takes_no_calls() {
    run(async {
        let (listener, endpoint) = listen().await;
        let pool = pool();
        let mut peers = Vec::new();
        for _ in 0..2 {
            let accept = Peer::accept(&listener, &[(MAX_CONCURRENT_STREAMS, 0)]);
            let (call, mut peer) = tokio::join!(pool.acquire(&endpoint, ConnectionNeed::Any), accept);
            peer.write(PING, 0, 0, b"12345678").await;
            peer.next(PING).await.unwrap();
            drop(call.unwrap());
            peers.push(peer);
        }
        let patience = Duration::from_millis(20);
        pool.slots.queue().set(1, patience);
        let mut first = pin!(pool.acquire(&endpoint, ConnectionNeed::Any));
        assert!(is_pending(first.as_mut()).await);
        let second = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap_err();
        assert!(matches!(second, AcquireError::QueueFull), "{second}");
        let first = first.await.unwrap_err();
        assert!(matches!(first, AcquireError::NoStreams(waited) if waited == patience), "{first}");
        assert_eq!(pool.dials(), 2);
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_stays_while_the_one_that_will_do_is_being_made() {
    run(async {
        let (listener, endpoint) = listen().await;
        let (gate, connections) = serve_gated(listener, 10);
        gate.add_permits(1);
        let pool = Http2Pool::new(PoolSettings { max: 2, ..PoolSettings::default() });
        assert_eq!(ask(&pool, &endpoint).await.unwrap().body, b"hello");
        until(|| pool.count(&endpoint) == (1, 0)).await;
        let mut waiting = pin!(pool.acquire(&endpoint, ConnectionNeed::New));
        for _ in 0..2 {
            assert!(is_pending(waiting.as_mut()).await);
        }
        assert_eq!((pool.dials(), pool.count(&endpoint)), (2, (1, 0)));
        drop(waiting.await.unwrap());
        assert_eq!((connections.get(), pool.count(&endpoint)), (2, (2, 0)));
    })
    .await;
}
