//! The server software, if it reveals it.

use keepwarm_http1::ResponseHead;

/// A server that fixes are known for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are their names")]
pub enum Server {
    Nginx,
    Apache,
    HaProxy,
    Envoy,
    Caddy,
    PhpBuiltIn,
    Puma,
    Unicorn,
    WebRick,
    Gunicorn,
    Uvicorn,
    Granian,
    Waitress,
    Paste,
    PythonHttpServer,
    WsgiRef,
    Werkzeug,
    Node,
    Keepwarm,
    Unknown,
}

/// The first product that `Server` names, in lower case (RFC 9110 §10.2.4). Whole names: `gunicorn` is not `unicorn`, and `Apache-Coyote` is Tomcat.
const PRODUCTS: &[(&str, Server)] = &[
    ("nginx", Server::Nginx),
    ("openresty", Server::Nginx),
    ("tengine", Server::Nginx),
    ("apache", Server::Apache),
    ("haproxy", Server::HaProxy),
    ("envoy", Server::Envoy),
    ("istio-envoy", Server::Envoy),
    ("caddy", Server::Caddy),
    ("puma", Server::Puma),
    ("unicorn", Server::Unicorn),
    ("webrick", Server::WebRick),
    ("gunicorn", Server::Gunicorn),
    ("uvicorn", Server::Uvicorn),
    ("granian", Server::Granian),
    ("waitress", Server::Waitress),
    ("pastewsgiserver", Server::Paste),
    ("wsgiserver", Server::WsgiRef),
    ("simplehttp", Server::PythonHttpServer),
    ("basehttp", Server::PythonHttpServer),
    ("werkzeug", Server::Werkzeug),
    ("keepwarm", Server::Keepwarm),
];

impl Server {
    /// Each of them.
    pub(crate) const ALL: [Self; 20] = [
        Self::Nginx,
        Self::Apache,
        Self::HaProxy,
        Self::Envoy,
        Self::Caddy,
        Self::PhpBuiltIn,
        Self::Puma,
        Self::Unicorn,
        Self::WebRick,
        Self::Gunicorn,
        Self::Uvicorn,
        Self::Granian,
        Self::Waitress,
        Self::Paste,
        Self::PythonHttpServer,
        Self::WsgiRef,
        Self::Werkzeug,
        Self::Node,
        Self::Keepwarm,
        Self::Unknown,
    ];

    /// From the fields of a response to an ordinary request of HTTP/1.1.
    #[must_use]
    pub fn recognize(head: &ResponseHead) -> Self {
        let fields: Vec<(String, String)> =
            head.fields.iter().map(|(name, value)| (lower(name), lower(value))).collect();
        match fields.iter().find(|(name, _)| name == "server") {
            Some((_, server)) => Self::by_product(server).unwrap_or(Self::Unknown),
            None => Self::by_habits(&fields),
        }
    }

    fn by_product(server: &str) -> Option<Self> {
        let product = server.split(['/', ' ', '(']).next()?;
        PRODUCTS.iter().find(|(name, _)| *name == product).map(|(_, server)| *server)
    }

    /// Servers that do not send their name have habits that no other server has.
    fn by_habits(fields: &[(String, String)]) -> Self {
        let first =
            |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let powered = first("x-powered-by").unwrap_or_default();
        let order: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        // Node writes these three in a row, after the app's.
        let node = order.windows(3).any(|three| three == ["date", "connection", "keep-alive"]);
        if first("x-envoy-upstream-service-time").is_some() {
            Self::Envoy
        } else if first("via").is_some_and(|via| via.ends_with(" caddy")) {
            Self::Caddy
        } else if first("host").is_some() {
            // `php -S` repeats the requested host in its response.
            Self::PhpBuiltIn
        } else if node && first("connection") == Some("keep-alive")
            || powered == "express"
            || powered == "next.js"
        {
            Self::Node
        } else if order.starts_with(&["date", "connection"]) && first("connection") == Some("close") {
            // Before the app's fields, where others have them behind; and it closes always.
            Self::Unicorn
        } else if first("x-runtime").is_some() && first("date").is_none() {
            // Rack's own field says Ruby, and of its servers Puma alone leaves out the date.
            Self::Puma
        } else {
            Self::Unknown
        }
    }

    /// As people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache => "Apache httpd",
            Self::HaProxy => "HAProxy",
            Self::Envoy => "Envoy",
            Self::Caddy => "Caddy",
            Self::PhpBuiltIn => "php -S",
            Self::Puma => "Puma",
            Self::Unicorn => "Unicorn",
            Self::WebRick => "WEBrick",
            Self::Gunicorn => "gunicorn",
            Self::Uvicorn => "uvicorn",
            Self::Granian => "Granian",
            Self::Waitress => "waitress",
            Self::Paste => "Paste's httpserver",
            Self::PythonHttpServer => "Python's http.server",
            Self::WsgiRef => "wsgiref",
            Self::Werkzeug => "Werkzeug",
            Self::Node => "Node.js",
            Self::Keepwarm => "Keepwarm",
            Self::Unknown => "unrecognized server",
        }
    }
}

fn lower(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: (&str, &str) = ("Date", "Sun, 22 Nov 2026 13:30:36 GMT");

    /// The response of each to `GET / HTTP/1.1`, as it comes.
    #[test]
    fn servers_are_known_by_what_they_send() {
        let powered = ("X-Powered-By", "PHP/8.2.36");
        let close = ("Connection", "close");
        let keep = ("Connection", "keep-alive");
        let length = ("Content-Length", "13");
        let cases: &[(&[(&str, &str)], Server)] = &[
            (&[("Server", "nginx/1.22.1"), DATE, length, keep], Server::Nginx),
            (&[("Server", "nginx"), DATE, powered], Server::Nginx),
            (&[("Server", "openresty/1.25.3.1"), DATE], Server::Nginx),
            (&[DATE, ("Server", "Apache/2.4.71 (Debian)"), length], Server::Apache),
            (&[("Server", "Apache-Coyote/1.1"), DATE], Server::Unknown),
            (&[length, ("Server", "Caddy"), DATE], Server::Caddy),
            (&[length, ("Via", "1.1 Caddy"), DATE], Server::Caddy),
            (&[length, DATE, ("server", "envoy")], Server::Envoy),
            (&[length, DATE, ("server", "istio-envoy")], Server::Envoy),
            (&[("Host", "127.0.0.1:8000"), DATE, close, powered], Server::PhpBuiltIn),
            (&[("Host", "127.0.0.1:8000"), DATE, close], Server::PhpBuiltIn),
            (&[DATE, ("Server", "WEBrick/1.8.1 (Ruby/3.1.2/2022-04-12)")], Server::WebRick),
            (&[("content-type", "text/html"), ("x-runtime", "0.012"), length], Server::Puma),
            (&[DATE, close, ("content-type", "text/plain"), length], Server::Unicorn),
            (&[("Server", "gunicorn"), DATE, close, length], Server::Gunicorn),
            (&[("Server", "gunicorn/19.9.0"), DATE, close], Server::Gunicorn),
            (&[DATE, ("server", "uvicorn"), length], Server::Uvicorn),
            (&[length, ("server", "granian"), DATE], Server::Granian),
            (&[length, DATE, ("Server", "waitress")], Server::Waitress),
            (&[("Server", "PasteWSGIServer/0.5 Python/3.11.7"), DATE], Server::Paste),
            (&[("Server", "SimpleHTTP/0.6 Python/3.11.7"), DATE], Server::PythonHttpServer),
            (&[("Server", "BaseHTTP/0.6 Python/3.11.7"), DATE], Server::PythonHttpServer),
            (&[DATE, ("Server", "WSGIServer/0.2 CPython/3.11.7")], Server::WsgiRef),
            (&[("Server", "Werkzeug/3.1.3 Python/3.11.7"), DATE], Server::Werkzeug),
            (&[DATE, keep, ("Keep-Alive", "timeout=5"), length], Server::Node),
            (&[("X-Powered-By", "Express"), DATE, keep], Server::Node),
            (&[("Server", "cloudflare"), ("X-Powered-By", "Express")], Server::Unknown),
            (&[length, DATE], Server::Unknown),
            (&[], Server::Unknown),
        ];
        for (fields, server) in cases {
            let head = crate::client::Response::for_tests(200, fields).head.unwrap_or_default();
            assert_eq!(Server::recognize(&head), *server, "{fields:?}");
        }
    }
}
