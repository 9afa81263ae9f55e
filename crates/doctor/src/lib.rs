//! The doctor: what `keepwarm check URL` does.
//!
//! * [`Target`] is what is examined, [`Settings`] how, [`Watcher`] who is told while it goes on.
//! * [`examine`] does it: it reaches the server (`reach`), then runs each [`Probe`], and gives an [`Examination`].
//! * A probe is one file of [`probes`]: what it asks, the rules by which what it saw becomes [`Finding`]s, what to do about them, and its tests.
//! * [`client`] is an HTTP/1.1 client: connections whose every byte, segment and moment can be looked at.
//! * [`report`] writes an examination as text, as JSON, or several as a table.
//!
//! It knows nothing of the server that is built in this workspace: every server is a peer here.

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
pub use probes::Probe;
pub use server::Server;
pub use settings::Settings;
pub use target::{Scheme, Target, TargetError};
