//! The handler of an address: a listener's routes, those behind a forward proxy, or a door.

use std::sync::Arc;
use std::time::Duration;

use keepwarm_config::{AccessLog, Bind, Cidr, Config, Limits, Listener, Upstream};
use keepwarm_edge::{Edge, Site};
use keepwarm_egress::{CallTelemetry, Door, Proxy, ProxyRules, Resolver};
use keepwarm_serve::Frontend;

use crate::acme;

/// The handler of an address.
pub(super) enum ListenerHandler {
    /// The routes of a listener.
    Edge(Arc<Edge>),
    /// The same behind a forward proxy.
    Proxy(Arc<Proxy>, Arc<Edge>),
    /// The door of an upstream.
    Door(Arc<Door>),
}

/// Settings that a connection keeps for its lifetime: a change applies to new connections.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListenerSettings {
    pub(super) name: String,
    pub(super) limits: Limits,
    pub(super) access_log: Option<AccessLog>,
    /// Clients that begin with HTTP/2 are served.
    pub(super) http2: bool,
    /// Names of a door; `None`: any.
    pub(super) names: Option<Vec<String>>,
    pub(super) is_door: bool,
    pub(super) is_proxy: bool,
    /// The time limit of TLS handshakes; `None`: plaintext.
    pub(super) tls: Option<Duration>,
    /// Peers whose PROXY headers name the client. Empty: connections begin without one.
    pub(super) proxy_protocol: Vec<Cidr>,
    /// An authority that verifies names gets its responses here.
    pub(super) answers_challenges: bool,
}

/// The settings of a forward proxy.
pub(super) struct ProxySettings {
    pub(super) resolver: Resolver,
    pub(super) rules: ProxyRules,
    pub(super) upstreams: Vec<(String, Arc<keepwarm_egress::Upstream>)>,
    /// Where calls to hosts that are not an upstream are recorded.
    pub(super) telemetry: CallTelemetry,
}

/// What the configuration serves at an address.
pub(super) enum ListenerTarget {
    Site(Site),
    Proxy(Site, ProxySettings),
    Door(Arc<keepwarm_egress::Upstream>),
}

impl ListenerSettings {
    pub(super) fn of_listener(listen: &Listener, config: &Config) -> Self {
        let trusted_proxies = &config.server.trusted_proxies;
        Self {
            name: listen.name.clone(),
            limits: listen.limits.clone(),
            access_log: listen.access_log.clone(),
            http2: listen.http2,
            names: None,
            is_door: false,
            is_proxy: listen.forward_proxy.is_some(),
            tls: listen.tls.as_ref().map(|tls| tls.handshake_timeout),
            proxy_protocol: if listen.proxy_protocol { trusted_proxies.clone() } else { Vec::new() },
            answers_challenges: acme::is_used(config),
        }
    }

    pub(super) fn of_door(upstream: &Upstream, bind: &Bind, limits: &Limits) -> Self {
        let names = match bind {
            _ if upstream.public => None,
            Bind::Host { host, .. } => Some(vec![host.clone()]),
            Bind::Tcp(_) => Some(Vec::new()),
            Bind::Unix(_) => None,
        };
        Self {
            name: format!("upstream.{}", upstream.name),
            limits: limits.clone(),
            access_log: upstream.access_log.clone(),
            // An app beside us may use HTTP/2 (gRPC does), without a setting.
            http2: true,
            names,
            is_door: true,
            is_proxy: false,
            tls: None,
            proxy_protocol: Vec::new(),
            answers_challenges: false,
        }
    }
}

impl ListenerHandler {
    pub(super) fn of(wanted: ListenerTarget, settings: &ListenerSettings) -> Self {
        match wanted {
            ListenerTarget::Site(site) => Self::Edge(Arc::new(Edge::new(site))),
            ListenerTarget::Proxy(site, proxy_settings) => {
                let edge = Arc::new(Edge::new(site));
                let ProxySettings { resolver, rules, upstreams, telemetry } = proxy_settings;
                let proxy = Proxy::new(Arc::clone(&edge) as _, resolver, rules, upstreams, telemetry);
                Self::Proxy(Arc::new(proxy), edge)
            }
            ListenerTarget::Door(upstream) => {
                Self::Door(Arc::new(Door::new(upstream, settings.names.clone())))
            }
        }
    }

    /// Responds by the new target, on kept connections too where the target is of the same kind.
    pub(super) fn replaced(&self, wanted: ListenerTarget, settings: &ListenerSettings) -> Self {
        match (self, wanted) {
            (Self::Edge(edge), ListenerTarget::Site(site)) => {
                edge.replace(site);
                Self::Edge(Arc::clone(edge))
            }
            (Self::Proxy(proxy, edge), ListenerTarget::Proxy(site, proxy_settings)) => {
                edge.replace(site);
                proxy.replace(proxy_settings.rules, proxy_settings.upstreams, proxy_settings.telemetry);
                Self::Proxy(Arc::clone(proxy), Arc::clone(edge))
            }
            (Self::Door(door), ListenerTarget::Door(upstream)) => {
                door.replace(upstream, settings.names.clone());
                Self::Door(Arc::clone(door))
            }
            (_, wanted) => Self::of(wanted, settings),
        }
    }

    pub(super) fn handler(&self) -> Arc<dyn Frontend> {
        match self {
            Self::Edge(edge) => Arc::clone(edge) as _,
            Self::Proxy(proxy, _) => Arc::clone(proxy) as _,
            Self::Door(door) => Arc::clone(door) as _,
        }
    }
}
