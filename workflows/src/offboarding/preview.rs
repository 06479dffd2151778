//! A dry run: what an offboarding would destroy as far as our records know, without doing anything.

use crate::{
    destruction::{
        DataClass, Hold, HoldScope, ResolvedRetention, certificate::LegalBasis, holds_of, resolve,
    },
    offboarding::{LeavingCheck, Offboarding, assets, ledger},
    platform::TenantResource,
    policy::{
        self,
        decisions::{RetentionFacts, decide_retention},
    },
    signing::Moment,
    tenancy::{NodeId, TenantId},
};
use engine::{Plan, PlanDigest, Undecided, View, Workflow};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// What would happen.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// What people would vote on first. The second vote is on the inventory, which is taken after the freeze.
    pub plan: Plan,
    /// Its digest.
    pub digest: PlanDigest,
    /// What stands in the way.
    pub holds: Vec<Hold>,
    /// What else changes the tenant or uses it, and has to end first.
    pub others: Vec<String>,
    /// What our records say that there is. What the tenant made itself is found when it is looked for.
    pub things: Vec<TenantResource>,
    /// The nodes that would be cleaned.
    pub nodes: Vec<NodeId>,
    /// Until when each class of data would be kept, where it would.
    pub kept: BTreeMap<DataClass, ResolvedRetention>,
    /// What happens when, in sentences: the export window, and the second approval.
    pub steps: Vec<String>,
}

/// Looks at a tenant as an offboarding would, changing nothing. Drive it with [`engine::decide`] and drop what it read.
///
/// # Errors
/// What the view lacks; `tenant.not_active`.
pub fn preview(
    view: &mut View,
    tenant: &TenantId,
    basis: LegalBasis,
    reason: &str,
) -> Result<Preview, Undecided> {
    let checked = ledger::check(view, tenant)?;
    of(view, tenant, (basis, reason), checked)
}

/// The same, of what remains of a closed tenant.
///
/// # Errors
/// What the view lacks; `tenant.not_active` when it is not closed or nothing of it was seen.
pub fn preview_remaining(
    view: &mut View,
    tenant: &TenantId,
    basis: LegalBasis,
    reason: &str,
) -> Result<Preview, Undecided> {
    let checked = ledger::remaining::check_remaining(view, tenant)?;
    of(view, tenant, (basis, reason), checked)
}

fn of(
    view: &mut View,
    tenant: &TenantId,
    (basis, reason): (LegalBasis, &str),
    checked: LeavingCheck,
) -> Result<Preview, Undecided> {
    let holds = holds_of(view, tenant)?.covering(&HoldScope::Tenant).cloned().collect();
    let mut others = ledger::disturbing(view, tenant)?;
    others.extend(ledger::blocked_by_use(view, tenant, &checked.leaver.workspaces)?);
    let now = Moment::from(view.now());
    let kept = resolve(&checked.terms.retention, &checked.leaver.compliance, now);
    let policy = policy::in_force(view)?;
    let keeps = |class: DataClass| {
        let (class, compliance) = (<&str>::from(class).to_owned(), checked.leaver.compliance.clone());
        let facts = RetentionFacts { class, compliance, since: Duration::ZERO, holds: Vec::new() };
        decide_retention(&facts, &policy).answer.keeps()
    };
    let kept = kept.into_iter().filter(|(class, _)| keeps(*class)).collect();
    let things = match &checked.remaining {
        Some(remaining) => remaining.assets.iter().map(|it| it.thing.clone()).collect(),
        None => assets::expected(&checked.leaver),
    };
    let nodes = checked.leaver.nodes.keys().cloned().collect();
    let mut offboarding = Offboarding::new(tenant.clone(), basis, String::new(), now, reason.to_owned());
    let steps = super::plan::steps(&checked.terms, checked.remaining.is_some());
    offboarding.checked(checked);
    let plan = offboarding.plan();
    let digest = plan.digest(Offboarding::NAME, Offboarding::SCHEMA);
    Ok(Preview { plan, digest, holds, others, things, nodes, kept, steps })
}
