//! Compression of responses.

use std::sync::Arc;

use keepwarm_config::ContentCoding;
use keepwarm_policy::compression::{Coding, CompressionLevel, CompressionRules, MediaTypes};
use keepwarm_serve::Compression;

/// How a route compresses responses, if it does.
///
/// # Errors
/// A media type that is none; the configuration has checked them before.
pub(super) fn of(route: &keepwarm_config::Route) -> Result<Option<Arc<Compression>>, String> {
    let Some(settings) = &route.compression else { return Ok(None) };
    let coding = |coding: &ContentCoding| match coding {
        ContentCoding::Zstd => Coding::Zstd,
        ContentCoding::Brotli => Coding::Brotli,
        ContentCoding::Gzip => Coding::Gzip,
    };
    let rules = CompressionRules {
        codings: settings.codings.iter().map(coding).collect(),
        level: match settings.level {
            keepwarm_config::CompressionLevel::Fast => CompressionLevel::Fast,
            keepwarm_config::CompressionLevel::Balanced => CompressionLevel::Balanced,
            keepwarm_config::CompressionLevel::Small => CompressionLevel::Small,
        },
        min_size: settings.min_size,
        types: match &settings.types {
            Some(types) => {
                let types = MediaTypes::new(types.iter().map(String::as_str));
                types.map_err(|invalid| format!("`types` of `compress` {invalid}"))?
            }
            None => MediaTypes::default(),
        },
        set_cookie: settings.set_cookie,
    };
    Ok(Some(Arc::new(Compression { rules })))
}
