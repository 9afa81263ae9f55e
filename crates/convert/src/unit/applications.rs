//! Applications: apps, by their language.

use super::Reader;
use crate::ledger::Origin;
use crate::model::add;
use crate::table::{Table, Value};
use crate::tree::Node;
use crate::units::time;

impl Reader<'_> {
    pub(super) fn app(&mut self, name: &str, target: Option<&str>, origin: Origin) -> Option<String> {
        let Some(app) = self.config.at(&["applications", name]).cloned() else {
            self.ledger.lost(origin, format!("there is no application `{name}`"), "write an `[app.NAME]`");
            return None;
        };
        let mut table = Table::default();
        let kind = app
            .get("type")
            .map(|kind| kind.text().split(' ').next().unwrap_or("").to_owned())
            .unwrap_or_default();
        let spec = match target {
            Some(target) => app.at(&["targets", target]).cloned().unwrap_or_else(|| app.clone()),
            None => app.clone(),
        };
        if !self.program(&kind, &app, &spec, &mut table) {
            app.drop(
                &format!("applications of type `{kind}` have no counterpart"),
                "run it by its own server (`command`)",
                true,
                self.ledger,
            );
            return None;
        }
        for (key, value) in app.entries() {
            self.app_key(key, value, &kind, &mut table);
        }
        let wish = target.map_or_else(|| name.to_owned(), |target| format!("{name}-{target}"));
        Some(add(&mut self.model.apps, &wish, table, origin, self.ledger))
    }

    /// What a worker runs; whether Keepwarm can run it.
    fn program(&mut self, kind: &str, app: &Node, spec: &Node, table: &mut Table) -> bool {
        if let Some(node) = app.get("type") {
            self.ledger.carried(node.origin);
        }
        match kind {
            "python" => {
                let Some(module) = spec.get("module") else { return false };
                let callable = spec.get("callable").map_or("application", Node::text);
                let is_factory = spec.get("factory").is_some_and(Node::is_on);
                table.set(
                    "entry",
                    format!("{}:{callable}{}", module.text(), if is_factory { "()" } else { "" }),
                    module.origin,
                );
                for key in ["callable", "factory"] {
                    spec.get(key).iter().for_each(|node| self.ledger.carried(node.origin));
                }
                if let Some(home) = app.get("home") {
                    table.set(
                        "interpreter",
                        format!("{}/bin/python", home.text().trim_end_matches('/')),
                        home.origin,
                    );
                }
                if let Some(path) = app.get("path") {
                    table.set("directory", path.texts().first().cloned().unwrap_or_default(), path.origin);
                }
            }
            "ruby" => {
                let Some(script) = app.get("script") else { return false };
                table.set("kind", "rack", None);
                table.set("entry", script.text(), script.origin);
            }
            "php" => {
                let Some(root) = spec.get("root") else { return false };
                table.set("kind", "fastcgi", None);
                let script = spec.get("script").or_else(|| spec.get("index"));
                let name = script.map_or("index.php", Node::text);
                table.set("entry", format!("{}/{name}", root.text().trim_end_matches('/')), root.origin);
                for key in ["script", "index"] {
                    spec.get(key).iter().for_each(|node| self.ledger.carried(node.origin));
                }
            }
            "external" | "nodejs" | "go" => {
                let Some(executable) = app.get("executable") else { return false };
                let mut command = vec![executable.text().to_owned()];
                command.extend(app.get("arguments").map(Node::texts).unwrap_or_default());
                table.set("command", command, executable.origin);
                app.get("arguments").iter().for_each(|node| self.ledger.carried(node.origin));
                self.ledger.differs(executable.origin, "the program must serve HTTP itself, at the port in PORT: without unit-http and Unit's libraries");
            }
            _ => return false,
        }
        true
    }

    fn app_key(&mut self, key: &str, value: &Node, kind: &str, table: &mut Table) {
        let origin = value.origin;
        match key {
            "type" | "module" | "callable" | "factory" | "path" | "home" | "script" | "root" | "index"
            | "executable" | "arguments" | "targets" => {}
            "processes" if value.is_map() => self.processes(value, table),
            "processes" => match value.number() {
                Some(number) => table.set("workers", number.clamp(1, 1024), origin),
                None => self.ledger.lost(origin, "it is not a number", "set `workers` of the app"),
            },
            "threads" if matches!(kind, "python" | "ruby") => match value.number() {
                Some(number) => table.set("threads", number, origin),
                None => self.ledger.lost(origin, "it is not a number", "set `threads` of the app"),
            },
            "user" | "group" => table.set(key, value.text(), origin),
            "working_directory" => table.set("directory", value.text(), origin),
            "environment" => {
                for (name, text) in value.entries() {
                    table.set_in(&["env"], name, text.text(), text.origin);
                }
            }
            "protocol" => table.set("kind", value.text(), origin),
            "prefix" => value.drop(
                "a prefix is `path` and `strip_prefix` of the route",
                "set them: the app gets the whole path",
                true,
                self.ledger,
            ),
            "limits" => {
                for (name, limit) in value.entries() {
                    match (name.as_str(), limit.number()) {
                        ("timeout", Some(seconds)) if seconds > 0 => {
                            table.set("request_timeout", time(seconds.unsigned_abs() * 1000), limit.origin)
                        }
                        ("requests", Some(requests)) if requests > 0 => {
                            table.set("max_requests", requests, limit.origin)
                        }
                        ("timeout" | "requests", Some(_)) => self.ledger.ignored(limit.origin, "no limit"),
                        _ => {}
                    }
                }
            }
            "options" => self.php_options(value, table),
            "isolation" => value.drop(
                "Keepwarm does not isolate workers",
                "confine the service by systemd or a container",
                true,
                self.ledger,
            ),
            "stdout" | "stderr" => self.ledger.differs(origin, "what apps print is in Keepwarm's log"),
            "hooks" | "thread_stack_size" | "options_file" => {
                value.drop("it has no counterpart", "find out whether it is needed", false, self.ledger)
            }
            _ => {}
        }
    }

    fn processes(&mut self, value: &Node, table: &mut Table) {
        let mut range = Table::default();
        for (name, node) in value.entries() {
            match (name.as_str(), node.number()) {
                ("max", Some(number)) => range.set("max", number.clamp(1, 1024), node.origin),
                ("spare", Some(number)) => range.set("min", number.clamp(1, 1024), node.origin),
                ("idle_timeout", Some(seconds)) => {
                    range.set("idle", time(seconds.max(1).unsigned_abs() * 1000), node.origin)
                }
                _ => {}
            }
        }
        table.set("workers", range, None);
    }

    fn php_options(&mut self, value: &Node, table: &mut Table) {
        let mut options: Vec<Value> = Vec::new();
        // It can hold limits such as `open_basedir`. Values of `-d` replace its own, as in Unit.
        if let Some(file) = value.get("file") {
            options.extend([Value::from("-c"), Value::from(file.text())]);
            self.ledger.carried(file.origin);
        }
        for kind in ["admin", "user"] {
            for (name, setting) in value.get(kind).map(Node::entries).unwrap_or_default() {
                options.extend([Value::from("-d"), Value::from(format!("{name}={}", setting.text()))]);
                match kind {
                    "admin" => self.ledger.differs(setting.origin, "scripts can change it by ini_set(); for values that they cannot, see docs/guide/classic-php.md"),
                    _ => self.ledger.carried(setting.origin),
                }
            }
        }
        if !options.is_empty() {
            table.set("options", Value::List(options), None);
        }
    }
}
