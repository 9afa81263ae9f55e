//! Command lines of gunicorn, uvicorn, hypercorn and Puma.

use crate::Error;
use crate::ledger::{Ledger, Origin};
use crate::model::Model;
use crate::settings::{Setting, Settings, puma, python};

/// Whether a command line starts a server that [`read`] knows.
pub(crate) fn is_known(words: &[String]) -> bool {
    program(words).is_some()
}

/// The server that a command line starts, and its arguments.
fn program(words: &[String]) -> Option<(&'static str, &[String])> {
    let mut rest = words;
    loop {
        let (first, after) = rest.split_first()?;
        let name = first.rsplit('/').next().unwrap_or(first);
        match name {
            "gunicorn" | "gunicorn3" => return Some(("gunicorn", after)),
            "uvicorn" => return Some(("uvicorn", after)),
            "hypercorn" => return Some(("hypercorn", after)),
            "puma" => return Some(("puma", after)),
            // `python -m uvicorn`, `bundle exec puma`, `env A=b puma`, `poetry run gunicorn`
            "bundle" | "exec" | "env" | "poetry" | "pipenv" | "uv" | "run" | "-m" | "nice" | "dumb-init"
            | "tini" | "--" => rest = after,
            name if name.starts_with("python") || name.contains('=') => rest = after,
            _ => return None,
        }
    }
}

/// Options of gunicorn without a value.
const GUNICORN_FLAGS: [&str; 13] = [
    "preload",
    "daemon",
    "reload",
    "capture-output",
    "check-config",
    "print-config",
    "no-sendfile",
    "spew",
    "reuse-port",
    "proxy-protocol",
    "log-syslog",
    "enable-stdio-inheritance",
    "initgroups",
];
/// Options of uvicorn and hypercorn without a value.
const UVICORN_FLAGS: [&str; 12] = [
    "reload",
    "factory",
    "proxy-headers",
    "no-proxy-headers",
    "access-log",
    "no-access-log",
    "use-colors",
    "no-use-colors",
    "server-header",
    "no-server-header",
    "date-header",
    "no-date-header",
];
const PUMA_FLAGS: [&str; 6] = ["preload", "daemon", "debug", "quiet", "early-hints", "no-config"];

const GUNICORN_SHORT: [(&str, &str); 17] = [
    ("-w", "workers"),
    ("-b", "bind"),
    ("-k", "worker-class"),
    ("-t", "timeout"),
    ("-c", "config"),
    ("-e", "env"),
    ("-u", "user"),
    ("-g", "group"),
    ("-m", "umask"),
    ("-p", "pid"),
    ("-n", "name"),
    ("-D", "daemon"),
    ("-R", "enable-stdio-inheritance"),
    ("--log-file", "error-logfile"),
    ("--access-log", "access-logfile"),
    ("--pidfile", "pid"),
    ("-q", "quiet"),
];
const PUMA_SHORT: [(&str, &str); 11] = [
    ("-w", "workers"),
    ("-b", "bind"),
    ("-t", "threads"),
    ("-p", "port"),
    ("-e", "environment"),
    ("-C", "config"),
    ("-d", "daemon"),
    ("-q", "quiet"),
    ("-S", "state"),
    ("-I", "include"),
    ("--dir", "directory"),
];

/// Converts a command line.
pub(crate) fn read(
    words: &[String],
    origin: Origin,
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let Some((server, arguments)) = program(words) else {
        return Err(Error::new(format!(
            "`{}`: the command line is not one of gunicorn, uvicorn, hypercorn or puma",
            words.join(" ")
        )));
    };
    ledger.carried(origin);
    let (flags, short): (&[&str], &[(&str, &str)]) = match server {
        "gunicorn" => (&GUNICORN_FLAGS, &GUNICORN_SHORT),
        "puma" => (&PUMA_FLAGS, &PUMA_SHORT),
        _ => (&UVICORN_FLAGS, &[("-w", "workers"), ("-b", "bind"), ("-k", "worker-class")]),
    };
    let mut options = Options { flags, short, settings: Vec::new(), positional: Vec::new(), origin };
    options.read(arguments, ledger)?;
    let Options { mut settings, positional, .. } = options;
    match server {
        "puma" => {
            for rackup in &positional {
                settings.push(("rackup".to_owned(), Setting::Text(rackup.clone()), origin));
            }
            puma(None, &settings, origin, model, ledger);
        }
        _ => {
            let host = take(&mut settings, "host");
            let port = take(&mut settings, "port");
            if let Some(uds) = take(&mut settings, "uds") {
                settings.push(("bind".to_owned(), Setting::Text(format!("unix:{}", uds.1.text())), uds.2));
            } else if host.is_some() || port.is_some() {
                let from = port.as_ref().or(host.as_ref()).map_or(origin, |found| found.2);
                let text = |found: &Option<(String, Setting, Origin)>, default: &str| {
                    found.as_ref().map_or_else(|| default.to_owned(), |found| found.1.text())
                };
                let bind = format!("{}:{}", text(&host, "127.0.0.1"), text(&port, "8000"));
                host.iter().for_each(|found| ledger.carried(found.2));
                settings.push(("bind".to_owned(), Setting::Text(bind), from));
            }
            let mut entry = positional.first().cloned();
            if let Some(factory) = take(&mut settings, "factory") {
                ledger.carried(factory.2);
                entry = entry.map(|entry| if entry.ends_with(')') { entry } else { format!("{entry}()") });
            }
            python(entry.as_deref(), &settings, origin, model, ledger);
        }
    }
    Ok(())
}

fn take(settings: &mut Settings, name: &str) -> Option<(String, Setting, Origin)> {
    let at = settings.iter().rposition(|(known, ..)| known == name)?;
    Some(settings.remove(at))
}

struct Options<'a> {
    flags: &'a [&'a str],
    short: &'a [(&'a str, &'a str)],
    settings: Settings,
    positional: Vec<String>,
    origin: Origin,
}

impl Options<'_> {
    fn read(&mut self, arguments: &[String], ledger: &mut Ledger) -> Result<(), Error> {
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if !word.starts_with('-') || word == "-" {
                self.positional.push(word.clone());
                continue;
            }
            let (option, given) = match word.split_once('=').filter(|_| word.starts_with("--")) {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => self.glued(word),
            };
            let long = self.short.iter().find(|(known, _)| *known == option).map(|(_, long)| *long);
            let name = long.unwrap_or_else(|| option.trim_start_matches('-'));
            let is_flag = self.flags.contains(&name);
            let value = match (given, is_flag) {
                (Some(value), _) => Setting::Text(value),
                (None, true) => Setting::Flag(true),
                (None, false) => match rest.next() {
                    Some(value) => Setting::Text(value.clone()),
                    None => return Err(Error::new(format!("command line: expected a value after `{word}`"))),
                },
            };
            let text = if is_flag { word.clone() } else { format!("{option} {}", value.text()) };
            let origin = ledger.open_beside(self.origin, &text);
            self.settings.push((setting_name(name), value, origin));
        }
        Ok(())
    }

    /// `-w4`
    fn glued<'w>(&self, word: &'w str) -> (&'w str, Option<String>) {
        let is_short = word.len() > 2 && !word.starts_with("--");
        match word.split_at_checked(2) {
            Some((option, value)) if is_short && self.short.iter().any(|(known, _)| *known == option) => {
                (option, Some(value.to_owned()))
            }
            _ => (word, None),
        }
    }
}

/// The name in gunicorn.conf.py and puma.rb.
fn setting_name(option: &str) -> String {
    match option {
        "preload" => "preload_app".to_owned(),
        "pid" => "pidfile".to_owned(),
        "name" => "proc_name".to_owned(),
        "keep-alive" | "timeout-keep-alive" => "keepalive".to_owned(),
        "access-logfile" | "access-log" => "accesslog".to_owned(),
        "no-access-log" => "access_log".to_owned(),
        "error-logfile" => "errorlog".to_owned(),
        "access-logformat" => "access_log_format".to_owned(),
        "log-level" => "loglevel".to_owned(),
        "limit-max-requests" => "max_requests".to_owned(),
        "timeout-graceful-shutdown" => "graceful_timeout".to_owned(),
        "ssl-certfile" => "certfile".to_owned(),
        "ssl-keyfile" => "keyfile".to_owned(),
        "ssl-ca-certs" => "ca_certs".to_owned(),
        "ssl-cert-reqs" => "cert_reqs".to_owned(),
        "limit-request-field_size" => "limit_request_field_size".to_owned(),
        "state" => "state_path".to_owned(),
        option => option.trim_start_matches("no-").replace('-', "_"),
    }
}
