//! Places and releases holds.
//!
//! Invariant: a release ends one hold and writes a record of its own.

use crate::{
    destruction::{
        closed_look::ended_destructions,
        ledger::{HoldRefused, destruction_progress, holds_of},
        legal_hold::{Hold, HoldError, HoldKind, HoldScope},
        released_hold::ReleasedHold,
    },
    signing::Moment,
    tenancy::TenantId,
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};

/// Places a hold. Safe to decide again: an existing equal hold is kept. Its undo, if necessary, is [`ReleaseHold`] by another person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceHold {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The hold's name, unique within the tenant.
    pub id: String,
    /// The kind of hold.
    pub kind: HoldKind,
    /// The scope of the hold.
    pub scope: HoldScope,
    /// The reason, as text.
    pub reason: String,
    /// The person who orders it.
    pub placed_by: String,
    /// The source of that person's credential. `None` for a workflow.
    #[serde(default)]
    pub placed_from: Option<engine::Provenance>,
    /// The date of the next review.
    pub review_at: Option<Moment>,
}

impl PlaceHold {
    /// Decides, also for callers outside an execution.
    ///
    /// # Errors
    /// As [`View::get`]. A rejection is part of the result, so that it can be displayed completely.
    pub fn place(&self, view: &mut View) -> Result<Result<Hold, HoldRefused>, Undecided> {
        let hold = Hold {
            id: self.id.clone(),
            kind: self.kind,
            scope: self.scope.clone(),
            reason: self.reason.clone(),
            placed_by: self.placed_by.clone(),
            placed_from: self.placed_from.clone(),
            placed_at: view.now().into(),
            review_at: self.review_at,
        };
        let holds = holds_of(view, &self.tenant)?;
        let ended = ended_destructions(view, &holds)?;
        match holds.place_after(hold, &ended) {
            Ok(next) => {
                view.put(&next)?;
                let placed = next.open.into_iter().find(|hold| hold.id == self.id);
                let lost = || HoldError::NoSuchHold { tenant: self.tenant.clone(), id: self.id.clone() };
                Ok(placed.ok_or_else(|| HoldRefused { error: lost(), standing: None }))
            }
            Err(error) => {
                let standing = match &error {
                    HoldError::PastPivot { pivot } => {
                        Some(destruction_progress(view, &self.tenant, pivot.run)?)
                    }
                    HoldError::Held { .. }
                    | HoldError::NoSuchHold { .. }
                    | HoldError::Taken { .. }
                    | HoldError::OwnHold { .. }
                    | HoldError::TooMany { .. }
                    | HoldError::Text { .. } => None,
                };
                Ok(Err(HoldRefused { error, standing }))
            }
        }
    }
}

impl LedgerAction for PlaceHold {
    const NAME: &'static str = "PlaceHold";
    type Output = Hold;

    fn decide(&self, view: &mut View, _: &Call) -> Result<Hold, Undecided> {
        Ok(self.place(view)??)
    }
}

/// Releases a hold. The person must not be the one who placed it. Safe to decide again: a released hold stays released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseHold {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The hold's name.
    pub id: String,
    /// The person who releases it.
    pub released_by: String,
    /// The reason.
    pub reason: String,
}

impl ReleaseHold {
    /// Decides, also for callers outside an execution.
    ///
    /// # Errors
    /// As [`View::get`]. A rejection is part of the result, so that it can be displayed completely.
    pub fn release(&self, view: &mut View) -> Result<Result<ReleasedHold, HoldRefused>, Undecided> {
        let holds = holds_of(view, &self.tenant)?;
        let at = view.now().into();
        match holds.release(&self.id, &self.released_by, &self.reason, at) {
            Ok((next, released)) => {
                // Earlier holds of this name that were released keep their records.
                let before = ReleasedHold::all_of(view, &self.tenant, &self.id)?.len();
                let number = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
                let released = ReleasedHold { number, ..released };
                view.put(&next)?;
                view.put(&released)?;
                Ok(Ok(released))
            }
            Err(error @ HoldError::NoSuchHold { .. }) => {
                let before = ReleasedHold::all_of(view, &self.tenant, &self.id)?.pop();
                let same = before.filter(|released| released.released_by == self.released_by);
                Ok(same.ok_or(HoldRefused { error, standing: None }))
            }
            Err(error) => Ok(Err(HoldRefused { error, standing: None })),
        }
    }
}

impl LedgerAction for ReleaseHold {
    const NAME: &'static str = "ReleaseHold";
    type Output = ReleasedHold;

    fn decide(&self, view: &mut View, _: &Call) -> Result<ReleasedHold, Undecided> {
        Ok(self.release(view)??)
    }
}
