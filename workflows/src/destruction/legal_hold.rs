//! Holds, which prevent the destruction of everything in their scope, and the mark after which a hold is too late.
//!
//! Invariant (I-13): both are in one document per tenant, so that a new hold and the start of a destruction conflict. Either the hold is rejected as
//! too late, or the destruction sees it.

use crate::{
    destruction::{asset::AssetId, released_hold::ReleasedHold},
    signing::{Digest, Moment},
    tenancy::{TenantId, WorkspaceName},
};
use engine::{Entity, Provenance};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};
use store::ExecutionId;

/// The kind of a hold.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum HoldKind {
    /// A court, an authority, or a legal claim.
    Legal,
    /// Evidence of an incident.
    Incident,
    /// An open bill.
    Billing,
}

/// A part of a tenant, or all of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldScope {
    /// The whole tenant.
    Tenant,
    /// One workspace.
    Workspace(WorkspaceName),
    /// One asset.
    Asset {
        /// The asset's id.
        asset: AssetId,
        /// The workspace of the asset. `None` if it is unknown.
        workspace: Option<WorkspaceName>,
    },
}

impl HoldScope {
    /// Returns the workspace of the scope. `None` if it is not limited to one.
    #[must_use]
    pub fn workspace(&self) -> Option<&WorkspaceName> {
        match self {
            Self::Tenant => None,
            Self::Workspace(name) => Some(name),
            Self::Asset { workspace, .. } => workspace.as_ref(),
        }
    }

    /// Returns true if the scopes overlap or may overlap.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Asset { asset: one, .. }, Self::Asset { asset: other, .. }) => one == other,
            (Self::Tenant, _) | (_, Self::Tenant) => true,
            (one, other) => match (one.workspace(), other.workspace()) {
                (Some(one), Some(other)) => one == other,
                (None, _) | (_, None) => true,
            },
        }
    }
}

impl fmt::Display for HoldScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant => f.write_str("the whole tenant"),
            Self::Workspace(name) => write!(f, "workspace {name}"),
            Self::Asset { asset, .. } => write!(f, "asset {asset}"),
        }
    }
}

/// An order to keep data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The hold's name, unique within the tenant.
    pub id: String,
    /// The kind of hold.
    pub kind: HoldKind,
    /// The scope of the hold.
    pub scope: HoldScope,
    /// The reason, as text.
    pub reason: String,
    /// The person who ordered it.
    pub placed_by: String,
    /// The source of that person's credential. `None` if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed_from: Option<Provenance>,
    /// The time when it was placed.
    pub placed_at: Moment,
    /// The date of the next review. The hold does not end by itself.
    pub review_at: Option<Moment>,
}

impl Hold {
    /// The longest name, in bytes.
    pub const LONGEST_ID: usize = 64;
    /// The longest name of a person, in bytes.
    pub const LONGEST_PERSON: usize = 256;
}

/// The mark that a destruction has begun and cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pivot {
    /// The scope of the destruction.
    pub scope: HoldScope,
    /// The execution that destroys the data. Its inventory and records list the destroyed and the remaining assets.
    pub run: ExecutionId,
    /// The digest of the approved inventory.
    pub inventory: Digest,
    /// The start of the destruction.
    pub at: Moment,
}

/// The holds in force on a tenant, and its pivots. Each tenant has one document, and every change rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The holds in force, in the order of their placement.
    pub open: Vec<Hold>,
    /// The destructions that have begun.
    pub pivots: Vec<Pivot>,
}

/// The reason why the document of holds was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum HoldError {
    /// Destruction has begun, so the hold is too late.
    #[error("destruction of {} began at {} by execution {}", pivot.scope, pivot.at, pivot.run)]
    PastPivot {
        /// The destruction.
        pivot: Box<Pivot>,
    },
    /// A hold prevents the destruction.
    #[error("{} of {tenant} is under hold: {}", scope, names(holds))]
    Held {
        /// The tenant's id.
        tenant: TenantId,
        /// The scope of the destruction.
        scope: HoldScope,
        /// The holds that overlap it.
        holds: Vec<Hold>,
    },
    /// There is no such hold in force.
    #[error("tenant {tenant} has no hold {id} in force")]
    NoSuchHold {
        /// The tenant's id.
        tenant: TenantId,
        /// The hold's name.
        id: String,
    },
    /// A different hold of this name exists.
    #[error("tenant {tenant} already has a hold {id} with other content")]
    Taken {
        /// The tenant's id.
        tenant: TenantId,
        /// The hold's name.
        id: String,
    },
    /// Four-eyes rule: the person who placed a hold must not release it.
    #[error("{person} placed hold {id}, so another person must release it")]
    OwnHold {
        /// The person.
        person: String,
        /// The hold's name.
        id: String,
    },
    /// The maximum number of holds is reached.
    #[error("tenant {tenant} has {} holds in force, which is the limit: release some first", Holds::LIMIT)]
    TooMany {
        /// The tenant's id.
        tenant: TenantId,
    },
    /// A text is missing or too long.
    #[error("{field} {problem}")]
    Text {
        /// The name of the field.
        field: String,
        /// The description of the problem.
        problem: String,
    },
}

impl Holds {
    /// The maximum number of holds in force on one tenant. They share one document.
    pub const LIMIT: usize = 100;
    /// The longest reason, in bytes.
    pub const LONGEST_REASON: usize = 1000;

    /// Returns a document without holds.
    #[must_use]
    pub fn empty(tenant: TenantId) -> Self {
        Self { tenant, open: Vec::new(), pivots: Vec::new() }
    }

    /// Returns the holds in force that overlap `scope`.
    pub fn covering<'a>(&'a self, scope: &'a HoldScope) -> impl Iterator<Item = &'a Hold> {
        self.open.iter().filter(move |hold| hold.scope.overlaps(scope))
    }

    /// Returns the pivot of a destruction that overlaps `scope`.
    #[must_use]
    pub fn pivot_over(&self, scope: &HoldScope) -> Option<&Pivot> {
        self.pivots.iter().find(|pivot| pivot.scope.overlaps(scope))
    }

    /// Returns the document with `hold` in force. An equal hold changes only its review date.
    ///
    /// # Errors
    /// [`HoldError::PastPivot`] if the destruction of a part of its scope has begun. Also fails for a used name and for too many holds.
    pub fn place(&self, hold: Hold) -> Result<Self, HoldError> {
        self.place_after(hold, &BTreeSet::new())
    }

    /// As [`Holds::place`], and ignores the pivots of the completed destructions in `ended`, because resources of the tenant were found since.
    ///
    /// # Errors
    /// As [`Holds::place`].
    pub fn place_after(&self, hold: Hold, ended: &BTreeSet<ExecutionId>) -> Result<Self, HoldError> {
        check_text("id", &hold.id, Hold::LONGEST_ID)?;
        check_text("reason", &hold.reason, Self::LONGEST_REASON)?;
        check_text("placed_by", &hold.placed_by, Hold::LONGEST_PERSON)?;
        let past_review = hold.review_at.is_some_and(|review| review <= hold.placed_at);
        let past = || HoldError::Text { field: "review_at".into(), problem: "is not in the future".into() };
        if let Some(there) = self.open.iter().position(|there| there.id == hold.id) {
            let taken = || HoldError::Taken { tenant: self.tenant.clone(), id: hold.id.clone() };
            let mut next = self.clone();
            let standing = next.open.get_mut(there).ok_or_else(taken)?;
            let (placed_at, placed_from) = (standing.placed_at, standing.placed_from.clone());
            let review_at = standing.review_at;
            if (Hold { placed_at, placed_from, review_at, ..hold.clone() }) != *standing {
                return Err(taken());
            }
            // A new review date must be in the future.
            if review_at != hold.review_at && past_review {
                return Err(past());
            }
            standing.review_at = hold.review_at;
            return Ok(next);
        }
        if past_review {
            return Err(past());
        }
        let destroying = |pivot: &&Pivot| !ended.contains(&pivot.run) && pivot.scope.overlaps(&hold.scope);
        if let Some(pivot) = self.pivots.iter().find(destroying) {
            return Err(HoldError::PastPivot { pivot: Box::new(pivot.clone()) });
        }
        if self.open.len() >= Self::LIMIT {
            return Err(HoldError::TooMany { tenant: self.tenant.clone() });
        }
        let mut next = self.clone();
        next.open.push(hold);
        Ok(next)
    }

    /// Returns the document without the hold, and the hold for the archive.
    ///
    /// # Errors
    /// Fails if there is no such hold, or if `by` placed it.
    pub fn release(
        &self,
        id: &str,
        by: &str,
        reason: &str,
        at: Moment,
    ) -> Result<(Self, ReleasedHold), HoldError> {
        check_text("released_by", by, Hold::LONGEST_PERSON)?;
        check_text("reason", reason, Self::LONGEST_REASON)?;
        let Some(place) = self.open.iter().position(|hold| hold.id == id) else {
            return Err(HoldError::NoSuchHold { tenant: self.tenant.clone(), id: id.to_owned() });
        };
        let mut next = self.clone();
        let hold = next.open.remove(place);
        if hold.placed_by.trim() == by.trim() {
            return Err(HoldError::OwnHold { person: by.to_owned(), id: id.to_owned() });
        }
        let (tenant, released_by, reason) = (self.tenant.clone(), by.to_owned(), reason.to_owned());
        Ok((next, ReleasedHold { tenant, hold, released_by, released_at: at, reason, number: 1 }))
    }

    /// Returns the document with the pivot. An equal pivot changes nothing.
    ///
    /// # Errors
    /// [`HoldError::Held`] with every hold that overlaps the scope.
    pub fn pass_pivot(&self, pivot: Pivot) -> Result<Self, HoldError> {
        if self.pivots.iter().any(|passed| passed.run == pivot.run && passed.scope == pivot.scope) {
            return Ok(self.clone());
        }
        let holds: Vec<_> = self.covering(&pivot.scope).cloned().collect();
        if !holds.is_empty() {
            return Err(HoldError::Held { tenant: self.tenant.clone(), scope: pivot.scope, holds });
        }
        let mut next = self.clone();
        next.pivots.push(pivot);
        Ok(next)
    }
}

impl Entity for Holds {
    const COLLECTION: &'static str = "holds";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}

fn names(holds: &[Hold]) -> String {
    holds
        .iter()
        .map(|hold| format!("{} ({}, {}, by {})", hold.id, hold.kind, hold.scope, hold.placed_by))
        .collect::<Vec<_>>()
        .join(", ")
}

fn check_text(field: &str, text: &str, longest: usize) -> Result<(), HoldError> {
    let problem = if text.trim().is_empty() {
        "is missing".to_owned()
    } else if text.len() > longest {
        format!("is longer than {longest} bytes")
    } else {
        return Ok(());
    };
    Err(HoldError::Text { field: field.to_owned(), problem })
}
