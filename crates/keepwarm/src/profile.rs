//! `keepwarm profile APP`: where the time of an app's requests goes. `command` asks and writes the files; `session` runs in the Keepwarm that has the workers and
//! sends them signals; `request` is what one says to the other; `flame` draws.

mod command;
mod flame;
mod request;
mod session;

pub(crate) use command::profile;
pub(crate) use request::{HERTZ, SECONDS};
pub(crate) use session::respond;
