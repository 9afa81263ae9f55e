//! `keepwarm.toml`: text to directives with spans to checked values.
//!
//! Sans-IO: files and the environment come through [`Sources`]. A module uses only those before it:
//!
//! 1. `sources`, `model`, `report`: what comes in, the checked values, and problems.
//! 2. `raw`: TOML, placeholders, includes and variables become directives with spans.
//! 3. `description`, `checker`, `key`: the documentation of a key, the state of a check, the definition of a key.
//! 4. `shape`: the kinds of values.
//! 5. `sections`: one `Key` value per key, which reads its directive and has its documentation.
//! 6. `check`, `load`, `target`: checks that involve several sections, and the way from a file or a command line.
//!    `explain`, `reference`: the documentation of all keys.
//!
//! All problems are collected into one [`Report`]; a [`Config`] exists only if there are none.

mod check;
mod checker;
mod description;
mod explain;
mod folder;
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
pub use nearest::suggestion;
pub use reference::{json_schema, reference_markdown};
pub use report::{Location, Problem, Report, Warning};
pub use sources::{Account, CertificateFault, CertificateSummary, Credentials, PathKind, Resource, Sources};
pub use target::Target;
