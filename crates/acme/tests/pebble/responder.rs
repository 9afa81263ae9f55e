//! The listeners of a site, as far as an authority looks at them.

use std::sync::Arc;

use keepwarm_acme::{Challenges, HTTP_PATH, TLS_PROTOCOL};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use keepwarm_tests::pebble::Pebble;

/// Responds to challenges until dropped.
pub(crate) struct Responder(Vec<JoinHandle<()>>);

impl Responder {
    pub(crate) async fn start(pebble: &Pebble, challenges: &Arc<Challenges>) -> Self {
        let mut all = Self::start_http(pebble, challenges).await;
        let listener = TcpListener::bind(("127.0.0.1", pebble.tls_port())).await.unwrap();
        all.0.push(tokio::spawn(serve_tls(listener, acceptor(challenges))));
        all
    }

    pub(crate) async fn start_http(pebble: &Pebble, challenges: &Arc<Challenges>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", pebble.http_port())).await.unwrap();
        Self::start_on(listener, None, challenges)
    }

    /// With a connection that was accepted before.
    pub(crate) fn start_on(
        listener: TcpListener,
        first: Option<TcpStream>,
        challenges: &Arc<Challenges>,
    ) -> Self {
        let challenges = Arc::clone(challenges);
        Self(vec![tokio::spawn(async move {
            if let Some(first) = first {
                let _ = respond(first, &challenges).await;
            }
            serve_http(listener, challenges).await;
        })])
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

async fn serve_http(listener: TcpListener, challenges: Arc<Challenges>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = respond(stream, &challenges).await;
    }
}

async fn respond(mut stream: TcpStream, challenges: &Challenges) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let token = head.split(' ').nth(1).and_then(|path| path.strip_prefix(HTTP_PATH)).unwrap_or_default();
    let (status, body) = match challenges.http_response(token) {
        Some(body) => ("200 OK", body.to_string()),
        None => ("404 Not Found", String::new()),
    };
    let response =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    stream.write_all(response.as_bytes()).await
}

#[derive(Debug)]
struct Resolver(Arc<Challenges>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        assert!(hello.alpn().is_some_and(|mut offered| offered.any(|one| one == TLS_PROTOCOL)));
        self.0.tls_certificate(hello.server_name()?)
    }
}

fn acceptor(challenges: &Arc<Challenges>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config =
        builder.with_no_client_auth().with_cert_resolver(Arc::new(Resolver(Arc::clone(challenges))));
    config.alpn_protocols = vec![TLS_PROTOCOL.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn serve_tls(listener: TcpListener, acceptor: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        if let Ok(mut stream) = acceptor.accept(stream).await {
            let _ = stream.shutdown().await;
        }
    }
}
