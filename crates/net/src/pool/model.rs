//! Watcher against taker, in every possible order.
//!
//! The racing parts are the critical sections of the real pool, over real sockets: the steps of each actor are the production code, cut where the
//! lock is released, and the test runs them in each of the orders in which threads could. The invariants after each are in the specification
//! ([`super`], "The race between watcher and taker").

use std::cell::Cell;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};

use tokio::task::LocalSet;

use super::dial::ConnectionWait;
use super::*;
use crate::{Http1, Io};

/// How often the watcher was woken.
#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A pool whose watcher is run by the test, and the servers' ends of its connections.
struct World {
    pool: Arc<Pool<Http1>>,
    endpoint: Endpoint,
    woken: Arc<WakeCounter>,
    peers: Vec<Option<UnixStream>>,
    /// The connections, by identity.
    made: Vec<Instant>,
    /// The one that closes.
    closing: usize,
    closed: bool,
    /// It closed while in use: that teaches nothing, unless it is noticed only when idle.
    closed_in_use: bool,
    /// How often the watcher had been woken when it last looked.
    seen: Cell<usize>,
}

impl World {
    async fn new(connections: usize, closing: usize, settings: PoolSettings) -> Self {
        let mut world = Self {
            pool: Pool::new(settings),
            endpoint: Endpoint::Unix("/model".into()),
            woken: Arc::default(),
            peers: Vec::new(),
            made: Vec::new(),
            closing,
            closed: false,
            closed_in_use: false,
            seen: Cell::new(0),
        };
        // From now on the pool knows the watcher, and starts none of its own.
        world.sweep();
        assert_eq!(world.woken.0.load(Ordering::SeqCst), 0);
        for _ in 0..connections {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            world.peers.push(Some(theirs));
            // Identified by when they were opened: time stands still, except here.
            tokio::time::advance(Duration::from_millis(1)).await;
            let times = DialTimes { connect: Duration::ZERO, handshake: None };
            world.pool.keep(&world.endpoint, Io::new(ours.into()).into(), &times);
            world.made.push(Instant::now());
        }
        // Woken by the first, it knows when to look by itself: from now on only a server wakes it.
        world.watch();
        world
    }

    /// The watcher's step: one critical section, if it was woken.
    fn watch(&self) {
        let woken = self.woken.0.load(Ordering::SeqCst);
        if self.seen.replace(woken) < woken {
            self.sweep();
        }
    }

    fn sweep(&self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        let over = watcher::sweep_once(&self.pool, 0, &mut Context::from_waker(&waker));
        drop(over);
    }

    /// The server closes its connection.
    fn close(&mut self, in_use: bool) {
        self.closed_in_use = in_use;
        self.peers[self.closing] = None;
        self.closed = true;
    }

    /// The reactor processes the events so far.
    async fn hear(&self) {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }

    /// The taker's first step: takes one off the idle list, under the lock.
    fn pop(&self) -> Option<(IdleConnection<Http1>, Meter)> {
        let (idle, _, meter) =
            self.pool.lock().pop(&self.endpoint, ConnectionNeed::Any, 0, Instant::now())?;
        Some((idle, meter))
    }

    /// Its second: looks, and uses it or drops it.
    fn look(&self, idle: IdleConnection<Http1>, meter: Meter) -> Option<Lease<Http1>> {
        let closed = self.closed && idle.client.opened() == self.made[self.closing];
        let taken = IdleCheck { idled: Duration::ZERO, allowed: true, trusted: false, meter };
        let lease = self.pool.use_again(&self.endpoint, idle, taken);
        assert_eq!(lease.is_none(), closed, "used if and only if it is open");
        // Its user waits for the response: incoming bytes wake no other task.
        let mut cx = Context::from_waker(Waker::noop());
        lease.map(|mut lease| {
            let _ = lease.poll_noise(&mut cx);
            lease
        })
    }

    /// Runs until no event is left.
    async fn settle(&self, leases: &[&Lease<Http1>], order: &[usize]) {
        self.hear().await;
        self.watch();
        let closed = self.made[self.closing];
        let stays = self
            .pool
            .lock()
            .entries
            .get(&self.endpoint)
            .is_some_and(|entry| entry.idle.iter().any(|idle| idle.client.opened() == closed));
        assert!(!(self.closed && stays), "{order:?}: a closed connection stays, and nobody is woken");
        let (idle, open) = self.pool.count(&self.endpoint);
        assert_eq!(open, idle + leases.len(), "{order:?}: each connection has one owner, or is gone");
        let opened: Vec<Instant> = leases.iter().map(|lease| lease.opened()).collect();
        assert!(
            opened.iter().all(|one| opened.iter().filter(|other| *other == one).count() == 1),
            "{order:?}"
        );
        let in_use = opened.contains(&closed);
        let (learnt, expected) = (self.pool.totals().closed_idle, u64::from(self.closed && !in_use));
        let early = self.closed_in_use && learnt == 0;
        assert!(
            learnt == expected || early,
            "{order:?}: a close while idle is learnt, once; not {learnt} times"
        );
    }
}

/// Every order in which actors with these numbers of steps can run.
fn orders(steps: &[usize]) -> Vec<Vec<usize>> {
    if steps.iter().all(|left| *left == 0) {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for actor in (0..steps.len()).filter(|actor| steps[*actor] > 0) {
        let mut left = steps.to_vec();
        left[actor] -= 1;
        for mut rest in orders(&left) {
            rest.insert(0, actor);
            all.push(rest);
        }
    }
    all
}

fn run<F: Future<Output = ()>>(orders: &[Vec<usize>], scenario: impl Fn(Vec<usize>) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    for order in orders {
        LocalSet::new().block_on(&runtime, scenario(order.clone()));
    }
}

/// Two takers, a watcher, a server that closes, and a third caller that brings a connection back.
#[test]
fn a_connection_has_one_owner_whoever_comes_first() {
    let orders = orders(&[2, 2, 1, 2, 1]);
    assert_eq!(orders.len(), 5040);
    for closing in [0, 1] {
        run(&orders, async |order| one_owner(order, closing).await);
    }
}

async fn one_owner(order: Vec<usize>, closing: usize) {
    const TAKERS: [usize; 2] = [0, 1];
    const WATCHER: usize = 2;
    const SERVER: usize = 3;
    const RETURNER: usize = 4;
    let mut world = World::new(2, closing, PoolSettings::default()).await;
    let (idle, meter) = world.pop().unwrap();
    let mut returned = world.look(idle, meter);
    let mut popped = [None, None];
    let mut leases = Vec::new();
    for (at, actor) in order.iter().enumerate() {
        let second = order[..at].contains(actor);
        match *actor {
            taker if TAKERS.contains(&taker) && !second => popped[taker] = world.pop(),
            taker if TAKERS.contains(&taker) => {
                let looked = popped[taker].take().and_then(|(idle, meter)| world.look(idle, meter));
                leases.extend(looked);
            }
            WATCHER => world.watch(),
            SERVER if second => world.hear().await,
            SERVER => {
                let opened = world.made[closing];
                let holds = |lease: &Lease<Http1>| lease.opened() == opened;
                let in_use = returned.iter().any(holds);
                world.close(in_use);
            }
            RETURNER => {
                let lease = returned.take().unwrap();
                assert_eq!(lease.opened(), world.made[1], "the newest goes first");
                put_back(&world, lease);
            }
            _ => unreachable!("five actors"),
        }
    }
    world.settle(&leases.iter().collect::<Vec<_>>(), &order).await;
}

/// A waiter at the limit, while the only connection comes back, and may close before, then or after.
#[test]
fn who_waits_is_never_forgotten() {
    const WAITER: usize = 0;
    const RETURNER: usize = 1;
    const WATCHER: usize = 2;
    const SERVER: usize = 3;
    let orders = orders(&[2, 1, 2, 2]);
    assert_eq!(orders.len(), 630);
    run(&orders, async |order| {
        let mut world = World::new(1, 0, PoolSettings { max: 1, ..PoolSettings::default() }).await;
        let (idle, meter) = world.pop().unwrap();
        let mut returned = world.look(idle, meter);
        let (pool, endpoint) = (Arc::clone(&world.pool), world.endpoint.clone());
        let mut waiter = Waiter::New;
        for (at, actor) in order.iter().enumerate() {
            let second = order[..at].contains(actor);
            match *actor {
                WAITER => waiter = waiter.step(&pool, &endpoint),
                RETURNER => put_back(&world, returned.take().unwrap()),
                WATCHER => world.watch(),
                SERVER if second => world.hear().await,
                SERVER => world.close(returned.is_some()),
                _ => unreachable!("four actors"),
            }
        }
        world.hear().await;
        world.watch();
        // As often as it would be woken.
        for _ in 0..3 {
            waiter = waiter.step(&pool, &endpoint);
        }
        match &waiter {
            Waiter::Has(lease) => {
                assert_eq!(world.pool.count(&endpoint), (0, 1), "{order:?}");
                assert_eq!(lease.opened(), world.made[0]);
            }
            // It dials one itself, to replace the lost one.
            Waiter::Dials => assert!(world.closed, "{order:?}: there is one"),
            Waiter::New | Waiter::Sits(_) => panic!("{order:?}: it waits, and nothing will come"),
        }
    });
}

/// A caller that wants a connection, step by step as in `Pool::acquire`.
enum Waiter<'p> {
    New,
    Sits(Pin<Box<ConnectionWait<'p, Http1>>>),
    Has(Lease<Http1>),
    /// Its dial: nobody listens there, so that it has failed.
    Dials,
}

impl<'p> Waiter<'p> {
    fn step(self, pool: &'p Arc<Pool<Http1>>, endpoint: &'p Endpoint) -> Self {
        match self {
            Self::New => match pool.find(endpoint, ConnectionNeed::Any, true) {
                IdleLookup::Lease(lease) => Self::Has(lease),
                IdleLookup::Wait(wait) => Self::Sits(Box::pin(wait)),
                IdleLookup::Nothing => Self::New,
            },
            Self::Sits(mut wait) => match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(lease))) => Self::Has(lease),
                Poll::Ready(Some(Err(_))) => Self::Dials,
                // The connection is closed: it looks again.
                Poll::Ready(None) => Self::New,
                Poll::Pending => Self::Sits(wait),
            },
            ended => ended,
        }
    }
}

/// A call on it has ended.
fn put_back(world: &World, mut lease: Lease<Http1>) {
    let client = lease.take_client();
    world.pool.put_back(&world.endpoint, client, None);
}
