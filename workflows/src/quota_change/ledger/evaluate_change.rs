//! The decision on a quota change, and the common functions of every change.

use crate::{
    ledger::{GpuHoldings, candidates, codes, quotas},
    policy::{self, Reason},
    quota_change::{
        ChangeEvaluation, ChangeFacts, Direction, QuotaDecision, QuotaRequest, ResourceStatus, evaluate,
    },
    scheduling::admission,
    tenancy::{
        Allowance, Cluster, Cohort, Earmark, Earmarks, Entitlement, Gpus, Quota, Resource, Tenant, TenantId,
        TenantState, Workspace, WorkspaceName, workspace_key,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Decides on a request by the policy in force, and records the decision. Safe to repeat: it changes nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EvaluateChange {
    /// The request.
    pub request: QuotaRequest,
    /// The direction.
    pub direction: Direction,
}

impl LedgerAction for EvaluateChange {
    const NAME: &'static str = "EvaluateChange";
    type Output = ChangeEvaluation;

    fn decide(&self, view: &mut View, call: &Call) -> Result<ChangeEvaluation, Undecided> {
        let policy = policy::in_force(view)?;
        let facts = change_facts(view, &self.request, self.direction)?;
        let mut evaluation = evaluate(&facts, &policy);
        view.put(&QuotaDecision {
            execution: call.execution,
            policy: policy.reference.clone(),
            facts_digest: facts.digest(),
            facts,
            verdict: evaluation.verdict,
            reasons: evaluation.reasons.clone(),
        })?;
        // The decision keeps every reason; the history repeats only reasons that affected the verdict.
        evaluation.reasons.retain(Reason::counts);
        Ok(evaluation)
    }
}

/// Returns all facts of a decision on `request`.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn change_facts(
    view: &mut View,
    request: &QuotaRequest,
    direction: Direction,
) -> Result<ChangeFacts, Undecided> {
    let at = view.now();
    let mut facts = ChangeFacts {
        request: QuotaRequest { lines: request.lines.clone(), ..request.clone() },
        direction,
        at,
        tenant: view.get::<Tenant>(request.tenant.as_str())?,
        cluster: None,
        bought: None,
        slicing: None,
        standing: None,
        ends: None,
        stand: GpuHoldings::default(),
        candidates: Vec::new(),
    };
    let Some(tenant) = facts.tenant.clone() else { return Ok(facts) };
    if let Some(cluster) = &tenant.cluster {
        let cluster = view.require::<Cluster>(cluster.as_str())?;
        facts.cluster = Some((cluster.kind, cluster.is_simulated()));
    }
    let key = workspace_key(&request.tenant, &request.workspace);
    if let Some(quota) = view.get::<Quota>(&key)? {
        let cohort = view.get::<Cohort>(request.tenant.as_str())?;
        let account = cohort.as_ref().and_then(|cohort| cohort.accounts.get(&request.workspace));
        let balance = account.and_then(|account| account.balances.get(&request.resource)).copied();
        let promises = account.iter().flat_map(|account| account.promises.values());
        let promises = promises.filter(|promise| promise.resource == request.resource);
        facts.standing = Some(ResourceStatus {
            allowance: quota.allowances.get(&request.resource).copied(),
            used: balance.unwrap_or_default().in_use(),
            reserved: promises.map(|promise| promise.count).sum(),
        });
        facts.ends = quota.ends;
    }
    let Some(kind) = request.resource.gpu() else { return Ok(facts) };
    let bought = view.get::<Entitlement>(request.tenant.as_str())?;
    let bought = bought.filter(|bought| bought.gpu_model == kind.model);
    facts.slicing = bought.as_ref().and_then(|bought| bought.slicing.clone());
    let bought = bought.filter(|bought| bought.offer().kind == *kind);
    facts.bought = bought.map(|bought| Gpus(u32::try_from(bought.pieces()).unwrap_or(u32::MAX)));
    facts.stand = quotas::gpu_holdings(view, &tenant.id, &tenant.workspaces, &request.resource)?;
    facts.candidates = candidates(view, &kind.model)?;
    Ok(facts)
}

pub(super) fn active(view: &mut View, tenant: &TenantId) -> Result<Tenant, Undecided> {
    let found = view.require::<Tenant>(tenant.as_str())?;
    if found.state == TenantState::Active {
        return Ok(found);
    }
    let problem = format!("tenant {tenant} is {}", <&str>::from(found.state));
    Err(ActionError::permanent(codes::TENANT_NOT_ACTIVE, problem).into())
}

/// Returns the workspace's quota, if the resource is unchanged since the decision.
pub(super) fn standing(
    view: &mut View,
    tenant: &TenantId,
    workspace: &WorkspaceName,
    resource: &Resource,
    before: &Allowance,
) -> Result<Quota, Undecided> {
    let quota = view.require::<Quota>(&workspace_key(tenant, workspace))?;
    if quota.allowances.get(resource) == Some(before) {
        return Ok(quota);
    }
    let problem =
        format!("the quota of workspace {workspace} for {resource} was changed by {}", quota.set_by);
    Err(ActionError::permanent(codes::QUOTA_CHANGED, problem).into())
}

/// Writes the allowance of one resource to the quota and the account.
pub(crate) fn write_line(
    view: &mut View,
    mut quota: Quota,
    resource: &Resource,
    line: Allowance,
    call: &Call,
) -> Result<(), Undecided> {
    quota.allowances.insert(resource.clone(), line);
    quota.version = quota.version.saturating_add(1);
    quota.set_by = call.execution;
    let class = view.require::<Workspace>(&workspace_key(&quota.tenant, &quota.workspace))?.class;
    view.put(&quota)?;
    let allowed = BTreeMap::from([(quota.workspace.clone(), (class, quota.allowances.clone()))]);
    // The reclaim sweep finds demands that this leaves unmet.
    admission::set_allowances(view, &quota.tenant, &allowed)?;
    Ok(())
}

/// Rejects a change while another change of the same quota is open. The guard of the executions already prevents this, but an undo is correct only without
/// other changes, so the ledger checks it too.
pub(super) fn alone(
    marks: &Earmarks,
    workspace: &WorkspaceName,
    resource: &Resource,
    call: &Call,
) -> Result<(), Undecided> {
    let same = |mark: &Earmark| mark.workspace == *workspace && mark.resource == *resource;
    let other = marks.open.iter().find(|(by, mark)| **by != call.execution && same(mark));
    let Some((by, _)) = other else { return Ok(()) };
    let problem = format!("execution {by} is changing {resource} of workspace {workspace}");
    Err(ActionError::permanent(codes::QUOTA_CHANGED, problem).into())
}

pub(super) fn marks(view: &mut View, tenant: &TenantId) -> Result<Earmarks, Undecided> {
    Ok(view.get::<Earmarks>(tenant.as_str())?.unwrap_or_else(|| Earmarks::empty(tenant.clone())))
}

pub(super) fn keep(view: &mut View, marks: &Earmarks) -> Result<(), Undecided> {
    if marks.open.is_empty() { view.delete::<Earmarks>(marks.tenant.as_str()) } else { view.put(marks) }
}

pub(super) fn ours(
    view: &mut View,
    tenant: &TenantId,
    call: &Call,
) -> Result<(Earmarks, Earmark), Undecided> {
    let marks = marks(view, tenant)?;
    match marks.open.get(&call.execution).cloned() {
        Some(mark) => Ok((marks, mark)),
        None => Err(unmarked(tenant)),
    }
}

pub(super) fn unmarked(tenant: &TenantId) -> Undecided {
    let problem = format!("no capacity of tenant {tenant} is earmarked for this execution");
    ActionError::permanent(codes::EARMARK_MISSING, problem).into()
}
