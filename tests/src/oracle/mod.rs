//! Requests with a name each, clients that record the outcome of every one, and an oracle that compares these records, the book that the application keeps and
//! the logs, and reports contradictions.
//!
//! The applications that keep such a book: `apps/trouble_app.py`, `apps/trouble.ru`, `apps/trouble_site`, `apps/trouble_app.js`.

mod evidence;
mod random;
mod requests;

pub use evidence::{Evidence, Report, Rules};
pub use random::Random;
pub use requests::{
    BodyMode, ExpectedResponse, ObservedRequest, Outcome, PlannedRequest, crc32, send_across, send_and_leave,
    send_one, send_pipelined,
};
