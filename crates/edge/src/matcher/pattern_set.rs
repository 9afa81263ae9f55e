//! Several patterns of one condition, some of them negated.

/// A condition: some value matches one of `any` (or there is none), and no value matches one of `none`.
///
/// So a negated pattern is the exact opposite of the pattern: with several values of one name, `!x` does not hold as soon as one of them is `x`,
/// wherever a client puts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternSet<P> {
    /// Patterns of which one must match. Empty: no requirement.
    pub any: Vec<P>,
    /// Patterns of which none may match.
    pub none: Vec<P>,
}

impl<P> Default for PatternSet<P> {
    fn default() -> Self {
        Self { any: Vec::new(), none: Vec::new() }
    }
}

impl<P> PatternSet<P> {
    /// Whether every text meets it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.any.is_empty() && self.none.is_empty()
    }

    /// Whether the values, of which there may be none, meet it.
    pub(crate) fn holds<V: Copy>(
        &self,
        values: impl Iterator<Item = V>,
        matches: impl Fn(&P, V) -> bool,
    ) -> bool {
        let mut found = self.any.is_empty();
        for value in values {
            if self.none.iter().any(|pattern| matches(pattern, value)) {
                return false;
            }
            found = found || self.any.iter().any(|pattern| matches(pattern, value));
        }
        found
    }
}
