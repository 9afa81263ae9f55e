//! Many callers on two threads, real sockets, and an unreliable server. All randomness comes from a seed that is printed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::tests::{HELLO, ask};
use super::*;
use crate::{DataPlane, Http1};

const BOUND: Duration = Duration::from_secs(60);
const CALLERS: usize = 64;

/// Numbers that look random (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014).
struct RandomSource(u64);

impl RandomSource {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }
}

/// Counts of the server.
#[derive(Default)]
struct ServerCounts {
    accepted: AtomicUsize,
    responded: AtomicUsize,
}

/// A server on its own thread. One in `closes` responses is the last of its connection: announced, not announced, or not sent at all.
fn serve(closes: u64) -> (Endpoint, Arc<ServerCounts>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
    let seen = Arc::new(ServerCounts::default());
    let server = Arc::clone(&seen);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tokio::task::LocalSet::new().run_until(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                server.accepted.fetch_add(1, Ordering::SeqCst);
                let server = Arc::clone(&server);
                tokio::task::spawn_local(async move {
                    respond(stream, RandomSource(number), closes, &server).await
                });
            }
        }));
    });
    (endpoint, seen)
}

async fn respond(
    mut stream: tokio::net::TcpStream,
    mut seed: RandomSource,
    closes: u64,
    seen: &ServerCounts,
) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut bytes = [0; 1024];
    while stream.read(&mut bytes).await.is_ok_and(|got| got > 0) {
        let mood = if closes == 0 { 4 } else { seed.below(closes * 3) };
        if mood == 0 {
            return;
        }
        seen.responded.fetch_add(1, Ordering::SeqCst);
        let text = match mood {
            1 => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
            _ => HELLO,
        };
        if stream.write_all(text.as_bytes()).await.is_err() || mood <= 2 {
            return;
        }
        if seed.below(4) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Runs `calls` calls per caller, half of the callers on each of two threads, until all have ended.
fn run_callers<F: Future<Output = ()> + 'static>(
    call: impl Fn(Arc<Pool<Http1>>, RandomSource) -> F + Clone + Send + 'static,
    pool: &Arc<Pool<Http1>>,
    plane: &DataPlane,
) {
    let (done, results) = channel();
    for caller in 0..CALLERS {
        let (call, pool, done) = (call.clone(), Arc::clone(pool), done.clone());
        let seed = RandomSource(1000 + caller as u64);
        plane.remotes()[caller % 2].spawn(move || async move {
            call(pool, seed).await;
            done.send(()).unwrap();
        });
    }
    wait_for(&results, CALLERS);
}

fn wait_for(results: &Receiver<()>, count: usize) {
    for _ in 0..count {
        results.recv_timeout(BOUND).expect("every call ends");
    }
}

/// At the end, every slot has been released.
fn settled(pool: &Arc<Pool<Http1>>, endpoint: &Endpoint) -> PoolState {
    let until = std::time::Instant::now() + BOUND;
    loop {
        let state = pool.state(Some(endpoint));
        if (state.dialling, state.in_use, state.waiting) == (0, 0, 0) {
            assert_eq!(pool.count(endpoint), (state.idle, state.idle));
            return state;
        }
        assert!(std::time::Instant::now() < until, "{state:?}");
        std::thread::yield_now();
    }
}

/// The case of the issue: a caller for each call, 64 at once, on two threads.
#[test]
fn never_more_connections_than_calls_at_once() {
    for max in [usize::MAX, 5] {
        let (endpoint, seen) = serve(0);
        let plane = DataPlane::start(2).unwrap();
        let pool: Arc<Pool<Http1>> = Pool::new(PoolSettings { max, ..PoolSettings::default() });
        let to = endpoint.clone();
        let call = move |pool: Arc<Pool<Http1>>, _| {
            let endpoint = to.clone();
            async move {
                for _ in 0..100 {
                    let mut lease = pool.acquire(&endpoint, ConnectionNeed::Any).await.unwrap();
                    ask(&mut lease).await.unwrap();
                    lease.finish();
                }
            }
        };
        run_callers(call, &pool, &plane);
        let state = settled(&pool, &endpoint);
        let totals = pool.totals();
        until(|| seen.accepted.load(Ordering::SeqCst) as u64 >= totals.dialled);
        let accepted = seen.accepted.load(Ordering::SeqCst);
        assert!(accepted <= CALLERS.min(max), "{accepted} connections: {totals:?}");
        assert_eq!((totals.dialled, state.idle), (accepted as u64, accepted));
        // A spare dial succeeded, and another caller used it.
        assert!(totals.reused + totals.dialled >= 100 * CALLERS as u64, "{totals:?}");
        plane.stop();
    }
}

/// Callers that give up, drop what they have, want new ones, and a server that closes at random: every slot comes back, the limit holds, and
/// each response matches its request.
#[test]
fn every_place_comes_back_whatever_happens() {
    for (max, min_idle) in [(usize::MAX, 0), (7, 0), (9, 3), (1, 1)] {
        let (endpoint, seen) = serve(5);
        let plane = DataPlane::start(2).unwrap();
        let settings = PoolSettings { max, min_idle, idle: 8, max_requests: 20, ..PoolSettings::default() };
        let pool: Arc<Pool<Http1>> = Pool::new(settings);
        let (warmed, to) = (Arc::clone(&pool), endpoint.clone());
        plane.remotes()[1].spawn(move || async move { warmed.warm(&to) });
        let responses = Arc::new(AtomicU64::new(0));
        let (to, counted) = (endpoint.clone(), Arc::clone(&responses));
        let call = move |pool: Arc<Pool<Http1>>, mut seed: RandomSource| {
            let (endpoint, responses) = (to.clone(), Arc::clone(&counted));
            async move {
                for _ in 0..60 {
                    one_call(&pool, &endpoint, &mut seed, &responses).await;
                }
            }
        };
        run_callers(call, &pool, &plane);
        if min_idle == 0 {
            settled(&pool, &endpoint);
        }
        assert!(seen.responded.load(Ordering::SeqCst) as u64 >= responses.load(Ordering::SeqCst));
        pool.set_settings(PoolSettings { min_idle: 0, ..settings });
        pool.forget(&endpoint);
        let until = std::time::Instant::now() + BOUND;
        while pool.count(&endpoint) != (0, 0) {
            assert!(std::time::Instant::now() < until, "{:?}", pool.state(None));
            std::thread::yield_now();
        }
        plane.stop();
    }
}

async fn one_call(
    pool: &Arc<Pool<Http1>>,
    endpoint: &Endpoint,
    seed: &mut RandomSource,
    responses: &AtomicU64,
) {
    let need = match seed.below(10) {
        0 => ConnectionNeed::New,
        1 | 2 => ConnectionNeed::Fresh,
        _ => ConnectionNeed::Any,
    };
    let patience = Duration::from_micros(seed.below(3) * 300);
    let acquired = match seed.below(8) {
        0 => match tokio::time::timeout(patience, pool.acquire(endpoint, need)).await {
            Ok(acquired) => acquired,
            Err(_) => return,
        },
        _ => pool.acquire(endpoint, need).await,
    };
    let mut lease = acquired.unwrap();
    let (settings, _) = pool.dials_with();
    assert!(pool.count(endpoint).1 <= settings.max);
    if seed.below(12) == 0 {
        return;
    }
    if let Ok((status, body)) = ask(&mut lease).await {
        assert_eq!((status, body.as_slice()), (200, b"hello".as_slice()));
        responses.fetch_add(1, Ordering::SeqCst);
        lease.finish();
    }
}

/// `min_idle` connections exist before any call, and again after the server has closed them.
#[test]
fn connections_are_made_before_they_are_asked_for() {
    let (endpoint, seen) = serve(0);
    let plane = DataPlane::start(1).unwrap();
    let pool: Arc<Pool<Http1>> = Pool::new(PoolSettings { min_idle: 3, max: 4, ..PoolSettings::default() });
    let (warmed, to) = (Arc::clone(&pool), endpoint.clone());
    plane.remotes()[0].spawn(move || async move { warmed.warm(&to) });
    until(|| pool.state(Some(&endpoint)).idle == 3);
    until(|| seen.accepted.load(Ordering::SeqCst) == 3);
    // Two in use leave one; the limit leaves room for one more.
    let (done, results) = channel();
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let (used, to) = (Arc::clone(&pool), endpoint.clone());
    plane.remotes()[0].spawn(move || async move {
        let mut first = used.acquire(&to, ConnectionNeed::Any).await.unwrap();
        let mut second = used.acquire(&to, ConnectionNeed::Any).await.unwrap();
        ask(&mut first).await.unwrap();
        ask(&mut second).await.unwrap();
        assert!(first.idle().is_some() && second.idle().is_some());
        wait.await.unwrap();
        first.finish();
        second.finish();
        done.send(()).unwrap();
    });
    until(|| pool.state(Some(&endpoint)) == PoolState { idle: 2, in_use: 2, ..PoolState::default() });
    go.send(()).unwrap();
    wait_for(&results, 1);
    until(|| pool.state(Some(&endpoint)).idle == 4);
    until(|| seen.accepted.load(Ordering::SeqCst) == 4);
    plane.stop();
}

/// An unavailable server is tried less and less often, and found when it returns.
#[test]
fn a_server_that_is_away_is_warmed_when_it_comes() {
    let reserved = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    reserved.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let endpoint = Endpoint::Tcp(reserved.local_addr().unwrap().as_socket().unwrap());
    let plane = DataPlane::start(1).unwrap();
    let pool: Arc<Pool<Http1>> = Pool::new(PoolSettings { min_idle: 1, ..PoolSettings::default() });
    let (warmed, to) = (Arc::clone(&pool), endpoint.clone());
    plane.remotes()[0].spawn(move || async move { warmed.warm(&to) });
    until(|| pool.totals().dials_failed >= 1);
    reserved.listen(8).unwrap();
    until(|| pool.state(Some(&endpoint)).idle == 1);
    plane.stop();
}

fn until(mut done: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + BOUND;
    while !done() {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The limit holds over all endpoints and threads, every endpoint gets its turn, and idle connections at one make room for another.
#[test]
fn the_limit_over_all_endpoints_holds_and_none_is_starved() {
    const MOST: usize = 3;
    let (endpoints, seen): (Vec<_>, Vec<_>) = (0..4).map(|_| serve(0)).unzip();
    let plane = DataPlane::start(2).unwrap();
    let settings = PoolSettings { max_in_all: MOST, min_idle: 1, ..PoolSettings::default() };
    let pool: Arc<Pool<Http1>> = Pool::new(settings);
    for endpoint in endpoints.clone() {
        let warmed = Arc::clone(&pool);
        plane.remotes()[1].spawn(move || async move { warmed.warm(&endpoint) });
    }
    let (most, to) = (Arc::new(AtomicUsize::new(0)), endpoints.clone());
    let (held, highest) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&most));
    let call = move |pool: Arc<Pool<Http1>>, mut seed: RandomSource| {
        let (endpoints, held, highest) = (to.clone(), Arc::clone(&held), Arc::clone(&highest));
        async move {
            for _ in 0..20 {
                // The first gets as many calls as all others together.
                let endpoint = &endpoints[seed.below(6).saturating_sub(2) as usize];
                let mut lease = pool.acquire(endpoint, ConnectionNeed::Any).await.unwrap();
                highest.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let state = pool.state(None);
                assert!(state.idle + state.in_use <= MOST, "{state:?}");
                ask(&mut lease).await.unwrap();
                held.fetch_sub(1, Ordering::SeqCst);
                lease.finish();
            }
        }
    };
    run_callers(call, &pool, &plane);
    for endpoint in &endpoints {
        settled(&pool, endpoint);
    }
    let responded: usize = seen.iter().map(|seen| seen.responded.load(Ordering::SeqCst)).sum();
    assert_eq!(responded, 20 * CALLERS);
    assert!(most.load(Ordering::SeqCst) <= MOST);
    plane.stop();
}
