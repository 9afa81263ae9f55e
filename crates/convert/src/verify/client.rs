//! One GET on a connection of its own, over HTTP/1.1, in plaintext or TLS.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Error;

const TIMEOUT: Duration = Duration::from_secs(30);
/// A body that is longer is compared up to here.
const BODY_LIMIT: u64 = 64 << 20;

pub(super) struct Target {
    tls: bool,
    host: String,
    port: u16,
    pub(super) path: String,
    url: String,
}

pub(super) struct Response {
    pub(super) status: u16,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn values(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Whether the body can be a page that a server has made itself.
    pub(super) fn is_short_page(&self) -> bool {
        self.body.len() < 4096
    }
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Target, Error> {
        let fault =
            || Error::new(format!("`{url}` is not a URL: expected http://HOST:PORT/ or https://HOST/"));
        let (scheme, rest) = url.split_once("://").ok_or_else(fault)?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(fault()),
        };
        let (authority, path) = rest
            .split_once('/')
            .map_or((rest, "/".to_owned()), |(authority, path)| (authority, format!("/{path}")));
        let default = if tls { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| fault())?),
            _ => (authority, default),
        };
        if host.is_empty() {
            return Err(fault());
        }
        Ok(Target { tls, host: host.trim_matches(['[', ']']).to_owned(), port, path, url: url.to_owned() })
    }

    /// The value of `Host`.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let is_default = self.port == if self.tls { 443 } else { 80 };
        if is_default { host } else { format!("{host}:{}", self.port) }
    }

    pub(super) fn get(&self, path: &str, host: &str) -> Result<Response, Error> {
        self.exchange(path, host)
            .map_err(|error| Error::new(format!("{}: GET {path} failed: {error}", self.url)))
    }

    fn exchange(&self, path: &str, host: &str) -> std::io::Result<Response> {
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        let address = addresses.next().ok_or_else(|| std::io::Error::other("the host has no address"))?;
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: keepwarm-convert\r\nAccept: text/html,*/*\r\nConnection: close\r\n\r\n"
        );
        match self.tls {
            false => read(stream, &head),
            true => {
                let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned();
                let name = ServerName::try_from(name).map_err(std::io::Error::other)?;
                let connection = ClientConnection::new(config()?, name).map_err(std::io::Error::other)?;
                read(StreamOwned::new(connection, stream), &head)
            }
        }
    }
}

fn config() -> std::io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in rustls_native_certs::load_native_certs().certs {
        let _ = roots.add(certificate);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(std::io::Error::other)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn read(mut stream: impl Read + Write, head: &str) -> std::io::Result<Response> {
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
    let mut bytes = Vec::new();
    match stream.take(BODY_LIMIT).read_to_end(&mut bytes) {
        Ok(_) => {}
        // Without a close message, or by a reset behind a whole response.
        Err(_) if !bytes.is_empty() => {}
        Err(error) => return Err(error),
    }
    response(&bytes).ok_or_else(|| std::io::Error::other("the response is not HTTP"))
}

fn response(bytes: &[u8]) -> Option<Response> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(bytes.get(..end)?);
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = bytes.get(end + 4..)?;
    if (100..200).contains(&status) {
        return response(rest);
    }
    let chunked =
        headers.iter().any(|(name, value)| name == "transfer-encoding" && value.contains("chunked"));
    let body = if chunked { dechunked(rest)? } else { rest.to_vec() };
    Some(Response { status, headers, body })
}

fn dechunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let line = String::from_utf8_lossy(rest.get(..end)?);
        let length = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        rest = rest.get(end + 2..)?;
        if length == 0 {
            return Some(body);
        }
        body.extend(rest.get(..length)?);
        rest = rest.get(length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_read() {
        let plain = response(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello").unwrap();
        assert_eq!((plain.status, plain.values("a"), plain.body.as_slice()), (200, vec!["b"], &b"hello"[..]));
        let hints = response(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").unwrap();
        assert_eq!((hints.status, hints.body.as_slice()), (404, &b"abc"[..]));
        assert!(response(b"nonsense").is_none());
    }

    #[test]
    fn urls_have_hosts_and_ports() {
        for (url, authority, path) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", "/"),
            ("https://site.example/a?b", "site.example", "/a?b"),
            ("http://[::1]:81/", "[::1]:81", "/"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.authority(), target.path), (authority.to_owned(), path.to_owned()));
        }
        for wrong in ["site.example", "ftp://x/", "http://", "http://x:y/"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
