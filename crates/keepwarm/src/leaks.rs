//! `keepwarm leaks APP`: what a worker keeps between requests. `command` asks and prints; `session` runs in the Keepwarm that has the workers and has one of them
//! measured; `unasked` does so for an app with `leaks = true`; `request` is what one says to the other; `totals` adds up by route, and decides what is kept; `report` is for people.

mod command;
mod report;
mod request;
mod session;
mod totals;
mod unasked;

pub(crate) use command::leaks;
pub(crate) use request::{REQUESTS, SECONDS};
pub(crate) use session::respond;
pub(crate) use unasked::LeakWatch;
