//! Endpoints that an operator takes out of use: they get no more calls, and finish those they have. By name, so that an endpoint which discovery loses and
//! finds again is still out of use.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use crate::endpoints::lock;
use crate::{EndpointSet, Upstream};

/// The names of the endpoints of an upstream that are out of use. Any change of the endpoints holds the lock.
#[derive(Debug, Default)]
pub(crate) struct Drained(Mutex<BTreeSet<String>>);

impl Drained {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.0)
    }
}

/// Why the state of an endpoint was not changed.
#[derive(Debug, PartialEq, Eq)]
pub enum DrainError {
    /// There is none of this name.
    Unknown,
    /// No other would get calls.
    Last,
}

impl Upstream {
    /// Takes an endpoint out of use, or (`false`) puts it back: at once for new calls. Whether that changes anything.
    ///
    /// # Errors
    /// There is no such endpoint, or no other would get calls.
    pub fn set_drained(&self, endpoint: &str, drained: bool) -> Result<bool, DrainError> {
        let mut names = self.drained_names().lock();
        let endpoints = self.endpoints();
        if !names.contains(endpoint) && !endpoints.endpoints.iter().any(|it| **it.state.name() == *endpoint) {
            return Err(DrainError::Unknown);
        }
        let gets_calls = |name: &str| name != endpoint && !names.contains(name);
        if drained && !endpoints.endpoints.iter().any(|it| it.weight > 0 && gets_calls(it.state.name())) {
            return Err(DrainError::Last);
        }
        let changes = match drained {
            true => names.insert(endpoint.to_owned()),
            false => names.remove(endpoint),
        };
        if changes {
            self.apply_drained(&endpoints, &names);
            crate::events::drained(self.name(), endpoint, drained);
        }
        Ok(changes)
    }

    /// The names of its endpoints that are out of use, those that discovery does not find now included.
    #[must_use]
    pub fn drained(&self) -> Vec<String> {
        self.drained_names().lock().iter().cloned().collect()
    }

    /// Takes out of use what was in another process, or under other settings.
    pub fn inherit_drained(&self, inherited: impl IntoIterator<Item = String>) {
        let mut names = self.drained_names().lock();
        let before = names.len();
        names.extend(inherited);
        if names.len() > before {
            self.apply_drained(&self.endpoints(), &names);
        }
    }

    /// Publishes the endpoints again, with these out of use.
    pub(crate) fn apply_drained(&self, endpoints: &EndpointSet, names: &BTreeSet<String>) {
        for entry in &endpoints.endpoints {
            entry.state.set_drained(names.contains(&**entry.state.name()));
        }
        self.replace_endpoints(endpoints.rebalanced(self.settings().balance));
    }
}
