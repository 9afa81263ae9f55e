//! The forward proxy: a listener that calls the hosts its clients name (`http_proxy`).
//!
//! * Absolute targets are calls: pooled by origin, or by the configured upstream with that authority (and then over TLS where the upstream says so;
//!   an upstream in plaintext never carries `https://`).
//! * `CONNECT` is a tunnel, to listed hosts and ports only. Its content belongs to its ends: it cannot be pooled.
//! * Anything else is for the listener's routes.
//!
//! A connection goes to the address that was checked ([`ProxyRules`]), whatever its name resolves to a moment later.

mod origin_cache;
mod resolver;
mod rules;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use keepwarm_http1::{RequestBody, TargetForm};
use keepwarm_net::{Client, Http1, Lease, Scheme, connect_any};
use keepwarm_serve::{
    ErrorMessage, Exchange, Frontend, Handler, Outcome, Refusal, Request, Tunnel, TunnelEnd,
    respond_with_refusal,
};

use self::origin_cache::OriginCache;
pub use self::resolver::{Resolver, ResolverDriver};
use self::rules::ProxyTarget;
pub use self::rules::{AllowEntry, AllowHost, ProxyRules};
use crate::forward::{ForwardOptions, HostSource, VIA, forward};
use crate::origin::Origin;
use crate::refusals;
use crate::{CallTelemetry, Upstream};

/// Connecting for a tunnel may take so long.
const CONNECT: Duration = Duration::from_secs(10);

/// The handler of a listener that is a forward proxy.
pub struct Proxy {
    /// Responds to requests for the listener itself.
    inner: Arc<dyn Frontend>,
    resolver: Resolver,
    config: ArcSwap<ProxyConfig>,
}

/// The configuration of a forward proxy.
#[derive(Debug)]
struct ProxyConfig {
    rules: ProxyRules,
    /// By authority, without the port where that is the scheme's own.
    upstreams: Vec<(String, Arc<Upstream>)>,
    origin_cache: Arc<OriginCache>,
}

impl Proxy {
    /// A proxy in front of `inner`. `upstreams`: by authority, without the port where that is the scheme's own. `telemetry`: of calls to other hosts.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Frontend>,
        resolver: Resolver,
        rules: ProxyRules,
        upstreams: Vec<(String, Arc<Upstream>)>,
        telemetry: CallTelemetry,
    ) -> Self {
        let origin_cache = Arc::<OriginCache>::default();
        origin_cache.set_telemetry(telemetry);
        let config = ArcSwap::from_pointee(ProxyConfig { rules, upstreams, origin_cache });
        Self { inner, resolver, config }
    }

    /// Takes effect from the next call on. Under other rules, connections to hosts that are not upstreams are reopened, as their addresses must be checked.
    pub fn replace(
        &self,
        rules: ProxyRules,
        upstreams: Vec<(String, Arc<Upstream>)>,
        telemetry: CallTelemetry,
    ) {
        let before = self.config.load();
        let origin_cache = match before.rules.allow == rules.allow {
            true => Arc::clone(&before.origin_cache),
            false => Arc::default(),
        };
        origin_cache.set_telemetry(telemetry);
        self.config.store(Arc::new(ProxyConfig { rules, upstreams, origin_cache }));
    }

    /// A call to a host that is not an upstream.
    async fn call(&self, exchange: &mut Exchange<'_>) {
        let config = self.config.load_full();
        let head = &exchange.request().head;
        let scheme = match head.absolute_scheme() {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"https") => Scheme::Https,
            _ => Scheme::Http,
        };
        let authority = String::from_utf8_lossy(head.authority()).to_ascii_lowercase();
        let Some(origin) = Origin::new(scheme, &authority) else {
            return refuse(exchange, refusals::BAD_AUTHORITY.about(&[]));
        };
        let bare = origin.authority();
        let named = config.upstreams.iter().filter(|(get, _)| *get == bare);
        // From clear to TLS, never back.
        let mut carries =
            named.filter(|(_, it)| scheme == Scheme::Http || it.settings().scheme == Scheme::Https);
        if let Some((_, upstream)) = carries.next() {
            let settings = upstream.settings();
            let host = settings.host.as_deref();
            let host = host.map_or(HostSource::Endpoint, |host| HostSource::Fixed(host.as_bytes()));
            return forward(upstream, options(host, settings.forwards_expectation), exchange).await;
        }
        let upstream = match config.origin_cache.get(&origin) {
            Some(upstream) => upstream,
            None => match self.learn(&config, &origin, &bare).await {
                Ok(upstream) => upstream,
                Err(why) => return why.respond(exchange),
            },
        };
        forward(&upstream, options(HostSource::Client, false), exchange).await;
    }

    async fn learn(
        &self,
        config: &ProxyConfig,
        origin: &Origin,
        authority: &str,
    ) -> Result<Arc<Upstream>, ProxyError> {
        let target = ProxyTarget { host: origin.host(), port: origin.port(), connect: false };
        let (addresses, until) = self.addresses(config, target).await?;
        config.origin_cache.learn(origin, authority, &addresses, until).map_err(ProxyError::Unusable)
    }

    /// The addresses of a host that may be connected to.
    async fn addresses(
        &self,
        config: &ProxyConfig,
        target: ProxyTarget<'_>,
    ) -> Result<(Vec<IpAddr>, tokio::time::Instant), ProxyError> {
        let denied = || ProxyError::Denied(format!("{}:{}", target.host, target.port));
        if !config.rules.may_permit(target) {
            return Err(denied());
        }
        let response = self.resolver.ask(target.host).await;
        let (addresses, until) =
            response.map_err(|why| ProxyError::Unknown(format!("{} {why}", target.host)))?;
        let permitted: Vec<IpAddr> =
            addresses.iter().copied().filter(|address| config.rules.permits(target, *address)).collect();
        if permitted.is_empty() { Err(denied()) } else { Ok((permitted, until)) }
    }

    /// `CONNECT`.
    async fn tunnel(&self, exchange: &mut Exchange<'_>) {
        let config = self.config.load_full();
        let authority = String::from_utf8_lossy(exchange.request().head.authority()).to_ascii_lowercase();
        let origin = Origin::new(Scheme::Https, &authority);
        let Some(origin) = origin.filter(|_| exchange.request().head.body == RequestBody::None) else {
            return refuse(exchange, refusals::BAD_CONNECT.about(&[]));
        };
        let target = ProxyTarget { host: origin.host(), port: origin.port(), connect: true };
        let addresses = match self.addresses(&config, target).await {
            Ok((addresses, _)) => addresses,
            Err(why) => return why.respond(exchange),
        };
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|address| SocketAddr::new(*address, origin.port())).collect();
        let io = match tokio::time::timeout(CONNECT, connect_any(&addresses)).await {
            Ok(Ok((io, _))) => io,
            Ok(Err(error)) => {
                return refuse(exchange, refusals::CONNECT_FAILED.about(&[&authority, &error]));
            }
            Err(_) => {
                let limit = format!("{CONNECT:?}");
                return refuse(exchange, refusals::CONNECT_TIMEOUT.about(&[&authority, &limit]));
            }
        };
        let mut server = Lease::alone(Client::<Http1>::new(io));
        if exchange.begin_connected_tunnel(VIA.1).is_err() {
            return exchange.abort("bad_field_in_response");
        }
        let mut tunnel = Tunnel::of(exchange);
        let end = std::future::poll_fn(|cx| tunnel.poll(cx, exchange, &mut server)).await;
        if let TunnelEnd::ClientLost(gone) = end {
            exchange.request_mut().notes.reason.get_or_insert(gone.name());
        }
    }
}

impl Handler for Proxy {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let head = &exchange.request().head;
        match (head.form, head.refusal) {
            (TargetForm::Authority, None) => Box::pin(self.tunnel(exchange)),
            (TargetForm::Absolute, None) => Box::pin(self.call(exchange)),
            _ => self.inner.handle(exchange),
        }
    }
}

impl Frontend for Proxy {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        respond_with_refusal(exchange, refusal);
    }

    fn is_forward_proxy(&self) -> bool {
        true
    }

    fn names_processes(&self) -> bool {
        true
    }

    fn finished(&self, request: &Request, outcome: &Outcome) {
        self.inner.finished(request, outcome);
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("terms", &self.config).finish_non_exhaustive()
    }
}

fn options(host: HostSource<'_>, forwards_expectation: bool) -> ForwardOptions<'_> {
    ForwardOptions {
        host,
        routed: false,
        via: true,
        returns_redirects: false,
        forwards_expectation,
        says_timing: false,
        is_of_app: true,
    }
}

/// Why the proxy does not call a host.
enum ProxyError {
    /// The rules forbid it.
    Denied(String),
    /// It cannot be looked up.
    Unknown(String),
    /// It cannot be spoken to.
    Unusable(String),
}

impl ProxyError {
    fn respond(&self, exchange: &mut Exchange<'_>) {
        match self {
            Self::Denied(host) => refuse(exchange, refusals::PROXY_DENIED.about(&[host])),
            Self::Unknown(sentence) => refuse(exchange, refusals::HOST_UNKNOWN.about(&[sentence])),
            Self::Unusable(sentence) => refuse(exchange, refusals::HOST_UNUSABLE.about(&[sentence])),
        }
    }
}

/// An error of ours; after a CONNECT, what follows was meant for the tunnel.
fn refuse(exchange: &mut Exchange<'_>, message: ErrorMessage<'_>) {
    if exchange.request().head.form == TargetForm::Authority {
        exchange.close_after();
    }
    message.respond(exchange);
}
