//! The cases, each a name, a promise of one line, and how it is seen to be kept. Names may be added and never change: backends
//! excuse themselves by name.

mod alone;
mod dry_runs;
mod late;
mod lost;
mod repeats;
mod troubles;
mod twins;

use super::bench::{Bench, Ended};
use std::{future::Future, pin::Pin};

/// How a case is played.
pub type Play = for<'b> fn(&'b Bench<'b>) -> Pin<Box<dyn Future<Output = Ended> + Send + 'b>>;

/// One promise.
#[derive(Clone, Copy)]
pub struct Case {
    /// By which tables and excuses know it.
    pub name: &'static str,
    /// The tested promise.
    pub promise: &'static str,
    /// How it is seen to be kept.
    pub(super) play: Play,
}

const fn case(name: &'static str, promise: &'static str, play: Play) -> Case {
    Case { name, promise, play }
}

/// All cases, in the order in which they are played.
#[must_use]
pub fn cases() -> Vec<Case> {
    [alone::CASES, repeats::CASES, lost::CASES, late::CASES, twins::CASES, dry_runs::CASES, troubles::CASES]
        .concat()
}
