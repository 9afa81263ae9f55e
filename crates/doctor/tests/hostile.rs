//! Servers that reset, hang, flood, answer garbage, redirect in circles, or fail at TLS. Whatever comes back, an examination with every probe ends soon, and says what was
//! seen.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by them")]

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
#[path = "hostile/silent.rs"]
mod silent;
#[path = "hostile/tls.rs"]
mod tls;
#[path = "hostile/unreachable.rs"]
mod unreachable;
