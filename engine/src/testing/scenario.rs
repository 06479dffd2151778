//! The environment in which a workflow is tested, and the faults.

use crate::{ActionError, InjectedFault, Undecided, View, Workflow};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Debug};
use store::{Key, Put};

/// A fault of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Refused permanently before it does anything.
    FailsBefore,
    /// It does its work and reports a permanent failure.
    FailsAfter,
    /// It runs twice.
    Twice,
    /// It is not done, and no answer comes.
    LostBefore,
    /// It does its work, and no answer comes.
    LostAfter,
    /// Every attempt fails until an operator retries it.
    FailsForever,
}

impl Fault {
    pub(crate) fn to_injected(self, code: Option<&str>) -> InjectedFault {
        let failed = || ActionError::permanent(code.unwrap_or("sweep.failed"), "injected failure");
        match self {
            Self::FailsBefore | Self::FailsForever => InjectedFault::Before(failed()),
            Self::FailsAfter => InjectedFault::After(failed()),
            Self::Twice => InjectedFault::Twice,
            Self::LostBefore => {
                InjectedFault::Before(ActionError::unknown("sweep.lost", "the request is lost"))
            }
            Self::LostAfter => InjectedFault::After(ActionError::unknown("sweep.lost", "the answer is lost")),
        }
    }
}

/// A scenario: data, and an environment to run it in. Called again for each run.
pub trait Scenario<W: Workflow>: Send + Sync {
    /// Returns the name, for reports.
    fn name(&self) -> String;

    /// Returns the request.
    fn data(&self) -> W;

    /// Returns a fresh environment.
    fn world(&self) -> World<W::Platform>;

    /// Returns the relevant part of the environment. It must be equal before and after a compensated run, and after a
    /// disturbed and an undisturbed run. `documents` are those of the ledger.
    fn snapshot(&self, platform: &W::Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value>;

    /// Returns true to inject all faults. A scenario that is not thorough only adds edges: it runs undisturbed,
    /// cancelled after each commit, and with every other answer.
    fn is_exhaustive(&self) -> bool {
        true
    }

    /// Returns concurrent changes of the ledger during the run.
    fn concurrent_change(&self) -> Option<ConcurrentChange> {
        None
    }

    /// Returns violations that the environment has seen, such as an effect that happened twice under one key.
    fn violations(&self, platform: &W::Platform) -> Vec<String> {
        let _ = platform;
        Vec::new()
    }
}

/// A concurrent change of the ledger, such as a user who withdraws a request.
#[derive(Clone, Copy, Debug)]
pub struct ConcurrentChange {
    /// It happens after this many commits.
    pub after: usize,
    /// The decision.
    pub decide: fn(&mut View) -> Result<(), Undecided>,
}

/// A platform and the initial documents.
#[derive(Debug)]
pub struct World<P> {
    /// The platform of the actions.
    pub platform: P,
    /// The initial documents.
    pub documents: Vec<Put>,
    /// The collections of the ledger.
    pub collections: Vec<&'static str>,
}

/// Returns the differences between two snapshots, one line each.
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
