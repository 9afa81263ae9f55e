//! Pools of php-fpm.

use std::path::Path;

use crate::Error;
use crate::files::Files;
use crate::ini;
use crate::ledger::{Ledger, Origin};
use crate::table::{Table, Value};
use crate::units::{nginx_time, time};

/// A pool, and the keys of an app that runs its scripts.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) listen: String,
    pub(crate) origin: Origin,
    /// Keys of `[app.NAME]`.
    pub(crate) table: Table,
    /// Whether a web server of the input uses it.
    pub(crate) used: std::cell::Cell<bool>,
}

/// Addresses as they are compared: `127.0.0.1:9000`, `unix:/run/php.sock`.
pub(crate) fn address(text: &str) -> String {
    let text = text.trim().trim_start_matches("fastcgi://").trim_start_matches("tcp://");
    if let Some(path) = text.strip_prefix("unix:") {
        return format!("unix:/{}", path.trim_start_matches('/'));
    }
    match text {
        path if path.starts_with('/') => format!("unix:{path}"),
        port if port.bytes().all(|b| b.is_ascii_digit()) => format!("127.0.0.1:{port}"),
        text => text
            .replace("localhost:", "127.0.0.1:")
            .replace("0.0.0.0:", "127.0.0.1:")
            .replace("[::]:", "127.0.0.1:"),
    }
}

/// Reads a file of pools, or php-fpm.conf with what it includes.
pub(crate) fn read(
    path: &Path,
    files: &Files,
    ledger: &mut Ledger,
    out: &mut Vec<Pool>,
) -> Result<(), Error> {
    let (text, shown) = (files.read(path)?, files.shown(path));
    for section in ini::read(&text, &shown, ini::PHP)? {
        let origin = ledger.open(&shown, section.line, &format!("[{}]", section.name));
        if section.name == "global" {
            ledger.ignored(origin, "Keepwarm runs php-fpm's master itself");
            for key in &section.keys {
                let origin = ledger.open(&shown, key.line, &format!("{} = {}", key.name, key.value));
                match key.name.as_str() {
                    "include" => {
                        ledger.ignored(origin, "its files were read");
                        for file in files.glob(&path.parent().unwrap_or(Path::new("")).join(&key.value)) {
                            read(&file, files, ledger, out)?;
                        }
                    }
                    _ => ledger.ignored(origin, "Keepwarm runs php-fpm's master itself"),
                }
            }
            continue;
        }
        out.push(pool(&section, path, &shown, origin, ledger)?);
    }
    Ok(())
}

fn pool(
    section: &ini::Section,
    path: &Path,
    shown: &str,
    origin: Origin,
    ledger: &mut Ledger,
) -> Result<Pool, Error> {
    let mut reader = PoolReader {
        name: &section.name,
        table: Table::default(),
        ledger,
        manager: Manager::default(),
        children: None,
        options: Vec::new(),
    };
    let mut listen = None;
    for key in &section.keys {
        let value = key.value.replace("$pool", &section.name);
        let origin = reader.ledger.open(shown, key.line, &format!("{} = {}", key.name, key.value));
        match key.name.as_str() {
            "listen" => {
                listen = Some(address(&value));
                reader.ledger.carried(origin);
            }
            name => reader.key(name, &value, origin, shown, key.line)?,
        }
    }
    let Some(listen) = listen else {
        return Err(Error::at(shown, section.line, format!("the pool [{}] has no `listen`", section.name)));
    };
    if let Some(version) = version_of(path) {
        reader.table.set("interpreter", format!("/usr/sbin/php-fpm{version}"), origin);
    }
    reader.workers();
    let table = reader.table;
    Ok(Pool { name: section.name.clone(), listen, origin, table, used: false.into() })
}

/// `/etc/php/8.2/fpm/pool.d/www.conf` belongs to PHP 8.2.
fn version_of(path: &Path) -> Option<String> {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy());
    parts.find(|part| part == "php")?;
    let version = parts.next()?;
    let is_version = version.split('.').all(|part| part.parse::<u8>().is_ok());
    (is_version && parts.next()? == "fpm").then(|| version.into_owned())
}

/// `pm` and its numbers.
#[derive(Default)]
struct Manager {
    kind: String,
    min: Option<i64>,
    start: Option<i64>,
    idle: Option<(String, Origin)>,
}

struct PoolReader<'a> {
    name: &'a str,
    table: Table,
    ledger: &'a mut Ledger,
    manager: Manager,
    children: Option<(i64, Origin)>,
    options: Vec<Value>,
}

impl PoolReader<'_> {
    fn key(&mut self, name: &str, value: &str, origin: Origin, file: &str, line: usize) -> Result<(), Error> {
        let number = || {
            value
                .parse::<i64>()
                .map_err(|_| Error::at(file, line, format!("`{name}` is `{value}`, expected a number")))
        };
        match name {
            "user" | "group" => self.table.set(name, value, origin),
            "pm" => {
                self.manager.kind = value.to_owned();
                self.ledger.carried(origin);
            }
            "pm.max_children" => {
                self.children = Some((number()?, origin));
                self.ledger.carried(origin);
            }
            "pm.start_servers" => {
                self.manager.start = Some(number()?);
                self.ledger.differs(origin, "the app starts with `workers.min`");
            }
            "pm.min_spare_servers" => {
                self.manager.min = Some(number()?);
                self.ledger.carried(origin);
            }
            "pm.max_spare_servers" => {
                self.ledger.differs(origin, "workers that are not needed stop after `workers.idle`")
            }
            "pm.max_spawn_rate" => self.ledger.ignored(origin, "Keepwarm starts workers as they are needed"),
            "pm.process_idle_timeout" => self.manager.idle = Some((value.to_owned(), origin)),
            "pm.max_requests" => match number()? {
                0 => self.ledger.ignored(origin, "no limit, as without `max_requests`"),
                limit => self.table.set("max_requests", limit, origin),
            },
            "request_terminate_timeout" => self.time("request_timeout", value, origin),
            "request_slowlog_timeout" => self.time("slow_log", value, origin),
            "request_slowlog_trace_depth" | "slowlog" => {
                self.ledger.differs(origin, "slow requests are in Keepwarm's log, without a stack of PHP")
            }
            "process_control_timeout" => self.time("drain_timeout", value, origin),
            "chdir" => {
                self.ledger.differs(origin, "scripts run in the directory of the script, as with Apache")
            }
            "catch_workers_output" | "decorate_workers_output" | "php_errors" => {
                self.ledger.ignored(origin, "what scripts write is always in Keepwarm's log")
            }
            "clear_env" if is_off(value) => {
                self.ledger.ignored(origin, "the workers have Keepwarm's environment")
            }
            "clear_env" => self.ledger.differs(origin, "the workers have Keepwarm's environment"),
            "security.limit_extensions" if value == ".php" => {
                self.ledger.ignored(origin, "only .php files are run")
            }
            "security.limit_extensions" => self.ledger.differs(origin, "only .php files are run"),
            "rlimit_files" => self.table.set_in(&["limits"], "files", number()?, origin),
            "rlimit_core" if value != "unlimited" => {
                self.table.set_in(&["limits"], "core", number()?, origin)
            }
            "process.priority" => {
                self.ledger.dropped(origin, "Keepwarm does not set priorities", "set `Nice=` of the service")
            }
            "pm.status_path" | "pm.status_listen" => self.ledger.dropped(
                origin,
                "Keepwarm hides php-fpm's own pages",
                "use `keepwarm status` and /metrics of `[admin]`",
            ),
            "ping.path" | "ping.response" => self.ledger.dropped(
                origin,
                "Keepwarm hides php-fpm's own pages",
                "use /livez and /readyz of `[admin]`",
            ),
            "access.log" | "access.format" | "access.suppress_path[]" => self.ledger.dropped(
                origin,
                "there is one access log, of the listener",
                "use `access_log` of the listener",
            ),
            "chroot" => self.ledger.lost(
                origin,
                "Keepwarm does not change the root of workers",
                "confine the service by systemd (`RootDirectory=`) or a container",
            ),
            "apparmor_hat" => {
                self.ledger.lost(origin, "Keepwarm has no AppArmor hats", "confine the service by AppArmor")
            }
            "prefix"
            | "listen.backlog"
            | "listen.owner"
            | "listen.group"
            | "listen.mode"
            | "listen.acl_users"
            | "listen.acl_groups"
            | "listen.allowed_clients"
            | "listen.setfib"
            | "process.dumpable"
            | "rlimit_core" => self.ledger.ignored(origin, "the socket and the master are Keepwarm's own"),
            name => self.php_value(name, value, origin),
        }
        Ok(())
    }

    /// `php_admin_value[memory_limit] = 128M`, `env[PATH] = /bin`.
    fn php_value(&mut self, name: &str, value: &str, origin: Origin) {
        let Some((kind, key)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) else { return };
        match kind {
            "env" if value.starts_with('$') => {
                self.ledger.ignored(origin, "the workers have Keepwarm's environment")
            }
            "env" => self.table.set_in(&["env"], key, value, origin),
            "php_value" | "php_flag" => self.option(key, value, origin),
            "php_admin_value" | "php_admin_flag" => {
                self.option(key, value, origin);
                if key != "disable_functions" {
                    self.ledger.differs(
                        origin,
                        "scripts can change it by ini_set(); for values that they cannot, see docs/guide/classic-php.md",
                    );
                }
            }
            _ => {}
        }
    }

    fn option(&mut self, key: &str, value: &str, origin: Origin) {
        self.options.extend([Value::from("-d"), Value::from(format!("{key}={value}"))]);
        self.table.set("options", Value::List(self.options.clone()), origin);
        self.ledger.carried(origin);
    }

    fn time(&mut self, key: &str, value: &str, origin: Origin) {
        match nginx_time(value) {
            Some(0) => self.ledger.ignored(
                origin,
                format!("no limit by php-fpm; `{key}` of the app has its default or the web server's"),
            ),
            Some(millis) => self.table.set(key, time(millis), origin),
            None => self.ledger.lost(
                origin,
                format!("`{value}` is not a time"),
                format!("set `{key}` of the app"),
            ),
        }
    }

    fn workers(&mut self) {
        let Some((children, origin)) = self.children else { return };
        if self.manager.kind == "static" {
            self.table.set("workers", children, origin);
            return;
        }
        let mut range = Table::default();
        let least = match self.manager.kind.as_str() {
            "ondemand" => 1,
            _ => self.manager.min.or(self.manager.start).unwrap_or(1),
        };
        range.set("min", least.clamp(1, children.max(1)), origin);
        range.set("max", children.max(1), origin);
        if let Some((idle, from)) = self.manager.idle.take() {
            match nginx_time(&idle).filter(|millis| *millis > 0) {
                Some(millis) => range.set("idle", time(millis), from),
                None => {
                    self.ledger.lost(from, format!("`{idle}` is not a time"), "set `workers.idle` of the app")
                }
            }
        }
        if self.manager.kind == "ondemand" {
            self.ledger.differs(origin, "at least one process stays");
        }
        self.table.set("workers", range, origin);
        debug_assert!(!self.name.is_empty());
    }
}

fn is_off(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "no" | "off" | "0" | "false")
}
