//! What the last look at a closed tenant came to: whether anything of it is there, again or still.
//!
//! Written by looks at closed tenants; read by the list of what is stuck, by holds, and by the offboarding of what remains.
//! Invariant: what was seen stays on the list until both observers have looked for it and have not seen it. A source without an
//! answer removes nothing.

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

/// How something of a closed tenant that was seen stands to its certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RemainsStanding {
    /// A certificate says that it is destroyed, or none names it.
    Returned,
    /// A certificate says by when it is destroyed, and that day has passed.
    RetentionOver,
    /// A certificate lists it as an exception.
    Excepted,
    /// A certificate lists it as kept for now.
    Retained,
    /// It is a node of the tenant in quarantine.
    Quarantined,
}

impl RemainsStanding {
    /// Returns true if a person has to look at it: no certificate accounts for it.
    #[must_use]
    pub fn is_finding(self) -> bool {
        match self {
            Self::Returned | Self::RetentionOver => true,
            Self::Excepted | Self::Retained | Self::Quarantined => false,
        }
    }
}

/// Something of a closed tenant that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRemains {
    /// Where it is.
    pub thing: TenantResource,
    /// Tells it from an earlier or later thing of the same name.
    pub uid: String,
    /// How it stands to the certificates.
    pub standing: RemainsStanding,
    /// What the data on it is, if a certificate or the thing itself says so.
    pub class: Option<DataClass>,
    /// Whether a certificate lists it.
    pub certified: bool,
    /// When a look first saw it.
    pub first_seen: Moment,
    /// When a look last saw it. Older than the look where its source did not answer since.
    pub last_seen: Moment,
}

impl SeenRemains {
    /// Describes the thing in one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let what = match self.standing {
            RemainsStanding::Returned if self.certified => {
                "is there, and a certificate says that it is destroyed"
            }
            RemainsStanding::Returned => "is there, and no certificate names it",
            RemainsStanding::RetentionOver => "is still there, and its retention is over",
            RemainsStanding::Excepted => "is there, as a certificate says",
            RemainsStanding::Retained => "is kept, as a certificate says",
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

/// The last look at a closed tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedTenantLook {
    /// The tenant.
    pub tenant: TenantId,
    /// When the look began.
    pub at: Moment,
    /// When the last look began in which every source answered.
    pub complete_at: Option<Moment>,
    /// The things that were seen, findings first.
    pub remains: Vec<SeenRemains>,
    /// The number of things that were seen and are not listed.
    pub more: usize,
    /// Since when looks have had findings.
    pub found_since: Option<Moment>,
    /// The sources that did not answer. What lies there is neither present nor absent.
    pub unanswered: Vec<UnansweredSource>,
    /// Since when some source has not answered.
    pub unanswered_since: Option<Moment>,
    /// Which certified asset the next look reads by its name first.
    #[serde(default)]
    pub next_name: usize,
}

impl ClosedTenantLook {
    /// The most things that one look lists: they share one document.
    pub const MOST_REMAINS: usize = 300;

    /// Returns the things that a person has to look at.
    pub fn findings(&self) -> impl Iterator<Item = &SeenRemains> {
        self.remains.iter().filter(|seen| seen.standing.is_finding())
    }

    /// Returns true if a person has to look at something.
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
            "nothing of it was found that its certificates do not account for".to_owned()
        } else {
            format!("{named}{others} bears its mark or its name")
        };
        let silent: Vec<String> = self
            .unanswered
            .iter()
            .map(|source| format!("{} ({}: {})", source.system, source.eyes, source.why))
            .collect();
        let silent = if silent.is_empty() {
            String::new()
        } else {
            format!("; not known, since these gave no answer: {}", silent.join(", "))
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

/// The destructions of a closed tenant that have ended, if a look saw something of the tenant since: what is there can be held again.
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
