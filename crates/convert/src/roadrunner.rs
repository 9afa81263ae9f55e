//! RoadRunner's .rr.yaml.

use std::path::Path;

use crate::Error;
use crate::files::Files;
use crate::ledger::Ledger;
use crate::model::{Bind, Certificate, Model, add};
use crate::settings::{Server, address};
use crate::shell;
use crate::table::{Table, Value};
use crate::tree::{Node, load};
use crate::units::{nginx_time, size, time};

pub(crate) fn read(path: &Path, files: &Files, model: &mut Model, ledger: &mut Ledger) -> Result<(), Error> {
    let root = load(path, files, ledger)?;
    let shown = files.shown(path);
    if root.get("http").is_none() && root.get("service").is_none() {
        return Err(Error::new(format!(
            "{shown}: has neither `http` nor `service`, so there is nothing to serve or to run"
        )));
    }
    for (name, node) in root.entries() {
        match name.as_str() {
            "http" => http(&root, node, model, ledger),
            "service" => services(node, model, ledger)?,
            "server" | "version" => {}
            "metrics" => {
                if let Some(bind) = node.get("address") {
                    model.admin.set("bind", address(bind.text()), bind.origin);
                }
                node.drop(
                    "an app's own metrics are not collected; those of Keepwarm are at /metrics of `[admin]`",
                    "let the app export its own",
                    false,
                    ledger,
                );
            }
            "status" => node.drop(
                "Keepwarm's own checks take its place",
                "set `admin.bind`: /livez and /readyz",
                false,
                ledger,
            ),
            "logs" => node.ignore("Keepwarm has its own log: `server.log`", ledger),
            "rpc" => node.drop(
                "workers have no RPC to Keepwarm",
                "let the app do it without RoadRunner's packages",
                false,
                ledger,
            ),
            "reload" => node.drop(
                "for development: `watch` of the app",
                "set `watch`, or keepwarm run --watch",
                false,
                ledger,
            ),
            "jobs" => node.drop(
                "Keepwarm has no queues",
                "run a worker of the queue as a `[process.NAME]`",
                true,
                ledger,
            ),
            "kv" | "temporal" | "centrifuge" | "broadcast" | "websockets" | "boltdb" | "lock" | "otel"
            | "amqp" => {
                node.drop(
                    "a plugin of RoadRunner without a counterpart",
                    "run a service for it",
                    false,
                    ledger,
                );
            }
            "grpc" | "tcp" | "fileserver" => node.drop(
                "a server of RoadRunner without a counterpart",
                "write a listener by hand",
                true,
                ledger,
            ),
            "endure" | "service_name" | "include" => node.ignore("RoadRunner's own", ledger),
            _ => {}
        }
    }
    if let Some(server) = root.get("server") {
        server.ignore("Keepwarm starts workers by its own protocol", ledger);
    }
    if let Some(version) = root.get("version") {
        ledger.ignored(version.origin, "the version of the file");
    }
    Ok(())
}

fn http(root: &Node, http: &Node, model: &mut Model, ledger: &mut Ledger) {
    let origin = http.open(ledger);
    let mut server = Server::new("app", Some(origin));
    worker(root, &mut server, ledger);
    let tls = http.get("ssl");
    if let Some(ssl) = tls {
        let bind = ssl.get("address").map_or_else(|| "0.0.0.0:443".to_owned(), |node| address(node.text()));
        ssl.get("address").iter().for_each(|node| ledger.carried(node.origin));
        match (ssl.get("cert"), ssl.get("key")) {
            (Some(cert), Some(key)) => {
                server.bind(&bind, true, origin);
                ledger.carried(key.origin);
                server.site.certificates.push(Certificate {
                    cert: cert.text().to_owned(),
                    key: key.text().to_owned(),
                    origin: Some(cert.origin),
                });
            }
            _ => ssl.drop("it has no `cert` and `key`", "set `tls` of the listener", true, ledger),
        }
        ssl.get("redirect").iter().for_each(|node| ledger.carried(node.origin));
        let port = bind.rsplit_once(':').and_then(|(_, port)| port.parse::<i64>().ok());
        let redirects = ssl.get("redirect").is_some_and(Node::is_on);
        if let (Some(plain), Some(port), true) = (http.get("address"), port, redirects) {
            let mut redirect = Server::new("redirect", Some(origin)).site;
            redirect.binds.push(plain_bind(plain));
            redirect.listener.set("redirect_to_https", port, ssl.get("redirect").map(|node| node.origin));
            model.sites.push(redirect);
        }
    }
    let redirects = tls.and_then(|ssl| ssl.get("redirect")).is_some_and(Node::is_on);
    if let Some(bind) = http.get("address").filter(|_| !redirects) {
        server.site.binds.push(plain_bind(bind));
    }
    let mut route = Table::default();
    for (name, node) in http.entries() {
        http_key(name, node, http, &mut server, &mut route, model, ledger);
    }
    server.finish(model, ledger);
    if let Some(own) = model.sites.last_mut().and_then(|site| site.routes.last_mut()) {
        own.table.items.extend(route.items);
    }
}

fn plain_bind(node: &Node) -> Bind {
    Bind {
        address: address(node.text()),
        tls: false,
        is_default: true,
        proxy_protocol: false,
        origin: Some(node.origin),
    }
}

/// The worker's script, which must be one that Keepwarm can run.
fn worker(root: &Node, server: &mut Server, ledger: &mut Ledger) {
    server.table.set("kind", "php", None);
    let Some(command) = root.at(&["server", "command"]) else {
        server.table.note("entry", "public/index.php", "set this: the file that returns the app");
        return;
    };
    let words = match command.items().as_slice() {
        [one] => shell::words(one.text()).unwrap_or_default(),
        many => many.iter().map(|node| node.text().to_owned()).collect(),
    };
    let script = words.iter().find(|word| word.ends_with(".php")).cloned();
    match script {
        Some(script) => server.table.set("entry", script, command.origin),
        None => server.table.note("entry", "public/index.php", "set this: the file that returns the app"),
    }
    ledger.differs(
        command.origin,
        "the script must return the app (PSR-15, Symfony Runtime or a callable; docs/guide/php.md), in place of RoadRunner's loop",
    );
    for (name, node) in root.get("server").map(Node::entries).unwrap_or_default() {
        match name.as_str() {
            "user" | "group" if !node.text().is_empty() => server.table.set(name, node.text(), node.origin),
            "env" => {
                for (key, value) in node.items().iter().flat_map(|item| item.entries()) {
                    server.table.set_in(&["env"], key, Value::Open(value.text().to_owned()), value.origin);
                }
            }
            "on_init" => {
                node.drop("a command before the workers", "set `before_start` of a process", false, ledger)
            }
            _ => {}
        }
    }
}

fn http_key(
    name: &str,
    node: &Node,
    http: &Node,
    server: &mut Server,
    route: &mut Table,
    model: &mut Model,
    ledger: &mut Ledger,
) {
    match name {
        "max_request_size" => match node.number() {
            Some(0) => ledger.ignored(node.origin, "no limit"),
            Some(megabytes) => route.set("max_body", size(megabytes.unsigned_abs() << 20), node.origin),
            None => {
                ledger.lost(node.origin, "it is not a number of megabytes", "set `max_body` of the route")
            }
        },
        "middleware" => {
            let texts = node.texts();
            for middleware in &texts {
                match middleware.as_str() {
                    "gzip" => route.set("compress", true, node.origin),
                    "headers" | "static" | "http_metrics" | "sendfile" | "proxy_ip_parser" | "otel" => {}
                    "cache" => ledger.dropped(
                        node.origin,
                        "Keepwarm has no cache",
                        "let clients cache by `Cache-Control`",
                    ),
                    other => ledger.lost(
                        node.origin,
                        format!("the middleware `{other}` has no counterpart"),
                        "let the app do it",
                    ),
                }
            }
            ledger.carried(node.origin);
        }
        "pool" => pool(node, server, ledger),
        "static" => {
            let is_used =
                http.get("middleware").is_none_or(|list| list.texts().iter().any(|name| name == "static"));
            if let Some(directory) = node.get("dir").filter(|_| is_used) {
                route.set("try_files", directory.text(), directory.origin);
            }
            for key in ["forbid", "allow", "calculate_etag", "weak", "always", "immutable"] {
                if let Some(inner) = node.get(key) {
                    inner.ignore("scripts are never sent, and files always have validators", ledger);
                }
            }
            for (key, kind) in [("response", "headers"), ("request", "request_headers")] {
                for (name, value) in node.get(key).map(Node::entries).unwrap_or_default() {
                    route.set_in(&[kind, "set"], name, value.text(), value.origin);
                }
            }
        }
        "headers" => headers(node, route, ledger),
        "trusted_subnets" => model.server.set("trusted_proxies", node.texts(), node.origin),
        "uploads" => node.ignore("PHP handles uploads", ledger),
        "access_logs" => ledger.carried(node.origin),
        "raw_body" | "internal_error_code" | "body_limit" => {
            node.ignore("it makes no difference here", ledger)
        }
        "http2" | "http3" => node.ignore("HTTP/2 is on by default", ledger),
        "fcgi" => node.drop("Keepwarm does not accept FastCGI from web servers", "use HTTP", true, ledger),
        "address" | "ssl" => {}
        _ => {}
    }
}

fn headers(node: &Node, route: &mut Table, ledger: &mut Ledger) {
    for (key, inner) in node.entries() {
        match key.as_str() {
            "response" | "request" => {
                let kind = if key == "response" { "headers" } else { "request_headers" };
                for (name, value) in inner.entries() {
                    match value.text() {
                        "" => route.push_in(&[kind], "remove", name.as_str(), value.origin),
                        text => route.set_in(&[kind, "set"], name, text, value.origin),
                    }
                }
            }
            "cors" => inner.drop(
                "CORS is a set of headers",
                "set `headers` of the route, and a route for OPTIONS",
                true,
                ledger,
            ),
            _ => {}
        }
    }
}

fn pool(node: &Node, server: &mut Server, ledger: &mut Ledger) {
    let table = &mut server.table;
    let seconds = |node: &Node| nginx_time(node.text()).filter(|millis| *millis > 0);
    for (name, inner) in node.entries() {
        match (name.as_str(), inner.number()) {
            ("num_workers", Some(0)) => {
                ledger.ignored(inner.origin, "one worker for each core, as by default")
            }
            ("num_workers", Some(number)) => table.set("workers", number.clamp(1, 1024), inner.origin),
            ("max_jobs", Some(0)) => ledger.ignored(inner.origin, "no limit, as by default"),
            ("max_jobs", Some(number)) => table.set("max_requests", number, inner.origin),
            ("allocate_timeout", _) => match seconds(inner) {
                Some(millis) => table.set("queue_timeout", time(millis.min(3_600_000)), inner.origin),
                None => ledger.ignored(inner.origin, "the default"),
            },
            ("destroy_timeout", _) => match seconds(inner) {
                Some(millis) => table.set("drain_timeout", time(millis), inner.origin),
                None => ledger.ignored(inner.origin, "the default"),
            },
            ("debug", _) => ledger.differs(inner.origin, "for development: keepwarm run --watch"),
            ("supervisor", _) => supervisor(inner, table, ledger),
            ("command", _) => {
                ledger.lost(inner.origin, "a pool with a command of its own", "set `entry` of the app")
            }
            _ => {}
        }
    }
}

fn supervisor(node: &Node, table: &mut Table, ledger: &mut Ledger) {
    for (name, inner) in node.entries() {
        let millis = nginx_time(inner.text()).filter(|millis| *millis > 0);
        match (name.as_str(), millis) {
            ("ttl", Some(millis)) => table.set("max_age", time(millis), inner.origin),
            ("exec_ttl", Some(millis)) => table.set("request_timeout", time(millis), inner.origin),
            ("max_worker_memory", _) => match inner.number().filter(|megabytes| *megabytes > 0) {
                Some(megabytes) => {
                    table.set("max_memory", size(megabytes.unsigned_abs() << 20), inner.origin)
                }
                None => ledger.ignored(inner.origin, "no limit"),
            },
            ("ttl" | "exec_ttl" | "idle_ttl", None) => ledger.ignored(inner.origin, "no limit"),
            ("idle_ttl", _) => ledger
                .differs(inner.origin, "`workers = { min, max, idle }` stops workers that are not needed"),
            ("watch_tick", _) => ledger.ignored(inner.origin, "workers are watched every second"),
            _ => {}
        }
    }
}

fn services(node: &Node, model: &mut Model, ledger: &mut Ledger) -> Result<(), Error> {
    for (name, service) in node.entries() {
        let origin = service.open(ledger);
        ledger.carried(origin);
        let mut table = Table::default();
        let Some(command) = service.get("command") else { return Err(service.error("has no `command`")) };
        let words = match command.items().as_slice() {
            [one] => shell::command(one.text()),
            many => many.iter().map(|node| node.text().to_owned()).collect(),
        };
        table.set("command", words, command.origin);
        for (key, value) in service.entries() {
            match (key.as_str(), value.number()) {
                ("command", _) => {}
                ("process_num", Some(number)) => table.set("count", number.clamp(1, 1000), value.origin),
                ("exec_timeout", _) => match nginx_time(value.text()).filter(|millis| *millis > 0) {
                    Some(millis) => table.set("max_age", time(millis), value.origin),
                    None => ledger.ignored(value.origin, "no limit"),
                },
                ("remain_after_exit", _) => match value.is_on() {
                    true => ledger.ignored(value.origin, "processes are always restarted, by default"),
                    false => table.set("restart", "never", value.origin),
                },
                ("env", _) => {
                    for (name, text) in value.items().iter().flat_map(|item| item.entries()) {
                        table.set_in(&["env"], name, Value::Open(text.text().to_owned()), text.origin);
                    }
                }
                ("user", _) => table.set("user", value.text(), value.origin),
                ("timeout_stop_sec", Some(number)) => {
                    table.set("stop_timeout", time(number.unsigned_abs() * 1000), value.origin)
                }
                ("restart_sec" | "service_name_in_log", _) => ledger
                    .differs(value.origin, "a process that exits is started again after a growing pause"),
                _ => {}
            }
        }
        add(&mut model.processes, name, table, origin, ledger);
    }
    Ok(())
}
