//! A checked configuration as running parts: what the edge, the workers and the listeners are given.

mod auth_request;
mod compression;
mod error_pages;
mod files;
mod header_rules;
mod htaccess;
mod logs;
mod maps;
mod matcher;
mod processes;
mod respond;
mod split;
mod template;
mod upstream;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use keepwarm_config::{
    Account, Action, App, AppKind, Config, Limits, Listener, ProcessLimits, Program, Workers,
};
use keepwarm_edge::{
    BasicAuth, Changes, Checks, Cidr, ConcurrencyLimit, Files, HeaderRules, PathPattern, Redirect, Route,
    SendFiles, Site, SiteFiles, Target, TryFiles,
};
use keepwarm_egress::{RateLimitHandler, UpstreamRoute};
use keepwarm_serve::{
    ConnectionLimits, EarlyHints, ForwardingPolicy, Handler, ProxyProtocol, WebSocketLimits,
};
use keepwarm_workers::dispatch::{AppHandler, AppPolicy, Links, Protocol, ServerPolicy, WorkerKind};
use keepwarm_workers::supervisor::{
    AppSpec, Credentials, Limit, ProcessSettings, Recycling, Scaling, WorkerInterface,
};

use crate::otlp::Tracing;
use crate::run_as::{self, Section, UserChoice};
use crate::upstreams::Upstreams;
use crate::{fastcgi, language};

pub(crate) use logs::{call_log, check_logs, level, proxy_call_log, start_logging};
pub(crate) use maps::Maps;
pub(crate) use processes::{StartPlan, dependencies};
pub(crate) use upstream::{by_authority, protocol, proxy_rules, scheme, upstream};

/// Variables that tell workers where doors are, and what they say.
pub(crate) type DoorVariables = Vec<(String, String)>;

/// How the workers of all apps are run.
///
/// # Errors
/// An adapter could not be put in its place.
pub(crate) fn specs(config: &Config, doors: &DoorVariables) -> io::Result<Vec<AppSpec>> {
    // A server that runs already is not started.
    config.apps.iter().filter(|app| app.address.is_none()).map(|app| spec(app, doors)).collect()
}

/// How the workers of one app are run.
///
/// # Errors
/// Its adapter could not be put in its place.
pub(crate) fn spec(app: &App, doors: &DoorVariables) -> io::Result<AppSpec> {
    let start = language::start(app)?;
    let choice = run_as::choose(app, &start);
    run_as::announce(Section::App(&app.name), &choice);
    fastcgi::announce(app);
    let user = match &choice {
        UserChoice::Default(account) => Some(account),
        UserChoice::Given | UserChoice::Root(_) => app.run_as.as_ref(),
    };
    let mut env = environment(user, doors, &app.env);
    env.extend(start.env);
    if !app.watch.is_empty() {
        env.push(("KEEPWARM_WATCH".into(), "1".into()));
    }
    let children = fastcgi::child_limits(app);
    Ok(AppSpec {
        name: app.name.as_str().into(),
        command: start.command,
        directory: app.directory.clone(),
        env,
        process: process(&app.limits, app.umask, user),
        interface: match worker_kind(app) {
            WorkerKind::Wire => WorkerInterface::Wire,
            WorkerKind::Server(_) | WorkerKind::External(..) => WorkerInterface::Server,
        },
        ends_at_quit: children.is_some(),
        children,
        preload: app.preload,
        workers: processes(app),
        boot_timeout: app.boot_timeout,
        drain_timeout: app.drain_timeout,
        start_retries: app.start_retries,
        recycling: match children {
            // Each of those is ended by itself.
            Some(_) => Recycling::default(),
            None => Recycling {
                max_requests: app.max_requests.map(u64::from),
                max_age: app.max_age,
                max_memory: app.max_memory,
                kill_memory: app.kill_memory,
            },
        },
        scaling: scaling(app).filter(|_| children.is_none()),
        hang_timeout: Some(hang_timeout(app)),
    })
}

/// What processes of this user get on top of Keepwarm's own environment.
fn environment(
    user: Option<&Account>,
    doors: &DoorVariables,
    own: &BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    if let Some(user) = user {
        let name = OsString::from(&user.name);
        env.push(("HOME".into(), user.home.clone().into()));
        env.extend([("USER".into(), name.clone()), ("LOGNAME".into(), name)]);
    }
    // The section's own settings win.
    env.extend(doors.iter().map(|(name, url)| (name.into(), url.into())));
    env.extend(own.iter().map(|(name, value)| (name.into(), value.into())));
    env
}

/// The settings of processes.
fn process(limits: &ProcessLimits, umask: Option<u32>, user: Option<&Account>) -> ProcessSettings {
    let limits = [
        (Limit::Files, limits.files),
        (Limit::Memory, limits.memory),
        (Limit::Processes, limits.processes),
        (Limit::Core, limits.core),
        (Limit::Cpu, limits.cpu),
    ];
    ProcessSettings {
        credentials: user.map(|user| Credentials {
            uid: user.uid,
            gid: user.gid,
            groups: user.groups.clone(),
        }),
        umask,
        limits: limits.into_iter().filter_map(|(limit, value)| Some((limit, value?))).collect(),
        soft_files: None,
    }
}

/// An idle worker may take as long to reply to a PING as a request may take: an app may have work of its own between two requests.
fn hang_timeout(app: &App) -> Duration {
    app.request_timeout.max(LEAST_HANG)
}

/// However short the request timeout, a worker that waits for a processor or for its memory to come back from disk does not hang.
const LEAST_HANG: Duration = Duration::from_secs(5);

/// An app as the first lines of a run name it.
pub(crate) fn title(app: &App) -> String {
    match &app.program {
        Program::Entry(entry) => entry.clone(),
        Program::Command(command) => command.join(" "),
    }
}

/// How many an app begins with.
pub(crate) fn workers(app: &App) -> usize {
    match app.workers {
        Workers::Auto => cores(),
        Workers::Fixed(workers) => workers as usize,
        Workers::Dynamic { min, .. } => min as usize,
    }
}

/// Between which numbers its workers are, if that is not one.
pub(crate) fn scaling(app: &App) -> Option<Scaling> {
    let Workers::Dynamic { min, max, idle } = app.workers else { return None };
    let min = min as usize;
    let max = max.map_or_else(|| cores().max(min), |max| max as usize);
    Some(Scaling { min, max, idle })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many an app has at most.
pub(crate) fn most(app: &App) -> usize {
    scaling(app).map_or_else(|| workers(app), |scaling| scaling.max)
}

/// The processes of an app. Those of classic PHP may have their own.
fn processes(app: &App) -> usize {
    match app.kind {
        Some(AppKind::FastCgi) if fastcgi::has_processes_of_its_own(app) => 1,
        _ => workers(app),
    }
}

fn methods(names: &[String]) -> Vec<Method> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// How an app's requests are treated.
pub(crate) fn policy(app: &App) -> AppPolicy {
    AppPolicy {
        queue: app.queue as usize,
        queue_timeout: app.queue_timeout,
        request_timeout: app.request_timeout,
        slow_log: app.slow_log,
        workers: workers(app),
        kind: worker_kind(app),
    }
}

/// The protocol of an app's workers.
pub(crate) fn worker_kind(app: &App) -> WorkerKind {
    /// An event loop takes many; what bounds it is the memory of that many requests.
    const CONCURRENCY: usize = 1000;
    match app.kind {
        Some(AppKind::FastCgi) => fastcgi::worker_kind(app, most(app)),
        Some(AppKind::Http) => WorkerKind::Server(ServerPolicy {
            protocol: Protocol::Http(upstream::version(app.protocol)),
            concurrency: app.concurrency.map_or(CONCURRENCY, |count| count as usize),
            proxy: app.proxy_protocol.map(upstream::proxy_version),
            health: app.health.clone(),
            children: None,
            works_behind: false,
        }),
        Some(AppKind::Wsgi | AppKind::Asgi | AppKind::Php | AppKind::Rack) | None => WorkerKind::Wire,
    }
}

/// Sets the limits that apply to the process, not to one listener.
pub(crate) fn set_process_limits(limits: &Limits) {
    keepwarm_net::SPILL.set_limits(limits.spill, limits.spill_memory);
    keepwarm_serve::COMPRESSION_MEMORY.set_limit(limits.compression_memory);
}

/// What clients may do on a listener's connections.
pub(crate) fn connection_limits(limits: &Limits) -> ConnectionLimits {
    const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let rate = |rate: Option<u64>| rate.map_or(0, |rate| u32::try_from(rate).unwrap_or(u32::MAX));
    ConnectionLimits {
        syntax: keepwarm_net::SyntaxLimits {
            request_line: size(limits.request_line),
            header_block: size(limits.header_block),
            fields: size(limits.header_fields),
            trailer_block: size(limits.trailer_block),
            trailer_fields: size(limits.trailer_fields),
            chunk_extensions: size(limits.chunk_extensions),
            raw_targets: limits.raw_targets,
        },
        head_timeout: limits.head_timeout,
        body_rate: rate(limits.body_rate),
        body_grace: limits.body_grace,
        drain_rate: rate(limits.drain_rate),
        idle: limits.idle_timeout,
        requests: limits.connection_requests.unwrap_or(u64::MAX),
        age: limits.connection_age.unwrap_or(FOREVER),
        write_timeout: limits.write_timeout,
        per_client: limits.connections_per_client.map_or(0, size),
        response_buffer: limits.response_buffer,
        websocket: WebSocketLimits {
            frame: size(limits.websocket_frame),
            message: size(limits.websocket_message),
            idle: limits.websocket_idle,
            compression: limits.websocket_compression,
        },
        // Set for each listener and door (see `run/listeners.rs`).
        http2: false,
    }
}

/// Which peers name their clients by PROXY headers; `None` without any.
pub(crate) fn proxy_protocol(trusted: &[keepwarm_config::Cidr]) -> Option<ProxyProtocol> {
    (!trusted.is_empty()).then(|| ProxyProtocol::from_peers(trusted.iter().filter_map(cidr).collect()))
}

/// The apps and upstreams that routes lead to, and what they use.
#[derive(Clone, Copy)]
pub(crate) struct RouteTargets<'p> {
    pub(crate) links: &'p Links,
    pub(crate) upstreams: &'p Upstreams,
    pub(crate) maps: &'p Maps,
    /// Who traces requests.
    pub(crate) tracing: Option<&'p Tracing>,
}

/// What a listener does with requests.
///
/// # Errors
/// A field of a route that cannot be sent; the configuration has checked them before.
pub(crate) fn site(config: &Config, listen: &Listener, targets: RouteTargets<'_>) -> Result<Site, String> {
    let hsts = listen.tls.as_ref().and_then(|tls| tls.hsts).map(|hsts| hsts.value());
    let make = |route: &keepwarm_config::Route| self::route(route, listen, config, targets, hsts.as_deref());
    let routes = listen.routes.iter().map(make).collect::<Result<_, _>>()?;
    let site = Site::new(routes, config.server.trusted_proxies.iter().filter_map(cidr).collect())
        .named(&listen.name)
        .with_error_pages(error_pages::pages([listen.error_pages.as_slice()], config, targets)?)
        .with_header_rules(template::header_rules(&listen.headers, targets.maps))
        .with_tracer(targets.tracing.map(|tracing| Arc::clone(&tracing.tracer)))
        .with_clients(
            listen.allow.iter().filter_map(cidr).collect(),
            listen.deny.iter().filter_map(cidr).collect(),
        );
    Ok(match logs::access_log(listen, targets.maps)? {
        Some(log) => site.with_access_log(log),
        None => site,
    })
}

/// RFC 6797 §6.1.
const HSTS: &str = "strict-transport-security";

fn route(
    route: &keepwarm_config::Route,
    listen: &Listener,
    config: &Config,
    targets: RouteTargets<'_>,
    hsts: Option<&str>,
) -> Result<Route, String> {
    let mut rules = header_rules::merged(&listen.headers, &route.headers);
    // What the route sets itself counts.
    let sets = |name: &str| rules.set.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    if let Some(value) = hsts.filter(|_| !sets(HSTS)) {
        let text = keepwarm_config::TemplatePiece::Text(value.to_owned());
        rules.set.push((HSTS.to_owned(), keepwarm_config::Template(vec![text])));
    }
    let response = template::header_rules(&rules, targets.maps);
    let (edits, response) = match response.as_ref().and_then(HeaderRules::fixed) {
        Some(edits) => (Some(Arc::new(edits.map_err(|bad| bad.to_string())?)), None),
        None => (None, response),
    };
    let request = header_rules::merged(&listen.request_headers, &route.request_headers);
    let request = template::header_rules(&request, targets.maps);
    let rewrite = route.rewrite.as_ref().map(|rewrite| template::template(rewrite, targets.maps));
    let has_changes = response.is_some() || request.is_some() || rewrite.is_some();
    let path = matcher::path(&route.path)?;
    let checks = checks(route, config, targets)?;
    let identity_headers = checks.identity_headers();
    let target = target(route, config, targets, &path, checks)?;
    Ok(Route {
        hosts: route.hosts.iter().map(matcher::host).collect::<Result<_, _>>()?,
        path,
        methods: methods(&route.methods),
        not_methods: methods(&route.conditions.not_methods),
        conditions: matcher::conditions(&route.conditions)?,
        strip_prefix: route.strip_prefix,
        max_body: route.max_body,
        allow: route.allow.iter().filter_map(cidr).collect(),
        deny: route.deny.iter().filter_map(cidr).collect(),
        identity_headers,
        edits,
        changes: has_changes.then(|| Box::new(Changes { response, request, rewrite })),
        error_pages: error_pages::of_route(route, listen, config, targets)?,
        intercept_errors: route.intercept_errors,
        is_split: !route.split.is_empty(),
        sticky: route.sticky.as_ref().map(split::split_key),
        compression: compression::of(route)?,
        abort_on_half_close: route.abort_on_half_close,
        passing: ForwardingPolicy {
            buffer_request: route.buffer_request,
            buffer_response: route.buffer_response,
            early_hints: match route.early_hints {
                keepwarm_config::EarlyHints::Auto => EarlyHints::Auto,
                keepwarm_config::EarlyHints::Always => EarlyHints::Always,
                keepwarm_config::EarlyHints::Never => EarlyHints::Never,
            },
            any_names: route.any_header_names,
            via: route.via,
        },
        ..Route::to(target)
    })
}

fn target(
    route: &keepwarm_config::Route,
    config: &Config,
    targets: RouteTargets<'_>,
    path: &PathPattern,
    checks: Checks,
) -> Result<Target, String> {
    Ok(match &route.action {
        Action::App(name) => {
            let app = targets.links.app(name).ok_or_else(|| format!("there is no app {name:?}"))?;
            let is_php = |app: &&App| matches!(app.kind, Some(AppKind::Php | AppKind::FastCgi));
            let php = config.app(name).filter(is_php);
            Target::App {
                name: Arc::clone(&app.name),
                handler: with_limit(
                    checks.around(with_files(
                        split::split(&app.name, Arc::new(AppHandler(app.clone())), route, targets)?,
                        route,
                        php,
                    )?),
                    route,
                    targets,
                )?,
            }
        }
        Action::Upstream(name) => {
            let upstream =
                targets.upstreams.get(name).ok_or_else(|| format!("there is no upstream {name:?}"))?;
            Target::App {
                name: Arc::clone(upstream.name()),
                handler: with_limit(
                    checks.around(split::split(
                        upstream.name(),
                        Arc::new(UpstreamRoute::new(Arc::clone(upstream))),
                        route,
                        targets,
                    )?),
                    route,
                    targets,
                )?,
            }
        }
        Action::Files(folder) => {
            // A rewritten path is the whole name.
            let prefix = if route.rewrite.is_some() { 0 } else { route.path.mount().len() };
            let files =
                Files::new(absolute(&folder.path), prefix).with_options(files::options(&route.file_options)?);
            let below = folder.below.iter().map(|name| template::template(name, targets.maps));
            match folder.below.as_slice() {
                [] => Target::Files(Arc::new(files)),
                _ => Target::SiteFiles(Arc::new(SiteFiles::new(files, below.collect(), path.clone()))),
            }
            .behind(checks, path)
        }
        Action::Respond(respond) => {
            Target::Respond(respond::response(respond, targets.maps)?).behind(checks, path)
        }
        Action::Redirect(redirect) => {
            let to = template::template(&redirect.to, targets.maps);
            Target::Redirect(Redirect::new(redirect.status, to).map_err(|bad| bad.to_string())?)
                .behind(checks, path)
        }
    })
}

/// What a request must pass before the route's target gets it.
///
/// # Errors
/// A service that does not exist; the configuration has checked them before.
fn checks(
    route: &keepwarm_config::Route,
    config: &Config,
    targets: RouteTargets<'_>,
) -> Result<Checks, String> {
    let users = |auth: &keepwarm_config::BasicAuth| -> Vec<(String, String)> {
        auth.users.iter().map(|user| (user.user.clone(), user.hash.expose().to_owned())).collect()
    };
    Ok(Checks {
        auth_request: auth_request::auth_request(route, config, targets)?,
        basic_auth: route
            .basic_auth
            .as_ref()
            .map(|auth| BasicAuth::new(users(auth), &auth.realm, auth.forward_credentials)),
        concurrency: route
            .concurrency
            .map(|limit| ConcurrencyLimit::new(limit.total, limit.per_client, limit.wait)),
    })
}

/// The handler behind the rate limit that the route names.
fn with_limit(
    handler: Arc<dyn Handler>,
    route: &keepwarm_config::Route,
    targets: RouteTargets<'_>,
) -> Result<Arc<dyn Handler>, String> {
    let Some(name) = &route.rate_limit else { return Ok(handler) };
    let limiter =
        targets.upstreams.limits().get(name).ok_or_else(|| format!("there is no rate limit {name:?}"))?;
    Ok(Arc::new(RateLimitHandler::new(handler, Arc::clone(limiter))))
}

/// The app's handler with the files that are served before and after it.
fn with_files(
    app: Arc<dyn Handler>,
    route: &keepwarm_config::Route,
    php: Option<&App>,
) -> Result<Arc<dyn Handler>, String> {
    let app = match route.send_files.as_slice() {
        [] => app,
        folders => {
            let folders = folders.iter().map(|(prefix, folder)| (prefix.clone(), absolute(folder)));
            Arc::new(SendFiles::new(folders.collect(), app))
        }
    };
    Ok(match &route.try_files {
        None => app,
        Some(folder) => {
            let options = files::options(&route.file_options)?;
            let mut files = Files::new(absolute(folder), 0).with_options(options);
            if let Some(app) = php {
                htaccess::tell(&app.name, &absolute(folder));
                files = files.guarded(app.serve_vendor);
            }
            Arc::new(TryFiles::new(files, app))
        }
    })
}

/// Independent of the working directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

pub(crate) fn cidr(block: &keepwarm_config::Cidr) -> Option<Cidr> {
    Cidr::new(block.address, block.prefix)
}

fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
