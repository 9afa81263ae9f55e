//! `keepwarm why`: a sample each second (`sampler`, `processors`, `machine`, `cpu_limit`), the histories and rules of `keepwarm_policy::why`, what becomes of them in an
//! upgrade (`inheritance`), the response as JSON (`json`), as a person reads it (`screen`), and the command (`command`).

pub(crate) mod command;
mod cpu_limit;
mod explain;
mod inheritance;
mod json;
mod machine;
mod processors;
mod sampler;
mod screen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepwarm_policy::why::Why;

pub(crate) use self::explain::explain;
pub(crate) use self::json::{figures, json, respond};
pub(crate) use self::sampler::observe;

/// The histories and verdicts of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diagnosis(Arc<Mutex<Why>>);

impl Diagnosis {
    /// No thread of the data plane takes it.
    fn lock(&self) -> MutexGuard<'_, Why> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
