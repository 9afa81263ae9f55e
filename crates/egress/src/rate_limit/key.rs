//! What is counted apart.

use std::net::IpAddr;

use keepwarm_serve::Request;

/// What of a request tells whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// The client's address, as far as trusted proxies name it. For IPv6 the first 64 bits, the least that one subscriber has (RFC 6177): a client that can choose
    /// among 2^64 addresses is still one. All clients of Unix sockets count together.
    Client,
    /// A field, its name in lower case. Requests without it count together.
    Header(String),
    /// A cookie. Requests without it count together.
    Cookie(String),
    /// Nothing: all requests count together.
    All,
}

impl LimitKey {
    /// Calls `then` with the bytes that tell.
    pub(super) fn with<T>(&self, request: &Request, then: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Client => match request.client_address() {
                Some(IpAddr::V4(address)) => then(&address.octets()),
                Some(IpAddr::V6(address)) => then(address.octets().get(..8).unwrap_or_default()),
                None => then(b""),
            },
            Self::Header(name) => then(request.head.fields.first(name).unwrap_or_default()),
            Self::Cookie(name) => {
                let fields = &request.head.fields;
                let mut crumbs = fields.all("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
                let value = |crumb: &'_ [u8]| -> Option<std::ops::Range<usize>> {
                    let value = crumb.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                    Some(crumb.trim_ascii().len() - value.len()..crumb.trim_ascii().len())
                };
                let found = crumbs.find_map(|crumb| crumb.trim_ascii().get(value(crumb)?));
                then(found.unwrap_or_default())
            }
            Self::All => then(b""),
        }
    }
}
