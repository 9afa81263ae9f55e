use super::SplitTarget;

/// `mirror`: a second target of a route's requests, whose responses are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Where copies go.
    pub target: SplitTarget,
    /// Percent of the requests.
    pub share: u32,
    /// Bytes of a body; a request with a larger one is not copied.
    pub max_body: u64,
    /// Also requests whose method is not safe.
    pub all_methods: bool,
}
