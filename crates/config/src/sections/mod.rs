//! The keys, section by section. What a key accepts, means and defaults to is said here and nowhere else.

mod admin;
mod app;
mod limits;
mod listen;
mod process;
mod root;
mod route;
mod server;

pub(crate) use admin::AdminDraft;
pub(crate) use listen::ListenDraft;
pub(crate) use root::{INCLUDE, ROOT, Root};
pub(crate) use route::RouteDraft;
