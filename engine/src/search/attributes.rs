//! Search attributes of an execution, in addition to its columns: its actions, its errors, and its approvers.
//!
//! Pure; written with each commit of the execution. `search/field.rs` uses the same names.

use crate::{ActionError, Ballot, Execution, Phase, Step, Unwinding, Workflow, core::known_step::KnownStep};
use std::collections::BTreeSet;
use store::Attributes;

/// The most values of one field. Further values cannot be searched.
const MAX_VALUES: usize = 16;
/// The longest value, in bytes.
const MAX_VALUE_LENGTH: usize = 256;
/// The attributes that the requester sets, kept for the whole execution.
const CALLER_ATTRIBUTES: [&str; 3] = ["label", "schedule", "traceparent"];

/// The attribute of a terminated execution while some of its effects still exist.
pub(crate) const LEFTOVERS: &str = "leftovers";
/// The value of [`LEFTOVERS`].
pub(crate) const STANDING: &str = "standing";

/// Returns the attributes of `execution`, which had `former`. `closed` is a ballot that has just ended.
pub(crate) fn attributes<W: Workflow>(
    former: &Attributes,
    execution: &Execution<W>,
    closed: Option<&Ballot>,
    known: &mut KnownStep<W>,
) -> Attributes {
    let asked = execution.ballot.iter().filter(|ballot| ballot.ruling.is_none());
    let asked = asked.flat_map(|ballot| ballot.seats.iter().flat_map(|seat| seat.any_of.iter().cloned()));
    let votes = closed.into_iter().chain(&execution.ballot).flat_map(|ballot| &ballot.votes);
    let voted = former.get("voted").into_iter().flatten().cloned();
    let voted = voted.chain(votes.map(|vote| vote.person.name.clone()));
    let parent = execution.parent.iter().map(|parent| parent.execution.to_string());
    let kept = CALLER_ATTRIBUTES
        .map(|name| (name, former.get(name).into_iter().flatten().cloned().collect::<Vec<_>>()));
    let leftovers = execution.has_leftovers().then(|| STANDING.to_owned());
    let own = [
        (LEFTOVERS, leftovers.into_iter().collect()),
        ("action", actions(execution, known)),
        ("error", errors(execution)),
        ("asked", asked.collect()),
        ("voted", voted.collect()),
        ("parent", parent.collect()),
    ];
    own.into_iter().chain(kept).filter_map(|(name, values)| Some((name.into(), bounded(values)?))).collect()
}

/// Returns the first of `values` that are not too long, or `None` if `values` is empty.
pub(crate) fn bounded(values: Vec<String>) -> Option<BTreeSet<String>> {
    let fits = |value: &String| !value.is_empty() && value.len() <= MAX_VALUE_LENGTH && !value.contains('\0');
    let values: BTreeSet<String> = values.into_iter().filter(fits).collect();
    (!values.is_empty()).then(|| values.into_iter().take(MAX_VALUES).collect())
}

/// Returns the actions or undos that are running, or would run.
fn actions<W: Workflow>(execution: &Execution<W>, known: &mut KnownStep<W>) -> Vec<String> {
    let undone = |unwinding: &Unwinding| {
        let marks = unwinding.places.iter().filter_map(|place| execution.trail.get(*place));
        marks.filter(|mark| mark.needs_undo()).map(|mark| mark.undo.clone()).collect()
    };
    match &execution.phase {
        Phase::Finished { .. } => Vec::new(),
        Phase::Compensating(unwinding) | Phase::Parked { unwinding: Some(unwinding), .. } => {
            undone(unwinding)
        }
        Phase::Forward | Phase::Parked { unwinding: None, .. } => {
            match &*known.step(execution) {
                Step::Act(act) => {
                    let slots = execution.slots.iter().zip(&act.branches);
                    let open = slots.filter(|(slot, _)| !matches!(slot.settled, Some(Ok(_))));
                    // Of thousands of like slots the name is copied once.
                    let names: BTreeSet<&str> = open.map(|(_, branch)| branch.action.name).collect();
                    names.into_iter().map(str::to_owned).collect()
                }
                Step::Approval(_) | Step::Wait(_) | Step::Choose(_) | Step::End(_) => Vec::new(),
            }
        }
    }
}

/// Returns the codes of the current errors, and of the cause of a compensation or an end.
fn errors<W: Workflow>(execution: &Execution<W>) -> Vec<String> {
    let of_phase: Vec<&ActionError> = match &execution.phase {
        Phase::Forward => Vec::new(),
        Phase::Compensating(unwinding) => unwinding.cause.iter().collect(),
        Phase::Parked { errors, unwinding, .. } => {
            errors.iter().chain(unwinding.iter().filter_map(|unwinding| unwinding.cause.as_ref())).collect()
        }
        Phase::Finished { cause, .. } => cause.iter().collect(),
    };
    let of_slots = execution.slots.iter().flat_map(|slot| {
        let settled = slot.settled.as_ref().and_then(|settled| settled.as_ref().err());
        slot.last.iter().filter(|_| slot.settled.is_none()).chain(settled)
    });
    let led_elsewhere = execution.last_failure.iter().flat_map(|failure| &failure.errors);
    of_phase.into_iter().chain(of_slots).chain(led_elsewhere).map(|error| error.code.clone()).collect()
}
