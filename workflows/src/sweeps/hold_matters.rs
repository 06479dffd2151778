//! Holds whose review is due, and offboardings that wait for a hold: told once each, and listed for as long as they last.
//!
//! The list is read by `/v1/stuck` and by the metrics; the sweep tells of what is on it.

use super::report::SweepReport;
use crate::{
    destruction::{HoldScope, Holds},
    offboarding::{Offboarding, State},
    platform::Platform,
    tenancy::TenantId,
};
use engine::{Engine, Entity, Error, Notification, Undecided, View, Workflow as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{CompositeKey, ExecutionId, Filter, Timestamp};

/// Documents and records read at once.
const PAGE: usize = 500;

/// Why a person has to look at a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum HoldConcern {
    /// The day has come on which someone must look at the hold again.
    HoldReviewDue,
    /// An offboarding waits until no hold is in force on its tenant.
    OffboardingHeld,
}

impl HoldConcern {
    /// The kind of its notification.
    #[must_use]
    pub fn notice(self) -> &'static str {
        match self {
            Self::HoldReviewDue => "hold.review_due",
            Self::OffboardingHeld => "offboarding.held",
        }
    }
}

/// A hold or an offboarding that a person has to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldMatter {
    /// The reason.
    pub concern: HoldConcern,
    /// Whose.
    pub tenant: TenantId,
    /// The hold, `TENANT/NAME`; or the execution that waits.
    pub id: String,
    /// Since when.
    pub since: Timestamp,
    /// A sentence for people.
    pub text: String,
}

/// Everything of holds that a person has to look at.
///
/// # Errors
/// The store's. A document of holds that cannot be read is left out.
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
        all.extend(held(engine, state, &by_tenant).await?);
    }
    Ok(all)
}

/// The holds whose review is due.
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

/// The offboardings that wait for a hold in this state.
async fn held(
    engine: &Engine<Platform>,
    state: State,
    holds: &BTreeMap<TenantId, std::sync::Arc<Holds>>,
) -> Result<Vec<HoldMatter>, Error> {
    let state: &str = state.into();
    let filter = Filter {
        workflow: Some(Offboarding::NAME.into()),
        state: Some(state.into()),
        open: Some(true),
        ..Filter::default()
    };
    let (mut all, mut after): (Vec<HoldMatter>, Option<ExecutionId>) = (Vec::new(), None);
    loop {
        let page = engine.store().list(&filter, after, PAGE).await?;
        for record in &page.items {
            let Ok(tenant) = record.tenant.parse::<TenantId>() else { continue };
            let keeping = holds.get(&tenant).map_or_else(Vec::new, |holds| {
                holds.covering(&HoldScope::Tenant).map(|hold| format!("{tenant}/{}", hold.id)).collect()
            });
            all.push(HoldMatter {
                concern: HoldConcern::OffboardingHeld,
                text: format!("the offboarding of {tenant} waits for {}", keeping.join(", ")),
                tenant,
                id: record.id.to_string(),
                since: record.updated_at,
            });
        }
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// That people were told of a matter of holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldNotice {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
    pub kind: String,
    /// About what, and for which review of it.
    pub about: String,
    /// When.
    pub at: Timestamp,
}

impl Entity for HoldNotice {
    const COLLECTION: &'static str = "hold-notices";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        CompositeKey::of(&[&self.tenant, &self.kind, &self.about]).into()
    }
}

/// Tells of every matter of holds, once.
pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    for matter in hold_matters(engine).await? {
        let told = engine.transact(true, |view| tell(view, &matter)).await;
        if swept.each(&matter.id, told)? == Some(true) {
            swept.add_finding(matter.text);
        }
    }
    Ok(())
}

/// Writes the notification of a matter, unless it was told of before; answers whether it did.
fn tell(view: &mut View, matter: &HoldMatter) -> Result<bool, Undecided> {
    let about = match matter.concern {
        // A later review of the same hold is another matter.
        HoldConcern::HoldReviewDue => format!("{} {}", matter.id, matter.since.0),
        HoldConcern::OffboardingHeld => matter.id.clone(),
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
        text: format!("{}; `tenure holds list`", matter.text),
        at: view.now(),
    })?;
    view.put(&notice)?;
    Ok(true)
}
