//! Reaching the server, before anything is examined: its addresses, a connection, the first response, redirects.

mod redirect;
mod refusal;
mod trouble;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustls::{ALL_VERSIONS, ClientConfig};

use crate::budget::Budget;
use crate::client::{Authorities, Failure, PeerAddress, Response, TlsSettings, client_config};
use crate::context::{Connector, ProbeContext, request_for};
use crate::examine::Watcher;
use crate::finding::Finding;
use crate::server::Server;
use crate::settings::Settings;
use crate::target::Target;
use redirect::Redirect;
pub(crate) use refusal::of_later;

/// Redirects that are followed, at most: what `curl` follows by default is 50, what any sound site needs is two.
const REDIRECTS: usize = 5;

/// Addresses that are tried, at most.
const ADDRESSES: usize = 8;

/// How long an address may keep silent while there are others.
const NEXT: Duration = Duration::from_secs(2);

/// Bytes of a response that could not be understood, kept to be shown.
const SHOWN: usize = 80;

/// The server that was reached, where redirects led.
pub(crate) struct Destination {
    pub(crate) context: ProbeContext,
    /// Findings about the way to it, and about its first response.
    pub(crate) remarks: Vec<Finding>,
}

/// Why the server was not reached.
#[derive(Debug)]
pub(crate) struct ReachError {
    pub(crate) finding: Finding,
    /// Connections opened and requests sent.
    pub(crate) spent: (u64, u64),
}

/// The first request and its result.
struct FirstExchange {
    context: ProbeContext,
    /// How the bytes begin that were not understood.
    unread: Vec<u8>,
}

/// Goes to the server.
///
/// # Errors
/// Why there is nothing to examine, with the evidence.
pub(crate) async fn reach(
    target: &Target,
    settings: &Settings,
    watcher: &Arc<dyn Watcher>,
) -> Result<Destination, ReachError> {
    let budget = Arc::new(Budget::new(settings.rate));
    follow(target, settings, &budget, watcher)
        .await
        .map_err(|finding| ReachError { finding, spent: budget.spent() })
}

async fn follow(
    target: &Target,
    settings: &Settings,
    budget: &Arc<Budget>,
    watcher: &Arc<dyn Watcher>,
) -> Result<Destination, Finding> {
    let mut settings = settings.clone();
    let mut way: Vec<Target> = Vec::new();
    let mut now = target.clone();
    loop {
        let visit = match visit(&now, &settings, budget, watcher).await {
            Ok(visit) => visit,
            Err(failure) => {
                let connector = Connector { target: &now, settings: &settings, budget, watcher };
                return Err(redirect::after(&way, trouble::unreachable(&connector, &failure).await));
            }
        };
        if let Some(finding) = trouble::without_response(&visit.context, &visit.unread).await {
            return Err(redirect::after(&way, finding));
        }
        let context = visit.context;
        let redirect = if settings.follow { redirect::of(&now, &context.first) } else { Redirect::None };
        match redirect {
            Redirect::None => {
                let led = redirect::led(target, way.len(), &now);
                let remarks = led.into_iter().chain(refusal::of_first(&context)).collect();
                return Ok(Destination { context, remarks });
            }
            Redirect::Elsewhere(finding) => return Ok(Destination { context, remarks: vec![finding] }),
            Redirect::To(next) => {
                if way.contains(&next) || next == now || way.len() >= REDIRECTS {
                    way.push(now);
                    return Err(redirect::circle(&way, &next));
                }
                if !now.is_same_server(&next) {
                    redirect::keep_secrets(&mut settings);
                }
                if now.host != next.host {
                    // The permission for one site does not cover another.
                    settings.post = None;
                    settings.identity = None;
                }
                way.push(std::mem::replace(&mut now, next));
            }
        }
    }
}

async fn visit(
    target: &Target,
    settings: &Settings,
    budget: &Arc<Budget>,
    watcher: &Arc<dyn Watcher>,
) -> Result<FirstExchange, Failure> {
    let (addresses, peers) = peers(target, settings).await?;
    let (tls_settings, tls) = match target.is_encrypted() {
        true => {
            let tls_settings = TlsSettings {
                insecure: settings.insecure,
                versions: ALL_VERSIONS,
                alpn: vec![b"http/1.1".to_vec()],
                authorities: Arc::new(Authorities::of_system(&settings.authorities)),
                identity: settings.identity.clone(),
            };
            let config = client_config(&tls_settings)?;
            (Some(tls_settings), Some(config))
        }
        false => (None, None),
    };
    let within = settings.timeout;
    let tried = peers.len().min(ADDRESSES);
    let hasty = Settings { timeout: settings.timeout.min(NEXT), ..settings.clone() };
    let mut failure = None;
    for (index, peer) in peers.iter().enumerate().take(tried) {
        let connector = Connector {
            target,
            settings: if index + 1 < tried { &hasty } else { settings },
            budget,
            watcher,
        };
        let (first, unread) = match first_response(&connector, peer, tls.clone(), within).await {
            Ok(first) => first,
            Err(error) => {
                failure.get_or_insert(error);
                continue;
            }
        };
        let mut addresses = addresses.clone();
        if index < addresses.len() {
            addresses.swap(0, index);
        }
        let context = ProbeContext {
            target: target.clone(),
            settings: settings.clone(),
            addresses,
            server: settings
                .server
                .or_else(|| first.head.as_ref().map(Server::recognize))
                .unwrap_or(Server::Unknown),
            first,
            budget: Arc::clone(budget),
            tls_settings,
            tls,
            watcher: Arc::clone(watcher),
            connections: AtomicU64::new(0),
            silences: AtomicU32::new(0),
            refusals: AtomicU32::new(0),
        };
        return Ok(FirstExchange { context, unread });
    }
    Err(failure.unwrap_or_else(|| Failure::no_address(&target.host)))
}

/// The ordinary request, on a connection of its own.
async fn first_response(
    connector: &Connector<'_>,
    peer: &PeerAddress,
    tls: Option<Arc<ClientConfig>>,
    within: Duration,
) -> Result<(Response, Vec<u8>), Failure> {
    let mut connection = connector.connect(peer, tls, 0).await?;
    let request = request_for(connector.target, connector.settings, &connector.settings.method);
    connector.budget.request().await;
    connection.begin(&request);
    // Whatever it says to half of a request is a response, too.
    let _ = connection.send(&request.bytes()).await;
    let response = connection.read_response(within).await;
    let unread = connection.left_over().iter().copied().take(SHOWN).collect();
    Ok((response, unread))
}

/// Where the server may be: its addresses, and the same as what can be connected to.
async fn peers(target: &Target, settings: &Settings) -> Result<(Vec<SocketAddr>, Vec<PeerAddress>), Failure> {
    if let Some(path) = &target.socket {
        return Ok((Vec::new(), vec![PeerAddress::Unix(path.clone())]));
    }
    let addresses = addresses(target, settings).await?;
    let peers = addresses.iter().copied().map(PeerAddress::Tcp).collect();
    Ok((addresses, peers))
}

/// The addresses of the target: those given, an address that stands in the URL, or what the system's resolver says.
async fn addresses(target: &Target, settings: &Settings) -> Result<Vec<SocketAddr>, Failure> {
    let given: Vec<SocketAddr> = settings
        .resolve
        .iter()
        .filter(|(host, port, _)| host.eq_ignore_ascii_case(&target.host) && *port == target.port)
        .map(|(_, port, address)| SocketAddr::new(*address, *port))
        .collect();
    if !given.is_empty() {
        return Ok(given);
    }
    if let Ok(address) = target.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, target.port)]);
    }
    let looking = tokio::net::lookup_host((target.host.as_str(), target.port));
    match tokio::time::timeout(settings.timeout, looking).await {
        Ok(Ok(found)) => {
            let found: Vec<SocketAddr> = found.collect();
            match found.is_empty() {
                true => Err(Failure::no_address(&target.host)),
                false => Ok(found),
            }
        }
        Ok(Err(error)) => Err(Failure::Resolve { host: target.host.clone(), why: error.to_string() }),
        Err(_) => Err(Failure::TimedOut("resolving the name", settings.timeout)),
    }
}
