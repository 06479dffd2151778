//! Holds that are over, each with a record of its own.
//!
//! Invariant: a record is written once. A later hold of the same name has another number.

use crate::{destruction::legal_hold::Hold, signing::Moment, tenancy::TenantId};
use engine::{Entity, Undecided, View};
use serde::{Deserialize, Serialize};
use store::CompositeKey;

/// A hold that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedHold {
    /// Whose.
    pub tenant: TenantId,
    /// What it was.
    pub hold: Hold,
    /// Who released it: never who placed it.
    pub released_by: String,
    /// When.
    pub released_at: Moment,
    /// The reason.
    pub reason: String,
    /// Which hold of this name it was, from 1: a name that is free again may be given to another hold.
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
    /// The key of the record of the released hold of this name with this number.
    #[must_use]
    pub fn key(tenant: &TenantId, id: &str, number: u32) -> String {
        if number == first() {
            return CompositeKey::of(&[tenant]).tail(id).into();
        }
        CompositeKey::of(&[tenant, &id, &number]).into()
    }

    /// The released holds of this name, in the order of their numbers.
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
