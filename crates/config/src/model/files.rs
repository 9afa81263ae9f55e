use std::path::PathBuf;

use super::Template;

/// `files`: a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesFolder {
    /// The directory, or the fixed part of its path; it existed when the configuration was checked.
    pub path: PathBuf,
    /// The names below it that depend on the request. Empty: none.
    pub below: Vec<Template>,
}

/// How the files of a directory are served: options of `files` and `try_files`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// `index`: names that a request for a directory stands for, in order of precedence. Empty: none.
    pub index: Vec<String>,
    /// `listing`: a directory without an index is listed.
    pub listing: bool,
    /// `immutable`: names of files whose content never changes.
    pub immutable: ImmutableNames,
    /// `file_headers`: glob patterns of file names, each with headers. A later pattern replaces headers of an earlier one.
    pub headers: Vec<(String, Vec<(String, String)>)>,
}

/// `immutable`: names of files whose content never changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ImmutableNames {
    /// None.
    #[default]
    None,
    /// Those with a fingerprint: `app-3f2a91bc.js`.
    Fingerprinted,
    /// Those that match one of these glob patterns.
    Matching(Vec<String>),
}

impl Default for FileOptions {
    fn default() -> FileOptions {
        FileOptions {
            index: vec!["index.html".to_owned()],
            listing: false,
            immutable: ImmutableNames::None,
            headers: Vec::new(),
        }
    }
}
