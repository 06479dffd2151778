//! The JSON of the parts of an execution that grow with its step: slots, trail and data, cached until they change.
//!
//! An event about one slot of thousands encodes this slot and its trail entry, and copies the rest. Invariant: cached
//! JSON equals the current part; a change of a part removes its JSON here.

use crate::{Execution, Phase, Slot, TrailEntry, Workflow};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;
use store::Timestamp;

/// The JSON of one part.
type Json = Arc<RawValue>;

/// The encoded parts of an execution.
#[derive(Clone, Default)]
pub(crate) struct Encoded {
    slots: Vec<Option<Json>>,
    trail: Vec<Option<Json>>,
    data: Option<Json>,
}

impl Encoded {
    /// The slot of this number changes.
    pub(crate) fn forget_slot(&mut self, number: u32) {
        forget(&mut self.slots, number as usize);
    }

    /// The trail entry at this place changes.
    pub(crate) fn forget_trail(&mut self, place: usize) {
        forget(&mut self.trail, place);
    }

    /// Encodes the execution to the same bytes as its [`Serialize`].
    ///
    /// # Errors
    /// Same as [`serde_json::to_vec`].
    pub(crate) fn encode<W: Workflow>(&mut self, execution: &Execution<W>) -> serde_json::Result<Vec<u8>> {
        encode_all(&mut self.slots, &execution.slots)?;
        encode_all(&mut self.trail, &execution.trail)?;
        let data = match &self.data {
            Some(data) => data.clone(),
            None => Json::from(to_raw_value(&execution.data)?),
        };
        self.data = Some(data.clone());
        let pieces =
            |all: &[Option<Json>]| all.iter().flatten().map(|json| json.get().len() + 1).sum::<usize>();
        let length = pieces(&self.slots) + pieces(&self.trail) + data.get().len();
        // Room for the other fields, which are few.
        let mut body = Vec::with_capacity(length.saturating_add(4 << 10));
        serde_json::to_writer(&mut body, &fields(execution, &self.slots, &self.trail, &data))?;
        Ok(body)
    }
}

fn forget(kept: &mut [Option<Json>], place: usize) {
    if let Some(part) = kept.get_mut(place) {
        *part = None;
    }
}

/// Encodes each of `parts` that is not cached.
fn encode_all<T: Serialize>(kept: &mut Vec<Option<Json>>, parts: &[T]) -> serde_json::Result<()> {
    kept.resize(parts.len(), None);
    for (kept, part) in kept.iter_mut().zip(parts) {
        if kept.is_none() {
            *kept = Some(Json::from(to_raw_value(part)?));
        }
    }
    Ok(())
}

/// A list of encoded parts.
struct List<'a>(&'a [Option<Json>]);

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for part in self.0.iter().flatten() {
            list.serialize_element(&**part)?;
        }
        list.end()
    }
}

/// The fields of an [`Execution`], in their order and under their stored names.
#[derive(Serialize)]
struct Fields<'a> {
    state: &'static str,
    phase: &'a Phase,
    visit: u32,
    entered: u32,
    since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<List<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    overdue: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    trail: Option<List<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pivot: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authorisation: &'a Option<crate::Authorisation>,
    #[serde(skip_serializing_if = "is_zero")]
    asked_again: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ballot: &'a Option<crate::Ballot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    promised: Option<Timestamp>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    broken: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: &'a Option<crate::Failure>,
    #[serde(skip_serializing_if = "std::collections::BTreeSet::is_empty")]
    signals: &'a std::collections::BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: &'a Option<String>,
    requested_by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    requester: &'a Option<crate::Provenance>,
    #[serde(skip_serializing_if = "std::collections::BTreeSet::is_empty")]
    shaped_by: &'a std::collections::BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: &'a Option<crate::Parent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_schema: Option<u32>,
    data: &'a RawValue,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// All fields are named here, so that a new field cannot be forgotten.
fn fields<'a, W: Workflow>(
    execution: &'a Execution<W>,
    encoded_slots: &'a [Option<Json>],
    encoded_trail: &'a [Option<Json>],
    encoded_data: &'a RawValue,
) -> Fields<'a> {
    let Execution {
        state,
        phase,
        visit,
        states_entered,
        since,
        slots,
        overdue,
        trail,
        pivot,
        authorisation,
        asked_again,
        ballot,
        promised,
        promise_missed,
        last_failure,
        signals,
        paused,
        cancelled,
        requested_by,
        requester,
        shaped_by,
        parent,
        plan_schema,
        data: _,
    } = execution;
    let (slots, trail): (&[Slot], &[TrailEntry]) = (slots, trail);
    Fields {
        state: (*state).into(),
        phase,
        visit: *visit,
        entered: *states_entered,
        since: *since,
        slots: (!slots.is_empty()).then_some(List(encoded_slots)),
        overdue: *overdue,
        trail: (!trail.is_empty()).then_some(List(encoded_trail)),
        pivot,
        authorisation,
        asked_again: *asked_again,
        ballot,
        promised: *promised,
        broken: *promise_missed,
        last_failure,
        signals,
        paused,
        cancelled,
        requested_by,
        requester,
        shaped_by,
        parent,
        plan_schema: *plan_schema,
        data: encoded_data,
    }
}
