//! Connections to doors whose calls do not say which request they are a part of, and whose worker the system does not tell at once. It is looked for by
//! a task that awaits [`UnnamedCallers::wait`], for as long as the connection lasts.
//!
//! A call leaves its connection here when it begins, and asks for the worker when it ends: a call that is over before anybody has looked is of no
//! request. That is why short calls over connections of their own are not attributed, which would cost more than they take.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use keepwarm_serve::{ConnectionInfo, PeerProcess};
use tokio::sync::Notify;

use crate::endpoints::lock;

/// Most connections that wait to be looked for. Those that come beside them are of no worker. This number is arbitrary: a look takes them all.
const WAITING: usize = 1024;

/// What the system tells of the caller's end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerEnd {
    /// Its address, over TCP.
    Address {
        /// Its own.
        client: SocketAddr,
        /// Ours.
        server: SocketAddr,
    },
    /// Its process, over a Unix socket: not a worker, but maybe one that a worker has started.
    Process(u32),
}

/// A connection whose worker is wanted.
#[derive(Debug)]
pub struct UnnamedCaller {
    /// What is known.
    pub end: CallerEnd,
    process: Arc<PeerProcess>,
}

impl UnnamedCaller {
    /// Whether its connection is over, so that nobody wants to know any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        Arc::strong_count(&self.process) == 1
    }

    /// It is of the worker with this process.
    pub fn set_worker(&self, pid: u32) {
        self.process.worker.store(pid, Ordering::Relaxed);
    }
}

/// The connections that are looked for.
#[derive(Debug, Default)]
pub struct UnnamedCallers {
    is_on: AtomicBool,
    waiting: Mutex<Vec<UnnamedCaller>>,
    come: Notify,
}

static CALLERS: LazyLock<UnnamedCallers> = LazyLock::new(UnnamedCallers::default);

impl UnnamedCallers {
    /// Those of this process. From now on connections come.
    #[must_use]
    pub fn open() -> &'static Self {
        CALLERS.is_on.store(true, Ordering::Relaxed);
        &CALLERS
    }

    /// Waits until there is one.
    pub async fn wait(&self) {
        while lock(&self.waiting).is_empty() {
            self.come.notified().await;
        }
    }

    /// Takes all.
    #[must_use]
    pub fn take(&self) -> Vec<UnnamedCaller> {
        std::mem::take(&mut lock(&self.waiting))
    }

    fn add(&self, caller: UnnamedCaller) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() == WAITING {
            waiting.retain(|caller| !caller.is_gone());
        }
        if waiting.len() < WAITING {
            waiting.push(caller);
        }
        let is_first = waiting.len() == 1;
        drop(waiting);
        if is_first {
            self.come.notify_one();
        }
    }
}

/// Has somebody look for the worker at the other end of a connection, unless somebody does or did.
pub(crate) fn look_for(peer: &ConnectionInfo, process: &Arc<PeerProcess>) {
    if !CALLERS.is_on.load(Ordering::Relaxed) || process.is_sought.swap(true, Ordering::Relaxed) {
        return;
    }
    let end = match (process.pid, peer.client, peer.local) {
        (Some(pid), ..) => CallerEnd::Process(pid),
        (None, Some(client), Some(server)) => CallerEnd::Address { client, server },
        _ => return,
    };
    CALLERS.add(UnnamedCaller { end, process: Arc::clone(process) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(connection: &Arc<PeerProcess>) -> UnnamedCaller {
        UnnamedCaller { end: CallerEnd::Process(1), process: Arc::clone(connection) }
    }

    #[tokio::test]
    async fn who_waits_is_told_of_the_first_and_takes_all() {
        let (callers, connection) = (UnnamedCallers::default(), Arc::default());
        callers.add(caller(&connection));
        callers.add(caller(&connection));
        callers.wait().await;
        let taken = callers.take();
        assert_eq!(taken.len(), 2);
        taken[0].set_worker(7);
        assert_eq!(connection.worker.load(Ordering::Relaxed), 7);
        let more = async {
            tokio::task::yield_now().await;
            callers.add(caller(&connection));
        };
        tokio::join!(callers.wait(), more);
        assert_eq!(callers.take().len(), 1);
    }

    #[test]
    fn connections_that_wait_are_bounded_and_those_that_are_over_make_room() {
        let (callers, connection) = (UnnamedCallers::default(), Arc::default());
        for _ in 0..WAITING {
            callers.add(caller(&Arc::default()));
        }
        for _ in 0..WAITING + 1 {
            callers.add(caller(&connection));
        }
        let taken = callers.take();
        assert_eq!((taken.len(), taken.iter().filter(|caller| caller.is_gone()).count()), (WAITING, 0));
    }
}
