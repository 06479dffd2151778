//! Repairs of an execution that cannot continue by itself. Pure, a part of [`transition`](crate::transition).
//!
//! A repair never hides what happened: an action that may have run stays on the trail, an action with other arguments
//! gets another idempotency key, and an action that is not undone is listed when the execution ends.

use super::{
    statements::{editable, statable},
    transition::TransitionCtx,
};
use crate::{
    Act, ActionError, Attribution, Class, Commitment, Phase, Refusal, Repair, Repeat, Slot, Step, TrailEntry,
    UndoState, Unwinding, Workflow,
    core::unwind,
    model::definition::{
        child::CANCEL,
        step::{PLAN_CHANGED, SKIPPED},
    },
};
use serde_json::Value;

fn unrepairable(why: impl Into<String>) -> Refusal {
    Refusal::Unrepairable { why: why.into() }
}

fn bad_repair(field: &'static str, why: impl Into<String>) -> Refusal {
    Refusal::BadRepair { field, why: why.into() }
}

impl<W: Workflow> TransitionCtx<W> {
    pub(crate) fn repaired(&mut self, repair: Repair, order: &Attribution) -> Result<(), Refusal> {
        if self.exec.paused.is_some() {
            return Err(unrepairable("it is paused: resume it first"));
        }
        if let Repair::MarkDone { evidence, .. } | Repair::MarkNotDone { evidence, .. } = &repair
            && evidence.trim().is_empty()
        {
            return Err(bad_repair("evidence", "name the evidence"));
        }
        self.note_repair(&repair, order);
        match self.exec.phase.clone() {
            Phase::Parked { unwinding: Some(unwinding), .. } => self.repair_undo(repair, unwinding),
            Phase::Parked { unwinding: None, .. } | Phase::Forward => self.repair_step(repair, &order.by),
            Phase::Compensating(_) => {
                Err(unrepairable("it is being undone: wait until it is parked or has ended"))
            }
            Phase::Finished { .. } => Err(Refusal::Finished),
        }
    }

    /// Applies a command that a second person has confirmed.
    pub(crate) fn seconded(&mut self, event: crate::Event, by: &str) -> Result<(), Refusal> {
        if event.actor() == by {
            return Err(Refusal::SamePerson { person: by.to_owned() });
        }
        if matches!(event, crate::Event::Seconded { .. }) {
            return Err(self.unexpected("seconded"));
        }
        self.seconded_by = Some(by.to_owned());
        self.apply(event)
    }

    fn repair_step(&mut self, repair: Repair, by: &str) -> Result<(), Refusal> {
        let Step::Act(act) = self.step() else {
            return Err(unrepairable("this state performs no actions"));
        };
        if self.exec.cancelled.is_some() {
            return Err(unrepairable("it is being cancelled"));
        }
        let parked = matches!(self.exec.phase, Phase::Parked { .. });
        match repair {
            Repair::Edit { patch } => self.edit(&act, patch, by),
            Repair::Skip { slot: None } => self.skip(&act),
            Repair::Skip { slot: Some(_) } => {
                Err(bad_repair("slot", "only a whole step can be skipped: omit the slot"))
            }
            Repair::UndoWith { .. } => Err(unrepairable("it is not being undone")),
            Repair::MarkDone { .. } | Repair::MarkNotDone { .. } if !parked => {
                Err(unrepairable("attempts are still running: pause it, or wait until it is parked"))
            }
            Repair::MarkDone { slot, output, .. } => self.mark_done(&act, slot, output),
            Repair::MarkNotDone { slot, .. } => {
                self.failed_slot(slot)?.doubt = false;
                self.retry()
            }
        }
    }

    /// Returns a failed slot of a parked step.
    fn failed_slot(&mut self, number: u32) -> Result<&mut Slot, Refusal> {
        let count = self.exec.slots.len();
        let slot = self.exec.slots.get_mut(number as usize);
        let slot = slot.ok_or_else(|| {
            bad_repair("slot", format!("slot {number} does not exist; the step has {count}, numbered from 0"))
        })?;
        if !matches!(slot.settled, Some(Err(_))) {
            return Err(bad_repair("slot", format!("slot {number} has not failed")));
        }
        Ok(slot)
    }

    /// Starts a new visit of a parked step.
    fn take_up(&mut self) {
        self.exec.phase = Phase::Forward;
        self.exec.visit += 1;
        self.exec.since = self.at;
        self.exec.overdue = false;
    }

    fn mark_done(&mut self, act: &Act<W>, slot: u32, output: Value) -> Result<(), Refusal> {
        self.failed_slot(slot)?;
        let branch = act
            .branches
            .get(slot as usize)
            .ok_or_else(|| unrepairable("the step no longer has this slot"))?;
        if act.child_type.is_some() {
            return Err(unrepairable("its result comes from the child: repair the child"));
        }
        statable(act, branch)?;
        if let Some(record) = &branch.record {
            let mut tried = self.exec.data.clone();
            record(&mut tried, output.clone()).map_err(|error| bad_repair("output", error.message))?;
        }
        self.take_up();
        if matches!(act.commitment, Commitment::ForwardOnly { .. }) {
            self.pass_pivot();
        }
        let result = Ok(output);
        self.set_undo_state(slot, &result);
        self.close_slot(slot, result);
        self.schedule_wakeup(Some(act.within));
        self.continue_act(act);
        Ok(())
    }

    fn skip(&mut self, act: &Act<W>) -> Result<(), Refusal> {
        if !act.optional {
            return Err(unrepairable("the step is not optional"));
        }
        if self.exec.slots.iter().any(|slot| slot.begun && slot.settled.is_none()) {
            return Err(unrepairable("attempts are still running: wait until it is parked"));
        }
        self.note_failure();
        self.exec.phase = Phase::Forward;
        self.enter(act.skip_to.unwrap_or(act.next), Some(SKIPPED.into()));
        Ok(())
    }

    /// Changes the data, and starts every unfinished slot again with new idempotency keys. An authorised plan cannot
    /// be changed: things exist that were made by it, and the approvers have not seen the new one.
    fn edit(&mut self, act: &Act<W>, patch: Value, by: &str) -> Result<(), Refusal> {
        let edited = self.edited(patch)?;
        let replanned = self.exec.digest_of(&edited) != self.exec.digest();
        if replanned && self.exec.authorisation.is_some() {
            let why = "it changes the authorised plan: cancel the execution, which undoes its actions, and submit a new request";
            return Err(bad_repair("patch", why));
        }
        let Step::Act(then) = edited.step(self.exec.state) else {
            return Err(bad_repair("patch", "with it, this state would perform no actions"));
        };
        self.check_what_is_done(act, &then)?;
        let before = std::mem::replace(&mut self.exec.data, edited);
        if replanned {
            self.exec.shaped_by.insert(by.to_owned());
        }
        let parked = matches!(self.exec.phase, Phase::Parked { .. });
        if let Some(asked) = self.check_authorisation(&then) {
            if self.exec.slots.iter().any(|slot| matches!(slot.settled, Some(Ok(_)))) {
                self.exec.data = before;
                return Err(bad_repair("patch", "it changes a plan that is already partly done"));
            }
            if let Some(state) = asked {
                self.exec.phase = Phase::Forward;
                self.enter(state, Some(PLAN_CHANGED.into()));
            }
            return Ok(());
        }
        if !parked && self.exec.slots.iter().all(|slot| !slot.begun) {
            return Err(self.unexpected("repaired"));
        }
        self.take_up();
        for slot in &mut self.exec.slots {
            if slot.begun && !matches!(slot.settled, Some(Ok(_))) {
                *slot = Slot { slot_revision: slot.slot_revision.saturating_add(1), ..Slot::default() };
            }
        }
        if self.exec.slots.is_empty() {
            // Parked before it began.
            self.enter(self.exec.state, None);
            return Ok(());
        }
        self.begin_slots(&then);
        self.schedule_wakeup(Some(then.within));
        Ok(())
    }

    fn edited(&self, patch: Value) -> Result<W, Refusal> {
        if !patch.is_object() {
            return Err(bad_repair(
                "patch",
                "must be an object with the fields to change; null removes a field",
            ));
        }
        editable::<W>(&patch)?;
        let mut data =
            serde_json::to_value(&self.exec.data).map_err(|error| unrepairable(error.to_string()))?;
        merge(&mut data, patch);
        data.sort_all_objects();
        let edited: W =
            serde_json::from_value(data.clone()).map_err(|error| bad_repair("patch", error.to_string()))?;
        // Deserialization drops unknown fields silently, so look for them.
        let kept = serde_json::to_value(&edited).map_err(|error| unrepairable(error.to_string()))?;
        if let Some(field) = unknown(&data, &kept) {
            return Err(bad_repair("patch", format!("the workflow has no field {field}")));
        }
        if edited.subject() != self.exec.data.subject() {
            return Err(bad_repair("patch", "it would change the subject of the execution"));
        }
        Ok(edited)
    }

    /// Checks that finished actions keep their arguments, and that actions which may be running are safe to run
    /// beside the new ones.
    fn check_what_is_done(&self, act: &Act<W>, then: &Act<W>) -> Result<(), Refusal> {
        if !self.exec.slots.is_empty() && act.branches.len() != then.branches.len() {
            return Err(bad_repair("patch", "it changes how many actions the step has"));
        }
        for ((slot, old), new) in self.exec.slots.iter().zip(&act.branches).zip(&then.branches) {
            let open = slot.begun && slot.settled.is_none();
            let doubtful =
                slot.doubt || matches!(&slot.settled, Some(Err(error)) if error.class == Class::Unknown);
            if matches!(slot.settled, Some(Ok(_))) && old.action.arguments != new.action.arguments {
                return Err(bad_repair(
                    "patch",
                    format!("it changes the arguments of {}, which is already done", old.action.name),
                ));
            }
            if (open || doubtful) && old.action.repeat == Repeat::AfterProbe {
                return Err(unrepairable(format!(
                    "{} may have taken effect and must not be repeated: mark it done or not done first",
                    old.action.name
                )));
            }
            if open && act.child_type.is_some() {
                return Err(unrepairable("it waits for children: wait until they have ended"));
            }
        }
        Ok(())
    }

    fn repair_undo(&mut self, repair: Repair, unwinding: Unwinding) -> Result<(), Refusal> {
        let (slot, fate) = match repair {
            Repair::Edit { .. } => {
                return Err(unrepairable("it is being undone: run the undo with other arguments instead"));
            }
            Repair::Skip { slot: None } => {
                return Err(bad_repair("slot", "name the slot whose undo is skipped"));
            }
            Repair::Skip { slot: Some(slot) } => (slot, Some(UndoState::Kept)),
            Repair::MarkDone { slot, .. } => (slot, Some(UndoState::Undone)),
            Repair::MarkNotDone { slot, .. } => {
                self.failed_slot(slot)?.doubt = false;
                return self.retry();
            }
            Repair::UndoWith { slot, undo, arguments } => {
                self.undo_with(&unwinding, slot, undo, arguments)?;
                (slot, None)
            }
        };
        self.failed_slot(slot)?;
        let place = unwinding.places.get(slot as usize).copied();
        let mark = place.and_then(|place| self.exec.trail.get_mut(place));
        let mark: &mut TrailEntry = mark.ok_or_else(|| unrepairable("the trail no longer has this slot"))?;
        if mark.undo == CANCEL {
            return Err(unrepairable("its result comes from the child: repair the child"));
        }
        let Some(fate) = fate else { return self.retry() };
        mark.fate = fate;
        self.close_slot(slot, Ok(Value::Null));
        let blocked = |slot: &Slot| matches!(slot.settled, Some(Err(_)));
        if self.exec.slots.iter().any(blocked) {
            let errors = self.errors();
            self.park(crate::Reason::CompensationBlocked, errors, Some(unwinding));
        } else {
            self.exec.phase = Phase::Compensating(unwinding);
            self.unwind_next();
        }
        Ok(())
    }

    fn undo_with(
        &mut self,
        unwinding: &Unwinding,
        slot: u32,
        undo: String,
        arguments: Value,
    ) -> Result<(), Refusal> {
        self.failed_slot(slot)?.doubt = false;
        let place = unwinding.places.get(slot as usize).copied();
        let Some(mark) = place.and_then(|place| self.exec.trail.get(place)) else {
            return Err(unrepairable("the trail no longer has this slot"));
        };
        let told = TrailEntry {
            undo,
            arguments,
            undo_revision: mark.undo_revision.saturating_add(1),
            ..mark.clone()
        };
        unwind::undo_of::<W>(&self.exec.data, &told)
            .map_err(|ActionError { message, .. }| bad_repair("undo", message))?;
        if let Some(mark) = place.and_then(|place| self.exec.trail.get_mut(place)) {
            *mark = told;
        }
        Ok(())
    }
}

/// Applies a JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(fields) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(known) = target.as_object_mut() else { return };
    for (name, value) in fields {
        if value.is_null() {
            known.remove(&name);
        } else {
            merge(known.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Returns the path of a field of `wanted` that `kept` does not have.
fn unknown(wanted: &Value, kept: &Value) -> Option<String> {
    let (Value::Object(wanted), Value::Object(kept)) = (wanted, kept) else { return None };
    wanted.iter().find_map(|(name, value)| match kept.get(name) {
        None if is_default(value) => None,
        None => Some(name.clone()),
        Some(kept) => unknown(value, kept).map(|inner| format!("{name}.{inner}")),
    })
}

/// Returns true for the default values that serde may omit.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) => false,
    }
}
