//! The options of `keepwarm endpoint`.

use clap::{Args, Subcommand};

use super::InstanceSelector;

#[derive(Debug, Subcommand)]
pub(crate) enum Endpoint {
    /// Take an endpoint out of use: it finishes its calls and gets no more
    ///
    /// It lasts until `keepwarm endpoint ready`, also over a reload and an upgrade, but not over a restart. The last endpoint that gets calls stays in use.
    Drain(EndpointOptions),
    /// Put a drained endpoint back into use
    Ready(EndpointOptions),
}

#[derive(Debug, Args)]
pub(crate) struct EndpointOptions {
    /// Name of the upstream in the configuration
    pub(crate) upstream: String,
    /// Address of the endpoint, as `keepwarm status` shows it
    pub(crate) endpoint: String,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}
