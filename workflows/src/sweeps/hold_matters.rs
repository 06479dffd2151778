//! Holds with a due review, and offboardings that wait for a hold or a classification. Each is notified once, and listed until it is settled.
//!
//! `/v1/stuck` and the metrics read the list, and the sweep sends the notifications.

use super::report::SweepReport;
use crate::{
    destruction::{HoldScope, Holds},
    offboarding::{Offboarding, State, WRITES_STOPPED},
    platform::Platform,
    tenancy::TenantId,
};
use engine::{Engine, Entity, Error, HOUR, Notification, Undecided, View, Workflow as _};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::{CompositeKey, ExecutionId, Filter, Timestamp};

/// The number of documents and records in one read.
const PAGE: usize = 500;
/// An offboarding that waits for a classification is listed after this time. Each day it surveys again.
const UNCLASSIFIED_FOR: Duration = HOUR;

/// The reason why an operator must act on a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum HoldConcern {
    /// The review date of the hold has come.
    HoldReviewDue,
    /// An offboarding waits until no hold is in force on its tenant.
    OffboardingHeld,
    /// An offboarding waits for a classification, or for a right that the verifier lacks.
    OffboardingUnclassified,
    /// An offboarding waits until the tenant's resources stop changing.
    OffboardingChanging,
}

impl HoldConcern {
    /// Returns the kind of its notification.
    #[must_use]
    pub fn notice(self) -> &'static str {
        match self {
            Self::HoldReviewDue => "hold.review_due",
            Self::OffboardingHeld => "offboarding.held",
            Self::OffboardingUnclassified => "offboarding.unclassified",
            Self::OffboardingChanging => "offboarding.changing",
        }
    }
}

/// A hold or an offboarding that an operator must act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldMatter {
    /// The reason.
    pub concern: HoldConcern,
    /// The tenant's id.
    pub tenant: TenantId,
    /// The hold as `TENANT/NAME`, or the id of the waiting execution.
    pub id: String,
    /// The time since when it is due.
    pub since: Timestamp,
    /// The text for operators.
    pub text: String,
}

/// Returns all matters of holds that an operator must act on.
///
/// # Errors
/// The errors of the store. An unreadable document of holds is left out.
pub async fn hold_matters(engine: &Engine<Platform>) -> Result<Vec<HoldMatter>, Error> {
    let now = engine.clock().now();
    let (mut all, mut by_tenant, mut after) = (Vec::new(), BTreeMap::new(), None);
    loop {
        let page = engine.store().documents(Holds::COLLECTION, "", after.as_deref(), PAGE).await?;
        for document in &page.items {
            let Ok(holds) = engine.parse_document::<Holds>(document) else { continue };
            all.extend(due(&holds, now));
            by_tenant.insert(holds.tenant.clone(), holds);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    for state in [State::Held, State::HeldAtPivot] {
        let waits = waiting(engine, state).await?;
        all.extend(waits.into_iter().map(|wait| held(wait, &by_tenant)));
    }
    let waits = waiting(engine, State::AwaitingClassification).await?;
    let is_late = |wait: &Wait| now.since(wait.since) >= UNCLASSIFIED_FOR;
    all.extend(waits.into_iter().filter(is_late).map(unclassified));
    let waits = waiting(engine, State::AwaitingWriteStop).await?;
    all.extend(waits.into_iter().map(changing));
    Ok(all)
}

/// Returns the holds with a due review.
fn due(holds: &Holds, now: Timestamp) -> Vec<HoldMatter> {
    let review = holds.open.iter().filter_map(|hold| Some((hold, Timestamp::from(hold.review_at?))));
    let matter = |(hold, since): (&crate::destruction::Hold, Timestamp)| HoldMatter {
        concern: HoldConcern::HoldReviewDue,
        tenant: holds.tenant.clone(),
        id: format!("{}/{}", holds.tenant, hold.id),
        since,
        text: format!(
            "hold {}/{} ({}, placed by {}) is due for review: {}",
            holds.tenant, hold.id, hold.kind, hold.placed_by, hold.reason
        ),
    };
    review.filter(|(_, at)| *at <= now).map(matter).collect()
}

/// An offboarding that waits.
struct Wait {
    tenant: TenantId,
    id: ExecutionId,
    since: Timestamp,
}

/// Returns the matter of an offboarding that waits for holds.
fn held(wait: Wait, holds: &BTreeMap<TenantId, std::sync::Arc<Holds>>) -> HoldMatter {
    let Wait { tenant, id, since } = wait;
    let keeping: Vec<String> = holds.get(&tenant).map_or_else(Vec::new, |holds| {
        holds.covering(&HoldScope::Tenant).map(|hold| format!("{tenant}/{}", hold.id)).collect()
    });
    HoldMatter {
        concern: HoldConcern::OffboardingHeld,
        text: format!("the offboarding of {tenant} waits for {}", keeping.join(", ")),
        tenant,
        id: id.to_string(),
        since,
    }
}

/// Returns the matter of an offboarding that waits for a classification.
fn unclassified(Wait { tenant, id, since }: Wait) -> HoldMatter {
    HoldMatter {
        concern: HoldConcern::OffboardingUnclassified,
        text: format!(
            "the offboarding of {tenant} cannot complete its inventory: `tenure executions show {id}` shows the reason"
        ),
        tenant,
        id: id.to_string(),
        since,
    }
}

/// Returns the matter of an offboarding whose tenant keeps changing.
fn changing(Wait { tenant, id, since }: Wait) -> HoldMatter {
    HoldMatter {
        concern: HoldConcern::OffboardingChanging,
        text: format!(
            "the resources of {tenant} changed after each of its plans: stop the writes to them, then run `tenure executions signal {id} {WRITES_STOPPED}`"
        ),
        tenant,
        id: id.to_string(),
        since,
    }
}

/// Returns the offboardings that wait in this state.
async fn waiting(engine: &Engine<Platform>, state: State) -> Result<Vec<Wait>, Error> {
    let state: &str = state.into();
    let filter = Filter {
        workflow: Some(Offboarding::NAME.into()),
        state: Some(state.into()),
        open: Some(true),
        ..Filter::default()
    };
    let (mut all, mut after): (Vec<Wait>, Option<ExecutionId>) = (Vec::new(), None);
    loop {
        let page = engine.store().list(&filter, after, PAGE).await?;
        for record in &page.items {
            let Ok(tenant) = record.tenant.parse::<TenantId>() else { continue };
            all.push(Wait { tenant, id: record.id, since: record.updated_at });
        }
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// The record that a notification about a hold was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldNotice {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The kind of the notification.
    pub kind: String,
    /// The id of the matter, and the review date of a hold.
    pub about: String,
    /// The time of the notification.
    pub at: Timestamp,
}

impl Entity for HoldNotice {
    const COLLECTION: &'static str = "hold-notices";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        CompositeKey::of(&[&self.tenant, &self.kind, &self.about]).into()
    }
}

/// Notifies each matter of holds once.
pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    for matter in hold_matters(engine).await? {
        let told = engine.transact(true, |view| tell(view, &matter)).await;
        if swept.each(&matter.id, told)? == Some(true) {
            swept.add_finding(matter.text);
        }
    }
    Ok(())
}

/// Writes the notification of a matter, unless it was sent before. Returns true if it was written.
fn tell(view: &mut View, matter: &HoldMatter) -> Result<bool, Undecided> {
    let about = match matter.concern {
        // A later review of the same hold is a separate matter.
        HoldConcern::HoldReviewDue => format!("{} {}", matter.id, matter.since.0),
        HoldConcern::OffboardingHeld
        | HoldConcern::OffboardingUnclassified
        | HoldConcern::OffboardingChanging => matter.id.clone(),
    };
    let kind = matter.concern.notice();
    let notice = HoldNotice { tenant: matter.tenant.clone(), kind: kind.into(), about, at: view.now() };
    if view.get::<HoldNotice>(&notice.id())?.is_some() {
        return Ok(false);
    }
    view.put(&Notification {
        id: format!("{kind}.{}", notice.about),
        kind: kind.into(),
        reason: None,
        about: matter.id.clone(),
        tenant: matter.tenant.to_string(),
        to: vec!["compliance".into(), "dpo".into()],
        text: match matter.concern {
            HoldConcern::HoldReviewDue | HoldConcern::OffboardingHeld => {
                format!("{}; `tenure holds list`", matter.text)
            }
            HoldConcern::OffboardingUnclassified | HoldConcern::OffboardingChanging => matter.text.clone(),
        },
        at: view.now(),
    })?;
    view.put(&notice)?;
    Ok(true)
}
