use std::path::PathBuf;

use super::StatusRange;

/// An item of `error_pages`: the page for some statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// One status, or a class of statuses; from 400 to 599.
    pub statuses: StatusRange,
    /// The file. It could be read when the configuration was checked.
    pub file: PathBuf,
}
