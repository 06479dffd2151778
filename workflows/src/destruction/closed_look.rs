//! The last check of a closed tenant for resources that exist again or still.
//!
//! Checks of closed tenants write it. The list of stuck work, holds, and the offboarding of remains read it. Invariant: a found resource stays on the
//! list until both observers have looked for it and no longer find it. A source without an answer removes no entry.

use crate::{
    destruction::{asset::DataClass, certificate::StoredCertificate, legal_hold::Holds},
    platform::TenantResource,
    signing::Moment,
    tenancy::TenantId,
};
use engine::{Entity, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::ExecutionId;

/// The relation of a found resource to the tenant's certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RemainsStanding {
    /// A certificate lists it as destroyed, or no certificate lists it.
    Returned,
    /// A certificate lists a date for its destruction, and that date has passed.
    RetentionOver,
    /// A certificate lists it as an exception.
    Excepted,
    /// A certificate lists it as retained for now.
    Retained,
    /// It is a node of the tenant in quarantine.
    Quarantined,
}

impl RemainsStanding {
    /// Returns true if an operator must review it, because no certificate explains it.
    #[must_use]
    pub fn is_finding(self) -> bool {
        match self {
            Self::Returned | Self::RetentionOver => true,
            Self::Excepted | Self::Retained | Self::Quarantined => false,
        }
    }
}

/// A resource of a closed tenant that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRemains {
    /// The place of the resource.
    pub thing: TenantResource,
    /// Distinguishes the resource from earlier or later ones of the same name.
    pub uid: String,
    /// The relation of the resource to the certificates.
    pub standing: RemainsStanding,
    /// The class of its data, if a certificate or the resource itself states it.
    pub class: Option<DataClass>,
    /// True if a certificate lists it.
    pub certified: bool,
    /// The time of the check that first found it.
    pub first_seen: Moment,
    /// The time of the check that last found it. Older than the last check if its source has not answered since.
    pub last_seen: Moment,
}

impl SeenRemains {
    /// Describes the resource in one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let what = match self.standing {
            RemainsStanding::Returned if self.certified => {
                "exists, but a certificate says that it was destroyed"
            }
            RemainsStanding::Returned => "exists, but no certificate names it",
            RemainsStanding::RetentionOver => "still exists, but its retention period is over",
            RemainsStanding::Excepted => "still exists, as an exception of a certificate",
            RemainsStanding::Retained => "is retained, as a certificate says",
            RemainsStanding::Quarantined => "is a node in quarantine",
        };
        format!("{} {what} (first seen {}, last seen {})", self.thing, self.first_seen, self.last_seen)
    }
}

/// A source that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnansweredSource {
    /// The system.
    pub system: String,
    /// The credentials: `verifier` or `platform`.
    pub eyes: String,
    /// The error.
    pub why: String,
}

/// The last check of a closed tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedTenantLook {
    /// The tenant.
    pub tenant: TenantId,
    /// The start of the check.
    pub at: Moment,
    /// The start of the last check in which every source answered.
    pub complete_at: Option<Moment>,
    /// The resources that were found, findings first.
    pub remains: Vec<SeenRemains>,
    /// The number of found resources that are not listed.
    pub more: usize,
    /// The time since which checks have had findings.
    pub found_since: Option<Moment>,
    /// The sources that did not answer. The state of their resources is unknown.
    pub unanswered: Vec<UnansweredSource>,
    /// The time since which a source has not answered.
    pub unanswered_since: Option<Moment>,
    /// The index of the certified asset that the next check reads by name first.
    #[serde(default)]
    pub next_name: usize,
}

impl ClosedTenantLook {
    /// The maximum number of listed resources. They share one document.
    pub const MOST_REMAINS: usize = 300;

    /// Returns the resources that an operator must review.
    pub fn findings(&self) -> impl Iterator<Item = &SeenRemains> {
        self.remains.iter().filter(|seen| seen.standing.is_finding())
    }

    /// Returns true if an operator must review a resource.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        self.findings().next().is_some()
    }

    /// Describes the outcome in one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let findings: Vec<String> = self.findings().map(|seen| seen.thing.to_string()).collect();
        let named = findings.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
        let others = findings.len().saturating_sub(10).saturating_add(self.more);
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        let found = if findings.is_empty() {
            "no unexpected objects of the tenant were found".to_owned()
        } else {
            format!("objects with its mark or name exist that no certificate accounts for: {named}{others}")
        };
        let silent: Vec<String> = self
            .unanswered
            .iter()
            .map(|source| format!("{} ({}: {})", source.system, source.eyes, source.why))
            .collect();
        let silent = if silent.is_empty() {
            String::new()
        } else {
            format!("; unknown for systems that did not answer: {}", silent.join(", "))
        };
        format!("closed tenant {}: {found}{silent}", self.tenant)
    }
}

impl Entity for ClosedTenantLook {
    const COLLECTION: &'static str = "closed-tenants";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}

/// Returns the completed destructions of a closed tenant if a check has found resources since. Holds on those resources are possible again.
///
/// # Errors
/// As [`View::get`].
pub(super) fn ended_destructions(view: &mut View, holds: &Holds) -> Result<BTreeSet<ExecutionId>, Undecided> {
    let look = view.get::<ClosedTenantLook>(holds.tenant.as_str())?;
    if look.is_none_or(|look| look.remains.is_empty()) {
        return Ok(BTreeSet::new());
    }
    let mut ended = BTreeSet::new();
    for pivot in &holds.pivots {
        let certificate = view.get::<StoredCertificate>(&pivot.run.to_string())?;
        if certificate.is_some_and(|certificate| certificate.signature.is_some()) {
            ended.insert(pivot.run);
        }
    }
    Ok(ended)
}
