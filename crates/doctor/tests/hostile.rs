//! Servers that reset, hang, flood, send garbage, redirect in circles, or fail at TLS. Whatever they send, an examination with every probe ends soon, and reports
//! what it saw.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

#[path = "hostile/server.rs"]
mod server;

#[path = "hostile/cut.rs"]
mod cut;
#[path = "hostile/endless.rs"]
mod endless;
#[path = "hostile/polite.rs"]
mod polite;
#[path = "hostile/redirects.rs"]
mod redirects;
#[path = "hostile/refusals.rs"]
mod refusals;
#[path = "hostile/silent.rs"]
mod silent;
#[path = "hostile/tls.rs"]
mod tls;
#[path = "hostile/unreachable.rs"]
mod unreachable;
