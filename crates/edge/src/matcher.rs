//! What routes match besides host, path and method, and the patterns of all of it.

mod conditions;
mod glob;
mod pattern_set;
mod regular_expression;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use conditions::{BareRequest, RequestView};
pub use conditions::{Conditions, ValueCondition};
pub use glob::Glob;
pub use pattern_set::PatternSet;
pub use regular_expression::RegularExpression;
pub use values::ValuePattern;
pub(crate) use values::{arguments, cookies};
