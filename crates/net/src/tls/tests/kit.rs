//! Certificates, and servers that speak TLS.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion,
};

use crate::{CaSource, ClientTls, Endpoint, Pem, TlsSettings, TlsVersion};

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Authorities with one name would be told apart by their signatures only.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("authority {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(crate) fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { cert, key: key.serialize_pem() }
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        self.sign(&CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    /// Settings of a client that trusts only this authority.
    pub(crate) fn settings(&self, server_name: &str) -> TlsSettings {
        TlsSettings {
            server_name: server_name.to_owned(),
            ca: CaSource::Only(pem("ca.pem", &self.pem)),
            identity: None,
            min_version: TlsVersion::Tls12,
            alpn: vec![b"http/1.1".to_vec()],
        }
    }

    /// The same for rustls itself, with these versions.
    pub(crate) fn client_config(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols.push(b"http/1.1".to_vec());
        config
    }

    pub(crate) fn client(&self, server_name: &str) -> Arc<ClientTls> {
        ClientTls::new(&self.settings(server_name)).unwrap()
    }
}

pub(crate) fn pem(file: &str, text: &str) -> Pem {
    Pem { file: file.into(), text: text.as_bytes().to_vec() }
}

pub(crate) const V12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
pub(crate) const V13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

pub(crate) fn server(identity: &Identity, versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth();
    let mut config = builder.with_single_cert(chain(&identity.cert), key(&identity.key)).unwrap();
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    config
}

pub(crate) fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
}

pub(crate) fn key(pem: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()
}

pub(crate) type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A server of the test's own, on a thread for each connection.
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// `serve` is given each connection.
pub(crate) fn start(config: ServerConfig, serve: impl Fn(Stream) + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (config, serve) = (Arc::new(config), Arc::new(serve));
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::Relaxed);
            let (config, serve) = (Arc::clone(&config), Arc::clone(&serve));
            let connection = ServerConnection::new(config).unwrap();
            std::thread::spawn(move || serve(StreamOwned::new(connection, stream.unwrap())));
        }
    });
    Server { endpoint: Endpoint::Tcp(address), connections }
}

/// Reads a head; `None`: the client has gone.
pub(crate) fn read_head(stream: &mut Stream) -> Option<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1..) => text.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8(text).unwrap())
}

/// Responds to every request.
pub(crate) fn responding(response: &'static str) -> impl Fn(Stream) + Send + Sync + 'static {
    move |mut stream| {
        while read_head(&mut stream).is_some() {
            stream.write_all(response.as_bytes()).unwrap();
        }
    }
}

/// Ends the server's side as TLS has it.
pub(crate) fn close_notify(stream: &mut Stream) {
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}
