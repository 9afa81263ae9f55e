//! The checked values that the rest of Keepwarm uses.
//!
//! Rules of these files: plain public fields, `PartialEq` on everything (a reload compares old and new), no parsing,
//! no spans. A value that reached one of these structs is inside its range.

mod access;
mod acme;
mod admin;
mod app;
mod auth_request;
mod compression;
mod conditions;
mod error_page;
mod files;
mod forward_proxy;
mod limits;
mod listen;
mod listen_tls;
mod map;
mod mirror;
mod net;
mod otlp;
mod process;
mod rate_limit;
mod route;
mod server;
mod split;
mod template;
mod upstream;

pub use access::{BasicAuth, Concurrency, PasswordHash};
pub use acme::{Acme, AcmeChallenge, AcmeKey, ExternalAccount};
pub use admin::{Admin, Secret};
pub use app::{App, AppKind, ProcessLimits, Program, PumaConfig, Workers};
pub use auth_request::AuthRequest;
pub use compression::{Compression, CompressionLevel, ContentCoding};
pub use conditions::{Conditions, PatternSet, Scheme, ValueCondition, ValuePattern};
pub use error_page::{ErrorPage, PageSource};
pub use files::{FileOptions, FilesFolder, ImmutableNames};
pub use forward_proxy::{ForwardProxy, ProxyHost, ProxyTarget};
pub use limits::Limits;
pub use listen::{AccessLog, Listener, LogFormat, RecordTemplate};
pub use listen_tls::{ClientAuth, Hsts, ListenCertificate, ListenTls, TlsProfile, UnknownNames};
pub use map::VariableMap;
pub use mirror::Mirror;
pub use net::{Bind, Cidr};
pub use otlp::{Otlp, OtlpLogs, OtlpMetrics, OtlpTraces};
pub(crate) use process::SIGNALS;
pub use process::{Dependency, Process, ProcessSignal, ReadyCheck, Restart, Schedule};
pub use rate_limit::{RateKey, RateLimit, RateStore, StoreFailureMode};
pub use route::{Action, EarlyHints, FixedResponse, HeaderRules, HostPattern, PathPattern, Redirect, Route};
pub use server::{Log, LogLevel, Server};
pub use split::{SplitKey, SplitShare, SplitTarget};
pub use template::{Template, TemplatePiece, Variable};
pub use upstream::{
    Balance, Breaker, ClientCertificate, Dns, EndpointAddress, Expect, HashKey, HealthCheck, HealthProbe,
    Hedge, HedgeDelay, OutlierDetection, PemFile, ProxyVersion, RetryBudget, RetryCause, StatusRange,
    TlsVersion, TrustRoots, Upstream, UpstreamEndpoint, UpstreamLimits, UpstreamPool, UpstreamProtocol,
    UpstreamTimeouts, UpstreamTls, door_url,
};

/// A checked configuration.
///
/// Sections have the order of the file. Every app, upstream, rate limit and map that a section refers to exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `[server]`: the process.
    pub server: Server,
    /// `[admin]`. `None`: it is not served.
    pub admin: Option<Admin>,
    /// `[otlp]`. `None`: nothing is sent.
    pub otlp: Option<Otlp>,
    /// `[acme]`: where listeners with `acme` names get their certificates.
    pub acme: Acme,
    /// `[map.NAME]`: variables that are looked up. None uses itself.
    pub maps: Vec<VariableMap>,
    /// `[listen.NAME]`: at least one, unless an upstream has a door or there are processes only.
    pub listeners: Vec<Listener>,
    /// `[app.NAME]`: may be empty if no route leads to an app.
    pub apps: Vec<App>,
    /// `[process.NAME]`: processes that serve no requests; no chain of `after` leads back to its beginning.
    pub processes: Vec<Process>,
    /// `[upstream.NAME]`: services the app calls.
    pub upstreams: Vec<Upstream>,
    /// `[rate_limit.NAME]`: limits that routes and upstreams refer to.
    pub rate_limits: Vec<RateLimit>,
}

impl Config {
    /// The app of this name.
    pub fn app(&self, name: &str) -> Option<&App> {
        self.apps.iter().find(|app| app.name == name)
    }

    /// The process of this name.
    pub fn process(&self, name: &str) -> Option<&Process> {
        self.processes.iter().find(|process| process.name == name)
    }

    /// The upstream of this name.
    pub fn upstream(&self, name: &str) -> Option<&Upstream> {
        self.upstreams.iter().find(|upstream| upstream.name == name)
    }

    /// The rate limit of this name.
    pub fn rate_limit(&self, name: &str) -> Option<&RateLimit> {
        self.rate_limits.iter().find(|limit| limit.name == name)
    }

    /// Keys that differ in `new` and need a restart, for the warning of a reload.
    pub fn restart_keys(&self, new: &Config) -> Vec<&'static str> {
        let mut keys = Vec::new();
        if self.server.threads != new.server.threads {
            keys.push("server.threads");
        }
        if self.server.pid_file != new.server.pid_file {
            keys.push("server.pid_file");
        }
        keys
    }

    /// The listener of this name.
    pub fn listener(&self, name: &str) -> Option<&Listener> {
        self.listeners.iter().find(|listen| listen.name == name)
    }
}
