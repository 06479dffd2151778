//! The ledger's part of an SLA change: the decision, the check of the service level, and the commit.

use super::{
    SlaDecision, SlaEvaluation, SlaFacts, SlaRequest, SlaTerms, SlaWorkspace,
    evaluate::{evaluate, promise, recut as recut_line},
};
use crate::{
    ledger::{codes, freeze, thaw},
    policy::{self, Reason, TenantPolicy},
    quota_change::write_line,
    scheduling::admission,
    tenancy::{
        Allowance, Cluster, Cohort, Earmarks, Entitlement, NodeAllocation, NodeUse, Quota, Resource, Tenant,
        TenantId, TenantState, Workspace, workspace_key,
    },
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::Timestamp;

/// Decides on a request by the policy in force, and records the decision. Safe to repeat: it changes nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EvaluateSla {
    /// The request.
    pub request: SlaRequest,
}

impl LedgerAction for EvaluateSla {
    const NAME: &'static str = "EvaluateSla";
    type Output = SlaEvaluation;

    fn decide(&self, view: &mut View, call: &Call) -> Result<SlaEvaluation, Undecided> {
        let policy = policy::in_force(view)?;
        let facts = sla_facts(view, &self.request)?;
        let mut evaluation = evaluate(&facts, &policy);
        view.put(&SlaDecision {
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
pub fn sla_facts(view: &mut View, request: &SlaRequest) -> Result<SlaFacts, Undecided> {
    let mut facts = SlaFacts {
        request: request.clone(),
        tenant: view.get::<Tenant>(request.tenant.as_str())?,
        cluster: None,
        bought: None,
        slicing: None,
        workspaces: Vec::new(),
        nodes: Vec::new(),
    };
    let Some(tenant) = facts.tenant.clone() else { return Ok(facts) };
    if let Some(cluster) = &tenant.cluster {
        let cluster = view.require::<Cluster>(cluster.as_str())?;
        facts.cluster = Some((cluster.kind, cluster.is_simulated()));
    }
    let Some(bought) = view.get::<Entitlement>(tenant.id.as_str())? else { return Ok(facts) };
    let resource = bought.offer().resource();
    facts.slicing.clone_from(&bought.slicing);
    facts.bought = Some((bought.gpu_model, bought.gpus));
    view.prefetch::<Quota>(tenant.workspaces.iter().map(|name| workspace_key(&tenant.id, name)))?;
    for name in &tenant.workspaces {
        let key = workspace_key(&tenant.id, name);
        let quota = view.get::<Quota>(&key)?;
        let before = quota.and_then(|quota| quota.allowances.get(&resource).copied()).unwrap_or_default();
        let class = view.require::<Workspace>(&key)?.class;
        facts.workspaces.push(SlaWorkspace { name: name.clone(), class, before, after: before });
    }
    let holding = view.get::<NodeAllocation>(tenant.id.as_str())?;
    facts.nodes = holding.map(|holding| holding.nodes.into_keys().collect()).unwrap_or_default();
    Ok(facts)
}

/// Returns the time until a maintenance window. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeepWindow {
    /// The start of the window; now if absent.
    pub opens: Option<Timestamp>,
}

impl LedgerAction for KeepWindow {
    const NAME: &'static str = "KeepWindow";
    type Output = Duration;

    fn decide(&self, view: &mut View, _: &Call) -> Result<Duration, Undecided> {
        Ok(self.opens.map_or(Duration::ZERO, |opens| opens.since(view.now())))
    }
}

/// Checks that the new service level is possible, and stops admissions that would break it. Borrowing ends if workloads may no longer be preempted, and no
/// workload is admitted while GPUs get another layout.
///
/// Fails with `sla.promise_open` while it is not possible. Safe to repeat. Its undo, [`LoosenSla`], tolerates that nothing was tightened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TightenSla {
    /// The tenant.
    pub tenant: TenantId,
    /// The approved terms; `None` only in an example.
    pub terms: Option<SlaTerms>,
}

impl LedgerAction for TightenSla {
    const NAME: &'static str = "TightenSla";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let terms = agreed(self.terms.as_ref())?;
        let tenant = standing(view, &self.tenant, &terms.before)?;
        let resource = terms.offers().0.resource();
        holds(view, &tenant, terms)?;
        for workspace in limited(terms) {
            let tight = tighter(workspace.before.borrowing_limit, workspace.after.borrowing_limit);
            let known = [workspace.before.borrowing_limit, tight];
            set_borrowing(view, &self.tenant, workspace, &resource, (&known, tight), call)?;
        }
        if !terms.nodes.is_empty() {
            freeze(view, &self.tenant, &tenant.workspaces, call)?;
        }
        Ok(())
    }
}

/// Undoes [`TightenSla`]. Safe to repeat, and tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoosenSla {
    /// The tenant.
    pub tenant: TenantId,
    /// The approved terms.
    pub terms: Option<SlaTerms>,
}

impl LedgerAction for LoosenSla {
    const NAME: &'static str = "LoosenSla";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let Some(terms) = &self.terms else { return Ok(()) };
        let resource = terms.offers().0.resource();
        for workspace in limited(terms) {
            let tight = tighter(workspace.before.borrowing_limit, workspace.after.borrowing_limit);
            let key = workspace_key(&self.tenant, &workspace.name);
            let line = view.get::<Quota>(&key)?.and_then(|quota| quota.allowances.get(&resource).copied());
            if line.is_some_and(|line| line.borrowing_limit == tight) {
                let before = workspace.before.borrowing_limit;
                set_borrowing(view, &self.tenant, workspace, &resource, (&[tight], before), call)?;
            }
        }
        thaw(view, &self.tenant, call)
    }
}

/// Returns since when the service level is not possible, and true if that is too long. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasureSla {
    /// The known start.
    pub since: Option<Timestamp>,
    /// The longest wait before an approval is requested.
    pub limit: Duration,
}

impl LedgerAction for MeasureSla {
    const NAME: &'static str = "MeasureSla";
    type Output = (Timestamp, bool);

    fn decide(&self, view: &mut View, _: &Call) -> Result<(Timestamp, bool), Undecided> {
        let since = self.since.unwrap_or(view.now());
        Ok((since, since.after(self.limit) <= view.now()))
    }
}

/// Puts the service level into force: tenant, quotas and account, in one commit that checks it again.
///
/// Past the pivot, so it has no undo. Safe to repeat: it does not change a service level already in force.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommitSla {
    /// The tenant.
    pub tenant: TenantId,
    /// The approved terms.
    pub terms: Option<SlaTerms>,
}

impl LedgerAction for CommitSla {
    const NAME: &'static str = "CommitSla";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let terms = agreed(self.terms.as_ref())?;
        if promise(&view.require::<Tenant>(self.tenant.as_str())?) == terms.after {
            return Ok(());
        }
        let tenant = standing(view, &self.tenant, &terms.before)?;
        holds(view, &tenant, terms)?;
        if terms.recuts() {
            recut(view, &self.tenant, terms, call)?;
        }
        let resource = terms.offers().1.resource();
        for workspace in limited(terms) {
            let tight = tighter(workspace.before.borrowing_limit, workspace.after.borrowing_limit);
            let after = workspace.after.borrowing_limit;
            set_borrowing(view, &self.tenant, workspace, &resource, (&[tight], after), call)?;
        }
        thaw(view, &self.tenant, call)?;
        view.put(&Tenant {
            tier: terms.after.tier,
            isolation: terms.after.isolation,
            allow_preemption: terms.after.allow_preemption,
            allow_gpu_sharing: terms.after.allow_gpu_sharing,
            policy: terms.policy.clone(),
            ..tenant
        })
    }
}

/// Returns the workspaces whose limits change one by one. If quotas count another kind afterwards, all change in the final commit, and no workload is admitted
/// until then.
fn limited(terms: &SlaTerms) -> impl Iterator<Item = &SlaWorkspace> {
    let changed = |workspace: &&SlaWorkspace| workspace.before != workspace.after;
    terms.workspaces.iter().filter(move |_| !terms.recuts()).filter(changed)
}

/// Applies the new layout of the nodes to the ledger, and converts every quota to the new kind. No workload runs at that time.
fn recut(view: &mut View, tenant: &TenantId, terms: &SlaTerms, call: &Call) -> Result<(), Undecided> {
    let (before, after) = terms.offers();
    let bought = view.require::<Entitlement>(tenant.as_str())?;
    view.put(&Entitlement { slicing: terms.slicing.1.clone(), ..bought })?;
    let cut = terms.slicing.1.as_ref().map(|slicing| (&slicing.profile, slicing.per_gpu));
    for node in &terms.nodes {
        let Some(uses) = view.get::<NodeUse>(node.as_str())? else { continue };
        let gpus = (0..u16::try_from(uses.gpus.len()).unwrap_or(u16::MAX)).collect();
        admission::cut_gpus(view, tenant, node, &gpus, cut)?;
    }
    let mut allowed = BTreeMap::new();
    for workspace in &terms.workspaces {
        let key = workspace_key(tenant, &workspace.name);
        let mut quota = view.require::<Quota>(&key)?;
        if quota.allowances.remove(&before.resource()) != Some(workspace.before) {
            let problem =
                format!("the quota of workspace {} was changed by {}", workspace.name, quota.set_by);
            return Err(ActionError::permanent(codes::QUOTA_CHANGED, problem).into());
        }
        quota.allowances.insert(after.resource(), workspace.after);
        if let Some(ends) = &mut quota.ends
            && let Some(line) = ends.then.remove(&before.resource())
        {
            ends.then.insert(after.resource(), recut_line(line, &(before.clone(), after.clone())));
        }
        quota.version = quota.version.saturating_add(1);
        quota.set_by = call.execution;
        allowed.insert(workspace.name.clone(), (workspace.class, quota.allowances.clone()));
        view.put(&quota)?;
    }
    admission::set_allowances(view, tenant, &allowed)?;
    Ok(())
}

fn agreed(terms: Option<&SlaTerms>) -> Result<&SlaTerms, Undecided> {
    let missing = || ActionError::permanent(codes::SLA_CHANGED, "the change is not approved");
    Ok(terms.ok_or_else(missing)?)
}

/// Returns the tenant if it is in use and still has the service level of the change's start.
fn standing(view: &mut View, id: &TenantId, before: &TenantPolicy) -> Result<Tenant, Undecided> {
    let tenant = view.require::<Tenant>(id.as_str())?;
    if tenant.state != TenantState::Active {
        let problem = format!("tenant {id} is {}", <&str>::from(tenant.state));
        return Err(ActionError::permanent(codes::TENANT_NOT_ACTIVE, problem).into());
    }
    if promise(&tenant) != *before {
        let problem = format!("the terms of tenant {id} were changed meanwhile");
        return Err(ActionError::permanent(codes::SLA_CHANGED, problem).into());
    }
    Ok(tenant)
}

/// Sets the borrowing limit of a workspace. Fails if the limit in force is not one of `known`. Does not change the rest of its quota.
fn set_borrowing(
    view: &mut View,
    tenant: &TenantId,
    workspace: &SlaWorkspace,
    resource: &Resource,
    (known, to): (&[Option<u64>], Option<u64>),
    call: &Call,
) -> Result<(), Undecided> {
    let quota = view.require::<Quota>(&workspace_key(tenant, &workspace.name))?;
    let line = quota.allowances.get(resource).copied().unwrap_or_default();
    if !known.contains(&line.borrowing_limit) {
        let problem = format!("the quota of workspace {} was changed by {}", workspace.name, quota.set_by);
        return Err(ActionError::permanent(codes::QUOTA_CHANGED, problem).into());
    }
    write_line(view, quota, resource, Allowance { borrowing_limit: to, ..line }, call)
}

/// Returns the tighter of two limits; `None` is no limit.
fn tighter(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    match (before, after) {
        (Some(before), Some(after)) => Some(before.min(after)),
        (limit, None) | (None, limit) => limit,
    }
}

/// Checks that the new service level is possible now; `sla.promise_open` names the obstacle.
fn holds(view: &mut View, tenant: &Tenant, terms: &SlaTerms) -> Result<(), Undecided> {
    let resource = terms.offers().0.resource();
    let cohort = view.get::<Cohort>(tenant.id.as_str())?;
    let mut open = Vec::new();
    for workspace in &terms.workspaces {
        let account = cohort.as_ref().and_then(|cohort| cohort.accounts.get(&workspace.name));
        let promises = account.iter().flat_map(|account| &account.promises);
        let reserved = promises.filter(|(_, promise)| terms.recuts() && promise.resource == resource);
        open.extend(reserved.map(|(name, _)| format!("reservation {name} is of {resource}: end it first")));
        let Some(balance) = account.and_then(|account| account.balances.get(&resource)) else { continue };
        if terms.recuts() {
            let (name, used) = (&workspace.name, balance.in_use());
            let problem = format!("workspace {name} uses {used} of {resource}, which get another GPU layout");
            open.extend((used > 0).then_some(problem));
            continue;
        }
        let beyond = balance.in_use().saturating_sub(workspace.after.nominal);
        if workspace.after.lending_limit.is_some_and(|limit| balance.lent > limit) {
            open.push(format!("workspace {} lends {} GPUs", workspace.name, balance.lent));
        }
        if !terms.after.allow_preemption && beyond > 0 {
            open.push(format!("workspace {} runs on {beyond} borrowed GPUs", workspace.name));
        }
        if !terms.nodes.is_empty() && balance.in_use() > 0 {
            open.push(format!(
                "workspace {} uses {} GPUs, which get another GPU layout",
                workspace.name,
                balance.in_use()
            ));
        }
    }
    // The undo of a quota change restores earlier values, which must not come from before the SLA change.
    let changes = view.get::<Earmarks>(tenant.id.as_str())?.map_or(0, |marks| marks.open.len());
    if changes > 0 {
        open.push(format!("{changes} quota changes are in progress"));
    }
    if !terms.after.allow_gpu_sharing {
        open.extend(shared(view, tenant)?);
    }
    if open.is_empty() {
        return Ok(());
    }
    Err(ActionError::permanent(codes::PROMISE_OPEN, open.join("; ")).into())
}

/// Returns GPUs that two workspaces use at once.
fn shared(view: &mut View, tenant: &Tenant) -> Result<Vec<String>, Undecided> {
    let holding = view.get::<NodeAllocation>(tenant.id.as_str())?;
    let nodes: Vec<_> = holding.map(|holding| holding.nodes.into_keys().collect()).unwrap_or_default();
    view.prefetch::<NodeUse>(nodes.iter().map(ToString::to_string))?;
    let mut open = Vec::new();
    for node in &nodes {
        let Some(uses) = view.get::<NodeUse>(node.as_str())? else { continue };
        for (index, gpu) in uses.gpus.iter().enumerate() {
            let users: BTreeSet<_> = gpu.users.iter().map(|user| &user.workspace).collect();
            if users.len() > 1 {
                open.push(format!("GPU {index} of node {node} is used by {} workspaces", users.len()));
            }
        }
    }
    Ok(open)
}
