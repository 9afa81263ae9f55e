use super::{Cidr, HostPattern, PathPattern};

/// What a request must be for a route besides its host, path and method. All of it must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Hosts that do not match.
    pub not_hosts: Vec<HostPattern>,
    /// Methods that do not match; `GET` includes `HEAD`.
    pub not_methods: Vec<String>,
    /// Paths, in addition to [`crate::Route::path`]: several patterns, or negated ones.
    pub paths: PatternSet<PathPattern>,
    /// Headers, by names in lower case.
    pub headers: Vec<ValueCondition>,
    /// Arguments of the query, by decoded names.
    pub query: Vec<ValueCondition>,
    /// Cookies.
    pub cookies: Vec<ValueCondition>,
    /// Addresses of clients.
    pub clients: PatternSet<Cidr>,
    /// The scheme that the client used.
    pub scheme: Option<Scheme>,
}

impl Conditions {
    /// Whether every request meets them.
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }
}

/// Patterns of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternSet<P> {
    /// Patterns of which one must match. Empty: no requirement.
    pub any: Vec<P>,
    /// Negated patterns: none of them may match.
    pub none: Vec<P>,
}

impl<P> PatternSet<P> {
    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.any.is_empty() && self.none.is_empty()
    }
}

impl<P> Default for PatternSet<P> {
    fn default() -> Self {
        PatternSet { any: Vec::new(), none: Vec::new() }
    }
}

/// A condition on the values of a header, cookie or argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCondition {
    /// The name.
    pub name: String,
    /// What the values must be.
    pub values: PatternSet<ValuePattern>,
}

/// A pattern of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValuePattern {
    /// This text.
    Exact(String),
    /// A text with `*`, each of which is any text.
    Glob(String),
    /// A valid regular expression, without the `~`.
    Regex(String),
}

/// `scheme` of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Unencrypted.
    Http,
    /// Over TLS, or as a trusted proxy reports.
    Https,
}
