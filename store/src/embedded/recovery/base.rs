//! Finds a base from which the journal leads to the last commit without a gap.

use crate::{
    Error, Sequence,
    embedded::{recovery::evidence::Evidence, snapshot::Extent},
};
use std::path::PathBuf;

/// The start of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Index,
    Snapshot(PathBuf, Extent),
    Nothing,
}

/// A base, and the last commit that it can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) base: Base,
    pub(crate) sequence: Sequence,
}

impl Choice {
    /// Returns true if the journal of `evidence` ends before this choice, so that bytes behind its end are damage,
    /// not a torn tail.
    pub(crate) fn is_repair(&self, evidence: &Evidence) -> bool {
        self.sequence > evidence.journal.last
    }

    /// Returns the repairs of this choice.
    pub(crate) fn repaired(&self, evidence: &Evidence) -> Vec<String> {
        let mut repaired: Vec<String> = evidence.journal.damage.iter().map(ToString::to_string).collect();
        repaired.extend(
            evidence.journal.headers.iter().map(|path| format!("{} has a damaged header", path.display())),
        );
        repaired.extend(evidence.damaged_snapshots.iter().cloned());
        if self.is_repair(evidence) && matches!(self.base, Base::Index | Base::Snapshot(..)) {
            let (from, to) = (evidence.journal.last.0.saturating_add(1), self.sequence.0);
            // After a snapshot has been imported there is no journal, and nothing is wrong.
            if evidence.journal.begins.is_some() {
                repaired.push(format!("the journal lacks commits {from} to {to}"));
            }
        }
        repaired
    }
}

/// Returns the best base.
///
/// # Errors
/// Returns [`Error::Refused`] if none leads to every acknowledged commit, with the problems and the remedy.
pub(crate) fn choose(evidence: &Evidence) -> Result<Choice, Error> {
    let acknowledged = evidence.acknowledged();
    let index = evidence.index.iter().map(|found| (Base::Index, found.stats.applied, found.stats.touched));
    let snapshots = evidence
        .snapshots
        .iter()
        .map(|(path, extent)| (Base::Snapshot(path.clone(), *extent), extent.applied, extent.touched));
    let nothing = (Base::Nothing, Sequence(0), Sequence(0));
    let mut best: Option<Sequence> = None;
    for (base, applied, touched) in index.chain(snapshots).chain([nothing]) {
        if let Some(sequence) = leads_to(evidence, applied, touched) {
            if sequence >= acknowledged {
                return Ok(Choice { base, sequence });
            }
            best = best.max(Some(sequence));
        }
    }
    Err(Error::Refused { why: refusal(evidence, acknowledged, best) })
}

/// Returns the last commit that can be reached from a base with everything up to `applied`, and parts up to
/// `touched`.
fn leads_to(evidence: &Evidence, applied: Sequence, touched: Sequence) -> Option<Sequence> {
    let journal = &evidence.journal;
    let end = journal.last.max(applied);
    if touched > end {
        return None;
    }
    if journal.last > applied {
        let begins = journal.begins?;
        let gap = journal.damage.iter().any(|damage| damage.to.0 > applied.0.saturating_add(1));
        if begins.0 > applied.0.saturating_add(1) || gap {
            return None;
        }
    }
    Some(end)
}

fn refusal(evidence: &Evidence, acknowledged: Sequence, best: Option<Sequence>) -> String {
    let mut why: Vec<String> = evidence.journal.damage.iter().map(ToString::to_string).collect();
    why.extend(evidence.damaged_snapshots.iter().cloned());
    if let Some(problem) = &evidence.index_problem {
        why.push(format!("the index cannot replace it: {problem}"));
    }
    if let Some((path, offset, _)) = &evidence.journal.torn {
        why.push(format!("{} ends in damage at byte {offset}", path.display()));
    }
    let readable = best.unwrap_or(evidence.journal.last);
    if acknowledged > readable {
        let from = readable.0.saturating_add(1);
        why.push(format!("commits {from} to {} were acknowledged and cannot be found", acknowledged.0));
    }
    if let Some(begins) = evidence.journal.begins.filter(|begins| begins.0 > 1)
        && evidence.snapshots.is_empty()
    {
        why.push(format!("there is no complete snapshot of commits 1 to {}", begins.0.saturating_sub(1)));
    }
    format!(
        "the store is damaged and nothing was changed: {}; run `tenure store check` for all of it, then restore the \
         folder from a backup or import an export into an empty one with `tenure store import`",
        why.join("; ")
    )
}
