//! What the rest of Keepwarm works with: checked values, nothing left to look up or to doubt.
//!
//! Rules of these files: plain public fields, `PartialEq` on everything (a reload compares old and new), no
//! parsing, no spans. A value that reached one of these structs is inside its range.

mod admin;
mod app;
mod limits;
mod listen;
mod net;
mod route;
mod server;

pub use admin::{Admin, Secret};
pub use app::{App, AppKind, ProcessLimits, Program, Workers};
pub use limits::Limits;
pub use listen::{AccessLog, Listen, LogFormat};
pub use net::{Bind, Cidr};
pub use route::{
    Action, EarlyHints, HeaderRules, HostPattern, PathPattern, Redirect, RedirectPiece, Respond, Route,
};
pub use server::{Log, LogLevel, Server};

/// A whole configuration, checked.
///
/// `listens` and `apps` keep the order of the file. Every app a route names is in `apps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `[server]`: the process.
    pub server: Server,
    /// `[admin]`. `None`: nothing of the kind is served.
    pub admin: Option<Admin>,
    /// `[listen.NAME]`: at least one.
    pub listens: Vec<Listen>,
    /// `[app.NAME]`: may be empty, when every route answers or redirects.
    pub apps: Vec<App>,
}

impl Config {
    /// The app of this name.
    pub fn app(&self, name: &str) -> Option<&App> {
        self.apps.iter().find(|app| app.name == name)
    }

    /// The keys that differ in `new` and that only a new start takes up: what a reload should say it left as it was.
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
    pub fn listen(&self, name: &str) -> Option<&Listen> {
        self.listens.iter().find(|listen| listen.name == name)
    }
}
