//! The findings of a probe.

/// The judgment of a finding; the worse, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Not known; the evidence says why.
    Unknown,
    /// It costs something, or will some day.
    Warning,
    /// One of the stalls, or a message that is read wrongly.
    Bad,
}

impl Verdict {
    /// As it stands in reports and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "could not tell",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `probe.thing`, for example `persistence.http10`: stable, for machines.
    pub id: &'static str,
    /// The judgment.
    pub verdict: Verdict,
    /// The observation in one line: what was sent, what came back, how long it took.
    pub evidence: String,
    /// The cost, in figures, if there is one.
    pub cost: Option<String>,
    /// The fix; the examination adds it, by the server it recognized.
    pub fix: Option<String>,
}

impl Finding {
    /// All is well.
    #[must_use]
    pub fn good(id: &'static str, evidence: impl Into<String>) -> Self {
        Self::of(id, Verdict::Good, evidence)
    }

    /// Not known; the evidence says why.
    #[must_use]
    pub fn unknown(id: &'static str, evidence: impl Into<String>) -> Self {
        Self::of(id, Verdict::Unknown, evidence)
    }

    /// It costs something.
    #[must_use]
    pub fn warning(id: &'static str, evidence: impl Into<String>) -> Self {
        Self::of(id, Verdict::Warning, evidence)
    }

    /// It stalls, or is wrong.
    #[must_use]
    pub fn bad(id: &'static str, evidence: impl Into<String>) -> Self {
        Self::of(id, Verdict::Bad, evidence)
    }

    fn of(id: &'static str, verdict: Verdict, evidence: impl Into<String>) -> Self {
        Self { id, verdict, evidence: evidence.into(), cost: None, fix: None }
    }

    /// With what it costs.
    #[must_use]
    pub fn costs(mut self, cost: impl Into<String>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    /// With a fix of its own, in place of that of its id.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
