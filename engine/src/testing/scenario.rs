//! The world a workflow is tried in, and what is done to it there.

use crate::{ActionError, InjectedFault, Undecided, View, Workflow};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Debug};
use store::{Key, Put};

/// One way for an attempt to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It is refused before it does anything, for good.
    FailsBefore,
    /// It does its work, and reports a failure for good.
    FailsAfter,
    /// It runs twice.
    Twice,
    /// It is never done, and no answer comes.
    LostBefore,
    /// It does its work, and no answer comes.
    LostAfter,
    /// Every attempt of it fails, until an operator asks for a retry.
    FailsForever,
}

impl Fault {
    pub(crate) fn to_injected(self, code: Option<&str>) -> InjectedFault {
        let failed = || ActionError::permanent(code.unwrap_or("sweep.failed"), "made to fail");
        match self {
            Self::FailsBefore | Self::FailsForever => InjectedFault::Before(failed()),
            Self::FailsAfter => InjectedFault::After(failed()),
            Self::Twice => InjectedFault::Twice,
            Self::LostBefore => {
                InjectedFault::Before(ActionError::unknown("sweep.lost", "made to lose the request"))
            }
            Self::LostAfter => {
                InjectedFault::After(ActionError::unknown("sweep.lost", "made to lose the answer"))
            }
        }
    }
}

/// A starting point: data, and a world to run it in. Called anew for each run.
pub trait Scenario<W: Workflow>: Send + Sync {
    /// Names it in complaints.
    fn name(&self) -> String;

    /// What is asked for.
    fn data(&self) -> W;

    /// A fresh world.
    fn world(&self) -> World<W::Platform>;

    /// The world as far as it matters, to be equal before and after a rolled-back run, and after a run that was disturbed
    /// and one that was not. `documents` are those of the ledger.
    fn snapshot(&self, platform: &W::Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value>;

    /// Whether everything is made to go wrong here. A scene that is not thorough is there for the ways that only it can take: it
    /// is run undisturbed, cancelled after each commit, and with every other answer.
    fn is_exhaustive(&self) -> bool {
        true
    }

    /// What somebody else does to the ledger while the run goes on.
    fn concurrent_change(&self) -> Option<ConcurrentChange> {
        None
    }

    /// What the world itself has seen going wrong, such as an effect that happened twice under one key.
    fn violations(&self, platform: &W::Platform) -> Vec<String> {
        let _ = platform;
        Vec::new()
    }
}

/// A change of the ledger that is no part of the run, such as a user who wants something no more.
#[derive(Clone, Copy, Debug)]
pub struct ConcurrentChange {
    /// It happens once the run has made so many commits.
    pub after: usize,
    /// Decides it.
    pub decide: fn(&mut View) -> Result<(), Undecided>,
}

/// A platform and the documents to begin with.
#[derive(Debug)]
pub struct World<P> {
    /// What actions act on.
    pub platform: P,
    /// What the ledger holds.
    pub documents: Vec<Put>,
    /// The collections that make up the ledger.
    pub collections: Vec<&'static str>,
}

/// What differs between two snapshots, a line each; empty when they are equal.
pub(crate) fn differences(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<String> {
    let gone =
        before.iter().filter(|(key, _)| !after.contains_key(*key)).map(|(key, _)| format!("{key} is gone"));
    let rest = after.iter().filter_map(|(key, value)| match before.get(key) {
        None => Some(format!("{key} is left behind: {value}")),
        Some(old) if old != value => Some(format!("{key} was {old}, is {value}")),
        Some(_) => None,
    });
    gone.chain(rest).collect()
}
