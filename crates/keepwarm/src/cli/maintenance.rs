//! The options of `keepwarm maintenance`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::InstanceSelector;

#[derive(Debug, Subcommand)]
pub(crate) enum Maintenance {
    /// Respond with 503 to new requests; requests in progress finish
    ///
    /// It lasts until `keepwarm maintenance off`, also over a reload and an upgrade, but not over a restart.
    On(Box<MaintenanceOn>),
    /// Serve again; without --app and --listener, end all maintenance
    Off {
        #[command(flatten)]
        subject: MaintenanceSubject,
        #[command(flatten)]
        selector: InstanceSelector,
    },
}

#[derive(Debug, Args)]
pub(crate) struct MaintenanceOn {
    #[command(flatten)]
    pub(crate) subject: MaintenanceSubject,
    /// Sentence for visitors
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// File to send as the page; it is read once
    #[arg(long, value_name = "FILE", conflicts_with = "message")]
    pub(crate) page: Option<PathBuf>,
    /// Address, or block of addresses, whose clients are served; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) allow: Vec<String>,
    /// Seconds after which clients should retry (`Retry-After`)
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) retry_after: u32,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

/// What is under maintenance.
#[derive(Debug, Args)]
pub(crate) struct MaintenanceSubject {
    /// Only the routes that lead to this app
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Only the routes of this listener
    #[arg(long, value_name = "NAME", conflicts_with = "app")]
    pub(crate) listener: Option<String>,
}
