//! Access control of `[admin]`. "Local" is not trusted: a page in a browser on this machine can send requests to loopback, under a name of its own
//! that resolves there.

use std::hint::black_box;
use std::net::IpAddr;

use keepwarm_config::{Bind, Secret};
use keepwarm_serve::Request;

/// Whether a request reads or changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// It looks.
    Read,
    /// It changes something.
    Write,
    /// It loads a file of the page, which has no data.
    Page,
}

/// Why the guard rejects a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuardError {
    /// A page of another site sent it.
    ForeignOrigin,
    /// It was sent to a name that is not this listener's.
    ForeignHost,
    /// It has no token, or a wrong one.
    NoToken,
    /// It changes something, and this listener has no token by which it could be allowed.
    ReadOnly,
}

impl GuardError {
    pub(super) fn status(self) -> u16 {
        match self {
            Self::NoToken => 401,
            Self::ForeignOrigin | Self::ForeignHost | Self::ReadOnly => 403,
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::ForeignOrigin => "foreign_origin",
            Self::ForeignHost => "foreign_host",
            Self::NoToken => "no_token",
            Self::ReadOnly => "read_only",
        }
    }

    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::ForeignOrigin => "Requests from pages of other sites are not allowed.",
            Self::ForeignHost => {
                "This host name is not accepted: use the address of admin.bind or localhost, or send the token."
            }
            Self::NoToken => "The configured token is required: Authorization: Bearer TOKEN.",
            Self::ReadOnly => {
                "Changes need a Unix socket (admin.bind = \"unix:...\"), or admin.token and its Authorization header."
            }
        }
    }
}

/// The rules of one address of `[admin]`.
#[derive(Debug)]
pub(super) struct Guard {
    bind: Bind,
    token: Option<Secret>,
}

impl Guard {
    pub(super) fn new(bind: Bind, token: Option<Secret>) -> Self {
        Self { bind, token }
    }

    /// Whether a request may do what it would do.
    pub(super) fn check(&self, request: &Request, operation: Operation) -> Result<(), GuardError> {
        let fields = &request.head.fields;
        let authority = request.head.authority();
        // A link elsewhere (a wiki, a chat) may lead to the page: the document that follows cannot be framed or read, and has no data.
        let is_link = operation == Operation::Page && is_navigation(request);
        if (request.is_cross_origin() && !is_link)
            || fields.all("origin").any(|origin| !is_own_origin(origin, authority))
        {
            return Err(GuardError::ForeignOrigin);
        }
        // With a token, the page is what asks a person for it, under the name by which that person calls this machine.
        if matches!(self.bind, Bind::Unix(_)) || (operation == Operation::Page && self.token.is_some()) {
            return Ok(());
        }
        let knows = match (&self.token, fields.first("authorization")) {
            (Some(token), Some(given)) if !is_token(given, token) => return Err(GuardError::NoToken),
            (Some(_), given) => given.is_some(),
            // An unneeded field: some proxies and clients always send one.
            (None, _) => false,
        };
        if knows {
            return Ok(());
        }
        let local = request.peer().local.map(|address| address.ip());
        // No browser leaves it out; load balancers that check by HTTP/1.0 do.
        let is_unnamed = authority.is_empty() && fields.first("host").is_none();
        if !is_unnamed && !self.is_own_host(host_of(authority), local) {
            return Err(GuardError::ForeignHost);
        }
        match (operation, &self.token) {
            (Operation::Write, None) => Err(GuardError::ReadOnly),
            (Operation::Write, Some(_)) => Err(GuardError::NoToken),
            (Operation::Read, _) if !self.bind.is_local() => Err(GuardError::NoToken),
            (Operation::Read | Operation::Page, _) => Ok(()),
        }
    }

    /// Whether this name is the listener's: loopback's, its own, or the address that was connected to.
    fn is_own_host(&self, host: &[u8], local: Option<IpAddr>) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        if let Ok(address) = host.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address.is_loopback() || local.is_some_and(|local| local.to_canonical() == address);
        }
        let own = match &self.bind {
            Bind::Host { host: own, .. } => host.eq_ignore_ascii_case(own),
            Bind::Tcp(_) | Bind::Unix(_) => false,
        };
        own || host.eq_ignore_ascii_case("localhost")
    }
}

/// Whether the response becomes the document of a tab or window (Fetch Metadata): not a script, an image or a frame of another page.
fn is_navigation(request: &Request) -> bool {
    let is = |name: &str, wanted: &[u8]| request.head.fields.first(name) == Some(wanted);
    is("sec-fetch-mode", b"navigate") && is("sec-fetch-dest", b"document")
}

/// The host of `host[:port]`, an IPv6 address without its brackets.
fn host_of(authority: &[u8]) -> &[u8] {
    if let Some(rest) = authority.strip_prefix(b"[") {
        return rest.split(|byte| *byte == b']').next().unwrap_or_default();
    }
    let host = authority.split(|byte| *byte == b':').next().unwrap_or_default();
    host.strip_suffix(b".").unwrap_or(host)
}

/// Whether a page with this origin was served here. `null`, of a sandboxed or a local page, was not.
fn is_own_origin(origin: &[u8], authority: &[u8]) -> bool {
    origin.strip_prefix(b"http://").is_some_and(|site| site.eq_ignore_ascii_case(authority))
}

/// Whether an `Authorization` field has the token (RFC 6750 §2.1). Its time does not tell how much of a wrong one is right.
fn is_token(given: &[u8], token: &Secret) -> bool {
    let Some((scheme, given)) = given.split_at_checked(6) else { return false };
    if !scheme.eq_ignore_ascii_case(b"bearer") || given.first() != Some(&b' ') {
        return false;
    }
    let (given, token) = (given.trim_ascii(), token.expose().as_bytes());
    let differs = given.iter().zip(token).fold(0, |differs, (a, b)| black_box(differs | (a ^ b)));
    given.len() == token.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_taken_out_of_an_authority() {
        for (authority, host) in [
            ("localhost:9090", "localhost"),
            ("localhost", "localhost"),
            ("example.", "example"),
            ("[::1]:80", "::1"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("", ""),
        ] {
            assert_eq!(host_of(authority.as_bytes()), host.as_bytes(), "{authority}");
        }
    }

    #[test]
    fn names_of_a_listener() {
        let guard = |bind: &str| Guard::new(Bind::Tcp(bind.parse().unwrap()), None);
        let named = Guard::new(Bind::Host { host: "metrics.internal".to_owned(), port: 9090 }, None);
        let local = Some("10.1.2.3".parse().unwrap());
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "10.1.2.3", "::ffff:10.1.2.3"]
        {
            assert!(guard("0.0.0.0:1").is_own_host(host.as_bytes(), local), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "10.1.2.4", "metrics.internal", "127.0.0.1.nip.io"]
        {
            assert!(!guard("0.0.0.0:1").is_own_host(host.as_bytes(), local), "{host}");
        }
        assert!(named.is_own_host(b"Metrics.Internal", local));
    }

    #[test]
    fn tokens_are_compared_whole() {
        let token = Secret::new("0123456789abcdef".to_owned());
        for right in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef", "BEARER 0123456789abcdef "] {
            assert!(is_token(right.as_bytes(), &token), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789abcdeg",
            "Basic 0123456789abcdef",
            "Bearer0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(!is_token(wrong.as_bytes(), &token), "{wrong}");
        }
    }

    #[test]
    fn origins_of_other_pages_are_foreign() {
        assert!(is_own_origin(b"http://localhost:9090", b"localhost:9090"));
        for foreign in ["null", "https://localhost:9090", "http://localhost", "http://evil.example", ""] {
            assert!(!is_own_origin(foreign.as_bytes(), b"localhost:9090"), "{foreign}");
        }
    }
}
