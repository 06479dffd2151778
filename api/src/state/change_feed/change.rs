//! The change of an execution by one commit, computed once for all streams.

use crate::{state::change_feed::position::Position, types::mapping};
use engine::{ApprovalRecord, AuditContext, Separation};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use store::{Entry, ExecutionId, Record, Sequence, Timestamp};

/// The entries of an execution in one commit, with its state since.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The execution.
    pub(crate) execution: ExecutionId,
    /// The position of the last entry.
    pub(crate) position: Position,
    /// The type of change.
    pub(crate) what: ChangeKind,
}

/// The type of change of an execution.
#[derive(Clone, Debug)]
pub(crate) enum ChangeKind {
    /// The execution changed.
    Went(Box<ExecutionChange>),
    /// Retention removed the execution.
    Forgotten(Forgotten),
}

/// A changed execution.
#[derive(Clone, Debug)]
pub(crate) struct ExecutionChange {
    /// The record when this was read, which may include later commits; without its body.
    pub(crate) record: Record,
    /// The event's data: `sequence`, `execution` and `entries`.
    pub(crate) text: String,
    /// The approvals that this commit wrote, if a stream watches approvals.
    pub(crate) cases: Vec<ApprovalChange>,
    /// True if the execution ended.
    pub(crate) ends: bool,
}

/// A written approval, as shown.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalChange {
    /// The approval.
    pub(crate) case: ApprovalRecord,
    /// `opened`, `changed`, `decided` or `closed`.
    pub(crate) name: &'static str,
    /// The event's data: `sequence` and `approval`.
    pub(crate) text: String,
}

/// An execution that retention removed, from the global order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Forgotten {
    /// The execution.
    pub(crate) execution: ExecutionId,
    /// The tenant.
    pub(crate) tenant: String,
    /// The time of its last entry.
    pub(crate) ended_at: Timestamp,
}

/// The entries of one execution in one commit.
#[derive(Clone, Debug)]
pub(crate) struct EntryGroup {
    /// The execution.
    pub(crate) execution: ExecutionId,
    /// The position of the last entry.
    pub(crate) position: Position,
    /// The entries.
    pub(crate) entries: Vec<Entry>,
}

/// Groups entries in global order, each with its index.
pub(crate) fn group_entries(entries: Vec<(u32, Entry)>) -> Vec<EntryGroup> {
    let mut groups: Vec<EntryGroup> = Vec::new();
    for (place, entry) in entries {
        let position = Position { sequence: entry.sequence, place, at: entry.at };
        match groups.last_mut() {
            Some(last) if (last.execution, last.position.sequence) == (entry.execution, entry.sequence) => {
                last.position = position;
                last.entries.push(entry);
            }
            _ => groups.push(EntryGroup { execution: entry.execution, position, entries: vec![entry] }),
        }
    }
    groups
}

impl EntryGroup {
    /// Returns the removed execution, if the entries record a removal.
    pub(crate) fn forgotten(&self) -> Option<Forgotten> {
        let entry = self.entries.first().filter(|entry| entry.event == AuditContext::ERASED)?;
        (self.execution == AuditContext::no_execution())
            .then(|| serde_json::from_slice(&entry.detail).ok())
            .flatten()
    }

    /// Returns true if the entries belong to no execution: a user may have been removed.
    pub(crate) fn is_of_nobody(&self) -> bool {
        self.execution == AuditContext::no_execution()
    }

    /// Converts the group to a change, with the present record. `written` are the execution's approvals, each with the commit that wrote it.
    pub(crate) fn change(
        &self,
        record: &Record,
        written: &[(Sequence, ApprovalRecord)],
        separation: Separation,
    ) -> Change {
        let sequence = self.position.sequence;
        let entries: Vec<_> = self.entries.iter().map(mapping::entry).collect();
        let text = json!({ "sequence": sequence.0, "execution": mapping::row(record), "entries": entries });
        let written = written.iter().filter(|(by, _)| *by == sequence);
        Change {
            execution: self.execution,
            position: self.position,
            what: ChangeKind::Went(Box::new(ExecutionChange {
                record: record.clone(),
                text: text.to_string(),
                cases: written.map(|(_, case)| ApprovalChange::of(case, sequence, separation)).collect(),
                ends: self.entries.iter().any(ends),
            })),
        }
    }
}

/// Returns true if this entry ends the execution. The record may be from a later read.
fn ends(entry: &Entry) -> bool {
    #[derive(Deserialize)]
    struct Turned {
        phase: Option<String>,
    }
    let turned = serde_json::from_slice::<Turned>(&entry.detail).ok().and_then(|detail| detail.phase);
    turned.is_some_and(|turned| turned.ends_with("-> finished"))
}

impl Change {
    /// Returns true if this is the last change of the execution.
    pub(crate) fn is_last(&self) -> bool {
        match &self.what {
            ChangeKind::Went(went) => went.ends,
            ChangeKind::Forgotten(_) => true,
        }
    }
}

impl ApprovalChange {
    fn of(case: &ApprovalRecord, sequence: Sequence, separation: Separation) -> Self {
        let name = match (case.closed_at, &case.ruling) {
            (Some(_), _) => "closed",
            (None, Some(_)) => "decided",
            (None, None) if case.votes.is_empty() && case.history.is_empty() => "opened",
            (None, None) => "changed",
        };
        let text = json!({ "sequence": sequence.0, "approval": mapping::approval(case, separation) });
        Self { case: case.clone(), name, text: text.to_string() }
    }
}

/// The states of each workflow that may write an approval.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApprovalStates {
    states: BTreeMap<String, BTreeMap<String, bool>>,
}

/// Returns the old and new states of entries.
pub(crate) fn passed(entries: &[Entry]) -> BTreeSet<&str> {
    entries.iter().flat_map(|entry| [entry.from.as_str(), entry.to.as_str()]).collect()
}

impl ApprovalStates {
    /// Returns the approval states of these workflows.
    pub(crate) fn of(diagrams: Vec<engine::Diagram>) -> Self {
        let states = |drawn: engine::Diagram| {
            drawn.states.into_iter().map(|state| (state.name, state.kind == "approval")).collect()
        };
        Self { states: diagrams.into_iter().map(|drawn| (drawn.workflow.clone(), states(drawn))).collect() }
    }

    /// Returns true if the entries may have written an approval. Unknown states count as approval states.
    pub(crate) fn may(&self, entries: &[Entry]) -> bool {
        passed(entries).into_iter().any(|state| {
            let mut known = self.states.values().filter_map(|states| states.get(state)).peekable();
            known.peek().is_none() || known.any(|asks| *asks)
        })
    }

    /// Returns true if entries of this workflow with the states `passed` may have written an approval.
    pub(crate) fn concerns(&self, workflow: &str, passed: &BTreeSet<String>) -> bool {
        let Some(states) = self.states.get(workflow) else { return true };
        passed.iter().any(|state| states.get(state).copied().unwrap_or(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn entry(execution: ExecutionId, sequence: u64, detail: &Value) -> Entry {
        Entry {
            sequence: Sequence(sequence),
            execution,
            at: Timestamp(sequence),
            actor: "ada".into(),
            event: "settled".into(),
            from: "A".into(),
            to: "B".into(),
            detail: detail.to_string().into_bytes(),
        }
    }

    #[test]
    fn entries_of_one_commit_are_grouped_by_execution() {
        let (one, other) = (ExecutionId::new(Timestamp(1), [1; 10]), ExecutionId::new(Timestamp(2), [2; 10]));
        let of = |execution, sequence| entry(execution, sequence, &Value::Null);
        let page = vec![(0, of(one, 1)), (1, of(one, 1)), (2, of(other, 1)), (0, of(other, 2))];
        let found = group_entries(page);
        let places: Vec<_> = found.iter().map(|group| (group.execution, group.position.after())).collect();
        let wanted = [(one, (Sequence(1), 1)), (other, (Sequence(1), 2)), (other, (Sequence(2), 0))];
        assert_eq!(places, wanted);
    }

    #[test]
    fn an_execution_ends_with_its_final_entry() {
        let id = ExecutionId::new(Timestamp(1), [1; 10]);
        assert!(ends(&entry(id, 1, &json!({ "phase": "forward -> finished" }))));
        assert!(!ends(&entry(id, 1, &json!({ "phase": "forward -> parked" }))));
        assert!(!ends(&entry(id, 1, &json!({ "phase": null }))));
        assert!(!ends(&entry(id, 1, &Value::Null)));
    }
}
