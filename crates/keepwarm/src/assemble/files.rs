//! How files are served.

use keepwarm_edge::{FileField, FileOptions, ImmutableNames, NamePattern};

/// The options of `files` and `try_files`.
///
/// # Errors
/// A pattern that is too long.
pub(super) fn options(options: &keepwarm_config::FileOptions) -> Result<FileOptions, String> {
    let globs =
        |globs: &[String]| globs.iter().map(|glob| NamePattern::new(glob)).collect::<Result<Vec<_>, _>>();
    let field =
        |(name, value): &(String, String)| -> FileField { (name.as_bytes().into(), value.as_bytes().into()) };
    let headers = options.headers.iter().map(|(glob, headers)| {
        Ok::<_, String>((NamePattern::new(glob)?, headers.iter().map(field).collect()))
    });
    Ok(FileOptions {
        index: options.index.clone(),
        listing: options.listing,
        immutable: match &options.immutable {
            keepwarm_config::ImmutableNames::None => ImmutableNames::None,
            keepwarm_config::ImmutableNames::Fingerprinted => ImmutableNames::Fingerprinted,
            keepwarm_config::ImmutableNames::Matching(names) => ImmutableNames::Matching(globs(names)?),
        },
        headers: headers.collect::<Result<_, _>>()?,
    })
}
