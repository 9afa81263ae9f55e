//! Requests to workers: which worker gets which request, and the exchange over the wire.
//!
//! * [`App`]: an app's workers and the requests that wait for them; [`AppHandler`] is the handler of a route.
//! * `kind`: workers that speak our wire, and those that are servers.
//! * `queue`: which worker gets which request.  `link`: writing to a worker.  `driver`: reading from it.
//! * `profile`: where requests are, as workers note it.  `leaks`: what requests leave behind, as a worker measures it.
//! * `quarantine`: which routes are refused because they kill workers.  `activity`: what each worker is doing.
//! * `conversation`: one request, on its client's task.  `call`: what that and the driver share.
//! * `refusals`: the errors that are sent in place of an app's response.
//! * `relay`: the same with a worker that is a server itself, and has its own protocol.
//!
//! A request costs a worker one read and one write. On our side: the client's task writes the REQUEST frame itself, on whatever
//! thread it is; the driver of the worker, on the thread that owns it, reads the response, at once gives the freed worker the next
//! request that waits, and wakes the client's task, which writes the response.

mod activity;
mod app;
mod call;
mod conversation;
mod driver;
mod fastcgi;
mod health;
mod kind;
mod leaks;
mod link;
mod links;
mod profile;
mod quarantine;
mod queue;
mod refusals;
mod relay;
mod request;
#[cfg(test)]
mod tests;

pub use activity::{ActiveRequest, RequestSummary, WaitingRequest, WorkerActivity};
pub use app::{App, AppHandler, AppPolicy};
pub use fastcgi::ScriptRoot;
pub use health::AppHealth;
pub use kind::WorkerKind;
pub use leaks::{LeakSearch, LeaksWorker, Measurement, Measuring, MeasuringState};
pub use links::Links;
pub use profile::{Profile, ProfileTotals, ProfiledWorker, too_old};
pub use refusals::ERROR_RESPONSES;
pub use relay::{ChildPolicy, ExternalServerStatus, Protocol, ServerPolicy};
