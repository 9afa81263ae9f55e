/// An item of `split`: another target for a share of a route's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitShare {
    /// Where they go.
    pub target: SplitTarget,
    /// Percent of the requests. All shares of a route together are at most 100.
    pub share: u32,
}

/// An app or an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitTarget {
    /// This app, which is in [`crate::Config::apps`].
    App(String),
    /// This upstream, which is in [`crate::Config::upstreams`].
    Upstream(String),
}

/// `split_by`: what decides about the target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitKey {
    /// The client's address.
    Client,
    /// A header, in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
}
