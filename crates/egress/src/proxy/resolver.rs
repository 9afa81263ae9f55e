//! Names that calls through a forward proxy bring: asked on a data-plane thread, looked up on the control thread, whose runtime drives the lookups.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::restart_pause;
use keepwarm_telemetry::panics::catch_future;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::DnsResolver;
use crate::discovery::LookupResult;

/// Questions that wait to be looked at; more are refused.
const QUESTIONS: usize = 256;
/// Names that are being looked up; others are refused until one is done. A call that is given up leaves its lookup behind, so that only this bounds them.
const LOOKUPS: usize = 256;
/// Names that are remembered.
const NAMES: usize = 1024;
/// A response counts at least and at most so long.
const LEAST: Duration = Duration::from_secs(5);
const MOST: Duration = Duration::from_secs(300);

/// Sends lookups to the control thread.
#[derive(Debug, Clone)]
pub struct Resolver(mpsc::Sender<ResolverQuery>);

#[derive(Debug)]
/// A lookup of one host, and where its result goes.
struct ResolverQuery {
    host: Box<str>,
    response: oneshot::Sender<ResolvedAddresses>,
}

/// Addresses, and their expiry; or a sentence that continues after the name.
pub(super) type ResolvedAddresses = Result<(Arc<[IpAddr]>, Instant), String>;

/// Runs the lookups, on the control thread.
#[derive(Debug)]
pub struct ResolverDriver {
    queries: mpsc::Receiver<ResolverQuery>,
    names: Arc<DnsResolver>,
}

impl Resolver {
    /// Both ends.
    #[must_use]
    pub fn new(names: Arc<DnsResolver>) -> (Self, ResolverDriver) {
        let (sender, queries) = mpsc::channel(QUESTIONS);
        (Self(sender), ResolverDriver { queries, names })
    }

    pub(super) async fn ask(&self, host: &str) -> ResolvedAddresses {
        let (response, responded) = oneshot::channel();
        if self.0.try_send(ResolverQuery { host: host.into(), response }).is_err() {
            return Err(too_many());
        }
        responded.await.unwrap_or_else(|_| Err("lookup skipped: shutting down".to_owned()))
    }
}

impl ResolverDriver {
    /// Replies until all [`Resolver`]s are dropped. After a panic, waiters get an error, and it restarts.
    pub async fn run(mut self) {
        loop {
            let responding = pin!(self.reply_to_all());
            match catch_future(responding).await {
                Ok(()) => return,
                Err(panic) => panic.report("resolver", None, None),
            }
            restart_pause().await;
        }
    }

    async fn reply_to_all(&mut self) {
        let mut known: HashMap<Box<str>, (Arc<[IpAddr]>, Instant)> = HashMap::new();
        let mut waiting: HashMap<Box<str>, Vec<oneshot::Sender<ResolvedAddresses>>> = HashMap::new();
        let mut lookups: JoinSet<(Box<str>, ResolvedAddresses)> = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                query = self.queries.recv() => {
                    let Some(ResolverQuery { host, response }) = query else { return };
                    if let Some(found) = known.get(&host).filter(|(_, until)| *until > Instant::now()) {
                        let _ = response.send(Ok(found.clone()));
                        continue;
                    }
                    if let Some(waiters) = waiting.get_mut(&host) {
                        join(waiters, response);
                    } else if waiting.len() >= LOOKUPS {
                        let _ = response.send(Err(too_many()));
                    } else {
                        waiting.insert(host.clone(), vec![response]);
                        lookups.spawn(look_up_surely(Arc::clone(&self.names), host));
                    }
                }
                Some(done) = lookups.join_next(), if !lookups.is_empty() => {
                    let Ok((host, response)) = done else { continue };
                    for waiter in waiting.remove(&host).unwrap_or_default() {
                        let _ = waiter.send(response.clone());
                    }
                    if let Ok(found) = response {
                        if known.len() >= NAMES {
                            let now = Instant::now();
                            known.retain(|_, (_, until)| *until > now);
                        }
                        if known.len() < NAMES {
                            known.insert(host, found);
                        }
                    }
                }
            }
        }
    }
}

fn too_many() -> String {
    "lookup refused: too many other names are being looked up".to_owned()
}

/// Adds a waiter for the same name. Cancelled waiters are removed each time the number doubles: the list never holds more than twice the live ones.
fn join(waiters: &mut Vec<oneshot::Sender<ResolvedAddresses>>, waiter: oneshot::Sender<ResolvedAddresses>) {
    if waiters.len().is_power_of_two() {
        waiters.retain(|waiter| !waiter.is_closed());
    }
    waiters.push(waiter);
}

/// Those who wait hear of its end, however it ends.
async fn look_up_surely(names: Arc<DnsResolver>, host: Box<str>) -> (Box<str>, ResolvedAddresses) {
    let looking = pin!(look_up(names, host.clone()));
    catch_future(looking).await.unwrap_or_else(|panic| {
        panic.report("resolver", None, None);
        (host, Err("lookup failed: a bug in Keepwarm".to_owned()))
    })
}

async fn look_up(names: Arc<DnsResolver>, host: Box<str>) -> (Box<str>, ResolvedAddresses) {
    let (v4, v6) = names.addresses(&host, true).await;
    let mut addresses: Vec<IpAddr> = Vec::new();
    let (mut ttl, mut failure) = (MOST, None);
    take(v6, &mut addresses, &mut ttl, &mut failure);
    take(v4, &mut addresses, &mut ttl, &mut failure);
    let response = match (addresses.is_empty(), failure) {
        (false, _) => Ok((addresses.into(), Instant::now() + ttl.max(LEAST))),
        (true, Some(failure)) => Err(failure),
        (true, None) => Err("has no address".to_owned()),
    };
    (host, response)
}

fn take<T: Into<IpAddr>>(
    looked: LookupResult<T>,
    addresses: &mut Vec<IpAddr>,
    ttl: &mut Duration,
    failure: &mut Option<String>,
) {
    match looked {
        LookupResult::Found(found, time) => {
            addresses.extend(found.into_iter().map(Into::into));
            *ttl = time.min(*ttl);
        }
        LookupResult::Empty => {}
        LookupResult::Failed(why) => *failure = Some(format!("lookup failed: {}", why.sentence)),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// A name server that never says anything. Callers give up; their lookups go on.
    #[tokio::test]
    async fn calls_that_are_given_up_do_not_leave_lookups_without_bound() {
        let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let names = DnsResolver::of_test(address, "/dev/null".into(), Duration::from_secs(600));
        let (resolver, driver) = Resolver::new(names);
        let running = tokio::spawn(driver.run());
        let metrics = tokio::runtime::Handle::current().metrics();
        for number in 0..3 * LOOKUPS {
            let host = format!("host-{number}.test");
            let mut target = pin!(resolver.ask(&host));
            // As long as it takes to be begun, or refused.
            for _ in 0..3 {
                if let Poll::Ready(response) = poll_fn(|cx| Poll::Ready(target.as_mut().poll(cx))).await {
                    assert!(number >= LOOKUPS && response.unwrap_err().contains("too many"), "{number}");
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let begun = metrics.num_alive_tasks();
        assert!(begun <= 2 * LOOKUPS, "{begun} lookups are under way");
        // One that is under way takes further callers.
        let mut again = pin!(resolver.ask("host-0.test"));
        for _ in 0..3 {
            assert!(poll_fn(|cx| Poll::Ready(again.as_mut().poll(cx).is_pending())).await);
            tokio::task::yield_now().await;
        }
        running.abort();
    }

    #[test]
    fn those_who_have_gone_are_swept_out() {
        let mut waiters = Vec::new();
        let (stays, _listens) = oneshot::channel();
        join(&mut waiters, stays);
        for _ in 0..1000 {
            join(&mut waiters, oneshot::channel().0);
        }
        assert!(waiters.len() <= 4, "{}", waiters.len());
    }
}
