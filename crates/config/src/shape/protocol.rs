use super::Words;
use super::parsed_string::ParsedString;
use super::value_error::ValueError;
use crate::model::{ProxyVersion, UpstreamProtocol};
use crate::nearest::suggestion;

/// `proxy_protocol` of apps and upstreams.
pub(crate) const PROXY_PROTOCOL: Words<ProxyVersion> =
    Words(&[("v1", ProxyVersion::V1), ("v2", ProxyVersion::V2)]);

/// `protocol` of an app, which has no TLS that could select one.
pub(crate) const APP_PROTOCOL: ParsedString<UpstreamProtocol> = ParsedString {
    expected: "one of \"http1\", \"http2\"",
    type_name: "one of \"http1\", \"http2\"",
    pattern: Some("^(http1|http2)$"),
    bare: None,
    read: |text| match text {
        "http1" => Ok(UpstreamProtocol::Http1),
        "http2" => Ok(UpstreamProtocol::Http2),
        other => Err(unknown_to_apps(other)),
    },
};

/// `protocol`: the protocol of calls to an upstream.
pub(crate) const PROTOCOL: ParsedString<UpstreamProtocol> = ParsedString {
    expected: "one of \"auto\", \"http1\", \"http2\"",
    type_name: "one of \"auto\", \"http1\", \"http2\"",
    pattern: Some("^(auto|http1|http2)$"),
    bare: None,
    read: |text| match text {
        "auto" => Ok(UpstreamProtocol::Auto),
        "http1" => Ok(UpstreamProtocol::Http1),
        "http2" => Ok(UpstreamProtocol::Http2),
        other => Err(unknown(other)),
    },
};

fn unknown(text: &str) -> ValueError {
    let error = ValueError::new(format!("is `{text}`"));
    match text.to_ascii_lowercase().as_str() {
        "h2" | "h2c" | "http/2" | "http/2.0" | "grpc" => {
            error.help("write \"http2\"; the scheme of the URL selects TLS or plaintext")
        }
        "h1" | "http" | "http/1" | "http/1.1" | "http1.1" => error.help("write \"http1\""),
        "https" | "tls" => {
            error.help("the scheme of the URL selects TLS: url = \"https://HOST\"; leave `protocol` out")
        }
        "h3" | "http3" | "http/3" | "quic" => {
            error.help("HTTP/3 is not supported for upstreams; write \"auto\"")
        }
        other => error.maybe_help(suggestion(other, ["auto", "http1", "http2"])),
    }
}

fn unknown_to_apps(text: &str) -> ValueError {
    let error = || ValueError::new(format!("is `{text}`"));
    match text.to_ascii_lowercase().as_str() {
        "auto" => error().help("write \"http1\" or \"http2\": in plaintext, nothing negotiates the protocol"),
        "h2" | "h2c" | "http/2" | "http/2.0" | "grpc" => {
            error().help("write \"http2\"; it is spoken in plaintext")
        }
        _ => unknown(text),
    }
}
