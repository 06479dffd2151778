//! The cases, each with a name, a promise of one line, and its check. Names may be added and never change: backends list
//! exceptions by name.

mod alone;
mod dry_runs;
mod late;
mod lost;
mod repeats;
mod troubles;
mod twins;

use super::bench::{Bench, Ended};
use std::{future::Future, pin::Pin};

/// The check of a case.
pub type Play = for<'b> fn(&'b Bench<'b>) -> Pin<Box<dyn Future<Output = Ended> + Send + 'b>>;

/// One promise.
#[derive(Clone, Copy)]
pub struct Case {
    /// The case's name in tables and exceptions.
    pub name: &'static str,
    /// The tested promise.
    pub promise: &'static str,
    /// Its check.
    pub(super) play: Play,
}

const fn case(name: &'static str, promise: &'static str, play: Play) -> Case {
    Case { name, promise, play }
}

/// Returns all cases, in the order of their runs.
#[must_use]
pub fn cases() -> Vec<Case> {
    [alone::CASES, repeats::CASES, lost::CASES, late::CASES, twins::CASES, dry_runs::CASES, troubles::CASES]
        .concat()
}
