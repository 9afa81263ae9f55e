//! Apps of classic PHP, for every web server that passes requests to php-fpm.

use crate::fpm::{Pool, address};
use crate::ledger::{Ledger, Origin};
use crate::model::{Model, add};
use crate::table::{Table, Value};

/// Scripts that a server passes to FastCGI.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts {
    /// Where the server of the scripts listens; `None`: there is none (mod_php).
    pub(crate) address: Option<String>,
    /// The script for requests that no file is for, with its directory.
    pub(crate) entry: String,
    /// Settings of PHP: `memory_limit=1G`.
    pub(crate) settings: Vec<(String, Origin)>,
    /// Parameters, as variables of the environment.
    pub(crate) env: Vec<(String, String, Origin)>,
    /// `request_timeout`
    pub(crate) timeout: Option<(String, Origin)>,
    pub(crate) origin: Option<Origin>,
}

/// The app that runs scripts: a new one, or one that was made of the same.
pub(crate) fn app(
    scripts: &Scripts,
    wish: &str,
    pools: &[Pool],
    model: &mut Model,
    ledger: &mut Ledger,
) -> String {
    let mut table = Table::default();
    table.set("kind", "fastcgi", scripts.origin);
    table.set("entry", scripts.entry.as_str(), scripts.origin);
    let listen = scripts.address.as_deref().map(address);
    let pool = listen.as_ref().and_then(|listen| pools.iter().find(|pool| pool.listen == *listen));
    match (pool, listen) {
        (Some(pool), _) => {
            pool.used.set(true);
            ledger.carried(pool.origin);
            table.items.extend(pool.table.items.iter().cloned());
            own(&mut table, scripts, ledger);
        }
        (None, Some(listen)) if is_usable(&listen) => existing(&mut table, scripts, &listen, ledger),
        (None, Some(listen)) => {
            if let Some(origin) = scripts.origin {
                ledger.differs(
                    origin,
                    format!("Keepwarm runs PHP itself: `address` of an app is an IP address or a socket, and {listen} is neither"),
                );
            }
            own(&mut table, scripts, ledger);
        }
        (None, None) => own(&mut table, scripts, ledger),
    }
    let wish = pool.map_or(wish, |pool| if pool.name == "www" { wish } else { &pool.name });
    add(&mut model.apps, wish, table, scripts.origin, ledger)
}

/// `IP:PORT` or `unix:/PATH`.
fn is_usable(listen: &str) -> bool {
    listen.starts_with("unix:/") || listen.parse::<std::net::SocketAddr>().is_ok()
}

/// PHP that Keepwarm starts.
fn own(table: &mut Table, scripts: &Scripts, ledger: &mut Ledger) {
    if let Some((timeout, origin)) = &scripts.timeout {
        match table.has("request_timeout") {
            true => ledger.ignored(*origin, "the pool's request_terminate_timeout is used"),
            false => table.set("request_timeout", timeout.as_str(), *origin),
        }
    }
    table.set_if_missing("request_timeout", "60s", None);
    if let Some(item) =
        table.items.iter_mut().find(|item| item.key == "request_timeout" && item.origin.is_none())
    {
        item.note = Some("the default of nginx and Apache".to_owned());
    }
    for (setting, origin) in &scripts.settings {
        let mut options = match table.remove("options").map(|item| item.value) {
            Some(Value::List(list)) => list,
            _ => Vec::new(),
        };
        options.extend([Value::from("-d"), Value::from(setting.as_str())]);
        table.set("options", Value::List(options), *origin);
        ledger.carried(*origin);
    }
    for (name, value, origin) in &scripts.env {
        table.set_in(&["env"], name, value.as_str(), *origin);
        ledger.differs(*origin, "scripts read it by getenv()");
    }
}

/// A php-fpm that keeps running beside Keepwarm.
fn existing(table: &mut Table, scripts: &Scripts, listen: &str, ledger: &mut Ledger) {
    table.set("address", listen, scripts.origin);
    match &scripts.timeout {
        Some((timeout, origin)) => table.set("request_timeout", timeout.as_str(), *origin),
        None => table.note("request_timeout", "60s", "the default of nginx and Apache"),
    }
    table.note("workers", 5i64, "no more than `pm.max_children` of the pool");
    if let Some(origin) = scripts.origin {
        ledger.differs(
            origin,
            "that php-fpm keeps running, and `workers` must not exceed its `pm.max_children`; give the pool's file as \
             well, and Keepwarm runs PHP itself",
        );
    }
    for (setting, origin) in &scripts.settings {
        let todo =
            format!("set php_admin_value for `{setting}` in the pool, or give the pool's file as well");
        ledger.lost(*origin, "settings of a php-fpm that is running are its own", todo);
    }
    for (name, _, origin) in &scripts.env {
        let todo = format!("set env[{name}] in the pool, or give the pool's file as well");
        ledger.dropped(*origin, "the environment of a php-fpm that is running is its own", todo);
    }
}
