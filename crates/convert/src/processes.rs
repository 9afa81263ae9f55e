//! supervisord and Procfiles.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::command;
use crate::files::Files;
use crate::ini;
use crate::ledger::{Ledger, Origin};
use crate::model::{Model, add};
use crate::settings::Server;
use crate::shell;
use crate::table::{Table, Value};

/// supervisord.conf, and the files that it includes.
pub(crate) fn supervisord(
    path: &Path,
    files: &Files,
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let (text, shown) = (files.read(path)?, files.shown(path));
    let sections = ini::read(&text, &shown, ini::SUPERVISOR)?;
    let here =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(|parent| files.shown(parent));
    for section in &sections {
        let origin = ledger.open(&shown, section.line, &format!("[{}]", section.name));
        let reader = Supervised { shown: &shown, here: here.as_deref().unwrap_or("."), section, origin };
        match section.name.split_once(':') {
            Some(("program", name)) => reader.program(name, model, ledger)?,
            Some(("group", _)) => reader.ignore("each program is a process of its own", ledger),
            Some(("eventlistener", _)) => reader.drop(
                "Keepwarm has no event listeners",
                "use the log, /metrics or `keepwarm status`",
                false,
                ledger,
            ),
            Some(("fcgi-program", _)) => reader.drop(
                "Keepwarm starts servers of FastCGI for an app only",
                "write an `[app.NAME]` with kind = \"fastcgi\"",
                true,
                ledger,
            ),
            Some(("rpcinterface", _)) => {
                reader.ignore("`keepwarm status` and `[admin]` take its place", ledger)
            }
            _ => match section.name.as_str() {
                "include" => reader.include(path, files, model, ledger)?,
                "supervisord" => reader.daemon(model, ledger),
                "unix_http_server" | "supervisorctl" => {
                    reader.ignore("`keepwarm status` and `keepwarm reload` take its place", ledger)
                }
                "inet_http_server" => {
                    reader.drop("Keepwarm has its own page for operators", "set `admin.bind`", false, ledger)
                }
                _ => {}
            },
        }
    }
    Ok(())
}

struct Supervised<'a> {
    shown: &'a str,
    /// The directory of the file.
    here: &'a str,
    section: &'a ini::Section,
    origin: Origin,
}

impl Supervised<'_> {
    fn open(&self, key: &ini::Key, ledger: &mut Ledger) -> Origin {
        ledger.open(self.shown, key.line, &format!("{} = {}", key.name, key.value))
    }

    fn ignore(&self, why: &str, ledger: &mut Ledger) {
        ledger.ignored(self.origin, why);
        for key in &self.section.keys {
            let origin = self.open(key, ledger);
            ledger.ignored(origin, why);
        }
    }

    fn drop(&self, why: &str, todo: &str, grave: bool, ledger: &mut Ledger) {
        match grave {
            true => ledger.lost(self.origin, why, todo),
            false => ledger.dropped(self.origin, why, todo),
        }
        for key in &self.section.keys {
            let origin = self.open(key, ledger);
            ledger.ignored(origin, "a part of a section that is not converted");
        }
    }

    fn include(
        &self,
        path: &Path,
        files: &Files,
        model: &mut Model,
        ledger: &mut Ledger,
    ) -> Result<(), Error> {
        ledger.ignored(self.origin, "its files were read");
        for key in &self.section.keys {
            let origin = self.open(key, ledger);
            ledger.ignored(origin, "its files were read");
            for pattern in key.value.split_whitespace() {
                let pattern = pattern.replace("%(here)s", self.here);
                for file in files.glob(&path.parent().unwrap_or(Path::new("")).join(pattern)) {
                    supervisord(&file, files, model, ledger)?;
                }
            }
        }
        Ok(())
    }

    fn daemon(&self, model: &mut Model, ledger: &mut Ledger) {
        ledger.ignored(self.origin, "Keepwarm takes its place");
        for key in &self.section.keys {
            let origin = self.open(key, ledger);
            match key.name.as_str() {
                "user" if key.value != "root" => model.server.set("user", key.value.as_str(), origin),
                "environment" => ledger.dropped(
                    origin,
                    "there is no environment for all processes",
                    "set it for the service, or in `env` of each process",
                ),
                "directory" | "umask" => {
                    ledger.differs(origin, "each process has its own; set it for the service")
                }
                _ => ledger.ignored(origin, "Keepwarm takes its place"),
            }
        }
    }

    fn program(&self, name: &str, model: &mut Model, ledger: &mut Ledger) -> Result<(), Error> {
        let find = |wanted: &str| self.section.keys.iter().find(|key| key.name == wanted);
        let Some(line) = find("command") else {
            return Err(Error::at(
                self.shown,
                self.section.line,
                format!("[{}] has no `command`", self.section.name),
            ));
        };
        let count: i64 = find("numprocs").and_then(|key| key.value.parse().ok()).unwrap_or(1);
        let numbered = self
            .section
            .keys
            .iter()
            .any(|key| key.name != "process_name" && key.value.contains("%(process_num)"));
        let first: i64 = find("numprocs_start").and_then(|key| key.value.parse().ok()).unwrap_or(0);
        let numbers: Vec<Option<i64>> = match (numbered, count) {
            (true, 2..) => (first..first + count).map(Some).collect(),
            _ => vec![None],
        };
        let origins: Vec<(Origin, &ini::Key)> =
            self.section.keys.iter().map(|key| (self.open(key, ledger), key)).collect();
        let command = one_line(&line.value);
        let words = shell::words(&self.expand(&command, name, Some(first), false)).unwrap_or_default();
        if let Some(program) = served(&words) {
            ledger.dropped(
                self.origin,
                format!("{program} serves what Keepwarm serves now"),
                format!("give the configuration of {program} as well"),
            );
            origins
                .iter()
                .for_each(|(origin, _)| ledger.ignored(*origin, "a part of a program that is not converted"));
            return Ok(());
        }
        if command::is_known(&words) {
            return self.server(&words, &origins, model, ledger);
        }
        for number in numbers {
            let mut table = Table::default();
            for (origin, key) in &origins {
                let value = self.expand(&key.value, name, number.or(Some(first)), true);
                self.key(&key.name, &value, *origin, number.is_some(), &mut table, ledger);
            }
            let wish = number.map_or_else(|| name.to_owned(), |number| format!("{name}-{number}"));
            add(&mut model.processes, &wish, table, self.origin, ledger);
        }
        Ok(())
    }

    /// A program that serves HTTP: an app.
    fn server(
        &self,
        words: &[String],
        origins: &[(Origin, &ini::Key)],
        model: &mut Model,
        ledger: &mut Ledger,
    ) -> Result<(), Error> {
        let before = model.apps.len();
        command::read(words, self.origin, model, ledger)?;
        let Some(app) = model.apps.get_mut(before) else { return Ok(()) };
        for (origin, key) in origins {
            let value = self.expand(&key.value, "", None, true);
            let mut table = Table::default();
            match key.name.as_str() {
                "command" => ledger.carried(*origin),
                "directory" | "user" | "umask" | "environment" => {
                    self.key(&key.name, &value, *origin, false, &mut table, ledger);
                    for item in table.items {
                        if !app.table.has(&item.key) {
                            app.table.items.push(item);
                        }
                    }
                }
                _ => ledger.ignored(*origin, "it is an app, whose workers Keepwarm supervises"),
            }
        }
        Ok(())
    }

    fn key(
        &self,
        name: &str,
        value: &str,
        origin: Origin,
        is_numbered: bool,
        table: &mut Table,
        ledger: &mut Ledger,
    ) {
        match name {
            "command" => table.set("command", open_list(shell::command(&one_line(value))), origin),
            "directory" => table.set("directory", Value::Open(value.to_owned()), origin),
            "user" => table.set("user", value, origin),
            "umask" => table.set("umask", format!("{:0>3}", value.trim_start_matches("0o")), origin),
            "numprocs" if is_numbered || value == "1" => ledger.carried(origin),
            "numprocs" => match value.parse::<i64>() {
                Ok(count) => table.set("count", count.clamp(1, 1000), origin),
                Err(_) => ledger.lost(origin, "it is not a number", "set `count` of the process"),
            },
            "environment" => match environment(value) {
                Some(pairs) => {
                    for (key, text) in pairs {
                        table.set_in(&["env"], &key, Value::Open(text), origin);
                    }
                }
                None => ledger.dropped(origin, "it is not a list of NAME=\"value\"", "set `env` of the process"),
            },
            "autorestart" => match value {
                "true" | "yes" | "on" => ledger.ignored(origin, "processes are always restarted, by default"),
                "false" | "no" | "off" => table.set("restart", "never", origin),
                _ => table.set("restart", "on_failure", origin),
            },
            "autostart" if matches!(value, "false" | "no" | "off") => {
                ledger.differs(origin, "processes start with Keepwarm: remove the section if it must not run");
            }
            "stopsignal" => match value.trim_start_matches("SIG") {
                "TERM" => ledger.ignored(origin, "TERM, as by default"),
                signal => table.set("stop_signal", signal, origin),
            },
            "stopwaitsecs" => match value.parse::<u64>() {
                Ok(seconds) => table.set("stop_timeout", crate::units::time(seconds * 1000), origin),
                Err(_) => ledger.lost(origin, "it is not a number", "set `stop_timeout` of the process"),
            },
            "priority" => ledger.differs(origin, "processes start at once, unless `after` names what must be ready before"),
            "startsecs" | "startretries" => ledger.differs(origin, "a process that exits is started again after a growing pause"),
            "exitcodes" => ledger.differs(origin, "with restart = \"on_failure\", status 0 is a success; `exit_codes` of the process sets others"),
            "stopasgroup" | "killasgroup" | "process_name" | "numprocs_start" | "autostart" | "redirect_stderr" | "stdout_capture_maxbytes"
            | "stderr_capture_maxbytes" | "stdout_events_enabled" | "stderr_events_enabled" | "serverurl" => {
                ledger.ignored(origin, "Keepwarm stops a process with all that it has started");
            }
            name if name.starts_with("stdout_") || name.starts_with("stderr_") => {
                ledger.differs(origin, "what processes print is in Keepwarm's log, with their name");
            }
            _ => {}
        }
    }

    /// `%(here)s`, `%(ENV_X)s` and the like.
    fn expand(&self, text: &str, program: &str, number: Option<i64>, placeholders: bool) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            let (before, after) = (rest.get(..at).unwrap_or(""), rest.get(at + 1..).unwrap_or(""));
            out.push_str(before);
            if let Some(behind) = after.strip_prefix('%') {
                out.push('%');
                rest = behind;
                continue;
            }
            let Some((name, behind)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')'))
            else {
                out.push('%');
                rest = after;
                continue;
            };
            let end = behind.find(|c: char| c.is_ascii_alphabetic()).map_or(behind.len(), |at| at + 1);
            let (format, behind) = behind.split_at(end);
            match name {
                "here" => out.push_str(self.here),
                "program_name" | "group_name" => out.push_str(program),
                "process_num" => {
                    let width: usize =
                        format.trim_start_matches('0').trim_end_matches('d').parse().unwrap_or(0);
                    out.push_str(&format!("{:0width$}", number.unwrap_or(0)));
                }
                "host_node_name" => out.push_str("localhost"),
                name => match name.strip_prefix("ENV_") {
                    Some(variable) if placeholders => out.push_str(&format!("${{{variable}}}")),
                    Some(variable) => out.push_str(&format!("${variable}")),
                    None => out.push_str(&format!("%({name}){format}")),
                },
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

fn open_list(words: Vec<String>) -> Value {
    Value::List(words.into_iter().map(Value::Open).collect())
}

/// A web server that Keepwarm replaces.
fn served(words: &[String]) -> Option<&str> {
    let name = words.first()?.rsplit('/').next()?;
    let known =
        ["nginx", "apache2", "apache2ctl", "httpd", "php-fpm", "caddy", "haproxy", "apache2-foreground"];
    (known.contains(&name) || name.starts_with("php-fpm")).then_some(name)
}

/// `A="b",C='d'`
fn environment(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut rest = text.trim().trim_end_matches(',');
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, behind) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => after.get(1..)?.split_once(quote)?,
            _ => after.split_at(after.find([',', '\n']).unwrap_or(after.len())),
        };
        pairs.push((name.trim().to_owned(), value.trim_matches('\n').to_owned()));
        rest = behind.trim_start().trim_start_matches(',').trim_start();
    }
    Some(pairs)
}

/// A Procfile: `web` is an app, the others are processes.
pub(crate) fn procfile(
    path: &Path,
    files: &Files,
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let (text, shown) = (files.read(path)?, files.shown(path));
    let directory = path.parent().map(Path::to_owned).unwrap_or_default();
    let env_file: PathBuf = directory.join(".env");
    let has_env = files.here(&env_file).is_file();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let Some((name, command_line)) =
            trimmed.split_once(':').filter(|(name, _)| !name.contains(char::is_whitespace))
        else {
            return Err(Error::at(
                &shown,
                line_number,
                format!("expected `NAME: COMMAND`, found `{trimmed}`"),
            ));
        };
        let origin = ledger.open(&shown, line_number, trimmed);
        let mut table = Table::default();
        if has_env {
            table.set("env_file", files.shown(&env_file), None);
        }
        match name {
            "web" => web(command_line.trim(), &table, origin, model, ledger)?,
            "release" => ledger.dropped(
                origin,
                "a command before each release is `before_start` of a process",
                "set `before_start` of the process that needs it",
            ),
            name => {
                table.set("command", shell::command(command_line.trim()), origin);
                add(&mut model.processes, name, table, origin, ledger);
            }
        }
    }
    Ok(())
}

fn web(
    command_line: &str,
    environment: &Table,
    origin: Origin,
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let words = shell::words(command_line).unwrap_or_default();
    let index = model.apps.len();
    if command::is_known(&words) {
        // Its address is that of the platform: `-b 0.0.0.0:$PORT`.
        command::read(&words, origin, model, ledger)?;
        if let Some(site) = model.sites.last_mut() {
            for bind in
                site.binds.iter_mut().filter(|bind| bind.address.contains('$') || bind.origin.is_none())
            {
                bind.address = "0.0.0.0:8080".to_owned();
            }
        }
    } else {
        let mut server = Server::new("web", Some(origin));
        server.table.set("command", shell::command(command_line), origin);
        server.bind("0.0.0.0:8080", false, None);
        server.finish(model, ledger);
    }
    if let Some(app) = model.apps.get_mut(index) {
        app.table.items.extend(environment.items.iter().cloned());
    }
    ledger.differs(origin, "the listener has port 8080; the app gets a port of its own in PORT");
    Ok(())
}
