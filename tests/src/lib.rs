//! Common parts of the end-to-end tests: the real binary under test ([`Server`]), a client that works with raw bytes and keeps a transcript ([`Client`]),
//! a strict reader of responses that shares no code with Keepwarm ([`Response`]), and a view of processes ([`process`]).
//!
//! Every wait here is bounded, and every failure prints the transcript of the connection and the log of the server.

pub mod admin;
mod binary;
pub mod calling_app;
pub mod certificates;
pub mod classic;
mod client;
pub mod content;
pub mod daemon;
pub mod events;
pub mod http2;
pub mod load;
pub mod name_server;
pub mod oracle;
pub mod origin;
pub mod otlp;
pub mod pebble;
pub mod process;
pub mod process_mark;
pub mod recipe;
mod response;
mod server;
pub mod service;
pub mod shared;
pub mod terminal;
pub mod tools;
pub mod websocket;

pub use binary::{apps, examples, keepwarm, keepwarm_faulty, python, root};
pub use client::{BOUND, Client, Failure, get, get_local};
pub use response::{Framing, Response};
pub use server::{ASGI, FASTCGI, PHP, RACK, Server, WSGI};
