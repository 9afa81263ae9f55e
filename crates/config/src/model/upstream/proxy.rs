/// `proxy_protocol`: the version of the PROXY header with which each connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary, with what is known of the client's TLS.
    V2,
}
