//! Fixed responses.

use keepwarm_config as config;
use keepwarm_edge::{FixedResponse, ValueEscape};

use super::Maps;
use super::template::template;

/// # Errors
/// A field that cannot be sent; the configuration has checked them before.
pub(super) fn response(respond: &config::FixedResponse, maps: &Maps) -> Result<FixedResponse, String> {
    let config::FixedResponse { status, body, content_type, headers } = respond;
    let content_type = content_type.as_deref();
    let made = match body.0.as_slice() {
        [] => FixedResponse::new(*status, content_type, headers, ""),
        [config::TemplatePiece::Text(text)] => FixedResponse::new(*status, content_type, headers, text),
        _ => {
            let body = template(body, maps);
            FixedResponse::templated(*status, content_type, headers, body, escape(content_type))
        }
    };
    made.map_err(|bad| bad.to_string())
}

/// How values are written in a body of that type.
fn escape(content_type: Option<&str>) -> ValueEscape {
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let (_, kind) = essence.split_once('/').unwrap_or_default();
    match kind {
        "html" | "xml" => ValueEscape::Html,
        "json" => ValueEscape::Json,
        _ if kind.ends_with("+xml") => ValueEscape::Html,
        _ if kind.ends_with("+json") => ValueEscape::Json,
        _ => ValueEscape::None,
    }
}
