//! Read access to the running parts: the source of `keepwarm status`, the metrics and the health checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use keepwarm_acme::{Acme, NameStatus, OnDemandCounts};
use keepwarm_egress::{Upstream, UpstreamStatus};
use keepwarm_net::{Certificate, CertificateFacts, CertificateFiles, Remote};
use keepwarm_telemetry::meters::{self, Exemplar, ListenerTotals, RouteTotals};
use keepwarm_workers::dispatch::{
    ActiveRequest, ExternalServerStatus, Links, WaitingRequest, WorkerActivity,
};
use keepwarm_workers::supervisor::{ProcessSetSnapshot, Snapshot, Supervisor, WorkerSnapshot};

use crate::live::SnapshotFeed;
use crate::readiness::Readiness;
use crate::subjects::OwnTarget;
use crate::tls::ListenerCertificates;
use crate::why::Diagnosis;

/// Waiting requests of an app that are listed: enough to see which routes they are for. Their copies are made under the lock of the queue.
const WAITING: usize = 20;

/// The parts.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) links: Arc<Links>,
    pub(crate) supervisor: Supervisor,
    /// The data-plane threads.
    pub(crate) remotes: Vec<Remote>,
    pub(crate) readiness: Readiness,
    pub(crate) started: SystemTime,
    /// Why requests are slow.
    pub(crate) diagnosis: Diagnosis,
    /// What streams of snapshots read.
    pub(crate) feed: SnapshotFeed,
    begun: Instant,
    served: ArcSwap<ServedConfig>,
}

/// The served configuration.
#[derive(Debug, Default)]
pub(crate) struct ServedConfig {
    /// The apps, in the order of the configuration; of those of Ruby, how many threads a worker has.
    pub(crate) apps: Vec<(String, Option<usize>)>,
    /// The listeners, with the addresses they have.
    pub(crate) listeners: Vec<(String, Vec<String>)>,
    /// How many connections of clients may be open.
    pub(crate) connections: usize,
    /// The upstreams.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// The targets that can be examined from outside.
    pub(crate) subjects: Vec<OwnTarget>,
    /// The certificates of listeners.
    pub(crate) certificates: Vec<Arc<ListenerCertificates>>,
    /// What obtains certificates from an authority.
    pub(crate) authority: Weak<Acme>,
}

impl View {
    pub(crate) fn new(
        links: &Arc<Links>,
        supervisor: &Supervisor,
        remotes: &[Remote],
        readiness: &Readiness,
    ) -> Self {
        Self {
            links: Arc::clone(links),
            supervisor: supervisor.clone(),
            remotes: remotes.to_vec(),
            readiness: readiness.clone(),
            started: SystemTime::now(),
            diagnosis: Diagnosis::default(),
            feed: SnapshotFeed::default(),
            begun: Instant::now(),
            served: ArcSwap::default(),
        }
    }

    /// The configuration has changed.
    pub(crate) fn set_served(&self, served: ServedConfig) {
        self.served.store(Arc::new(served));
    }

    pub(crate) fn served(&self) -> Arc<ServedConfig> {
        self.served.load_full()
    }

    /// Looks at everything, once.
    pub(crate) async fn look(&self) -> StatusSnapshot {
        let snapshot = self.supervisor.snapshot().await;
        let served = self.served();
        let routes = meters::routes();
        let authority = served.authority.upgrade();
        let apps = served.apps.iter().map(|(name, threads)| self.app(name, *threads, &snapshot)).collect();
        StatusSnapshot {
            started: self.started,
            uptime: self.begun.elapsed(),
            ready: self.readiness.is_ready(),
            stuck: self.remotes.iter().filter(|remote| remote.is_stuck()).count(),
            apps,
            workers: workers(snapshot, self.links.activity()),
            processes: self.supervisor.processes().await,
            listeners: served.listeners.iter().map(listener).collect(),
            routes: routes
                .iter()
                .map(|meter| RouteStatus {
                    app: &meter.app,
                    route: &meter.route,
                    totals: meter.totals(),
                    exemplars: meter.exemplars(),
                })
                .collect(),
            upstreams: served.upstreams.iter().map(|upstream| upstream.look()).collect(),
            certificates: {
                let names = authority.as_ref().map(|acme| acme.status()).unwrap_or_default();
                let names = names.into_iter().map(|name| (name.name.clone(), name)).collect();
                served.certificates.iter().flat_map(|listener| certificates(listener, &names)).collect()
            },
            on_demand: authority.as_ref().and_then(|acme| acme.on_demand_counts()),
        }
    }

    fn app(&self, name: &str, threads: Option<usize>, snapshot: &Snapshot) -> AppStatus {
        let app = self.links.app(name);
        AppStatus {
            name: name.to_owned(),
            threads,
            about: app.as_ref().and_then(|app| app.description()),
            queue: app.as_ref().map_or(0, |app| app.waiting()),
            waiting_requests: app.as_ref().map(|app| app.next_waiting(WAITING)).unwrap_or_default(),
            counts: snapshot.apps.iter().find(|app| &*app.app == name).cloned(),
            failed: snapshot
                .failed
                .iter()
                .find(|failed| &*failed.app == name)
                .map(|failed| failed.reason.clone()),
            external: app.and_then(|app| app.external()),
        }
    }
}

/// The status of the process at one moment.
#[derive(Debug)]
pub(crate) struct StatusSnapshot {
    pub(crate) started: SystemTime,
    pub(crate) uptime: Duration,
    pub(crate) ready: bool,
    /// Data-plane threads that do not turn.
    pub(crate) stuck: usize,
    pub(crate) apps: Vec<AppStatus>,
    pub(crate) workers: Vec<WorkerStatus>,
    pub(crate) processes: Vec<ProcessSetSnapshot>,
    pub(crate) listeners: Vec<ListenerStatus>,
    pub(crate) routes: Vec<RouteStatus>,
    pub(crate) upstreams: Vec<UpstreamStatus>,
    pub(crate) certificates: Vec<CertificateStatus>,
    /// What became of names that clients requested; `None`: certificates are not obtained on demand.
    pub(crate) on_demand: Option<OnDemandCounts>,
}

/// A certificate of a listener.
#[derive(Debug)]
pub(crate) struct CertificateStatus {
    pub(crate) listener: String,
    pub(crate) facts: CertificateFacts,
    /// Why the files as they are now are not used.
    pub(crate) error: Option<String>,
    /// How its next one is obtained, if it is for a name of an authority.
    pub(crate) acme: Option<NameStatus>,
}

#[derive(Debug)]
pub(crate) struct AppStatus {
    pub(crate) name: String,
    /// The threads of a worker, where it is an app of Ruby.
    pub(crate) threads: Option<usize>,
    /// Kind and language, once a worker has reported them.
    pub(crate) about: Option<String>,
    /// Requests that wait for a worker.
    pub(crate) queue: usize,
    /// The first of them.
    pub(crate) waiting_requests: Vec<WaitingRequest>,
    pub(crate) counts: Option<keepwarm_workers::supervisor::AppSnapshot>,
    /// Why it was given up.
    pub(crate) failed: Option<String>,
    /// In place of workers.
    pub(crate) external: Option<ExternalServerStatus>,
}

#[derive(Debug)]
pub(crate) struct WorkerStatus {
    pub(crate) worker: WorkerSnapshot,
    /// The requests it holds, the oldest first.
    pub(crate) active_requests: Vec<ActiveRequest>,
}

#[derive(Debug)]
pub(crate) struct ListenerStatus {
    pub(crate) name: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) totals: ListenerTotals,
}

#[derive(Debug)]
pub(crate) struct RouteStatus {
    pub(crate) app: &'static str,
    pub(crate) route: &'static str,
    pub(crate) totals: RouteTotals,
    /// Traces of its durations.
    pub(crate) exemplars: Vec<Exemplar>,
}

fn workers(snapshot: Snapshot, mut activity: Vec<WorkerActivity>) -> Vec<WorkerStatus> {
    let status = |worker: WorkerSnapshot| {
        let at = activity.iter().position(|activity| Some(activity.worker.pid) == worker.pid);
        let active_requests = at.map(|at| activity.swap_remove(at).active_requests).unwrap_or_default();
        WorkerStatus { worker, active_requests }
    };
    snapshot.workers.into_iter().map(status).collect()
}

fn certificates(
    listener: &ListenerCertificates,
    names: &BTreeMap<String, NameStatus>,
) -> Vec<CertificateStatus> {
    let state = listener.tls.state();
    let managed = state.settings().certificates.iter().map(CertificateFiles::is_managed);
    let status = |(certificate, is_managed): (&Arc<Certificate>, bool)| CertificateStatus {
        listener: listener.name.clone(),
        facts: certificate.facts.clone(),
        error: listener.error().filter(|_| !is_managed),
        acme: own_names(&certificate.facts).find_map(|name| names.get(&name).filter(|_| is_managed)).cloned(),
    };
    state.certificates().iter().zip(managed).map(status).collect()
}

/// As an authority's names are written.
fn own_names(facts: &CertificateFacts) -> impl Iterator<Item = String> {
    facts.names.iter().cloned().chain(facts.addresses.iter().map(ToString::to_string))
}

fn listener((name, addresses): &(String, Vec<String>)) -> ListenerStatus {
    ListenerStatus {
        name: name.clone(),
        addresses: addresses.clone(),
        totals: meters::listener(name).totals(),
    }
}
