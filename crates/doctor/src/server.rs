//! Which server it is, as far as it says.

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

/// What stands in a field, in lower case, and which server that is; the first that fits counts.
const SIGNS: &[(&str, &str, Server)] = &[
    ("server", "openresty", Server::Nginx),
    ("server", "nginx", Server::Nginx),
    ("server", "apache", Server::Apache),
    ("server", "haproxy", Server::HaProxy),
    ("server", "envoy", Server::Envoy),
    ("x-envoy-upstream-service-time", "", Server::Envoy),
    ("server", "caddy", Server::Caddy),
    ("server", "puma", Server::Puma),
    ("server", "unicorn", Server::Unicorn),
    ("server", "webrick", Server::WebRick),
    ("server", "gunicorn", Server::Gunicorn),
    ("server", "uvicorn", Server::Uvicorn),
    ("server", "granian", Server::Granian),
    ("server", "waitress", Server::Waitress),
    ("server", "pastewsgiserver", Server::Paste),
    ("server", "wsgiserver", Server::WsgiRef),
    ("server", "simplehttp", Server::PythonHttpServer),
    ("server", "basehttp", Server::PythonHttpServer),
    ("server", "werkzeug", Server::Werkzeug),
    ("server", "keepwarm", Server::Keepwarm),
    ("x-powered-by", "express", Server::Node),
];

impl Server {
    /// From the fields of an answer.
    #[must_use]
    pub fn recognise(head: &ResponseHead) -> Self {
        let says = |name: &str, part: &str| {
            head.fields
                .all(name)
                .any(|value| String::from_utf8_lossy(value).to_ascii_lowercase().contains(part))
        };
        if let Some((_, _, server)) = SIGNS.iter().find(|(name, part, _)| says(name, part)) {
            return *server;
        }
        // `php -S` says who made the page, which server it is in `Host`, and nothing in `Server`.
        match says("x-powered-by", "php") && head.fields.first("server").is_none() {
            true if head.fields.first("host").is_some() => Self::PhpBuiltIn,
            _ => Self::Unknown,
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
            Self::Unknown => "a server that does not say its name",
        }
    }
}
