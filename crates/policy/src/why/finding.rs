//! A verdict that is given now.

use std::sync::Arc;

use super::catalog::Rule;

/// A verdict and its evidence.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Which.
    pub rule: &'static Rule,
    /// What it is about.
    pub subject: Subject,
    /// The second, since the histories began, in which it was first given.
    pub since: u64,
    /// The evidence in words.
    pub evidence: String,
    /// The figures in it, by name; times in seconds, sizes in bytes, shares from 0 to 1.
    pub figures: Vec<(&'static str, f64)>,
}

/// What a verdict is about. The machine, if it has neither.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// An app.
    pub app: Option<Arc<str>>,
    /// An upstream.
    pub upstream: Option<Arc<str>>,
}

impl Subject {
    pub(super) fn app(name: &Arc<str>) -> Self {
        Self { app: Some(Arc::clone(name)), upstream: None }
    }

    pub(super) fn upstream(name: &Arc<str>) -> Self {
        Self { app: None, upstream: Some(Arc::clone(name)) }
    }
}

impl Finding {
    pub(super) fn new(
        rule: &'static Rule,
        subject: Subject,
        evidence: String,
        figures: &[(&'static str, f64)],
    ) -> Self {
        Self { rule, subject, since: 0, evidence, figures: figures.to_vec() }
    }
}
