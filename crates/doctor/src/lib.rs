//! The doctor: what `keepwarm check URL` does.
//!
//! * [`Target`] is the server to examine, [`Settings`] how, [`Watcher`] receives the progress.
//! * [`examine`] does it: it reaches the server (`reach`), then runs each [`Probe`], and returns an [`Examination`].
//! * A probe is one file of [`probes`]: its requests, the rules that turn observations into [`Finding`]s, the fixes, and its tests.
//! * [`client`] is an HTTP/1.1 client: connections whose every byte, segment and moment can be inspected.
//! * [`report`] writes an examination as text, as JSON, or several as a table.
//!
//! It does not know the server that this workspace builds: every server is a peer here.

mod budget;
pub mod client;
mod context;
mod examine;
mod finding;
pub mod probes;
mod reach;
pub mod report;
mod server;
mod settings;
mod target;

pub use budget::{Budget, CONNECTIONS, REQUESTS_PER_SECOND};
pub use context::ProbeContext;
pub use examine::{Examination, ProbeResult, SilentWatcher, Watcher, examine};
pub use finding::{Finding, Verdict};
pub use probes::{Probe, fixes};
pub use server::Server;
pub use settings::Settings;
pub use target::{Scheme, Target, TargetError};
