//! The HTTP client for authorities: a connection for each request, since an order makes a dozen of them in two months.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::AcmeError;
use crate::settings::Authority;

/// For a whole request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest response that is read.
const MOST: usize = 1024 * 1024;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A client for one authority.
#[derive(Clone)]
pub(crate) struct Client {
    tls: TlsConnector,
    /// `Retry-After` of the last error response.
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl Client {
    /// Reads the certificates of the trusted authorities.
    pub(crate) fn new(authority: &Authority) -> Result<Self, AcmeError> {
        Ok(Self { tls: connector(authority.ca.as_deref())?, retry_after: Arc::default() })
    }

    /// The `Retry-After` of the last error response, once.
    pub(crate) fn take_retry_after(&self) -> Option<Duration> {
        self.retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn send(self, request: Request<Full<Bytes>>) -> Result<BytesResponse, Failure> {
        let uri = request.uri().clone();
        if uri.scheme_str() != Some("https") {
            return Err(format!("{uri} is not an https:// URL").into());
        }
        let stream = encrypt(&self.tls, connect(&uri).await?, &uri).await?;
        let response = exchange(stream, request, read).await??;
        if !response.status().is_success() {
            let told = retry_after(response.headers());
            *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = told;
        }
        Ok(BytesResponse::from(response))
    }
}

/// A connection to the host of a URL.
pub(crate) async fn connect(uri: &Uri) -> Result<TcpStream, Failure> {
    let (host, port) = (host(uri)?, if uri.scheme_str() == Some("http") { 80 } else { 443 });
    TcpStream::connect((host, uri.port_u16().unwrap_or(port)))
        .await
        .map_err(|error| format!("cannot connect to {host}: {error}").into())
}

/// TLS over it.
pub(crate) async fn encrypt(
    tls: &TlsConnector,
    stream: TcpStream,
    uri: &Uri,
) -> Result<TlsStream<TcpStream>, Failure> {
    let host = host(uri)?;
    let name = ServerName::try_from(host.to_owned())?;
    tls.connect(name, stream).await.map_err(|error| format!("TLS with {host} failed: {error}").into())
}

fn host(uri: &Uri) -> Result<&str, Failure> {
    Ok(uri.host().ok_or("a URL without a host")?.trim_matches(['[', ']']))
}

/// One request, and what `read` takes of its response, over a connection that is closed then.
pub(crate) async fn exchange<S, R, F>(
    stream: S,
    request: Request<Full<Bytes>>,
    read: R,
) -> Result<F::Output, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    R: FnOnce(Response<Incoming>) -> F,
    F: Future,
{
    let uri = request.uri().clone();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let response = match sender.send_request(origin_form(request, &uri)?).await {
        Ok(response) => Ok(read(response).await),
        Err(error) => Err(error.into()),
    };
    driver.abort();
    response
}

/// TLS that trusts the authorities in a file; `None`: those of the system.
pub(crate) fn connector(ca: Option<&Path>) -> Result<TlsConnector, AcmeError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => add_file(&mut roots, file)?,
        None => {
            for certificate in rustls_native_certs::load_native_certs().certs {
                // Systems carry certificates that nobody can use; the others count.
                let _ = roots.add(certificate);
            }
        }
    }
    if roots.is_empty() {
        return Err(AcmeError::new(
            "no_roots",
            "this machine has no certificates of trusted authorities; install its package ca-certificates, or set acme.ca",
        ));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| AcmeError::new("tls", error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), AcmeError> {
    let wrong = |error: String| AcmeError::new("ca", format!("acme.ca: {}: {error}", file.display()));
    let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("it has no certificate in it".to_owned())),
        false => Ok(()),
    }
}

fn origin_form(mut request: Request<Full<Bytes>>, uri: &Uri) -> Result<Request<Full<Bytes>>, Failure> {
    let authority = uri.authority().ok_or("a URL without a host")?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority.as_str())?);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
    *request.uri_mut() = uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    Ok(request)
}

/// Authorities ask clients to name themselves (RFC 8555 §6.1).
const AGENT: &str = concat!("keepwarm/", env!("CARGO_PKG_VERSION"), " instant-acme");

async fn read(response: Response<Incoming>) -> Result<Response<Full<Bytes>>, Failure> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, MOST).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, Full::new(body)))
}

/// In seconds, or as a date (RFC 9110 §10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(std::time::SystemTime::now()).ok(),
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let exchange = async {
                let body =
                    body.collect().await.map_err(|error| -> Failure { format!("{error:?}").into() })?;
                client.send(Request::from_parts(parts, Full::new(body.to_bytes()))).await
            };
            match timeout(TIMEOUT, exchange).await {
                Ok(response) => response.map_err(instant_acme::Error::Other),
                Err(_) => Err(instant_acme::Error::Other("the authority did not respond within 30 s".into())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(of("soon"), None);
        let later = std::time::SystemTime::now() + Duration::from_secs(3600);
        let told = of(&httpdate::fmt_http_date(later)).unwrap();
        assert!(told > Duration::from_secs(3590) && told <= Duration::from_secs(3600), "{told:?}");
    }
}
