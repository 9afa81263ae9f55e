//! Takes the sockets of new workers over from the supervisor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use keepwarm_net::{Remote, Socket};
use keepwarm_policy::scaler::AppLoad;
use tokio::sync::mpsc::UnboundedSender;

use super::activity::WorkerActivity;
use super::app::{App, AppPolicy};
use super::driver;
use super::kind::{LinkKind, WorkerKind};
use super::link::Link;
use super::relay::{self, ServerLink, ServerProcess};
use crate::supervisor::{Addresses, LinkEvent, Requests, WorkerKey, WorkerLink, WorkerLinks};

/// The apps of the process by name, and the threads that read from their workers.
#[derive(Debug)]
pub struct Links {
    apps: Mutex<BTreeMap<Arc<str>, Arc<App>>>,
    /// Those that have left the configuration, for as long as a worker or a request has them.
    former: Mutex<Vec<Weak<App>>>,
    remotes: Vec<Remote>,
}

impl Links {
    /// No apps yet; their workers' sockets are shared out over these threads.
    pub fn new(remotes: &[Remote]) -> Self {
        Self { apps: Mutex::default(), former: Mutex::default(), remotes: remotes.to_vec() }
    }

    /// The app of this name, which is made if there is none yet. Its requests are treated by `policy` from now on.
    pub fn set_app(&self, name: &str, policy: AppPolicy) -> Arc<App> {
        let mut apps = self.apps();
        let app = match apps.get(name) {
            Some(app) => {
                app.set_policy(policy);
                Arc::clone(app)
            }
            None => {
                let app = App::new(name, policy);
                apps.insert(Arc::clone(&app.name), Arc::clone(&app));
                app
            }
        };
        drop(apps);
        if let Some(remote) = self.remotes.first() {
            app.attach_external(remote);
        }
        app
    }

    /// The app of this name, which is made if there is none yet: workers may come, and routes lead to it. One that is there stays as it is.
    pub fn add_app(&self, name: &str, policy: AppPolicy) {
        self.apps().entry(name.into()).or_insert_with(|| App::new(name, policy));
    }

    /// Lets go of all other apps. Their workers finish what they hold.
    pub fn keep_only(&self, is_wanted: impl Fn(&str) -> bool) {
        let gone: Vec<Arc<App>> =
            self.apps().extract_if(.., |name, _| !is_wanted(name)).map(|(_, app)| app).collect();
        let mut former = self.former();
        former.retain(|app| app.strong_count() > 0);
        for app in gone {
            app.detach_external();
            former.push(Arc::downgrade(&app));
        }
    }

    /// Workers of this app that are started from now on, for a reload, are of this kind.
    pub fn prepare(&self, name: &str, kind: WorkerKind) {
        if let Some(app) = self.app(name) {
            app.prepare(kind);
        }
    }

    /// The app of this name.
    pub fn app(&self, name: &str) -> Option<Arc<App>> {
        self.apps().get(name).cloned()
    }

    /// What the workers of every app are doing. Takes each worker's lock for a moment: for a status, not for each request.
    pub fn activity(&self) -> Vec<WorkerActivity> {
        let mut apps: Vec<Arc<App>> = self.apps().values().cloned().collect();
        apps.extend(self.former().iter().filter_map(Weak::upgrade));
        apps.iter().flat_map(|app| app.activity()).collect()
    }

    fn former(&self) -> MutexGuard<'_, Vec<Weak<App>>> {
        self.former.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the workers whose sockets this data-plane thread reads: it is stuck, and would not read their responses. Others take their requests meanwhile. Takes the locks of
    /// apps and workers, which the thread may hold: call it where it may block.
    pub fn abandon(&self, thread: usize) {
        let apps: Vec<Arc<App>> = self.apps().values().cloned().collect();
        let links = apps.iter().flat_map(|app| app.links());
        // Servers are spoken to by each client's own thread.
        let read = links.filter(|link| link.thread() == thread && matches!(link.kind, LinkKind::Wire(_)));
        read.for_each(|link| link.abandon());
    }

    /// The thread that is to read from a worker; a worker that is started while a thread is stuck is another's.
    fn remote_for(&self, worker: u32) -> Option<&Remote> {
        let place = worker as usize % self.remotes.len().max(1);
        let (before, from) = self.remotes.split_at_checked(place)?;
        let turns = from.iter().chain(before).find(|remote| !remote.is_stuck());
        turns.or_else(|| self.remotes.get(place))
    }

    fn apps(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<App>>> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerLinks for Links {
    fn adopt(
        &self,
        worker: WorkerKey,
        socket: Socket,
        events: UnboundedSender<LinkEvent>,
    ) -> Arc<dyn WorkerLink> {
        let (Some(app), Some(remote)) = (self.app(&worker.app), self.remote_for(worker.number)) else {
            return lost(worker, "belongs to an unknown app", &events);
        };
        let Ok(reader) = socket.try_clone() else {
            return lost(worker, "has no descriptor for its wire", &events);
        };
        let link = Arc::new(Link::new(worker, &app, remote.clone(), LinkKind::Wire(socket), events));
        let driven = Arc::clone(&link);
        remote.spawn(move || driver::drive(driven, reader));
        link
    }

    fn adopt_server(
        &self,
        worker: WorkerKey,
        addresses: Addresses,
        events: UnboundedSender<LinkEvent>,
    ) -> Arc<dyn WorkerLink> {
        let (Some(app), Some(remote)) = (self.app(&worker.app), self.remote_for(worker.number)) else {
            return lost(worker, "belongs to an unknown app", &events);
        };
        let kind = LinkKind::Server(ServerProcess::new(addresses));
        let link = Arc::new(Link::new(worker, &app, remote.clone(), kind, events));
        let attended = Arc::clone(&link);
        remote.spawn(move || relay::attend_to_end(attended));
        Arc::new(ServerLink(link))
    }

    fn promote(&self, apps: &BTreeSet<Arc<str>>, generation: u64) {
        let promoted: Vec<Arc<App>> = apps.iter().filter_map(|name| self.app(name)).collect();
        promoted.iter().for_each(|app| app.promote(generation));
    }

    fn load(&self, app: &str) -> AppLoad {
        self.app(app).map_or_else(AppLoad::default, |app| app.load())
    }

    fn set_failed(&self, app: &str, reason: Option<String>) {
        if let Some(app) = self.app(app) {
            app.set_failed(reason.as_deref());
        }
    }
}

fn lost(worker: WorkerKey, reason: &str, events: &UnboundedSender<LinkEvent>) -> Arc<dyn WorkerLink> {
    let _ = events.send(LinkEvent::Closed { worker, reason: reason.to_owned() });
    Arc::new(DeadLink::default())
}

/// The link of a worker that could not be adopted.
#[derive(Default)]
struct DeadLink(Requests);

impl WorkerLink for DeadLink {
    fn retire(&self) {}

    fn say_goodbye(&self) {}

    fn ping(&self) {}

    fn is_silent(&self) -> bool {
        false
    }

    fn requests(&self) -> &Requests {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use keepwarm_telemetry::RequestId;

    use super::super::activity::RequestSummary;
    use super::*;

    /// A watched file of one app has changed: nothing is known to be better about the others.
    #[test]
    fn what_is_known_of_an_app_is_not_forgotten_when_another_is_replaced() {
        let links = Links::new(&[]);
        let apps = ["shop", "blog"].map(|name| links.set_app(name, AppPolicy::of_one_worker()));
        let summary = RequestSummary {
            id: RequestId::new(1),
            method: http::Method::GET,
            route: Some("/*".into()),
            path: 0,
        };
        let refused = |app: &App| app.quarantine.refuses(&summary).is_some();
        for app in &apps {
            (0..20).for_each(|_| app.handle_death(std::slice::from_ref(&summary)));
            assert!(refused(app));
        }
        links.promote(&BTreeSet::from(["shop".into()]), 2);
        assert!(!refused(&apps[0]) && refused(&apps[1]));
    }

    #[test]
    fn an_app_that_is_gone_is_let_go_of() {
        let links = Links::new(&[]);
        let [shop, blog] = ["shop", "blog"].map(|name| links.set_app(name, AppPolicy::of_one_worker()));
        let gone = Arc::downgrade(&blog);
        drop(blog);
        links.keep_only(|name| name == "shop");
        assert!(gone.upgrade().is_none() && links.app("blog").is_none());
        assert!(
            Arc::ptr_eq(&links.set_app("shop", AppPolicy::of_one_worker()), &shop),
            "this one stays as it is"
        );
    }
}
