//! An authority of the tests, the certificates it signs, and a client that speaks TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa,
    KeyIdMethod, KeyPair, RevokedCertParams,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use crate::BOUND;

/// An authority of its own.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub struct Identity {
    pub cert: String,
    pub key: String,
    der: CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Default for Authority {
    fn default() -> Self {
        Self::named("an authority of a test")
    }
}

impl Authority {
    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn identity(&self, names: &[&str]) -> Identity {
        self.identity_with(names, |_| {})
    }

    pub fn identity_with(&self, names: &[&str], adjust: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        adjust(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity {
            cert: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
            key_der: key.serialize_der(),
        }
    }

    /// Its list of revoked certificates, by their serial numbers, in PEM; good until then.
    pub fn revoked(&self, serials: &[u64], until: SystemTime) -> String {
        let start = SystemTime::now() - Duration::from_secs(3600);
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: start.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: start.into(),
            next_update: until.into(),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }

    /// The settings of a client that trusts only this authority.
    pub fn client(&self, identity: Option<&Identity>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(it) => {
                let key = PrivateKeyDer::try_from(it.key_der.clone()).unwrap();
                builder.with_client_auth_cert(vec![it.der.clone()], key).unwrap()
            }
        };
        config.resumption = Resumption::disabled();
        config
    }
}

impl Identity {
    /// Writes `NAME.pem` and `NAME.key` into a directory.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (cert, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        std::fs::write(&cert, &self.cert).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        (cert, key)
    }
}

/// A connection under TLS.
pub struct TlsClient(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Makes a session for a host name.
    ///
    /// # Errors
    /// The handshake failed.
    pub fn connect(address: SocketAddr, name: &str, config: ClientConfig) -> std::io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = TcpStream::connect_timeout(&address, BOUND)?;
        socket.set_read_timeout(Some(BOUND))?;
        socket.set_write_timeout(Some(BOUND))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self(StreamOwned::new(session, socket)))
    }

    /// The first certificate of the server.
    pub fn certificate(&self) -> Vec<u8> {
        self.0.conn.peer_certificates().unwrap()[0].to_vec()
    }

    pub fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub fn session(&mut self) -> &mut ClientConnection {
        &mut self.0.conn
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.0.write_all(bytes.as_ref())?;
        self.0.flush()
    }

    /// A request with `Content-Length` in its response: status, and head with body.
    ///
    /// # Errors
    /// The connection ended, or nothing came.
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> std::io::Result<(u16, String)> {
        self.send(request)?;
        let mut text = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(head) = text.windows(4).position(|four| four == b"\r\n\r\n") {
                let length = content_length(&String::from_utf8_lossy(&text[..head]));
                if text.len() >= head + 4 + length {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    let status = text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
                    return Ok((status, text));
                }
            }
            match self.0.read(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                got => text.extend_from_slice(&buffer[..got]),
            }
        }
    }

    /// Everything up to the end of the stream, which must be announced by a close_notify.
    ///
    /// # Errors
    /// The connection ended otherwise.
    pub fn read_to_end(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.0.read_to_end(&mut all)?;
        Ok(all)
    }

    pub fn set_read_timeout(&self, timeout: Duration) {
        self.0.sock.set_read_timeout(Some(timeout)).unwrap();
    }
}

fn content_length(head: &str) -> usize {
    let field = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    field.unwrap_or(0)
}

/// A port in plaintext in front of one with TLS, so that a client of raw bytes speaks TLS.
pub struct TlsRelay(SocketAddr);

impl TlsRelay {
    /// Ends with the process of the test.
    pub fn start(to: SocketAddr, name: &'static str, config: ClientConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for plain in listener.incoming() {
                let config = config.clone();
                std::thread::spawn(move || {
                    // An error is the end of the connection, which the client sees.
                    let _ = relay(&mut plain?, TlsClient::connect(to, name, config)?);
                    Ok::<(), std::io::Error>(())
                });
            }
        });
        Self(address)
    }

    pub fn address(&self) -> SocketAddr {
        self.0
    }
}

/// Passes bytes both ways until both sides have ended.
fn relay(plain: &mut TcpStream, tls: TlsClient) -> std::io::Result<()> {
    let StreamOwned { mut conn, mut sock } = tls.0;
    plain.set_nonblocking(true)?;
    sock.set_nonblocking(true)?;
    let mut buffer = [0; 16 * 1024];
    let (mut client_open, mut server_open) = (true, true);
    let mut to_client: Vec<u8> = Vec::new();
    while client_open || server_open || !to_client.is_empty() {
        let mut wanted = [PollFlags::empty(); 2];
        if client_open && !conn.wants_write() {
            wanted[0] |= PollFlags::IN;
        }
        if !to_client.is_empty() {
            wanted[0] |= PollFlags::OUT;
        } else if server_open {
            wanted[1] |= PollFlags::IN;
        }
        if conn.wants_write() {
            wanted[1] |= PollFlags::OUT;
        }
        let mut fds = [PollFd::new(&*plain, wanted[0]), PollFd::new(&sock, wanted[1])];
        poll(&mut fds, None)?;
        let [of_client, of_server] = fds.map(|fd| fd.revents());
        if of_client.contains(PollFlags::IN) {
            match plain.read(&mut buffer)? {
                0 => {
                    client_open = false;
                    conn.send_close_notify();
                }
                got => conn.writer().write_all(&buffer[..got])?,
            }
        }
        if of_server.contains(PollFlags::IN) {
            if conn.read_tls(&mut sock)? == 0 {
                server_open = false;
            }
            let state = conn.process_new_packets().map_err(std::io::Error::other)?;
            let mut got = vec![0; state.plaintext_bytes_to_read()];
            conn.reader().read_exact(&mut got)?;
            to_client.extend(got);
            server_open &= !state.peer_has_closed();
            if !server_open && to_client.is_empty() {
                plain.shutdown(Shutdown::Write)?;
            }
        }
        if of_server.contains(PollFlags::OUT) {
            conn.write_tls(&mut sock)?;
        }
        if of_client.contains(PollFlags::OUT) {
            let count = plain.write(&to_client)?;
            to_client.drain(..count);
            if to_client.is_empty() && !server_open {
                plain.shutdown(Shutdown::Write)?;
            }
        }
        if of_client.contains(PollFlags::ERR) || of_server.contains(PollFlags::ERR) {
            return Ok(());
        }
    }
    Ok(())
}
