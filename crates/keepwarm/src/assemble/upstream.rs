//! Upstreams: what `egress` is given.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use keepwarm_config as config;
use keepwarm_egress::{
    AllowEntry, AllowHost, CallLimits, DnsSettings, HashKey, HealthSettings, Probe, ProxyRules, Source,
    SourceAddress, UpstreamSettings,
};
use keepwarm_net::{PoolSettings, Protocol, Scheme};
use keepwarm_policy::balance::Algorithm;
use keepwarm_policy::hedge::HedgeDelay;
use keepwarm_policy::{
    BalanceSettings, BreakerSettings, HealthThresholds, HedgeSettings, OutlierSettings, RetryBudgetSettings,
    RetrySettings, Timeouts, retry,
};
use keepwarm_serve::ProxyVersion;
use keepwarm_telemetry::spans::Tracer;

use crate::upstreams::Upstreams;

/// How an upstream is called.
pub(crate) fn upstream(upstream: &config::Upstream, tracer: Option<Arc<Tracer>>) -> UpstreamSettings {
    let timeouts = &upstream.timeouts;
    let (balance, hash_key) = balance(&upstream.balance);
    UpstreamSettings {
        scheme: scheme(upstream),
        host: upstream.host.clone(),
        sources: sources(upstream),
        protocol: protocol(upstream),
        proxy: upstream.proxy_protocol.map(proxy_version),
        forwards_expectation: upstream.expect == config::Expect::Forward,
        pool: pool(upstream),
        timeouts: Timeouts {
            connect: Some(timeouts.connect),
            first_byte: timeouts.first_byte,
            idle: timeouts.idle,
            whole: upstream.timeout,
        },
        retry: RetrySettings {
            retries: upstream.retries,
            on: retry_on(&upstream.retry_on),
            ..RetrySettings::default()
        },
        retry_budget: RetryBudgetSettings {
            percent: upstream.retry_budget.percent,
            per_second: upstream.retry_budget.per_second,
            ..RetryBudgetSettings::default()
        },
        breaker: upstream.breaker.as_ref().map(breaker),
        outlier: upstream.outlier.as_ref().map(|rules| outlier(rules, upstream.breaker.is_some())),
        hedge: upstream.hedge.as_ref().map(hedge),
        balance,
        hash_key,
        limits: CallLimits {
            in_flight: upstream.limits.in_flight,
            queue: upstream.limits.queue,
            queue_timeout: upstream.limits.queue_timeout,
        },
        dns: DnsSettings {
            min_ttl: upstream.dns.min_ttl,
            max_ttl: upstream.dns.max_ttl,
            resolver: upstream.dns.resolver.clone(),
        },
        health: upstream.health.as_ref().map(health),
        slow_start: upstream.slow_start,
        server_timing: upstream.server_timing,
        tracer,
    }
}

/// Plaintext or TLS.
pub(crate) fn scheme(upstream: &config::Upstream) -> Scheme {
    if upstream.tls.is_some() { Scheme::Https } else { Scheme::Http }
}

/// Which version of the PROXY protocol.
pub(crate) fn proxy_version(version: config::ProxyVersion) -> ProxyVersion {
    match version {
        config::ProxyVersion::V1 => ProxyVersion::V1,
        config::ProxyVersion::V2 => ProxyVersion::V2,
    }
}

/// Which version of HTTP.
pub(crate) fn protocol(upstream: &config::Upstream) -> Protocol {
    version(upstream.protocol)
}

/// The same, by its name in the configuration.
pub(crate) fn version(protocol: config::UpstreamProtocol) -> Protocol {
    match protocol {
        config::UpstreamProtocol::Auto => Protocol::Auto,
        config::UpstreamProtocol::Http1 => Protocol::Http1,
        config::UpstreamProtocol::Http2 => Protocol::Http2,
    }
}

/// The destinations that a forward proxy may call.
pub(crate) fn proxy_rules(proxy: &config::ForwardProxy, own: Arc<ArcSwap<Vec<SocketAddr>>>) -> ProxyRules {
    let allowed = |target: &config::ProxyTarget| AllowEntry {
        host: match &target.host {
            config::ProxyHost::Any => AllowHost::Any,
            config::ProxyHost::Name(config::HostPattern::Exact(host)) => AllowHost::Exact(host.clone()),
            config::ProxyHost::Name(config::HostPattern::Suffix(suffix)) => AllowHost::Below(suffix.clone()),
            // The shape of `allow` makes neither; a name that no host has matches nothing.
            config::ProxyHost::Name(config::HostPattern::Glob(host) | config::HostPattern::Regex(host)) => {
                AllowHost::Exact(host.clone())
            }
            config::ProxyHost::Block(block) => AllowHost::Block(block.address, block.prefix),
        },
        port: target.port,
    };
    ProxyRules {
        allow: proxy.allow.iter().map(allowed).collect(),
        connect_ports: proxy.connect_ports.clone(),
        own,
    }
}

/// Upstreams by the authorities that they have in URLs.
pub(crate) fn by_authority(
    config: &config::Config,
    upstreams: &Upstreams,
) -> Vec<(String, Arc<keepwarm_egress::Upstream>)> {
    let of = |upstream: &config::Upstream| {
        let called = upstreams.get(&upstream.name).cloned();
        let authorities = upstream.endpoints.iter().map(|endpoint| endpoint.authority.clone());
        authorities.filter_map(|authority| Some((authority, called.clone()?))).collect::<Vec<_>>()
    };
    config.upstreams.iter().flat_map(of).collect()
}

fn sources(upstream: &config::Upstream) -> Vec<Source> {
    let source = |endpoint: &config::UpstreamEndpoint| Source {
        address: match (&upstream.dns.srv, &endpoint.address) {
            (Some(name), _) => SourceAddress::Srv(name.clone()),
            (None, config::EndpointAddress::Ip(address)) => SourceAddress::Address(*address),
            (None, config::EndpointAddress::Unix(path)) => SourceAddress::Unix(path.clone()),
            (None, config::EndpointAddress::Name { host, port }) => {
                SourceAddress::Name { host: host.clone(), port: *port }
            }
        },
        authority: endpoint.authority.as_str().into(),
        weight: endpoint.weight,
        priority: endpoint.priority,
    };
    upstream.endpoints.iter().map(source).collect()
}

fn pool(upstream: &config::Upstream) -> PoolSettings {
    let (pool, limits) = (&upstream.pool, &upstream.limits);
    let most = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
    PoolSettings {
        max: most(pool.max),
        // Where each connection belongs to a client, those to an endpoint are counted with all others.
        max_in_all: match upstream.proxy_protocol {
            Some(_) => most(limits.connections).min(most(pool.max)),
            None => most(limits.connections),
        },
        idle: pool.idle as usize,
        min_idle: pool.min_idle as usize,
        max_age: pool.max_age,
        max_requests: pool.max_requests.map_or(u64::MAX, u64::from),
        idle_timeout: pool.idle_timeout,
        connect_timeout: upstream.timeouts.connect,
        handshake_timeout: upstream.timeouts.connect,
        trusts: false,
    }
}

fn retry_on(causes: &[config::RetryCause]) -> retry::RetryOn {
    use config::RetryCause::{Connect, FirstByte, Refused, Reset, Status};
    let has = |cause| causes.contains(&cause);
    retry::RetryOn {
        connect: has(Connect),
        refused_stream: has(Refused),
        reset: has(Reset),
        first_byte_timeout: has(FirstByte),
        bad_gateway: has(Status(502)),
        unavailable: has(Status(503)),
        gateway_timeout: has(Status(504)),
    }
}

fn breaker(breaker: &config::Breaker) -> BreakerSettings {
    BreakerSettings {
        consecutive: breaker.failures.unwrap_or(0),
        success_rate: breaker.success_percent.unwrap_or(0),
        minimum: breaker.min_requests,
        window: breaker.window,
        open: breaker.open,
        open_most: breaker.max_open,
        probes: breaker.probes,
    }
}

fn health(health: &config::HealthCheck) -> HealthSettings {
    HealthSettings {
        probe: match &health.probe {
            config::HealthProbe::Tcp => Probe::Connect,
            config::HealthProbe::Http { path, statuses } => Probe::Http {
                path: path.clone(),
                statuses: statuses.iter().map(|range| range.first..=range.last).collect(),
            },
        },
        timeout: health.timeout,
        thresholds: HealthThresholds { interval: health.interval, rise: health.rise, fall: health.fall },
    }
}

fn outlier(outlier: &config::OutlierDetection, has_breaker: bool) -> OutlierSettings {
    OutlierSettings {
        consecutive: outlier.failures.unwrap_or(0),
        // Without a breaker nothing else would spare it meanwhile.
        lasting: if has_breaker { OutlierSettings::default().lasting } else { Duration::ZERO },
        // Rates are compared only where a deviation defines the lowest good rate.
        interval: outlier.deviation_permille.map_or(Duration::ZERO, |_| outlier.interval),
        minimum: outlier.min_requests,
        hosts: outlier.min_endpoints,
        deviations: outlier.deviation_permille.unwrap_or(0),
        ejection: outlier.ejection,
        ejection_most: outlier.max_ejection,
        percent: outlier.max_ejected_percent,
    }
}

fn hedge(hedge: &config::Hedge) -> HedgeSettings {
    HedgeSettings {
        after: match hedge.after {
            config::HedgeDelay::Fixed(delay) => HedgeDelay::Fixed(delay),
            config::HedgeDelay::Permille(permille) => HedgeDelay::Quantile(permille),
        },
        percent: hedge.budget_percent,
        ..HedgeSettings::default()
    }
}

fn balance(balance: &config::Balance) -> (BalanceSettings, Option<HashKey>) {
    let key = |key: &config::HashKey| match key {
        config::HashKey::Header(name) => HashKey::Header(name.clone()),
        config::HashKey::Cookie(name) => HashKey::Cookie(name.clone()),
    };
    let (method, key) = match balance {
        config::Balance::LeastRequest => (Algorithm::LeastRequest, None),
        config::Balance::RoundRobin => (Algorithm::RoundRobin, None),
        config::Balance::RingHash(by) => (Algorithm::RingHash, Some(key(by))),
        config::Balance::Maglev(by) => (Algorithm::Maglev, Some(key(by))),
    };
    (BalanceSettings { method, ..BalanceSettings::default() }, key)
}
