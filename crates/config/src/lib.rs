//! `keepwarm.toml`: text to directives with source spans to checked values.
//!
//! Sans-IO: files and the environment come through [`Sources`].

mod model;
mod report;
mod sources;

pub use model::*;
pub use report::{Place, Problem, Report, Warning};
pub use sources::{Found, Sources};
