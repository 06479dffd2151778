//! The promises of a store, as cases that run against any implementation.
//!
//! The engine can use any store that passes [`run`]. Each case begins with an empty store, is independent of its
//! type, and is named by its promise.

mod case;
mod commits;
mod differential;
mod documents;
mod erasure;
mod execution_history;
mod fairness;
mod fixture;
mod followers;
mod guards;
mod history;
mod limits;
mod listing;
mod maintenance;
mod reads;
mod search;
mod tasks;

pub use case::{CaseFn, Cases, Outcome, Running};
pub use differential::Differential;

use crate::Store;
use std::{fmt, future::Future, sync::Arc};

/// All cases, by subject.
pub const CASES: &[Cases] = &[
    commits::CASES,
    guards::CASES,
    documents::CASES,
    tasks::LEASING,
    tasks::FENCING,
    fairness::CASES,
    maintenance::CASES,
    execution_history::CASES,
    history::CASES,
    followers::CASES,
    erasure::CASES,
    listing::CASES,
    search::CASES,
    reads::CASES,
    limits::CASES,
];

/// A promise that a store broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenPromise {
    /// The promise.
    pub case: &'static str,
    /// The observed behaviour.
    pub why: String,
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.why)
    }
}

/// Runs every case on a fresh store from `make`, and returns the number of cases.
///
/// # Errors
/// Returns every broken promise.
pub async fn run<F>(make: impl Fn() -> F) -> Result<usize, Vec<BrokenPromise>>
where
    F: Future<Output = Arc<dyn Store>>,
{
    let mut broken = Vec::new();
    let mut count = 0;
    for (case, start) in CASES.iter().copied().flatten() {
        count += 1;
        if let Err(why) = start(make().await).await {
            broken.push(BrokenPromise { case, why });
        }
    }
    if broken.is_empty() { Ok(count) } else { Err(broken) }
}
