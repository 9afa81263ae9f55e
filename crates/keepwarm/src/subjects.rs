//! The targets of `keepwarm check --self` in a running Keepwarm: its listeners, its doors, and the endpoints of its upstreams.
//!
//! The running process knows all of it, ports that the system chose included; the command queries it by the control socket, and examines from outside.

use keepwarm_config::{
    Config, EndpointAddress, HealthProbe, HostPattern, Listener, PathPattern, TrustRoots, Upstream,
    UpstreamEndpoint, UpstreamProtocol,
};
use serde_json::{Value, json};

/// A listener, door or upstream of the running Keepwarm, as a target of `keepwarm check --self`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnTarget {
    /// Its name in the configuration: `listen.main`, `upstream.search door`, `upstream.search`.
    pub(crate) label: String,
    /// By which it is examined.
    pub(crate) url: String,
    /// Where to connect in place of what the URL says: an address or a name, and a port.
    pub(crate) connect: Option<String>,
    /// `Host`, where it is another than the URL's.
    pub(crate) host: Option<String>,
    /// The file of authorities that are trusted, besides the system's.
    pub(crate) ca: Option<String>,
    /// The files of the client certificate and its key.
    pub(crate) identity: Option<(String, String)>,
    /// Whether Keepwarm itself responds there, whatever `Server` says.
    pub(crate) is_ours: bool,
    /// Why it cannot be examined.
    pub(crate) skipped: Option<String>,
}

/// Addresses by the names of listeners or upstreams.
type Addresses = [(String, Vec<String>)];

/// All of them.
pub(crate) fn of(config: &Config, listeners: &Addresses, doors: &Addresses) -> Vec<OwnTarget> {
    let mut subjects = Vec::new();
    for (name, addresses) in listeners {
        let Some(listen) = config.listener(name) else { continue };
        subjects.extend(addresses.iter().map(|address| listener(listen, address)));
    }
    for (name, addresses) in doors {
        let Some(upstream) = config.upstream(name) else { continue };
        subjects.extend(addresses.iter().map(|address| door(upstream, address)));
    }
    for upstream in &config.upstreams {
        subjects.extend(upstream.endpoints.iter().map(|it| endpoint(upstream, it)));
    }
    subjects
}

/// As a client whose request the first route takes.
fn listener(listen: &Listener, address: &str) -> OwnTarget {
    let label = format!("listen.{}", listen.name);
    let Some(first) = listen.routes.first() else {
        return OwnTarget { label, ..skipped(address, "it is a forward proxy and serves nothing itself") };
    };
    let host = first.hosts.iter().find_map(|host| match host {
        HostPattern::Exact(host) => Some(host.clone()),
        HostPattern::Suffix(suffix) => Some(format!("www{suffix}")),
        HostPattern::Glob(_) | HostPattern::Regex(_) => None,
    });
    // `/` where any route takes it: the app's own page, most likely.
    let takes =
        |path: &str| listen.routes.iter().any(|route| route.hosts == first.hosts && route.path.names(path));
    let path = match &first.path {
        PathPattern::Exact(path) | PathPattern::Prefix(path) if !takes("/") => path,
        _ => "/",
    };
    let target = OwnTarget { label, is_ours: true, ..at(address, host.as_deref(), path) };
    match &listen.tls {
        None => target,
        Some(_) if address.starts_with("unix:") => {
            OwnTarget { skipped: Some("it speaks TLS on a Unix socket".to_owned()), ..target }
        }
        // Its own certificate is trusted, too: it may be self-signed, or a private authority's.
        Some(tls) => {
            let ca = tls.certificates.first().map(|first| first.cert.path.display().to_string());
            OwnTarget { ca, ..target }
        }
    }
}

/// As a process of this machine, by the door's own address.
fn door(upstream: &Upstream, address: &str) -> OwnTarget {
    let label = format!("upstream.{} door", upstream.name);
    OwnTarget { label, is_ours: true, ..at(address, None, health_path(upstream)) }
}

/// As Keepwarm calls it.
fn endpoint(upstream: &Upstream, endpoint: &UpstreamEndpoint) -> OwnTarget {
    let label = format!("upstream.{}", upstream.name);
    let path = health_path(upstream);
    let address = endpoint.address.to_string();
    let reason = match upstream.protocol {
        _ if upstream.dns.srv.is_some() => {
            Some("its addresses come from SRV records, which this command does not look up")
        }
        _ if upstream.proxy_protocol.is_some() => {
            Some("its connections begin with a PROXY header, which the probes do not send")
        }
        UpstreamProtocol::Http2 => Some("it uses HTTP/2 only, and the probes use HTTP/1.1"),
        _ => None,
    };
    if let Some(reason) = reason {
        return OwnTarget { label, ..skipped(&address, reason) };
    }
    let host = upstream.host.clone().unwrap_or_else(|| endpoint.authority.clone());
    let scheme = if upstream.tls.is_some() { "https" } else { "http" };
    // The name that the certificate must be for; without TLS the `Host`.
    let called = match &upstream.tls {
        Some(tls) => tls.server_name.clone(),
        None => host_of(&endpoint.authority).to_owned(),
    };
    let (port, connect) = match &endpoint.address {
        EndpointAddress::Unix(path_of_socket) => {
            return OwnTarget {
                label,
                host: Some(host),
                ..at(&format!("unix:{}", path_of_socket.display()), None, path)
            };
        }
        EndpointAddress::Ip(address) => (address.port(), Some(address.to_string())),
        EndpointAddress::Name { host, port } => (*port, (*host != called).then(|| format!("{host}:{port}"))),
    };
    let ca = upstream.tls.as_ref().and_then(|tls| match &tls.ca {
        TrustRoots::System => None,
        TrustRoots::File(file) | TrustRoots::FileAndSystem(file) => Some(file.path.display().to_string()),
    });
    let identity = upstream
        .tls
        .as_ref()
        .and_then(|tls| tls.client_certificate.as_ref())
        .map(|client| (client.cert.path.display().to_string(), client.key.path.display().to_string()));
    let url = format!("{scheme}://{}:{port}{path}", bracketed(&called));
    OwnTarget { label, url, connect, host: Some(host), ca, identity, is_ours: false, skipped: None }
}

/// The server at `http://ADDRESS`, `https://ADDRESS` or `unix:PATH`, as a client of this machine reaches it.
fn at(address: &str, host: Option<&str>, path: &str) -> OwnTarget {
    if address.starts_with("unix:") {
        let host = host.map(str::to_owned);
        return OwnTarget { url: format!("{address}:{path}"), host, ..OwnTarget::default() };
    }
    let (scheme, bare) = address.split_once("://").unwrap_or(("http", address));
    // A server that listens on every address of the machine listens on loopback, too.
    let bare = match bare.strip_prefix("0.0.0.0:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => bare.replacen("[::]:", "[::1]:", 1),
    };
    match (host, bare.rsplit_once(':')) {
        (Some(host), Some((_, port))) => OwnTarget {
            url: format!("{scheme}://{host}:{port}{path}"),
            connect: Some(bare.clone()),
            ..OwnTarget::default()
        },
        _ => OwnTarget { url: format!("{scheme}://{bare}{path}"), ..OwnTarget::default() },
    }
}

fn skipped(address: &str, why: &str) -> OwnTarget {
    OwnTarget { url: address.to_owned(), skipped: Some(why.to_owned()), ..OwnTarget::default() }
}

/// The path of its health checks may be requested often.
fn health_path(upstream: &Upstream) -> &str {
    match upstream.health.as_ref().map(|health| &health.probe) {
        Some(HealthProbe::Http { path, .. }) => path,
        Some(HealthProbe::Tcp) | None => "/",
    }
}

/// The host of an authority, without its port and without brackets.
fn host_of(authority: &str) -> &str {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host.trim_start_matches('[').trim_end_matches(']')
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl OwnTarget {
    /// For the control socket.
    pub(crate) fn json(&self) -> Value {
        json!({
            "label": self.label,
            "url": self.url,
            "connect": self.connect,
            "host": self.host,
            "ca": self.ca,
            "cert": self.identity.as_ref().map(|(cert, _)| cert),
            "key": self.identity.as_ref().map(|(_, key)| key),
            "is_ours": self.is_ours,
            "skipped": self.skipped,
        })
    }

    /// From the control socket; `None` if it is not a subject.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            label: text("label")?,
            url: text("url")?,
            connect: text("connect"),
            host: text("host"),
            ca: text("ca"),
            identity: text("cert").zip(text("key")),
            is_ours: value.get("is_ours") == Some(&Value::Bool(true)),
            skipped: text("skipped"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(url: &str, connect: Option<&str>) -> OwnTarget {
        OwnTarget { url: url.to_owned(), connect: connect.map(str::to_owned), ..OwnTarget::default() }
    }

    #[test]
    fn addresses_are_those_of_a_client_on_this_machine() {
        for (address, host, wanted) in [
            ("http://127.0.0.1:8080", None, subject("http://127.0.0.1:8080/", None)),
            ("http://0.0.0.0:80", None, subject("http://127.0.0.1:80/", None)),
            (
                "https://0.0.0.0:443",
                Some("a.example"),
                subject("https://a.example:443/", Some("127.0.0.1:443")),
            ),
            ("http://[::]:80", None, subject("http://[::1]:80/", None)),
            ("http://[::]:80", Some("shop.example"), subject("http://shop.example:80/", Some("[::1]:80"))),
            ("unix:/run/x.sock", None, subject("unix:/run/x.sock:/", None)),
        ] {
            assert_eq!(at(address, host, "/"), wanted);
        }
        let socket = at("unix:/run/x.sock", Some("shop.example"), "/a");
        assert_eq!((&*socket.url, socket.host.as_deref()), ("unix:/run/x.sock:/a", Some("shop.example")));
        assert_eq!(OwnTarget::from_json(&socket.json()), Some(socket));
    }

    #[test]
    fn hosts_of_authorities() {
        for (authority, host) in
            [("a.example", "a.example"), ("a.example:81", "a.example"), ("[::1]:81", "::1"), ("[::1]", "::1")]
        {
            assert_eq!(host_of(authority), host);
        }
    }
}
