//! Application servers of Python and Ruby by their settings, whether from a command line or a file.

use std::path::Path;

use crate::ledger::{Ledger, Origin};
use crate::model::{Bind, Certificate, Model, PathMatch, Route, Site, add};
use crate::table::{Table, Value};
use crate::units::time;

/// A value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    None,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<String>),
}

impl Setting {
    pub(crate) fn text(&self) -> String {
        match self {
            Setting::None => String::new(),
            Setting::Flag(flag) => flag.to_string(),
            Setting::Number(number) if number.fract() == 0.0 => format!("{number:.0}"),
            Setting::Number(number) => number.to_string(),
            Setting::Text(text) => text.clone(),
            Setting::List(list) => list.join(","),
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "settings are small numbers")]
            Setting::Number(number) => Some(*number as i64),
            Setting::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn is_on(&self) -> bool {
        match self {
            Setting::None => false,
            Setting::Flag(flag) => *flag,
            Setting::Number(number) => *number != 0.0,
            Setting::Text(text) => !matches!(text.as_str(), "" | "0" | "false" | "False"),
            Setting::List(list) => !list.is_empty(),
        }
    }
}

/// The settings of a server in the order in which they were made; the last of a name holds.
pub(crate) type Settings = Vec<(String, Setting, Origin)>;

/// An app with its listener, as it becomes of settings.
pub(crate) struct Server {
    pub(crate) table: Table,
    pub(crate) site: Site,
    pub(crate) name: String,
    pub(crate) origin: Option<Origin>,
}

impl Server {
    pub(crate) fn new(name: &str, origin: Option<Origin>) -> Server {
        Server {
            table: Table::default(),
            site: Site { origin, ..Site::default() },
            name: name.to_owned(),
            origin,
        }
    }

    pub(crate) fn bind(&mut self, address: &str, tls: bool, origin: impl Into<Option<Origin>>) {
        let origin = origin.into();
        self.site.binds.push(Bind {
            address: address.to_owned(),
            tls,
            is_default: true,
            proxy_protocol: false,
            origin,
        });
    }

    /// Adds the app and its site.
    pub(crate) fn finish(mut self, model: &mut Model, ledger: &mut Ledger) -> String {
        let timeout = self.table.remove("request_timeout");
        self.table.items.extend(timeout);
        let name = add(&mut model.apps, &self.name, self.table, self.origin, ledger);
        let mut route = Route::new(self.origin, PathMatch::Any);
        route.table.set("app", name.as_str(), self.origin);
        self.site.routes.push(route);
        self.site.app = Some(name.clone());
        model.sites.push(self.site);
        name
    }
}

/// The address of a listener: `HOST:PORT`, `unix:/PATH`.
pub(crate) fn address(text: &str) -> String {
    let text =
        text.trim().trim_start_matches("tcp://").trim_start_matches("http://").trim_start_matches("ssl://");
    if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
        return format!("unix:{}", path.split('?').next().unwrap_or(path));
    }
    let text = text.split('?').next().unwrap_or(text);
    match text.rsplit_once(':') {
        Some(("" | "*", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        Some(_) => text.to_owned(),
        None if text.starts_with('/') => format!("unix:{text}"),
        None => format!("{text}:8000"),
    }
}

/// The name of an app: the package of its module.
fn app_name(entry: &str) -> String {
    let module = entry.split(':').next().unwrap_or(entry);
    let first = module.split('.').next().unwrap_or(module);
    match first {
        "" | "app" | "main" | "wsgi" | "asgi" | "config" => "app".to_owned(),
        first => first.to_owned(),
    }
}

const LOGS: &str =
    "Keepwarm logs to standard error, and requests to standard output (`access_log` of the listener)";
const MANAGED: &str = "Keepwarm manages its processes itself";

/// gunicorn and its relatives, by the names of gunicorn.conf.py.
pub(crate) fn python(
    entry: Option<&str>,
    settings: &Settings,
    origin: Origin,
    model: &mut Model,
    ledger: &mut Ledger,
) {
    let mut server = Server::new(&entry.map_or_else(|| "app".to_owned(), app_name), Some(origin));
    match entry {
        Some(entry) => server.table.set("entry", entry, origin),
        None => {
            server.table.note("entry", "app:application", "set this: the settings do not name the app");
            ledger.differs(origin, "the settings do not name the app: set `entry` of the app");
        }
    }
    let last = |name: &str| settings.iter().rfind(|(known, ..)| known == name);
    let (cert, key) = (last("certfile"), last("keyfile"));
    let tls = cert.filter(|(_, value, _)| value.is_on());
    if let (Some((_, cert, from)), Some((_, key, _))) = (tls, key) {
        server.site.certificates.push(Certificate {
            cert: cert.text(),
            key: key.text(),
            origin: Some(*from),
        });
    }
    let has_workers = last("workers").is_some();
    for (name, value, from) in settings {
        if last(name).is_some_and(|(_, _, of_last)| of_last != from)
            && name != "bind"
            && name != "env"
            && name != "raw_env"
        {
            ledger.ignored(*from, "a later setting replaces it");
            continue;
        }
        python_setting(name, value, *from, &mut server, ledger);
    }
    if let Some((_, Setting::Text(ca), from)) = last("ca_certs")
        && last("cert_reqs").is_some_and(|(_, value, _)| value.number() == Some(2))
    {
        server.site.tls.set("client_ca", ca.as_str(), *from);
    }
    if !has_workers {
        server.table.note("workers", 1i64, "the default of gunicorn and uvicorn");
    }
    if server.site.binds.is_empty() {
        server.bind("127.0.0.1:8000", tls.is_some(), None);
    }
    for bind in &mut server.site.binds {
        bind.tls = tls.is_some();
    }
    server.finish(model, ledger);
}

fn python_setting(name: &str, value: &Setting, from: Origin, server: &mut Server, ledger: &mut Ledger) {
    let table = &mut server.table;
    match name {
        "bind" => match value {
            Setting::List(list) => list.iter().for_each(|one| server.bind(&address(one), false, from)),
            value => {
                for one in value.text().split(',').filter(|one| !one.is_empty()) {
                    match one.strip_prefix("fd://") {
                        Some(_) => ledger.dropped(from, "Keepwarm opens its addresses itself", "set `bind` of the listener"),
                        None => server.bind(&address(one), false, from),
                    }
                }
            }
        },
        "workers" => match value.number().filter(|number| *number > 0) {
            Some(number) => table.set("workers", number.min(1024), from),
            None => ledger.ignored(from, "one worker, as by default"),
        },
        "threads" => match value.number() {
            Some(1) | None => ledger.ignored(from, "one thread, as by default"),
            Some(number) => table.set("threads", number.clamp(1, 1000), from),
        },
        "worker_class" => worker_class(&value.text(), from, table, ledger),
        "timeout" => match value.number() {
            Some(0) => ledger.differs(from, "requests have the default time limit, 30 s (`request_timeout`)"),
            Some(seconds) => table.set("request_timeout", time(seconds.unsigned_abs() * 1000), from),
            None => ledger.lost(from, "it is not a number of seconds", "set `request_timeout` of the app"),
        },
        "graceful_timeout" => match value.number() {
            Some(seconds) => table.set("drain_timeout", time(seconds.unsigned_abs() * 1000), from),
            None => ledger.ignored(from, "the default"),
        },
        "max_requests" => match value.number() {
            Some(0) | None => ledger.ignored(from, "no limit, as by default"),
            Some(number) => table.set("max_requests", number, from),
        },
        "max_requests_jitter" => ledger.differs(from, "each worker draws its limit up to a tenth lower"),
        "preload_app" if value.is_on() => {
            table.set("preload", true, from);
            ledger.differs(from, "an app that starts threads while it loads is rejected (docs/guide/preload.md)");
        }
        "chdir" => table.set("directory", value.text(), from),
        "user" | "group" => match value {
            Setting::None => ledger.ignored(from, "the user that starts it"),
            value => table.set(name, value.text(), from),
        },
        "umask" => match value.number() {
            Some(0) => ledger.ignored(from, "the umask of the user that starts Keepwarm"),
            Some(mask) => table.set("umask", format!("{mask:03o}"), from),
            None => table.set("umask", value.text().trim_start_matches("0o"), from),
        },
        "env" | "raw_env" => {
            let list = match value {
                Setting::List(list) => list.clone(),
                value => vec![value.text()],
            };
            for pair in list {
                let (key, text) = pair.split_once('=').unwrap_or((&pair, ""));
                table.set_in(&["env"], key, text, from);
            }
        }
        "keepalive" => match value.number().filter(|seconds| *seconds > 0) {
            Some(seconds) => ledger.differs(
                from,
                format!("idle connections stay open for 75 s, not {seconds} s (`limits.idle_timeout`): they occupy no worker"),
            ),
            None => ledger.differs(from, "connections are persistent; they occupy no worker"),
        },
        "limit_request_line" => listener_limit("request_line", value.number().filter(|n| *n > 0), from, server, ledger),
        "limit_request_fields" => {
            // The most that gunicorn ever takes.
            let number = value.number().map(|number| if number <= 0 { 32_768 } else { number });
            listener_limit("header_fields", number, from, server, ledger);
        }
        "header_map" if value.text() == "dangerous" => ledger.differs(
            from,
            "headers whose name has a `_` are dropped: an app would take `X_User` for `X-User`",
        ),
        "header_map" => ledger.carried(from),
        "forwarder_headers" => ledger.differs(from, "headers whose name has a `_` are dropped"),
        "limit_request_field_size" => ledger.differs(from, "all headers together have a limit (`limits.header_block`)"),
        "accesslog" => match value {
            Setting::None => ledger.differs(from, "the listener has an access log on standard output; `access_log = \"off\"` switches it off"),
            value if value.text() == "-" => ledger.carried(from),
            value => server.site.listener.set_in(&["access_log"], "file", value.text(), from),
        },
        "certfile" | "keyfile" | "ca_certs" | "cert_reqs" | "default_proc_name" | "wsgi_app" => ledger.carried(from),
        "ssl_version" | "ciphers" | "do_handshake_on_connect" | "suppress_ragged_eofs" => ledger.ignored(from, "TLS settings are those of `tls.profile`"),
        "forwarded_allow_ips" => match value.text() {
            text if text == "*" => ledger.lost(from, "proxies to trust are listed by address", "set `server.trusted_proxies` to the addresses of your proxies"),
            text if text == "127.0.0.1" || text.is_empty() => ledger.differs(from, "add the proxy in front to `server.trusted_proxies`, if there still is one"),
            _ => ledger.lost(from, "proxies to trust are those of the whole process", "set `server.trusted_proxies` to these addresses"),
        },
        "secure_scheme_headers" => ledger.differs(from, "the scheme is read from X-Forwarded-Proto and Forwarded of `server.trusted_proxies`"),
        "proxy_protocol" if value.is_on() => ledger.lost(from, "it needs the addresses of the proxies", "set `proxy_protocol` of the listener, and `server.trusted_proxies`"),
        "proxy_allow_ips" | "proxy_protocol" => ledger.ignored(from, "the listener expects no PROXY header"),
        "loop" | "lifespan" => match value.text().as_str() {
            "auto" => ledger.ignored(from, "as by default"),
            text @ ("asyncio" | "uvloop" | "trio" | "on" | "off") => table.set(name, text, from),
            text => ledger.differs(from, format!("there is no {name} `{text}` here")),
        },
        "limit_concurrency" => match value.number() {
            Some(number) => {
                table.set("concurrency", number.clamp(1, 65_535), from);
                ledger.differs(from, "further requests wait in the queue (`queue`), and get 503 after `queue_timeout`");
            }
            None => ledger.ignored(from, "no limit"),
        },
        "worker_connections" => match value.number() {
            Some(number) => table.set("concurrency", number.clamp(1, 65_535), from),
            None => ledger.ignored(from, "the default"),
        },
        "root_path" => match value.text().as_str() {
            "" | "/" => ledger.ignored(from, "no prefix"),
            text => ledger.dropped(from, format!("the prefix {text}"), "set `path` and `strip_prefix` of the route"),
        },
        "env_file" => table.set("env_file", value.text(), from),
        "pythonpath" | "app_dir" => match value.text().as_str() {
            "." | "" => ledger.ignored(from, "imports start from `directory`"),
            text => table.set_in(&["env"], "PYTHONPATH", text, from),
        },
        "interface" => match value.text().as_str() {
            "auto" => ledger.ignored(from, "the interface is detected"),
            "wsgi" => table.set("kind", "wsgi", from),
            _ => table.set("kind", "asgi", from),
        },
        "reload" | "reload_engine" | "reload_extra_files" if value.is_on() => {
            ledger.differs(from, "for development: keepwarm run --watch");
        }
        "errorlog" | "loglevel" | "log_level" | "capture_output" | "logger_class" | "logconfig" | "logconfig_dict" | "access_log_format"
        | "disable_redirect_access_to_syslog" | "syslog" | "syslog_addr" | "syslog_prefix" | "syslog_facility"
        | "enable_stdio_inheritance" | "use_colors" | "log_config" | "access_log" => ledger.differs(from, LOGS),
        "config" => ledger.lost(from, "the file of settings was not read", "convert that file, and set `entry` of the app"),
        "statsd_host" | "statsd_prefix" | "dogstatsd_tags" => {
            ledger.dropped(from, "Keepwarm has its own metrics", "set `admin.bind` and read /metrics");
        }
        "daemon" | "pidfile" | "proc_name" | "worker_tmp_dir" | "tmp_upload_dir" | "backlog" | "reuse_port" | "sendfile" | "spew"
        | "check_config" | "print_config" | "initgroups" | "http" | "ws" | "ws_max_size" | "ws_max_queue"
        | "ws_ping_interval" | "ws_ping_timeout" | "proxy_headers" | "server_header" | "date_header" | "reload" | "preload_app"
        | "reload_engine" | "reload_extra_files" | "paste" | "timeout_worker_healthcheck"
        | "h11_max_incomplete_event_size" | "ws_per_message_deflate" | "strip_header_spaces" | "dirty_workers" => {
            ledger.ignored(from, MANAGED);
        }
        "when_ready" | "on_starting" | "on_reload" | "pre_fork" | "post_fork" | "post_worker_init" | "worker_int" | "worker_abort"
        | "pre_exec" | "pre_request" | "post_request" | "child_exit" | "worker_exit" | "nworkers_changed" | "on_exit" => {
            ledger.dropped(from, "hooks of gunicorn are not called", "let the app do it when it is loaded, or in the hooks of docs/guide/preload.md");
        }
        _ => {}
    }
}

fn worker_class(text: &str, from: Origin, table: &mut Table, ledger: &mut Ledger) {
    match text {
        "sync" | "gthread" | "" => ledger.carried(from),
        text if text.contains("uvicorn") || text.contains("asgi") => table.set("kind", "asgi", from),
        text => {
            let todo = "set `threads` of the app for requests at once, or serve it by ASGI";
            ledger.dropped(from, format!("workers are processes with threads, not {text}"), todo);
        }
    }
}

fn listener_limit(key: &str, number: Option<i64>, from: Origin, server: &mut Server, ledger: &mut Ledger) {
    match number {
        Some(number) => {
            let least = if key == "header_fields" { 1 } else { 16 };
            let limit = number.clamp(least, 65_536);
            server.site.listener.set_in(&["limits"], key, limit, from);
            if limit != number {
                ledger.differs(from, format!("the nearest value that `limits.{key}` can have is {limit}"));
            }
        }
        None => ledger.differs(from, format!("there always is a limit (`limits.{key}`)")),
    }
}

/// Puma, by the names of puma.rb.
pub(crate) fn puma(
    file: Option<&Path>,
    settings: &Settings,
    origin: Origin,
    model: &mut Model,
    ledger: &mut Ledger,
) {
    let mut server = Server::new("app", Some(origin));
    server.table.set("kind", "rack", origin);
    let last = |name: &str| settings.iter().rfind(|(known, ..)| known == name);
    let rackup = last("rackup").map_or_else(|| "config.ru".to_owned(), |(_, value, _)| value.text());
    server.table.set("entry", rackup, origin);
    if let Some(directory) = last("directory") {
        server.table.set("directory", directory.1.text(), directory.2);
    }
    if let Some(file) = file.filter(|file| !file.ends_with("config/puma.rb")) {
        server.table.set("puma_config", file.display().to_string(), origin);
    }
    for (name, value, from) in settings {
        puma_setting(name, value, *from, &mut server, ledger);
    }
    if server.site.binds.is_empty() {
        server.bind("0.0.0.0:9292", false, None);
    }
    server.finish(model, ledger);
}

fn puma_setting(name: &str, value: &Setting, from: Origin, server: &mut Server, ledger: &mut Ledger) {
    let table = &mut server.table;
    let seconds = value.number().map(|seconds| time(seconds.unsigned_abs() * 1000));
    match name {
        "bind" => {
            let text = value.text();
            match text.strip_prefix("ssl://") {
                Some(rest) => ssl_bind(rest, from, server, ledger),
                None => server.bind(&address(&text), false, from),
            }
        }
        "port" => match value {
            Setting::List(list) => {
                let host = list.get(1).map_or("0.0.0.0", String::as_str);
                let port = list.first().map_or("9292", String::as_str);
                server.bind(&format!("{host}:{port}"), false, from);
            }
            value => server.bind(&format!("0.0.0.0:{}", value.text()), false, from),
        },
        "workers" => match value.number() {
            Some(0) => {
                table.set("workers", 1i64, from);
            }
            Some(number) => table.set("workers", number.min(1024), from),
            None => ledger.differs(from, "one worker for each core"),
        },
        "threads" => {
            let most = match value {
                Setting::List(list) => list.last().and_then(|last| last.parse::<i64>().ok()),
                value => value.number().or_else(|| value.text().rsplit(':').next()?.parse().ok()),
            };
            match most {
                Some(number) => table.set("threads", number.clamp(1, 1000), from),
                None => ledger.lost(from, "it is not a number", "set `threads` of the app"),
            }
        }
        "preload_app!" if value == &Setting::Flag(false) => ledger.ignored(from, "as by default"),
        "preload_app!" => table.set("preload", true, from),
        "environment" => {
            let text = value.text();
            table.set_in(&["env"], "RAILS_ENV", text.as_str(), from);
            table.set_in(&["env"], "RACK_ENV", text, from);
        }
        "worker_timeout" => match seconds {
            // Puma's bounds a worker that does not answer, not a request.
            Some(seconds) => {
                table.set("request_timeout", seconds, from);
                ledger.differs(from, "it limits the time of a request");
            }
            None => ledger.lost(from, "it is not a number", "set `request_timeout` of the app"),
        },
        "worker_boot_timeout" => match seconds {
            Some(seconds) => table.set("boot_timeout", seconds, from),
            None => ledger.lost(from, "it is not a number", "set `boot_timeout` of the app"),
        },
        "worker_shutdown_timeout" | "force_shutdown_after" => match seconds {
            Some(seconds) => table.set("drain_timeout", seconds, from),
            None => ledger.differs(from, "running requests have `drain_timeout`, 30 s"),
        },
        "max_fast_inline"
        | "queue_requests"
        | "pidfile"
        | "state_path"
        | "daemonize"
        | "tag"
        | "quiet"
        | "silence_single_worker_warning"
        | "prune_bundler"
        | "extra_runtime_dependencies"
        | "wait_for_less_busy_worker"
        | "nakayoshi_fork"
        | "lowlevel_error_handler"
        | "worker_culling_strategy"
        | "persistent_timeout"
        | "first_data_timeout"
        | "set_default_host"
        | "clean_thread_locals"
        | "early_hints"
        | "shutdown_debug"
        | "io_selector_backend"
        | "set_remote_address"
        | "fork_worker"
        | "restart_command"
        | "worker_check_interval"
        | "out_of_band"
        | "rackup"
        | "directory"
        | "drain_on_shutdown"
        | "supported_http_methods"
        | "enable_keep_alives"
        | "debug"
        | "raise_exception_on_sigterm"
        | "log_requests"
        | "mutate_stdout_and_stderr_to_sync_on_write" => {
            ledger.ignored(from, MANAGED);
        }
        "config" => ledger.differs(
            from,
            "its settings are not in this file: Keepwarm reads config/puma.rb by itself, or `puma_config`",
        ),
        "plugin" => ledger.ignored(from, "plugins manage Puma's own processes"),
        "activate_control_app" => {
            ledger.dropped(from, "Keepwarm has its own control", "use `keepwarm status` and `[admin]`")
        }
        "stdout_redirect" | "log_formatter" => ledger.differs(from, LOGS),
        "before_fork"
        | "on_worker_boot"
        | "before_worker_boot"
        | "on_worker_shutdown"
        | "before_worker_shutdown"
        | "on_worker_fork"
        | "after_worker_boot"
        | "after_worker_fork"
        | "on_refork"
        | "on_booted"
        | "after_booted"
        | "on_restart"
        | "before_worker_fork" => {
            ledger.carried(from);
        }
        _ => {}
    }
}

/// `ssl://0.0.0.0:9292?key=…&cert=…`
fn ssl_bind(text: &str, from: Origin, server: &mut Server, ledger: &mut Ledger) {
    let (host, query) = text.split_once('?').unwrap_or((text, ""));
    let of = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    match (of("cert"), of("key")) {
        (Some(cert), Some(key)) => {
            server.site.certificates.push(Certificate { cert, key, origin: Some(from) });
            server.bind(&address(host), true, from);
        }
        _ => ledger.lost(from, "it has no `cert` and `key`", "set `tls` of a listener"),
    }
}

/// The value of a setting as a value of keepwarm.toml.
impl From<Setting> for Value {
    fn from(setting: Setting) -> Value {
        Value::Text(setting.text())
    }
}
