//! What a commit did to one execution, made once for all who watch.

use crate::{state::change_feed::position::Position, types::mapping};
use engine::{ApprovalRecord, AuditContext, Separation};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use store::{Entry, ExecutionId, Record, Sequence, Timestamp};

/// Entries of one execution that one commit wrote, and how things stand since.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Of which execution.
    pub(crate) execution: ExecutionId,
    /// Its last entry.
    pub(crate) position: Position,
    /// What was done.
    pub(crate) what: ChangeKind,
}

/// What was done to an execution.
#[derive(Clone, Debug)]
pub(crate) enum ChangeKind {
    /// It went on.
    Went(Box<ExecutionChange>),
    /// It ended long ago and was forgotten.
    Forgotten(Forgotten),
}

/// An execution that went on.
#[derive(Clone, Debug)]
pub(crate) struct ExecutionChange {
    /// As it stood when this was made, which may be later; without its body.
    pub(crate) record: Record,
    /// The event's data: `sequence`, `execution` and `entries`.
    pub(crate) text: String,
    /// The approvals that this very commit wrote, if anybody watches them.
    pub(crate) cases: Vec<ApprovalChange>,
    /// It ended with this.
    pub(crate) ends: bool,
}

/// An approval that was written, as people see it.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalChange {
    /// The approval.
    pub(crate) case: ApprovalRecord,
    /// `opened`, `changed`, `decided` or `closed`.
    pub(crate) name: &'static str,
    /// The event's data: `sequence` and `approval`.
    pub(crate) text: String,
}

/// An execution that was forgotten, as the history of all tells it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Forgotten {
    /// Which.
    pub(crate) execution: ExecutionId,
    /// Whose.
    pub(crate) tenant: String,
    /// When its last entry was written.
    pub(crate) ended_at: Timestamp,
}

/// Entries that stand together: one execution's, of one commit.
#[derive(Clone, Debug)]
pub(crate) struct EntryGroup {
    /// Of which execution.
    pub(crate) execution: ExecutionId,
    /// The last of them.
    pub(crate) position: Position,
    /// They themselves.
    pub(crate) entries: Vec<Entry>,
}

/// Entries in the order of the history, each with its place, as groups.
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
    /// The execution that it says was forgotten.
    pub(crate) fn forgotten(&self) -> Option<Forgotten> {
        let entry = self.entries.first().filter(|entry| entry.event == AuditContext::ERASED)?;
        (self.execution == AuditContext::no_execution())
            .then(|| serde_json::from_slice(&entry.detail).ok())
            .flatten()
    }

    /// Whether somebody asked for something outside of any execution: a user may have been removed.
    pub(crate) fn is_of_nobody(&self) -> bool {
        self.execution == AuditContext::no_execution()
    }

    /// The change that it is, of an execution that stands so. `written` are its approvals, each with the commit that wrote it.
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

/// Whether an execution ended with this entry. Its record does not tell: that may have been read later.
fn ends(entry: &Entry) -> bool {
    #[derive(Deserialize)]
    struct Turned {
        phase: Option<String>,
    }
    let turned = serde_json::from_slice::<Turned>(&entry.detail).ok().and_then(|detail| detail.phase);
    turned.is_some_and(|turned| turned.ends_with("-> finished"))
}

impl Change {
    /// Whether nothing follows on it of its execution.
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

/// The states of each workflow, and whether people are asked there.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApprovalStates {
    states: BTreeMap<String, BTreeMap<String, bool>>,
}

/// The states that entries lead from and to.
pub(crate) fn passed(entries: &[Entry]) -> BTreeSet<&str> {
    entries.iter().flat_map(|entry| [entry.from.as_str(), entry.to.as_str()]).collect()
}

impl ApprovalStates {
    /// Those of the workflows that run here.
    pub(crate) fn of(diagrams: Vec<engine::Diagram>) -> Self {
        let states = |drawn: engine::Diagram| {
            drawn.states.into_iter().map(|state| (state.name, state.kind == "approval")).collect()
        };
        Self { states: diagrams.into_iter().map(|drawn| (drawn.workflow.clone(), states(drawn))).collect() }
    }

    /// Whether entries of some workflow may have written an approval: of a state that is not known here, so.
    pub(crate) fn may(&self, entries: &[Entry]) -> bool {
        passed(entries).into_iter().any(|state| {
            let mut known = self.states.values().filter_map(|states| states.get(state)).peekable();
            known.peek().is_none() || known.any(|asks| *asks)
        })
    }

    /// Whether entries of this workflow, which lead from and to `passed`, may have.
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
    fn entries_of_one_commit_stand_together_each_execution_by_itself() {
        let (one, other) = (ExecutionId::new(Timestamp(1), [1; 10]), ExecutionId::new(Timestamp(2), [2; 10]));
        let of = |execution, sequence| entry(execution, sequence, &Value::Null);
        let page = vec![(0, of(one, 1)), (1, of(one, 1)), (2, of(other, 1)), (0, of(other, 2))];
        let found = group_entries(page);
        let places: Vec<_> = found.iter().map(|group| (group.execution, group.position.after())).collect();
        let wanted = [(one, (Sequence(1), 1)), (other, (Sequence(1), 2)), (other, (Sequence(2), 0))];
        assert_eq!(places, wanted);
    }

    #[test]
    fn an_execution_ends_with_the_entry_that_says_so() {
        let id = ExecutionId::new(Timestamp(1), [1; 10]);
        assert!(ends(&entry(id, 1, &json!({ "phase": "forward -> finished" }))));
        assert!(!ends(&entry(id, 1, &json!({ "phase": "forward -> parked" }))));
        assert!(!ends(&entry(id, 1, &json!({ "phase": null }))));
        assert!(!ends(&entry(id, 1, &Value::Null)));
    }
}
