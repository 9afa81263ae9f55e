//! A Keepwarm of one handler behind one limit, and a client.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use keepwarm_egress::{
    LimitKey, OnStoreFailure, RateLimitSettings, RateLimited, RateLimiter, Store, StoreSettings,
};
use keepwarm_net::{
    BindTo, ConnectionLimits, DataPlane, Exchange, Handler, ListenerContext, OpenConnections, Refusal,
    StopListening, answer_refusal, bind, serve, stop_listening,
};
use keepwarm_policy::gcra::Quota;

pub(crate) const BOUND: Duration = Duration::from_secs(30);

/// So long that nothing comes back while a test runs.
const HOUR: Duration = Duration::from_secs(3600);

/// What a limit of a test is.
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) burst: u64,
    pub(crate) period: Duration,
    pub(crate) key: LimitKey,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) timeout: Duration,
}

/// So many an hour, by the field `x-key`; a store may take long, as it may on a busy machine.
pub(crate) fn hourly(burst: u64) -> Limit {
    Limit {
        name: "api",
        burst,
        period: HOUR,
        key: LimitKey::Header("x-key".to_owned()),
        on_store_failure: OnStoreFailure::Open,
        timeout: Duration::from_secs(10),
    }
}

pub(crate) struct Keepwarm {
    pub(crate) limiter: Arc<RateLimiter>,
    pub(crate) store: Option<Arc<Store>>,
    address: SocketAddr,
    plane: Option<DataPlane>,
    /// Dropped, it would end the listening.
    _stop: StopListening,
}

impl Keepwarm {
    /// With the counts in its own memory, or in the store at `url`.
    pub(crate) fn start(limit: Limit, url: Option<&str>) -> Self {
        let store = url.map(|url| {
            let settings =
                StoreSettings { url: url.to_owned(), address: "redis".to_owned(), timeout: limit.timeout };
            let (store, driver) = Store::open(settings).unwrap();
            // The control thread of this Keepwarm; it ends with the store.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(driver.run());
            });
            store
        });
        let quota = Quota { count: limit.burst, period: limit.period, burst: limit.burst };
        let settings = RateLimitSettings { quota, key: limit.key, on_store_failure: limit.on_store_failure };
        let limiter = RateLimiter::new(limit.name, settings, store.clone());
        let handler = RateLimited::new(Arc::new(Hello), Arc::clone(&limiter));
        let context = Arc::new(ListenerContext {
            handler: Arc::new(handler),
            limits: ConnectionLimits::default(),
            draining: Arc::new(AtomicBool::new(false)),
            open: Arc::new(OpenConnections::new(100)),
            meter: keepwarm_telemetry::meters::listener("main"),
        });
        let bound = bind(BindTo::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = bound.address.unwrap();
        let plane = DataPlane::start(1).unwrap();
        let (stop, signal) = stop_listening();
        plane.remotes()[0].spawn(move || serve(bound, context, signal));
        let it = Self { limiter, store, address, plane: Some(plane), _stop: stop };
        if it.store.is_some() {
            it.wait_for_store(true);
        }
        it
    }

    /// The answer to a request with these further lines.
    pub(crate) fn get(&self, lines: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The status of a request of this key.
    pub(crate) fn status(&self, key: &str) -> u16 {
        status(&self.get(&format!("X-Key: {key}\r\n")))
    }

    pub(crate) fn statuses(&self, key: &str, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.status(key)).collect()
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_deref().unwrap()
    }

    /// Waits until the store is asked, or is not.
    pub(crate) fn wait_for_store(&self, up: bool) {
        wait_until(|| self.store().is_up() == up, "the store");
    }
}

impl Drop for Keepwarm {
    fn drop(&mut self) {
        if let Some(plane) = self.plane.take() {
            plane.stop();
        }
    }
}

struct Hello;

impl Handler for Hello {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            exchange.head(200, Some(2), false, std::iter::empty()).unwrap();
            exchange.data(b"ok");
            exchange.end();
        })
    }

    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        answer_refusal(exchange, refusal);
    }
}

pub(crate) fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

pub(crate) fn wait_until(mut condition: impl FnMut() -> bool, what: &str) {
    let deadline = Instant::now() + BOUND;
    while !condition() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
