//! Holds: nothing in their scope is destroyed. And the mark past which no hold can be honoured any more.
//!
//! Invariant (I-13): both live in one document per tenant, so that a hold that is placed and a destruction that begins
//! race for one row. Either the hold is refused as too late, or the destruction sees it; never neither.

use crate::{
    destruction::{asset::AssetId, released_hold::ReleasedHold},
    signing::{Digest, Moment},
    tenancy::{TenantId, WorkspaceName},
};
use engine::{Entity, Provenance};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};
use store::ExecutionId;

/// Why something must be kept.
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
    /// A court, an authority, or a claim.
    Legal,
    /// Evidence of an incident.
    Incident,
    /// An open bill.
    Billing,
}

/// How much of a tenant something is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldScope {
    /// All of it.
    Tenant,
    /// One workspace.
    Workspace(WorkspaceName),
    /// One asset.
    Asset {
        /// Which one.
        asset: AssetId,
        /// The workspace that it belongs to; none when it may belong to any.
        workspace: Option<WorkspaceName>,
    },
}

impl HoldScope {
    /// The workspace that it is limited to; none when it may be of any.
    #[must_use]
    pub fn workspace(&self) -> Option<&WorkspaceName> {
        match self {
            Self::Tenant => None,
            Self::Workspace(name) => Some(name),
            Self::Asset { workspace, .. } => workspace.as_ref(),
        }
    }

    /// Whether the two have something in common, or may have.
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

/// An order that something be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Its name, unique within the tenant.
    pub id: String,
    /// The reason.
    pub kind: HoldKind,
    /// What must be kept.
    pub scope: HoldScope,
    /// Why, in words.
    pub reason: String,
    /// Who ordered it.
    pub placed_by: String,
    /// Where the credential came from by which they did; none where that was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed_from: Option<Provenance>,
    /// When.
    pub placed_at: Moment,
    /// When somebody must look at it again. It does not end by itself.
    pub review_at: Option<Moment>,
}

impl Hold {
    /// The longest name, in bytes.
    pub const LONGEST_ID: usize = 64;
    /// The longest name of who placed or released a hold, in bytes.
    pub const LONGEST_PERSON: usize = 256;
}

/// The mark that a destruction has begun and cannot be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pivot {
    /// What is being destroyed.
    pub scope: HoldScope,
    /// The execution that destroys it. Its inventory and records say what is gone and what still exists.
    pub run: ExecutionId,
    /// The inventory that people approved.
    pub inventory: Digest,
    /// When.
    pub at: Moment,
}

/// The holds in force on a tenant, and what of it is past saving. One document per tenant; every change rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Whose.
    pub tenant: TenantId,
    /// The holds in force, in the order in which they were placed.
    pub open: Vec<Hold>,
    /// The destructions that have begun.
    pub pivots: Vec<Pivot>,
}

/// Why the document of holds was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum HoldError {
    /// Destruction has begun: the hold comes too late.
    #[error("destruction of {} began at {} by execution {}", pivot.scope, pivot.at, pivot.run)]
    PastPivot {
        /// Which destruction.
        pivot: Box<Pivot>,
    },
    /// Something must be kept, so nothing may be destroyed.
    #[error("{} of {tenant} stands under hold: {}", scope, names(holds))]
    Held {
        /// Whose.
        tenant: TenantId,
        /// What was to be destroyed.
        scope: HoldScope,
        /// What keeps it.
        holds: Vec<Hold>,
    },
    /// There is no such hold in force.
    #[error("tenant {tenant} has no hold {id} in force")]
    NoSuchHold {
        /// Whose.
        tenant: TenantId,
        /// Which one.
        id: String,
    },
    /// There is such a hold already, and it is another.
    #[error("tenant {tenant} has a hold {id} already, and it says something else")]
    Taken {
        /// Whose.
        tenant: TenantId,
        /// Which one.
        id: String,
    },
    /// Four eyes: who placed a hold does not release it.
    #[error("{person} placed hold {id} and cannot release it: another person must")]
    OwnHold {
        /// Who tried.
        person: String,
        /// Which one.
        id: String,
    },
    /// A bound was reached.
    #[error("tenant {tenant} has {} holds in force, which is the limit: release some first", Holds::LIMIT)]
    TooMany {
        /// Whose.
        tenant: TenantId,
    },
    /// A text is missing or too long.
    #[error("{field} {problem}")]
    Text {
        /// Which field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Holds {
    /// How many holds may be in force on one tenant: they share one document.
    pub const LIMIT: usize = 100;
    /// The longest reason, in bytes.
    pub const LONGEST_REASON: usize = 1000;

    /// No holds.
    #[must_use]
    pub fn empty(tenant: TenantId) -> Self {
        Self { tenant, open: Vec::new(), pivots: Vec::new() }
    }

    /// The holds in force that keep something of `scope`.
    pub fn covering<'a>(&'a self, scope: &'a HoldScope) -> impl Iterator<Item = &'a Hold> {
        self.open.iter().filter(move |hold| hold.scope.overlaps(scope))
    }

    /// The destruction, begun and not to be taken back, that took something of `scope`.
    #[must_use]
    pub fn pivot_over(&self, scope: &HoldScope) -> Option<&Pivot> {
        self.pivots.iter().find(|pivot| pivot.scope.overlaps(scope))
    }

    /// The document with `hold` in force. Placing the very same hold again changes nothing but the day of its review.
    ///
    /// # Errors
    /// [`HoldError::PastPivot`] when something of its scope is being destroyed already; a name that is taken; too many.
    pub fn place(&self, hold: Hold) -> Result<Self, HoldError> {
        self.place_after(hold, &BTreeSet::new())
    }

    /// The same, where the destructions by `ended` are over and something of the tenant is there again or still.
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
            // Looked at again, it is to be looked at once more on another day.
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

    /// The document without the hold, and the hold for the archive.
    ///
    /// # Errors
    /// When there is no such hold, or `by` placed it.
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

    /// The document with the mark that destruction has begun. Passing the same pivot again changes nothing.
    ///
    /// # Errors
    /// [`HoldError::Held`] with every hold that keeps something of the scope.
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
