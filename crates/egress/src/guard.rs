//! Access to doors. "Local" is not trusted: a page in a browser on this machine can send requests to loopback, under its own name that resolves there.

use std::net::IpAddr;

use keepwarm_net::Scheme;
use keepwarm_serve::{ErrorResponse, Request};

use crate::origin::split_authority;
use crate::refusals;

/// Why the guard of a door rejects a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardError {
    /// A page of another site sent it.
    ForeignOrigin,
    /// It was sent to a name that is not this door's.
    ForeignHost,
}

impl GuardError {
    /// The response.
    pub(crate) fn response(self) -> &'static ErrorResponse {
        match self {
            Self::ForeignOrigin => &refusals::FOREIGN_ORIGIN,
            Self::ForeignHost => &refusals::FOREIGN_HOST,
        }
    }
}

/// Whether a request may use a door. `names`: those it goes by beside loopback's and the address that was connected to; none: any name will do (a door that is
/// public on purpose, or a Unix socket, which no browser reaches).
pub(crate) fn check(request: &Request, names: Option<&[String]>) -> Result<(), GuardError> {
    let fields = &request.head.fields;
    let authority = request.head.authority();
    if request.is_cross_origin() || fields.all("origin").any(|origin| !is_own_origin(origin, authority)) {
        return Err(GuardError::ForeignOrigin);
    }
    let Some(names) = names else { return Ok(()) };
    let Some(local) = request.peer().local else { return Ok(()) };
    // No browser leaves it out.
    let is_unnamed = authority.is_empty() && fields.first("host").is_none();
    match is_unnamed || is_own_host(authority, names, local.ip()) {
        true => Ok(()),
        false => Err(GuardError::ForeignHost),
    }
}

fn is_own_host(authority: &[u8], names: &[String], local: IpAddr) -> bool {
    let Some((host, _)) = split_authority(authority, Scheme::Http) else { return false };
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if host.eq_ignore_ascii_case("localhost") || names.iter().any(|name| host.eq_ignore_ascii_case(name)) {
        return true;
    }
    host.parse::<IpAddr>().is_ok_and(|address| {
        let address = address.to_canonical();
        address.is_loopback() || address == local.to_canonical()
    })
}

/// Whether a page with this origin was served here. `null`, of a sandboxed or a local page, was not.
fn is_own_origin(origin: &[u8], authority: &[u8]) -> bool {
    origin.strip_prefix(b"http://").is_some_and(|site| site.eq_ignore_ascii_case(authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_door() {
        let names = ["search.local".to_owned()];
        let local = "127.0.0.1".parse().unwrap();
        for host in
            ["localhost", "LocalHost:6102", "127.0.0.1:6102", "127.9.9.9", "[::1]:1", "Search.Local:1"]
        {
            assert!(is_own_host(host.as_bytes(), &names, local), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "10.1.2.3",
            "127.0.0.1.nip.io",
            "search.local.evil",
        ] {
            assert!(!is_own_host(host.as_bytes(), &names, local), "{host}");
        }
        assert!(is_own_host(b"10.1.2.3:1", &names, "10.1.2.3".parse().unwrap()));
    }

    #[test]
    fn origins_of_other_pages_are_foreign() {
        assert!(is_own_origin(b"http://localhost:6102", b"localhost:6102"));
        for foreign in ["null", "https://localhost:6102", "http://localhost", "http://evil.example", ""] {
            assert!(!is_own_origin(foreign.as_bytes(), b"localhost:6102"), "{foreign}");
        }
    }
}
