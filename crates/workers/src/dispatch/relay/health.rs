//! Checks whether a server responds: after its start until it does; then periodically while it is idle, and when a request
//! has timed out.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Method;
use keepwarm_http1::{Fields, RequestBody, RequestOptions};
use keepwarm_net::{
    CallHead, Calls, Client, ClientError, ConnectionNeed, Endpoint, Http1, Io, Lease, PoolSettings,
    Protocol as Version, RequestLine, ResponsePart, Scheme,
};
use keepwarm_serve::ServerExchange;
use keepwarm_telemetry::panics::catch_future;
use tokio::time::{Instant, timeout};

use super::super::activity::RequestSummary;
use super::super::app::{App, WorkerCapabilities};
use super::super::fastcgi;
use super::super::kind::LinkKind;
use super::super::link::Link;
use super::child::Child;
use super::server::{Server, ServerProcess, own_endpoint};
use super::{Protocol, ServerPolicy, lock};
use crate::supervisor::LinkEvent;

/// Between two tries while it boots: doubled from the first to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(200);
/// A server that listens nowhere for this long probably does not know where it is to.
const HINT_AFTER: Duration = Duration::from_secs(10);
/// Between two questions to one that owes a response.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Attends to one server for as long as it lives, as a task of a data-plane thread. A server that nobody attends to any more is replaced.
pub(in crate::dispatch) async fn attend_to_end(link: Arc<Link>) {
    let attending = pin!(attend(Arc::clone(&link)));
    if let Err(panic) = catch_future(attending).await {
        panic.report("worker_health", Some(&link.key.app), None);
        link.kill("lost its health checks through a bug in Keepwarm");
    }
}

async fn attend(link: Arc<Link>) {
    let (Some(app), Some(process)) = (link.app.upgrade(), link.kind.process()) else { return };
    let Some(endpoint) = boot(&link, &app, process).await else { return };
    let Some(policy) = app.server_policy() else { return };
    process.set_server(Server::new(endpoint.clone(), &policy));
    let language = match &endpoint {
        Endpoint::Tcp(address) => format!("a server at port {}", address.port()),
        Endpoint::Unix(_) | Endpoint::Proxied(_) => format!("a server at {endpoint}"),
    };
    let kind = match policy.protocol {
        Protocol::Http(_) => "http",
        Protocol::FastCgi(_) => "fastcgi",
    };
    let slots = policy.concurrency.max(1);
    app.welcome_worker(&link, WorkerCapabilities::of_server(slots, kind, "its own server"));
    if let Endpoint::Tcp(address) = &endpoint {
        warn_if_open(&link, &app, *address);
    }
    link.report(LinkEvent::Ready {
        worker: link.key.clone(),
        adapter: "none".to_owned(),
        kind: kind.to_owned(),
        language,
        streams: u32::try_from(policy.concurrency).unwrap_or(u32::MAX),
    });
    watch(&link, &app, process).await;
}

/// Says once for an app that its server listens on all interfaces: others on the network reach it past Keepwarm, with its limits, and are believed what they
/// say of their addresses.
fn warn_if_open(link: &Link, app: &App, address: SocketAddr) {
    if listens_everywhere(address) && !app.said_open.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            name: "worker_listens_publicly",
            app = %link.key.app, worker = link.key.number, pid = link.key.pid,
            address = %format_args!("0.0.0.0:{}", address.port()),
            "worker listens on all interfaces, and can be reached without Keepwarm; let it listen on 127.0.0.1 at the port in PORT, or at KEEPWARM_SOCKET"
        );
    }
}

/// Whether the listener at this loopback address listens on all addresses: then no other loopback address can be bound.
fn listens_everywhere(address: SocketAddr) -> bool {
    const ANOTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    if cfg!(feature = "simulation") {
        return false;
    }
    let taken = TcpListener::bind((ANOTHER, address.port()));
    taken.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

/// Asks at both addresses until there is a response. `None`: it has gone.
async fn boot(link: &Link, app: &App, process: &ServerProcess) -> Option<Endpoint> {
    let addresses = &process.addresses;
    let slots = [Endpoint::Unix(addresses.unix.clone()), Endpoint::Tcp(addresses.tcp)];
    let (mut pause, begun) = (FIRST_PAUSE, Instant::now());
    let mut hinted = false;
    while !link.lock().dead {
        let policy = app.server_policy()?;
        let mut told = None;
        for slot in &slots {
            match ask(&own_endpoint(slot, policy.proxy), &policy).await {
                Ok(()) => return Some(slot.clone()),
                Err(why) => told = why.or(told),
            }
        }
        if begun.elapsed() >= HINT_AFTER && !std::mem::replace(&mut hinted, true) {
            let why = told.unwrap_or_else(|| "nothing listens there".to_owned());
            tracing::warn!(
                name: "worker_not_listening",
                app = %link.key.app, worker = link.key.number, pid = link.key.pid,
                port = addresses.tcp.port(), socket = %addresses.unix.display(), %why,
                "worker does not respond yet; it must listen on 127.0.0.1 at the port in PORT, or at the path in KEEPWARM_SOCKET"
            );
        }
        // Its end is noticed at once.
        let _ = timeout(pause, process.look.notified()).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
    None
}

/// Checks the server on request: by the supervisor while the server is idle, or by a client's task that waited too long for a response.
async fn watch(link: &Arc<Link>, app: &App, process: &ServerProcess) {
    // Its version and address are its own: a reload may have changed those of the app.
    let Some(server) = process.server() else { return };
    let endpoint = &*server.own_endpoint();
    loop {
        process.look.notified().await;
        if link.lock().dead {
            return;
        }
        let suspected = lock(&process.suspected).take();
        let Some(policy) = app.server_policy() else { return };
        if matches!(policy.protocol, Protocol::FastCgi(_)) && link.is_at_work() {
            // It reads nothing else before it has responded to its request; that response shows that it is alive.
            process.owes_response.store(false, Ordering::Relaxed);
            continue;
        }
        // A response to any other request counts for this check too: a page that hangs proves nothing about the others.
        process.owes_response.store(true, Ordering::Relaxed);
        let asked = match policy.protocol {
            // Without a health path the check would request a page, which may be slow or fail: that needs a reason.
            Protocol::Http(_) if suspected.is_none() && policy.health.is_none() => {
                let connected = timeout(PATIENCE, connect(endpoint)).await;
                connected.unwrap_or_else(|_| Err(Some(SILENT.to_owned()))).map(drop)
            }
            Protocol::Http(_) => {
                let protocol = Protocol::Http(server.http_version());
                ask(endpoint, &ServerPolicy { protocol, ..policy }).await
            }
            // It accepts no other connection while one is open.
            Protocol::FastCgi(_) => ask_kept(app, endpoint).await,
        };
        match asked {
            Ok(()) => {
                process.owes_response.store(false, Ordering::Relaxed);
                link.ponged();
            }
            Err(Some(why)) if why == SILENT && !process.owes_response.load(Ordering::Relaxed) => {
                link.ponged()
            }
            Err(why) => {
                let why = why.unwrap_or_else(|| "it accepts no connection".to_owned());
                tracing::warn!(
                    name: "worker_unhealthy",
                    app = %link.key.app, worker = link.key.number, pid = link.key.pid, %why,
                    "worker does not respond to its health check"
                );
                if let Some(culprit) = suspected {
                    return link.give_up(Some(&culprit), "has not responded since a request timed out");
                }
                // As long as it owes a response, it is asked for it.
                tokio::time::sleep(AGAIN).await;
                if process.owes_response.load(Ordering::Relaxed) {
                    process.look.notify_one();
                }
            }
        }
    }
}

impl Link {
    /// A request has timed out here. A process that the server keeps beside others is killed. A server that works on one request at a time is given up; one that holds
    /// others is asked, and given up if it does not respond.
    pub(super) fn suspect(&self, culprit: &RequestSummary, child: Option<&Arc<Child>>) {
        if let Some(child) = child {
            let key = &self.key;
            tracing::warn!(
                name: "process_killed",
                app = %key.app, worker = key.number, pid = key.pid, process = child.pid,
                "process killed: it had a request that timed out"
            );
            child.kill();
            if let Some(app) = self.app.upgrade() {
                app.handle_death(std::slice::from_ref(culprit));
            }
            return;
        }
        let policy = self.app.upgrade().and_then(|app| app.policy().kind.server().cloned());
        match (&self.kind, policy) {
            // It is not ours to end.
            (LinkKind::External(_), _) => {}
            // It ends scripts that take too long by itself.
            (
                LinkKind::Server(_),
                Some(ServerPolicy { protocol: Protocol::FastCgi(_), concurrency: 2.., .. }),
            ) => {}
            (LinkKind::Server(process), Some(ServerPolicy { concurrency: 2.., .. })) => {
                *lock(&process.suspected) = Some(culprit.clone());
                process.look.notify_one();
            }
            _ => self.give_up(Some(culprit), "had a request that timed out"),
        }
    }
}

/// One question to a server for scripts, on the connection that it listens to.
async fn ask_kept(app: &App, endpoint: &Endpoint) -> Result<(), Option<String>> {
    let response = async {
        let mut lease = app
            .servers
            .fastcgi
            .acquire(endpoint, ConnectionNeed::Any)
            .await
            .map_err(|error| Some(error.to_string()))?;
        fastcgi::ask(&mut lease).await.map_err(Some)
    };
    timeout(PATIENCE, response).await.unwrap_or_else(|_| Err(Some(SILENT.to_owned())))
}

const SILENT: &str = "it does not respond in time";

/// One check. The error is a phrase; `None` when nothing listens.
async fn ask(endpoint: &Endpoint, policy: &ServerPolicy) -> Result<(), Option<String>> {
    let health = policy.health.as_deref();
    let response = async {
        if let Protocol::Http(Version::Http2) = policy.protocol {
            return ask_http2(endpoint, health).await;
        }
        let io = connect(endpoint).await?;
        match &policy.protocol {
            Protocol::FastCgi(_) => fastcgi::ask(&mut Client::new(io)).await.map_err(Some),
            Protocol::Http(_) => ask_http(Client::new(io), health).await.map_err(Some),
        }
    };
    timeout(PATIENCE, response).await.unwrap_or_else(|_| Err(Some(SILENT.to_owned())))
}

/// A connection for a question. `None` when nobody listens.
async fn connect(endpoint: &Endpoint) -> Result<Io, Option<String>> {
    use std::io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
    endpoint.connect().await.map_err(|error| match error.kind() {
        ConnectionRefused | NotFound => None,
        PermissionDenied => Some(format!(
            "{error}; for a socket of another user Keepwarm needs the capability CAP_DAC_OVERRIDE"
        )),
        _ => Some(error.to_string()),
    })
}

/// The name that checks give themselves.
const USER_AGENT: (&[u8], &[u8]) =
    (b"User-Agent", concat!("keepwarm/", env!("CARGO_PKG_VERSION"), " (health)").as_bytes());

async fn ask_http2(endpoint: &Endpoint, health: Option<&str>) -> Result<(), Option<String>> {
    // A connection of its own, which ends with this.
    let calls = Calls::new(PoolSettings::default(), Version::Http2);
    let call = calls.acquire(endpoint, ConnectionNeed::New).await;
    let mut call = call.map_err(|error| (!error.is_refused()).then(|| error.to_string()))?;
    call.begin(CallHead {
        method: &Method::GET,
        scheme: Scheme::Http,
        authority: b"localhost",
        target: health.unwrap_or("/").as_bytes(),
        fields: std::iter::once(USER_AGENT),
        framing: RequestBody::None,
        expect: false,
        te_trailers: false,
        upgrade: None,
        websocket_accept: None,
    });
    call.end(&Fields::new());
    match poll_fn(|cx| poll_status(&mut call, cx)).await {
        // A gRPC server resets requests that are not calls: that is a response, too.
        Err(error) if health.is_none() && error.is_reset() => Ok(()),
        status => judge(status, health).map_err(Some),
    }
}

async fn ask_http(mut client: Client<Http1>, health: Option<&str>) -> Result<(), String> {
    let target = health.unwrap_or("/").as_bytes();
    let line = RequestLine { method: &Method::GET, target, authority: b"localhost" };
    let fields = [USER_AGENT];
    let options = RequestOptions::default();
    client.begin(|codec, out| codec.encode_head(out, line, fields.into_iter(), RequestBody::None, options));
    client.end(&Fields::new());
    let mut lease = Lease::alone(client);
    judge(poll_fn(|cx| poll_status(&mut lease, cx)).await, health)
}

/// The status of the response.
fn poll_status(server: &mut impl ServerExchange, cx: &mut Context<'_>) -> Poll<Result<u16, ClientError>> {
    let _ = server.poll_flush(cx);
    loop {
        match std::task::ready!(server.poll_response(cx)) {
            Ok(ResponsePart::Head(head)) => return Poll::Ready(Ok(head.status.as_u16())),
            Ok(ResponsePart::End) => return Poll::Ready(Err(ClientError::NoResponse(None))),
            Ok(_) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

fn judge(status: Result<u16, ClientError>, health: Option<&str>) -> Result<(), String> {
    match (status.map_err(|error| error.to_string())?, health) {
        (_, None) | (200..400, Some(_)) => Ok(()),
        (status, Some(path)) => Err(format!("it responds to {path} with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_interfaces_is_told_from_one_on_loopback() {
        let of = |address: &str| {
            let listener = TcpListener::bind(address).unwrap();
            listens_everywhere(SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port())))
        };
        assert!(!of("127.0.0.1:0"));
        assert!(of("0.0.0.0:0"));
    }

    /// As Node does where IPv6 is there: the socket takes IPv4 too.
    #[test]
    fn a_server_on_all_interfaces_of_both_families_is_found() {
        let Ok(listener) = TcpListener::bind("[::]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        assert!(listens_everywhere(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    }
}
