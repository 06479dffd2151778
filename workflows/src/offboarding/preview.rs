//! A dry run: the effects of an offboarding according to the records, without any change.

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

/// Result of a dry run.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// The plan of the first approval. The second approval is about the inventory, which is taken after the freeze.
    pub plan: Plan,
    /// Its digest.
    pub digest: PlanDigest,
    /// The holds that prevent it.
    pub holds: Vec<Hold>,
    /// Other changes and uses of the tenant that must end first.
    pub others: Vec<String>,
    /// The resources in the records. Resources that the tenant created itself are found by the survey.
    pub things: Vec<TenantResource>,
    /// The nodes to clean.
    pub nodes: Vec<NodeId>,
    /// The classes of data to retain, each with its resolved retention.
    pub kept: BTreeMap<DataClass, ResolvedRetention>,
    /// The sequence in sentences: the export window, and the second approval.
    pub steps: Vec<String>,
}

/// Runs the checks of an offboarding without a change. Run it with [`engine::decide`] and discard the writes.
///
/// # Errors
/// `tenant.not_active`, or a read error of the view.
pub fn preview(
    view: &mut View,
    tenant: &TenantId,
    basis: LegalBasis,
    reason: &str,
) -> Result<Preview, Undecided> {
    let checked = ledger::check(view, tenant)?;
    of(view, tenant, (basis, reason), checked)
}

/// As [`preview`], for the remains of a closed tenant.
///
/// # Errors
/// `tenant.not_active` if it is not closed or has no remains; or a read error of the view.
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
