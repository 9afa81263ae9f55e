//! The dispatching side as the tests need it, and a log that can be read.
//!
//! A fake wire: whatever a worker writes first is its HELLO; DRAIN is the end of what Keepwarm writes.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use keepwarm_policy::scaler::AppLoad;
use keepwarm_workers::supervisor::{Addresses, LinkEvent, Requests, WorkerKey, WorkerLink, WorkerLinks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// A call of the supervisor to the dispatching side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LinkCall {
    Adopted(WorkerKey),
    Retired(WorkerKey),
    Goodbye(WorkerKey),
    Failed(String, Option<String>),
}

#[derive(Default)]
pub(crate) struct FakeLinks {
    told: Arc<Mutex<Vec<LinkCall>>>,
    events: OnceLock<UnboundedSender<LinkEvent>>,
    /// What requests are said to meet.
    load: Mutex<AppLoad>,
    /// Workers are said to owe a response.
    silent: Arc<AtomicBool>,
}

impl FakeLinks {
    pub(crate) fn told(&self) -> Vec<LinkCall> {
        self.told.lock().unwrap().clone()
    }

    /// Says something about a worker that its wire does not.
    pub(crate) fn say(&self, event: LinkEvent) {
        self.events.get().unwrap().send(event).unwrap();
    }

    pub(crate) fn set_load(&self, load: AppLoad) {
        *self.load.lock().unwrap() = load;
    }

    pub(crate) fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
    }

    fn tell(&self, told: LinkCall) {
        tell(&self.told, told);
    }
}

fn tell(list: &Mutex<Vec<LinkCall>>, told: LinkCall) {
    list.lock().unwrap().push(told);
    changed().notify_waiters();
}

impl WorkerLinks for FakeLinks {
    fn adopt(
        &self,
        worker: WorkerKey,
        socket: OwnedFd,
        events: UnboundedSender<LinkEvent>,
    ) -> Arc<dyn WorkerLink> {
        self.tell(LinkCall::Adopted(worker.clone()));
        let _ = self.events.set(events.clone());
        let stream = tokio::net::UnixStream::from_std(socket.into()).expect("a non-blocking socket");
        let link = Arc::new(FakeLink {
            worker: worker.clone(),
            drain: Arc::default(),
            told: self.told.clone(),
            requests: Requests::default(),
            silent: self.silent.clone(),
        });
        let drain = link.drain.clone();
        tokio::spawn(async move {
            let (mut from, mut to) = stream.into_split();
            let mut bytes = [0; 64];
            let mut said_ready = false;
            loop {
                tokio::select! {
                    read = from.read(&mut bytes) => match read {
                        Ok(1..) if said_ready => {}
                        Ok(1..) => {
                            said_ready = true;
                            let event = LinkEvent::Ready {
                                worker: worker.clone(),
                                adapter: "fake/1".to_owned(),
                                kind: "fake".to_owned(),
                                language: "sh".to_owned(),
                                streams: 1,
                            };
                            let _ = events.send(event);
                        }
                        _ => break,
                    },
                    () = drain.notified() => to.shutdown().await.unwrap_or_default(),
                }
            }
            let _ = events.send(LinkEvent::Closed { worker, reason: "closed the wire".to_owned() });
        });
        link
    }

    /// Ready when something listens at the port.
    fn adopt_server(
        &self,
        worker: WorkerKey,
        addresses: Addresses,
        events: UnboundedSender<LinkEvent>,
    ) -> Arc<dyn WorkerLink> {
        self.tell(LinkCall::Adopted(worker.clone()));
        let (told, requests) = (self.told.clone(), Requests::default());
        let link = FakeServer { worker: worker.clone(), events: events.clone(), told, requests };
        tokio::spawn(async move {
            while tokio::net::TcpStream::connect(addresses.tcp).await.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            let event = LinkEvent::Ready {
                worker,
                adapter: "none".to_owned(),
                kind: "http".to_owned(),
                language: "sh".to_owned(),
                streams: 1,
            };
            let _ = events.send(event);
        });
        Arc::new(link)
    }

    fn promote(&self, _apps: &BTreeSet<Arc<str>>, _generation: u64) {}

    fn load(&self, _app: &str) -> AppLoad {
        *self.load.lock().unwrap()
    }

    fn set_failed(&self, app: &str, reason: Option<String>) {
        self.tell(LinkCall::Failed(app.to_owned(), reason));
    }
}

struct FakeLink {
    worker: WorkerKey,
    drain: Arc<Notify>,
    told: Arc<Mutex<Vec<LinkCall>>>,
    requests: Requests,
    silent: Arc<AtomicBool>,
}

impl WorkerLink for FakeLink {
    fn retire(&self) {
        tell(&self.told, LinkCall::Retired(self.worker.clone()));
        self.drain.notify_one();
    }

    fn say_goodbye(&self) {
        tell(&self.told, LinkCall::Goodbye(self.worker.clone()));
    }

    fn ping(&self) {}

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    fn requests(&self) -> &Requests {
        &self.requests
    }
}

/// A server without requests: retired, it has finished.
struct FakeServer {
    worker: WorkerKey,
    events: UnboundedSender<LinkEvent>,
    told: Arc<Mutex<Vec<LinkCall>>>,
    requests: Requests,
}

impl WorkerLink for FakeServer {
    fn retire(&self) {
        tell(&self.told, LinkCall::Retired(self.worker.clone()));
        let _ = self.events.send(LinkEvent::Drained { worker: self.worker.clone() });
    }

    fn say_goodbye(&self) {}

    fn ping(&self) {}

    fn is_silent(&self) -> bool {
        false
    }

    fn requests(&self) -> &Requests {
        &self.requests
    }
}

/// Something was recorded or told.
pub(crate) fn changed() -> &'static Notify {
    static CHANGED: OnceLock<Notify> = OnceLock::new();
    CHANGED.get_or_init(Notify::new)
}

/// One log record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) target: String,
    pub(crate) level: tracing::Level,
    pub(crate) fields: BTreeMap<String, String>,
}

impl Record {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    pub(crate) fn message(&self) -> &str {
        self.field("message").unwrap_or_default()
    }
}

/// Sends all records of this process to `sink`. Once in a process.
pub(crate) fn record_to(sink: impl Fn(Record) + Send + Sync + 'static) {
    tracing::subscriber::set_global_default(Recorder(sink)).expect("the only subscriber");
}

struct Recorder<F>(F);

impl<F: Fn(Record) + Send + Sync + 'static> Subscriber for Recorder<F> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        (self.0)(Record { target: metadata.target().to_owned(), level: *metadata.level(), fields: fields.0 });
        changed().notify_waiters();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}
