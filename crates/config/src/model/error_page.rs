use std::path::PathBuf;

use super::{SplitTarget, StatusRange};

/// An item of `error_pages`: the page for some statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// One status, or a class of statuses; from 400 to 599.
    pub statuses: StatusRange,
    /// Where it comes from.
    pub source: PageSource,
}

/// Where an error page comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageSource {
    /// A file, which could be read when the configuration was checked.
    File(PathBuf),
    /// A path, and perhaps the query, of an app or upstream.
    App(SplitTarget, String),
}
