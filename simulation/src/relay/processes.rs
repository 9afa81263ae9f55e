//! The processes of an app, and a supervisor of the least kind: one that ends has a successor, and one that is replaced ends once it has nothing left to do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::simulation;
use keepwarm_workers::dispatch::Links;
use keepwarm_workers::supervisor::{Addresses, LinkEvent, WorkerKey, WorkerLink, WorkerLinks};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Kind, Relay};
use crate::fastcgi::{self, Scripts};
use crate::http2_origin;
use crate::origin::{self, Plans};
use crate::worker::Observations;

/// Between an end and its successor.
const RESTART: Duration = Duration::from_millis(20);
/// Between two questions after a worker's health.
const PING: Duration = Duration::from_secs(1);

pub(super) struct Processes {
    plan: Rc<Relay>,
    links: Rc<Links>,
    seen: Rc<RefCell<Observations>>,
    all: RefCell<BTreeMap<u32, Process>>,
    next: RefCell<u32>,
    events: mpsc::UnboundedSender<LinkEvent>,
    told: Mutex<mpsc::UnboundedReceiver<LinkEvent>>,
    ended: mpsc::UnboundedSender<u32>,
    over: Mutex<mpsc::UnboundedReceiver<u32>>,
    begun: Instant,
}

struct Process {
    number: u32,
    kill: Rc<Notify>,
    /// `None`: it is not a worker.
    link: Option<Arc<dyn WorkerLink>>,
    ready: bool,
    /// It is on its way out.
    retired: bool,
    /// Pings in a row without a reply.
    silent: u32,
    /// Is retired when this one is ready.
    replaces: Option<u32>,
}

impl Processes {
    pub(super) fn new(plan: Rc<Relay>, links: Rc<Links>, seen: Rc<RefCell<Observations>>) -> Rc<Self> {
        let (events, told) = mpsc::unbounded_channel();
        let (ended, over) = mpsc::unbounded_channel();
        Rc::new(Self {
            plan,
            links,
            seen,
            all: RefCell::default(),
            next: RefCell::new(0),
            events,
            told: Mutex::new(told),
            ended,
            over: Mutex::new(over),
            begun: Instant::now(),
        })
    }

    /// Starts the first ones.
    pub(super) fn start(self: &Rc<Self>) {
        let count = if self.plan.kind == Kind::Standing { 1 } else { self.plan.workers };
        (1..=count).for_each(|number| self.start_one(number as u32, None));
    }

    fn start_one(self: &Rc<Self>, number: u32, replaces: Option<u32>) {
        let standing = self.plan.kind == Kind::Standing;
        let pid = match standing {
            true => 0,
            false => {
                *self.next.borrow_mut() += 1;
                *self.next.borrow()
            }
        };
        let kill = Rc::new(Notify::new());
        tokio::task::spawn_local(Rc::clone(self).run(pid, Rc::clone(&kill)));
        let link = (!standing).then(|| {
            let key = WorkerKey { app: "app".into(), number, generation: 1, pid };
            let (tcp, unix) = Relay::addresses(pid);
            self.links.adopt_server(key, Addresses::of_script(tcp, unix), self.events.clone())
        });
        let process = Process { number, kill, link, ready: false, retired: false, silent: 0, replaces };
        self.all.borrow_mut().insert(pid, process);
    }

    /// A process from its start to its end.
    async fn run(self: Rc<Self>, pid: u32, kill: Rc<Notify>) {
        tokio::select! {
            biased;
            () = kill.notified() => {}
            () = self.serve(pid) => {}
        }
        let _ = self.ended.send(pid);
    }

    async fn serve(&self, pid: u32) {
        let plan = &self.plan;
        if !plan.boot.is_zero() {
            sleep(plan.boot).await;
        }
        let listener = simulation::listen(plan.endpoint(pid)).expect("nobody listens there");
        let seen = Rc::clone(&self.seen);
        let plan = Rc::clone(&self.plan);
        match self.plan.kind {
            Kind::Http => {
                let plans: Plans = Rc::new(move |target| {
                    let (path, query) = target.split_once('?').unwrap_or((target, ""));
                    let (id, script) = plan.script(path)?;
                    assert!(query == script.query, "another query");
                    Some((id, script.response))
                });
                match self.plan.http2.clone() {
                    Some(http2) => {
                        http2_origin::serve(listener, None, http2, self.plan.seed, plans, seen).await
                    }
                    None => origin::serve(listener, None, plans, seen).await,
                }
            }
            Kind::FastCgi | Kind::Standing => {
                let scripts: Scripts = Rc::new(move |path| plan.script(path));
                fastcgi::serve(listener, self.plan.concurrency, scripts, seen).await;
            }
        }
    }

    /// Attends to them, for ever.
    pub(super) async fn supervise(self: &Rc<Self>) {
        let (mut told, mut over) = (self.told.lock().await, self.over.lock().await);
        let mut ping = tokio::time::interval(PING);
        loop {
            tokio::select! {
                biased;
                Some(event) = told.recv() => self.handle_event(&event),
                Some(pid) = over.recv() => self.handle_end(pid),
                () = self.next_death() => self.kill_any(),
                () = self.next_replacement() => self.replace_all(),
                _ = ping.tick() => self.ping_all(),
            }
        }
    }

    fn handle_event(self: &Rc<Self>, event: &LinkEvent) {
        let pid = event.worker().pid;
        match event {
            LinkEvent::Ready { .. } => {
                let mut all = self.all.borrow_mut();
                let Some(process) = all.get_mut(&pid) else { return };
                process.ready = true;
                let replaced = process.replaces;
                let Some(old) = replaced.and_then(|pid| all.get_mut(&pid)) else { return };
                old.retired = true;
                if let Some(link) = old.link.clone() {
                    drop(all);
                    link.retire();
                }
            }
            LinkEvent::Closed { reason, .. }
            | LinkEvent::Kill { reason, .. }
            | LinkEvent::Stuck { reason, .. } => {
                assert!(!self.plan.clean, "no worker was to end: {reason}");
                self.kill(pid);
            }
            LinkEvent::Drained { .. } => self.kill(pid),
            _ => {}
        }
    }

    fn kill(&self, pid: u32) {
        if let Some(process) = self.all.borrow().get(&pid) {
            process.kill.notify_one();
        }
    }

    /// It is reaped.
    fn handle_end(self: &Rc<Self>, pid: u32) {
        let Some(process) = self.all.borrow_mut().remove(&pid) else { return };
        let Process { number, link, retired, .. } = process;
        drop(link);
        if !retired {
            let all = Rc::clone(self);
            tokio::task::spawn_local(async move {
                sleep(RESTART).await;
                all.start_one(number, None);
            });
        }
    }

    /// The next time of the plan that is to come.
    async fn next_death(&self) {
        let now = Instant::now();
        let deaths = self.plan.deaths.iter().map(|after| self.begun + *after);
        match deaths.filter(|at| *at > now).min() {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn kill_any(&self) {
        if let Some(pid) = self.all.borrow().keys().min() {
            self.kill(*pid);
        }
    }

    async fn next_replacement(&self) {
        let at = self.plan.replaced.map(|after| self.begun + after).filter(|at| *at > Instant::now());
        match at.filter(|_| self.plan.kind != Kind::Standing) {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn replace_all(self: &Rc<Self>) {
        let all: Vec<(u32, u32)> = self.all.borrow().iter().map(|(pid, it)| (*pid, it.number)).collect();
        all.iter().for_each(|(pid, number)| self.start_one(*number, Some(*pid)));
    }

    fn ping_all(&self) {
        for process in self.all.borrow_mut().values_mut().filter(|process| process.ready) {
            let Some(link) = &process.link else { continue };
            process.silent = if link.is_silent() { process.silent + 1 } else { 0 };
            assert!(!self.plan.clean || process.silent < 4, "a worker without requests owes a sign of life");
            link.ping();
        }
    }
}
