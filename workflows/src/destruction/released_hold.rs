//! Released holds, each with its own record.
//!
//! Invariant: a record is written once. A later hold of the same name has another number.

use crate::{destruction::legal_hold::Hold, signing::Moment, tenancy::TenantId};
use engine::{Entity, Undecided, View};
use serde::{Deserialize, Serialize};
use store::CompositeKey;

/// A released hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedHold {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The hold.
    pub hold: Hold,
    /// The person who released it. It is never the person who placed it.
    pub released_by: String,
    /// The time of the release.
    pub released_at: Moment,
    /// The reason.
    pub reason: String,
    /// The number of the hold among those of this name, from 1. A name can be used again after a release.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub number: u32,
}

fn first() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_first(number: &u32) -> bool {
    *number == first()
}

impl ReleasedHold {
    /// Returns the key of the record for this name and number.
    #[must_use]
    pub fn key(tenant: &TenantId, id: &str, number: u32) -> String {
        if number == first() {
            return CompositeKey::of(&[tenant]).tail(id).into();
        }
        CompositeKey::of(&[tenant, &id, &number]).into()
    }

    /// Returns the released holds of this name, in the order of their numbers.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn all_of(view: &mut View, tenant: &TenantId, id: &str) -> Result<Vec<Self>, Undecided> {
        let mut all = Vec::new();
        let mut number = first();
        while let Some(released) = view.get::<Self>(&Self::key(tenant, id, number))? {
            all.push(released);
            number = number.saturating_add(1);
        }
        Ok(all)
    }
}

impl Entity for ReleasedHold {
    const COLLECTION: &'static str = "released-holds";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        Self::key(&self.tenant, &self.hold.id, self.number)
    }
}
