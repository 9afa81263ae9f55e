//! The target of an examination: a URL, parsed.

use std::fmt;
use std::path::PathBuf;

use http::Uri;

/// The server and the resource that are examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// With or without TLS.
    pub scheme: Scheme,
    /// A name, or an address without brackets.
    pub host: String,
    /// The port, given or of the scheme.
    pub port: u16,
    /// The path and the query, as they go into a request: begins with `/`.
    pub path: String,
    /// The socket of this machine on which the server listens, in place of an address.
    pub socket: Option<PathBuf>,
}

/// How a URL begins that names a socket of this machine; `http://` may stand before it.
const SOCKET: &str = "unix:";

/// The `Host` for a socket of this machine: the same, more or less, as from `curl --unix-socket` and nginx.
const SOCKET_HOST: &str = "localhost";

/// A scheme of URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

/// Why a text is not a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetError(String);

impl Target {
    /// From a URL such as `https://shop.example/cart?full=1`, or, for a server that listens on a socket of this machine, from `unix:/run/app.sock` or
    /// `unix:/run/app.sock:/cart?full=1`, which is how nginx writes it.
    ///
    /// # Errors
    /// The fault of the text, and what was expected.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if let Some(socket) = text.strip_prefix("http://").unwrap_or(text).strip_prefix(SOCKET) {
            return Self::on_socket(text, socket);
        }
        let refuse = |why: &str| Err(TargetError(format!("{text:?}: {why}")));
        let Some((scheme, _)) = text.split_once("://") else {
            return refuse(&format!(
                "expected a URL that begins with http:// or https://, for example http://{text}"
            ));
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => return refuse(&format!("unknown scheme {other}; use http or https")),
        };
        // A fragment never leaves the client (RFC 9110 §7.1).
        let sent = text.split('#').next().unwrap_or_default();
        let Ok(uri) = sent.parse::<Uri>() else {
            return refuse("not a valid URL");
        };
        let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
            return refuse("it has no host");
        };
        if authority.as_str().contains('@') {
            return refuse("a URL must not contain a user or password; pass --header 'Authorization: …'");
        }
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str().ends_with(authority.host()) => scheme.default_port(),
            None => return refuse("the port is not a number from 1 to 65535"),
        };
        if port == 0 {
            return refuse("the port is not a number from 1 to 65535");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { scheme, host, port, path: path_of(&uri), socket: None })
    }

    fn on_socket(text: &str, socket: &str) -> Result<Self, TargetError> {
        let refuse = |why: &str| Err(TargetError(format!("{text:?}: {why}")));
        let (socket, path) = match socket.split_once(":/") {
            Some((socket, path)) => (socket, format!("/{path}")),
            None => (socket, "/".to_owned()),
        };
        if !socket.starts_with('/') {
            return refuse("expected the full path of the socket, for example unix:/run/app.sock");
        }
        let sent = path.split('#').next().unwrap_or_default();
        let Ok(uri) = format!("http://{SOCKET_HOST}{sent}").parse::<Uri>() else {
            return refuse("the part after the socket is not a valid path");
        };
        Ok(Self {
            scheme: Scheme::Http,
            host: SOCKET_HOST.to_owned(),
            port: Scheme::Http.default_port(),
            path: path_of(&uri),
            socket: Some(PathBuf::from(socket)),
        })
    }

    /// Another resource of the same server.
    ///
    /// # Errors
    /// It is not a valid path.
    pub fn with_path(&self, path: &str) -> Result<Self, TargetError> {
        let sent = path.split('#').next().unwrap_or_default();
        match format!("http://{SOCKET_HOST}{sent}").parse::<Uri>() {
            Ok(uri) if uri.host() == Some(SOCKET_HOST) => Ok(Self { path: path_of(&uri), ..self.clone() }),
            _ => Err(TargetError(format!("{path:?}: not a valid path"))),
        }
    }

    /// Whether both are resources of the same server, by their URLs.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port, &self.socket)
            == (other.scheme, &other.host, other.port, &other.socket)
    }

    /// The `Host`: the host, bracketed if it is an IPv6 address, and the port unless it is that of the scheme (RFC 9110 §7.2).
    #[must_use]
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port == self.scheme.default_port() {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::Https
    }
}

/// The path and the query of a URL, as they go into a request.
fn path_of(uri: &Uri) -> String {
    match uri.path_and_query().map_or("/", |path| path.as_str()) {
        "" => "/".to_owned(),
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(socket) = &self.socket {
            return write!(f, "{SOCKET}{}:{}", socket.display(), self.path);
        }
        write!(f, "{}://{}{}", self.scheme.name(), self.authority(), self.path)
    }
}

impl Scheme {
    /// As it stands in a URL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TargetError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (text, shown, authority) in [
            ("http://shop.example", "http://shop.example/", "shop.example"),
            ("HTTPS://shop.example:443/a?b=c#d", "https://shop.example/a?b=c", "shop.example"),
            ("http://[::1]:8080?x", "http://[::1]:8080/?x", "[::1]:8080"),
            ("http://127.0.0.1:80/", "http://127.0.0.1/", "127.0.0.1"),
            ("unix:/run/app.sock", "unix:/run/app.sock:/", "localhost"),
            ("http://unix:/run/app.sock:/a?b#c", "unix:/run/app.sock:/a?b", "localhost"),
        ] {
            let target = Target::parse(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((target.to_string().as_str(), target.authority().as_str()), (shown, authority));
        }
    }

    #[test]
    fn what_is_no_url_is_refused_with_the_reason() {
        for (text, part) in [
            ("shop.example", "http://shop.example"),
            ("ftp://shop.example/", "unknown scheme ftp"),
            ("http:///path", "valid URL"),
            ("http://user:word@shop.example/", "--header"),
            ("http://shop.example:99999/", "port"),
            ("http://shop.example:0/", "port"),
            ("http://shop example/", "valid URL"),
            ("unix:run/app.sock", "full path"),
            ("unix:/run/app.sock:/a b", "valid path"),
        ] {
            let error = Target::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
