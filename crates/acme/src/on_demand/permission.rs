//! The service that is asked whether a name may have a certificate.

use std::time::Duration;

use http::{Request, StatusCode, Uri};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::client::{self, Failure};
use crate::error::chain;

/// For a whole question. A client waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What the service says about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PermissionAnswer {
    /// 2xx
    Yes,
    /// Any other status but those of [`PermissionAnswer::Unavailable`].
    No(u16),
    /// No response, 429 or 5xx: it says nothing about the name.
    Unavailable(String),
}

/// The service.
pub(crate) struct Permission {
    url: String,
    tls: OnceCell<TlsConnector>,
}

impl Permission {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), tls: OnceCell::new() }
    }

    /// Asks about a DNS name.
    pub(crate) async fn ask(&self, name: &str) -> PermissionAnswer {
        match timeout(TIMEOUT, self.status(name)).await {
            Ok(Ok(status)) => answer(status, &self.url),
            Ok(Err(error)) => PermissionAnswer::Unavailable(format!("{}: {}", self.url, chain(&*error))),
            Err(_) => {
                PermissionAnswer::Unavailable(format!("{} did not respond within {TIMEOUT:?}", self.url))
            }
        }
    }

    async fn status(&self, name: &str) -> Result<StatusCode, Failure> {
        let uri: Uri = question(&self.url, name).parse()?;
        let request = Request::get(uri.clone()).body(http_body_util::Full::default())?;
        let stream = client::connect(&uri).await?;
        let response = match uri.scheme_str() {
            Some("http") => client::exchange(stream, request, std::future::ready).await?,
            _ => {
                let tls = self.tls.get_or_try_init(connector).await?;
                let stream = client::encrypt(tls, stream, &uri).await?;
                client::exchange(stream, request, std::future::ready).await?
            }
        };
        Ok(response.status())
    }
}

async fn connector() -> Result<TlsConnector, Failure> {
    Ok(tokio::task::spawn_blocking(|| client::connector(None)).await??)
}

/// The name needs no escaping: it has letters, digits, hyphens and dots.
fn question(url: &str, name: &str) -> String {
    let url = url.split('#').next().unwrap_or(url);
    let join = match url.split_once('?') {
        None => "?",
        Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
        Some(_) => "&",
    };
    format!("{url}{join}domain={name}")
}

fn answer(status: StatusCode, url: &str) -> PermissionAnswer {
    match status {
        _ if status.is_success() => PermissionAnswer::Yes,
        _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            PermissionAnswer::Unavailable(format!("{url} responded with {status}"))
        }
        _ => PermissionAnswer::No(status.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_one_more_parameter() {
        for (url, expected) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:1?domain=a.test"),
            ("http://127.0.0.1:1/ask", "http://127.0.0.1:1/ask?domain=a.test"),
            ("http://127.0.0.1:1/ask?", "http://127.0.0.1:1/ask?domain=a.test"),
            ("http://127.0.0.1:1/ask?key=1", "http://127.0.0.1:1/ask?key=1&domain=a.test"),
            ("http://127.0.0.1:1/ask?key=1&", "http://127.0.0.1:1/ask?key=1&domain=a.test"),
            ("https://ask.test/#x", "https://ask.test/?domain=a.test"),
        ] {
            assert_eq!(question(url, "a.test"), expected);
            assert!(question(url, "a.test").parse::<Uri>().is_ok());
        }
    }

    #[test]
    fn only_2xx_is_yes_and_a_broken_service_says_nothing() {
        let of = |status: u16| answer(StatusCode::from_u16(status).unwrap(), "http://ask.test");
        for status in [200, 201, 204, 299] {
            assert_eq!(of(status), PermissionAnswer::Yes, "{status}");
        }
        for status in [301, 302, 400, 401, 403, 404, 410] {
            assert_eq!(of(status), PermissionAnswer::No(status), "{status}");
        }
        for status in [429, 500, 502, 503, 504] {
            assert!(matches!(of(status), PermissionAnswer::Unavailable(_)), "{status}");
        }
    }
}
