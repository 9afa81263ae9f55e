//! Takes the sockets of new workers over from the supervisor.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepwarm_net::Remote;
use keepwarm_policy::scale::Load;
use tokio::sync::mpsc::UnboundedSender;

use super::activity::WorkerActivity;
use super::app::{App, AppPolicy};
use super::driver;
use super::link::Link;
use super::relay::{self, Server, ServerLink, ServerPolicy};
use crate::supervisor::{Addresses, LinkEvent, Requests, WorkerKey, WorkerLink, WorkerLinks};

/// The apps of the process by name, and the threads that read from their workers.
#[derive(Debug)]
pub struct Links {
    apps: Mutex<HashMap<Arc<str>, Arc<App>>>,
    remotes: Vec<Remote>,
}

impl Links {
    /// No apps yet; their workers' sockets are shared out over these threads.
    pub fn new(remotes: &[Remote]) -> Self {
        Self { apps: Mutex::default(), remotes: remotes.to_vec() }
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
            app.stand(remote);
        }
        app
    }

    /// Workers of this app that are started from now on, for a reload, are spoken to like this.
    pub fn prepare(&self, name: &str, server: Option<ServerPolicy>) {
        if let Some(app) = self.app(name) {
            app.prepare(server);
        }
    }

    /// The app of this name.
    pub fn app(&self, name: &str) -> Option<Arc<App>> {
        self.apps().get(name).cloned()
    }

    /// What the workers of every app are doing. Takes each worker's lock for a moment: for a status, not for each request.
    pub fn activity(&self) -> Vec<WorkerActivity> {
        let apps: Vec<Arc<App>> = self.apps().values().cloned().collect();
        apps.iter().flat_map(|app| app.activity()).collect()
    }

    fn apps(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<App>>> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerLinks for Links {
    fn adopt(
        &self,
        worker: WorkerKey,
        socket: OwnedFd,
        events: UnboundedSender<LinkEvent>,
    ) -> Arc<dyn WorkerLink> {
        let place = worker.number as usize % self.remotes.len().max(1);
        let (Some(app), Some(remote)) = (self.app(&worker.app), self.remotes.get(place)) else {
            return lost(worker, "the app is not known", &events);
        };
        let Ok(reader) = socket.try_clone() else {
            return lost(worker, "no descriptor is left for its wire", &events);
        };
        let link = Arc::new(Link::new(worker, &app, remote.clone(), Some(socket), None, events));
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
        let place = worker.number as usize % self.remotes.len().max(1);
        let (Some(app), Some(remote)) = (self.app(&worker.app), self.remotes.get(place)) else {
            return lost(worker, "the app is not known", &events);
        };
        let server = Some(Server::new(addresses));
        let link = Arc::new(Link::new(worker, &app, remote.clone(), None, server, events));
        let attended = Arc::clone(&link);
        remote.spawn(move || relay::attend(attended));
        Arc::new(ServerLink(link))
    }

    fn promote(&self, generation: u64) {
        let apps: Vec<Arc<App>> = self.apps().values().cloned().collect();
        apps.iter().for_each(|app| app.promote(generation));
    }

    fn load(&self, app: &str) -> Load {
        self.app(app).map_or_else(Load::default, |app| app.load())
    }

    fn set_failed(&self, app: &str, reason: Option<String>) {
        if let Some(app) = self.app(app) {
            app.set_failed(reason.as_deref());
        }
    }
}

fn lost(worker: WorkerKey, reason: &str, events: &UnboundedSender<LinkEvent>) -> Arc<dyn WorkerLink> {
    let _ = events.send(LinkEvent::Closed { worker, reason: reason.to_owned() });
    Arc::new(Nowhere::default())
}

/// The link of a worker that could not be adopted.
#[derive(Default)]
struct Nowhere(Requests);

impl WorkerLink for Nowhere {
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
