//! `keepwarm.toml`: text to directives with source spans to checked values.
//!
//! Sans-IO: files and the environment come through [`Sources`]. The way through:
//!
//! 1. `raw`: what was said. TOML, placeholders, includes and variables become directives, each with its place.
//! 2. `sections`: what it means. One `Key` value per key reads its directive and documents itself; `shape` has the kinds of
//!    values.
//! 3. `check`: what no section can know of the others.
//!
//! Everything wrong is collected into one [`Report`]; a [`Config`] exists only when nothing is.

mod check;
mod checker;
mod description;
mod explain;
mod json;
mod key;
mod load;
mod model;
mod nearest;
mod php;
mod raw;
mod reference;
mod report;
mod sections;
mod shape;
mod sources;
mod target;
#[cfg(test)]
mod tests;

pub use explain::explain;
pub use load::load;
pub use model::*;
pub use reference::{json_schema, reference_markdown};
pub use report::{Location, Problem, Report, Warning};
pub use sources::{Account, Credentials, PathKind, Resource, Sources};
pub use target::Target;
