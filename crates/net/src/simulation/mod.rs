//! Sockets without a kernel: the deterministic simulation's world.
//!
//! With the feature `simulation`, which no shipped binary has, the module `socket` of this directory replaces the real one, and everything above it
//! runs unchanged over pipes in memory: on one thread, in virtual time (tokio's paused clock), from one seed. `simulation/` of the repository drives it.
//!
//! The model is what Linux promises, and no more: bytes arrive in pieces of any size; a read gives all that is here, up to its room; a write takes
//! part of what it is given; readiness is reported by edges, some time after the fact, also where nothing is ready; a registration learns the present state by an
//! event; a close over unread bytes is a reset; calls fail for want of memory or descriptors.
//!
//! * [`kernel`]: the world of a thread, and the reactor that lets its events happen; [`events`]: what each does; [`file`]: sockets and registrations.
//! * [`socket`]: the calls of the data plane.  [`bound`]: its listening sockets.
//! * [`disk`]: files that spools use, and the threads that may block.
//! * [`peer`]: the other end, for scripts.  [`thread`]: several data-plane threads on one.

pub(crate) mod bound;
pub mod disk;
mod events;
mod file;
mod kernel;
mod peer;
mod rng;
mod settings;
pub mod socket;
mod thread;

pub use disk::put_file;
pub use kernel::{Reactor, describe, next_number, random, refuse_watches, reset, settings, totals, turn};
pub use peer::{Peer, PeerListener, connect, listen, pair};
pub use rng::Rng;
pub use settings::{Faults, Settings, Totals};
pub use thread::{ThreadTask, on_thread};
