//! A Keepwarm of one handler behind one limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_egress::{
    LimitKey, OnStoreFailure, RateLimitHandler, RateLimitSettings, RateLimiter, Store, StoreSettings,
};
use keepwarm_policy::gcra::Quota;
use keepwarm_serve::{Exchange, Frontend, Handler, Refusal, respond_with_refusal};

use crate::harness::{Server, status, wait_until};

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

/// `burst` requests an hour, by the field `x-key`; a long timeout for the store, as the machine may be busy.
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
    store: Option<Arc<Store>>,
    server: Server,
}

impl Keepwarm {
    /// With the counts in its own memory, or in the store at `url`.
    pub(crate) fn start(limit: Limit, url: Option<&str>) -> Self {
        let store = url.map(|url| {
            let settings = StoreSettings {
                url: url.to_owned(),
                tls: None,
                address: "redis".to_owned(),
                timeout: limit.timeout,
            };
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
        let server =
            Server::start(Arc::new(Limited(RateLimitHandler::new(Arc::new(Hello), Arc::clone(&limiter)))));
        let it = Self { limiter, store, server };
        if it.store.is_some() {
            it.wait_for_store(true);
        }
        it
    }

    /// The response to a request with these further lines.
    pub(crate) fn get(&self, lines: &str) -> String {
        self.server.get(lines)
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

/// A listener of its own for the limited handler.
struct Limited(RateLimitHandler);

impl Handler for Limited {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        self.0.handle(exchange)
    }
}

impl Frontend for Limited {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        respond_with_refusal(exchange, refusal);
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
}
