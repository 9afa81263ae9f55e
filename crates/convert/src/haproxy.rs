//! HAProxy: frontends become sites, backends upstreams.

mod backend;
mod frontend;
mod section;

use std::path::PathBuf;

use self::section::{Section, read as sections};
use crate::Error;
use crate::files::Files;
use crate::ledger::Ledger;
use crate::model::Model;
use crate::table::Table;

const SOCKETS: &str = "Keepwarm's own settings apply";

pub(crate) fn read(
    paths: &[PathBuf],
    files: &Files,
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let mut all = Vec::new();
    for path in paths {
        let (text, shown) = (files.read(path)?, files.shown(path));
        all.extend(sections(&text, &shown, ledger)?);
    }
    let has_http =
        all.iter().any(|section| matches!(section.kind.as_str(), "frontend" | "listen" | "backend"));
    if !has_http {
        let names: Vec<String> = paths.iter().map(|path| files.shown(path)).collect();
        return Err(Error::new(format!(
            "{}: there is no frontend, listen or backend, so there is nothing to serve",
            names.join(", ")
        )));
    }
    let mut reader = Reader { sections: &all, files, model, ledger, endings: Vec::new() };
    for section in &all {
        match section.kind.as_str() {
            "global" => reader.global(section),
            "defaults" => reader.ledger.carried(section.origin),
            "frontend" | "listen" => reader.frontend(section),
            "backend" => {}
            "userlist" => reader.drop_section(
                section,
                "users are in a file of bcrypt or argon2 hashes",
                "set `basic_auth` of the routes: keepwarm hash-password",
            ),
            "resolvers" | "peers" | "mailers" | "program" | "http-errors" | "ring" | "log-forward"
            | "cache" | "fcgi-app" | "crt-store" => {
                let is_grave = section.kind == "fcgi-app";
                match is_grave {
                    true => reader.drop_section(
                        section,
                        "it has no counterpart",
                        "write an `[app.NAME]` with kind = \"fastcgi\"",
                    ),
                    false => {
                        reader.ignore_section(section, "it has no counterpart, and no effect on requests")
                    }
                }
            }
            _ => reader.drop_section(section, "it is not known", "find out what it does"),
        }
    }
    for section in all.iter().filter(|section| section.kind == "backend") {
        if reader.ledger.is_settled(section.origin) {
            continue;
        }
        let name = reader.backend(&section.name);
        if name.is_none() {
            reader.ignore_section(section, "no frontend leads to it");
        }
    }
    reader.rest(&all);
    Ok(())
}

struct Reader<'a> {
    sections: &'a [Section],
    files: &'a Files,
    model: &'a mut Model,
    ledger: &'a mut Ledger,
    /// Upstreams whose backends' rules are being followed, with what applies to all requests to them.
    endings: Vec<(String, Table)>,
}

impl<'a> Reader<'a> {
    fn global(&mut self, section: &Section) {
        self.ledger.carried(section.origin);
        for line in &section.lines {
            match line.word(0) {
                "maxconn" => match line.word(1).parse::<i64>() {
                    Ok(number) if number > 0 => {
                        self.model.server.set_in(&["limits"], "connections", number, line.origin)
                    }
                    _ => self.ledger.ignored(line.origin, SOCKETS),
                },
                "chroot" => self.ledger.differs(
                    line.origin,
                    "Keepwarm does not change its root: confine the service by systemd (`RootDirectory=`)",
                ),
                "ssl-default-bind-options"
                | "ssl-default-bind-ciphers"
                | "ssl-default-bind-ciphersuites"
                | "ssl-default-server-options"
                | "ssl-default-server-ciphers"
                | "ssl-default-bind-curves" => {
                    self.ledger.differs(line.origin, "TLS settings are those of `tls.profile`");
                }
                "lua-load" | "lua-load-per-thread" => self.ledger.lost(
                    line.origin,
                    "programs in the configuration are not run",
                    "move it into the app, or into a service for `auth_request`",
                ),
                "user" | "group" => {
                    self.ledger.ignored(line.origin, "Keepwarm keeps the user that it was started as")
                }
                _ => self.ledger.ignored(line.origin, "processes and their limits are Keepwarm's own"),
            }
        }
    }

    fn drop_section(&mut self, section: &Section, why: &str, todo: &str) {
        self.ledger.lost(section.origin, why, todo);
        for line in &section.lines {
            self.ledger.ignored(line.origin, "a part of a section that is not converted");
        }
    }

    fn ignore_section(&mut self, section: &Section, why: &str) {
        self.ledger.ignored(section.origin, why);
        for line in &section.lines {
            if !self.ledger.is_settled(line.origin) {
                self.ledger.ignored(line.origin, why);
            }
        }
    }

    /// Lines that are known, and that nothing has looked at.
    fn rest(&mut self, all: &[Section]) {
        for line in all.iter().flat_map(|section| &section.lines) {
            if self.ledger.is_settled(line.origin) {
                continue;
            }
            match line.word(0) {
                "mode" if line.word(1) == "http" => self.ledger.carried(line.origin),
                "log"
                | "option"
                | "log-format"
                | "log-tag"
                | "errorfile"
                | "description"
                | "id"
                | "maxconn"
                | "fullconn"
                | "retries"
                | "timeout"
                | "balance"
                | "unique-id-format"
                | "unique-id-header"
                | "hash-type"
                | "capture"
                | "rate-limit"
                | "backlog"
                | "default-server"
                | "monitor-uri"
                | "compression"
                | "http-reuse"
                | "mode"
                | "option-httplog"
                | "load-server-state-from-file"
                | "tcp-check"
                | "disabled"
                | "enabled"
                | "dispatch"
                | "retry-on"
                | "cookie"
                | "acl" => {
                    self.ledger.ignored(line.origin, "nothing that was converted is affected by it");
                }
                _ => {}
            }
        }
    }
}
