//! The decision on an SLA change: a pure function of facts and policy, so that it can be repeated (I-20).

use super::SlaRequest;
use crate::{
    platform::PriorityClass,
    policy::{
        Judgement, PlatformPolicy, PolicyRef, Reason, RuleName, TenantPolicy, Verdict,
        decisions::{
            ApprovalFor, IsolationFacts, SchedulerFacts, SchedulerSettings, approval, gpu_layout, isolation,
            schedulers,
        },
        sha256,
    },
    tenancy::{
        Allowance, ClusterId, ClusterKind, GpuModel, GpuOffer, GpuSlicing, Gpus, Isolation, Layout, NodeId,
        QuotaLimits, Tenant, TenantState, Tier, WorkspaceClass, WorkspaceName,
    },
};
use engine::{Entity, Procedure, Seat};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::ExecutionId;

/// A workspace of the tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlaWorkspace {
    /// The name.
    pub name: WorkspaceName,
    /// The class.
    pub class: WorkspaceClass,
    /// The allowance of the tenant's GPUs, in pieces of the current layout.
    pub before: Allowance,
    /// The allowance after the change, in pieces of the new layout; unchanged in facts.
    pub after: Allowance,
}

/// All facts of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlaFacts {
    /// The request.
    pub request: SlaRequest,
    /// The tenant, if it exists.
    pub tenant: Option<Tenant>,
    /// The kind of its cluster, and true if it has no real target.
    pub cluster: Option<(ClusterKind, bool)>,
    /// The bought model and amount.
    pub bought: Option<(GpuModel, Gpus)>,
    /// The slices of its GPUs, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// The workspaces.
    pub workspaces: Vec<SlaWorkspace>,
    /// The nodes.
    pub nodes: Vec<NodeId>,
}

/// The terms of one change, fixed by the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlaTerms {
    /// The policy version of these terms.
    pub policy: PolicyRef,
    /// The seats that must approve; never empty.
    pub seats: Vec<Seat>,
    /// The time limit of the approval.
    pub approve_within: Duration,
    /// Reminders and escalation of the approval.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// The time to wait for the new service level to become possible, before an approval is requested.
    pub wait: Duration,
    /// The time limit of that approval.
    pub patience: Duration,
    /// The service level at the decision. The change is refused if it is no longer in force.
    pub before: TenantPolicy,
    /// The service level after the change.
    pub after: TenantPolicy,
    /// The priority of the tenant's workloads, before and after.
    pub priority: (u32, u32),
    /// The PriorityClass in Kubernetes afterwards. `None` in decisions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<PriorityClass>,
    /// The cluster of the tenant.
    pub cluster: ClusterId,
    /// The scheduler of the cluster.
    pub kind: ClusterKind,
    /// True if it has no real target.
    pub simulated: bool,
    /// The model of the tenant's GPUs.
    pub model: GpuModel,
    /// The number of bought GPUs.
    pub bought: Gpus,
    /// The workspaces.
    pub workspaces: Vec<SlaWorkspace>,
    /// The nodes whose GPUs get another layout.
    pub nodes: Vec<NodeId>,
    /// The new layout.
    pub layout: Layout,
    /// The slices of the tenant's GPUs before and after, if any.
    #[serde(default)]
    pub slicing: (Option<GpuSlicing>, Option<GpuSlicing>),
}

impl SlaTerms {
    /// Returns the pieces of each of the tenant's GPUs before and after.
    #[must_use]
    pub fn offers(&self) -> (GpuOffer, GpuOffer) {
        let offer = |slicing: &Option<GpuSlicing>| GpuOffer::of(&self.model, slicing.as_ref());
        (offer(&self.slicing.0), offer(&self.slicing.1))
    }

    /// Returns true if quotas count another kind afterwards: whole GPUs, or slices.
    #[must_use]
    pub fn recuts(&self) -> bool {
        self.slicing.0 != self.slicing.1
    }

    /// Returns the new layout of the nodes, by its name on nodes.
    #[must_use]
    pub fn layout_name(&self) -> String {
        let plain = || self.layout.profile(&self.model).to_owned();
        self.slicing.1.as_ref().map_or_else(plain, GpuSlicing::layout)
    }

    /// Returns true if limits get tighter: workloads that may not be preempted may not borrow.
    #[must_use]
    pub fn tightens(&self) -> bool {
        self.before.allow_preemption && !self.after.allow_preemption
    }
}

/// A decision, and its terms unless it is a rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlaEvaluation {
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that led to it.
    pub reasons: Vec<Reason>,
    /// The terms; `None` if rejected.
    pub terms: Option<SlaTerms>,
}

/// A decision on an SLA change, with all facts, so that it can be repeated with the same result. Kept forever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlaDecision {
    /// The requesting execution.
    pub execution: ExecutionId,
    /// The policy in force.
    pub policy: PolicyRef,
    /// All facts.
    pub facts: SlaFacts,
    /// SHA-256 of the facts.
    pub facts_digest: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that led to it.
    pub reasons: Vec<Reason>,
}

impl Entity for SlaDecision {
    const COLLECTION: &'static str = "sla-decisions";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        self.execution.to_string()
    }
}

impl SlaFacts {
    /// Returns `sha256:` and the digest of the facts.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }
}

/// Returns the service level of a tenant.
pub(super) fn promise(tenant: &Tenant) -> TenantPolicy {
    TenantPolicy {
        tier: tenant.tier,
        isolation: tenant.isolation,
        data_residency: tenant.data_residency.clone(),
        allow_preemption: tenant.allow_preemption,
        allow_gpu_sharing: tenant.allow_gpu_sharing,
    }
}

/// Decides on `facts` by `policy`. An approval is always required.
#[must_use]
pub fn evaluate(facts: &SlaFacts, policy: &PlatformPolicy) -> SlaEvaluation {
    let mut judge = Judge { facts, policy, reasons: Vec::new() };
    let terms = judge.judge(policy);
    let rejected = judge.reasons.iter().any(|reason| reason.verdict == Judgement::Failed);
    let terms = terms.filter(|_| !rejected);
    let verdict = if terms.is_some() { Verdict::NeedsApproval } else { Verdict::Rejected };
    SlaEvaluation { verdict, reasons: judge.reasons, terms }
}

struct Judge<'a> {
    facts: &'a SlaFacts,
    policy: &'a PlatformPolicy,
    reasons: Vec<Reason>,
}

impl Judge<'_> {
    fn note(&mut self, rule: &str, field: &str, verdict: Judgement, detail: String) {
        let line = self.facts.request.lines.get(field).copied();
        let key = match rule {
            "approval.sla_change" => Some("approvals.sla_change.seats"),
            _ => None,
        };
        let by = key.and_then(|key| self.policy.provenance.origin(key));
        self.reasons.push(Reason { rule: rule.into(), verdict, detail, line, by });
    }

    fn check(&mut self, rule: &str, field: &str, holds: bool, detail: String) {
        self.note(rule, field, if holds { Judgement::Passed } else { Judgement::Failed }, detail);
    }

    fn judge(&mut self, policy: &PlatformPolicy) -> Option<SlaTerms> {
        let (facts, request) = (self.facts, &self.facts.request);
        let active = facts.tenant.as_ref().filter(|tenant| tenant.state == TenantState::Active);
        let said = if active.is_some() { "is active" } else { "is not active" };
        self.check("tenant.active", "tenant", active.is_some(), format!("tenant {} {said}", request.tenant));
        let (tenant, (kind, simulated), (model, bought)) = (active?, facts.cluster?, facts.bought.clone()?);
        let cluster = tenant.cluster.clone()?;
        let before = promise(tenant);
        let after = request.apply_to(&before);
        self.promises(tenant, &before, &after, (policy, kind, &model));
        let cut = || match after.isolation {
            Isolation::SharedSlices => policy.gpu_models.slicing(&model, None).unwrap_or_default(),
            Isolation::DedicatedCluster | Isolation::DedicatedNodes => None,
        };
        // Any change recounts nodes that were partitioned before quotas counted slices.
        let same = after.isolation == before.isolation && (facts.slicing.is_some() || cut().is_none());
        let slicing = if same { facts.slicing.clone() } else { cut() };
        let offers = (GpuOffer::of(&model, facts.slicing.as_ref()), GpuOffer::of(&model, slicing.as_ref()));
        self.whole(&offers);
        let settings = self.settings(&after, &model, policy);
        let workspaces: Vec<_> = facts
            .workspaces
            .iter()
            .map(|workspace| {
                let queue = settings.queues.get(&workspace.name);
                let changes = before.allow_preemption != after.allow_preemption;
                let borrowing_limit = match queue.filter(|_| changes) {
                    Some(queue) => queue.quota.borrowing_limit,
                    None => workspace.before.borrowing_limit,
                };
                let after = recut(Allowance { borrowing_limit, ..workspace.before }, &offers);
                SlaWorkspace { after, ..workspace.clone() }
            })
            .collect();
        let (old, new) = (gpu_layout(before.isolation, &model), gpu_layout(after.isolation, &model));
        let priority = |tier| settings.priority_classes.get(&tier).copied().unwrap_or_default();
        let asked = approval(&ApprovalFor::SlaChange { lower: false }, policy).answer.gate();
        let gate = asked.unwrap_or_else(|| policy.approvals.sla_change.clone());
        Some(SlaTerms {
            policy: policy.reference.clone(),
            seats: gate.seats.clone(),
            approve_within: gate.within,
            procedure: gate.procedure.clone(),
            wait: policy.waitlist,
            patience: policy.patience,
            priority: (priority(before.tier), priority(after.tier)),
            priority_class: (kind == ClusterKind::Kubernetes)
                .then(|| PriorityClass::new(after.tier, priority(after.tier))),
            before,
            after,
            cluster,
            kind,
            simulated,
            bought,
            workspaces,
            nodes: if old == new && facts.slicing == slicing { Vec::new() } else { facts.nodes.clone() },
            layout: new,
            slicing: (facts.slicing.clone(), slicing),
            model,
        })
    }

    /// Returns the scheduler settings of the tenant under the new service level, in pieces of the current layout.
    fn settings(&self, after: &TenantPolicy, model: &GpuModel, policy: &PlatformPolicy) -> SchedulerSettings {
        let facts = self.facts;
        let named = |workspace: &SlaWorkspace| {
            let nominal = Gpus(u32::try_from(workspace.before.nominal).unwrap_or(u32::MAX));
            (workspace.name.clone(), QuotaLimits { nominal, ..QuotaLimits::default() })
        };
        let of = SchedulerFacts {
            tier: after.tier,
            allow_preemption: after.allow_preemption,
            multitenancy: facts.tenant.as_ref().and_then(|tenant| tenant.multitenancy),
            model: model.clone(),
            slicing: facts.slicing.clone(),
            workspaces: facts.workspaces.iter().map(named).collect(),
        };
        schedulers(&of, policy).answer
    }

    /// Checks that every quota is a whole number of GPUs if slices become whole GPUs.
    fn whole(&mut self, (before, after): &(GpuOffer, GpuOffer)) {
        let whole = |amount: u64| {
            let slices = amount.saturating_mul(u64::from(after.per_gpu));
            slices.is_multiple_of(u64::from(before.per_gpu.max(1)))
        };
        let part = self.facts.workspaces.iter().find(|workspace| !whole(workspace.before.nominal));
        let Some(workspace) = part else { return };
        let detail = format!(
            "workspace {} has {} of {}, which is not a multiple of {}: change its quota first",
            workspace.name,
            workspace.before.nominal,
            before.resource(),
            after.resource()
        );
        self.check("quota.whole", "isolation", false, detail);
    }

    /// Checks that the new service level is possible.
    fn promises(
        &mut self,
        tenant: &Tenant,
        before: &TenantPolicy,
        after: &TenantPolicy,
        (policy, kind, model): (&PlatformPolicy, ClusterKind, &GpuModel),
    ) {
        self.check("sla.changes", "", before != after, "the request must change something".into());
        let own = |promise: &TenantPolicy| promise.isolation == Isolation::DedicatedCluster;
        let detail = "a change to or from a tenant's own cluster would move all data: onboard the tenant there under another name, and offboard this one";
        self.check("sla.same_cluster", "isolation", own(before) == own(after), detail.into());
        let slices = after.isolation == Isolation::SharedSlices;
        let apart = isolation(
            &IsolationFacts {
                isolation: after.isolation,
                allow_gpu_sharing: after.allow_gpu_sharing,
                multitenancy: tenant.multitenancy,
                compliance: tenant.compliance.clone(),
                model: model.clone(),
                slice_profile: None,
                kind,
            },
            policy,
        );
        let (level, sharing) = (<&str>::from(after.isolation), after.allow_gpu_sharing);
        let detail = format!("isolation is {level}, allow_gpu_sharing is {sharing}");
        let holds = !apart.fails(const { RuleName::known("isolation.sharing_allowed") });
        self.check("isolation.sharing_allowed", "allow_gpu_sharing", holds, detail);
        if tenant.has_customers() {
            let holds = !apart.fails(const { RuleName::known("multitenancy.sharing") });
            let detail = "customers of the tenant do not share GPUs".to_owned();
            self.check("multitenancy.sharing", "isolation", holds, detail);
        }
        let line = self.facts.request.lines.get("isolation").copied();
        let demanded = apart.reasons.into_iter().filter(|reason| reason.rule == "compliance.isolation");
        self.reasons.extend(demanded.map(|reason| Reason { line, ..reason }));
        let lowers = rank(after.tier) < rank(before.tier) || slices && before.isolation != after.isolation;
        let detail = if lowers { "the new terms promise less" } else { "the new terms do not promise less" };
        self.note("approval.sla_change", "tier", Judgement::AsksPeople, detail.into());
    }
}

fn rank(tier: Tier) -> u8 {
    match tier {
        Tier::Enterprise => 2,
        Tier::Standard => 1,
        Tier::Research => 0,
    }
}

/// Returns the allowance in pieces of the new layout.
pub(super) fn recut(line: Allowance, (before, after): &(GpuOffer, GpuOffer)) -> Allowance {
    let turn = |pieces: u64| {
        let slices = pieces.saturating_mul(u64::from(after.per_gpu));
        slices.checked_div(u64::from(before.per_gpu)).unwrap_or(slices)
    };
    Allowance {
        nominal: turn(line.nominal),
        borrowing_limit: line.borrowing_limit.map(turn),
        lending_limit: line.lending_limit.map(turn),
    }
}

/// Returns the labels of a tenant's namespace, the same as in onboarding.
pub(super) fn labels(
    class: WorkspaceClass,
    promise: &TenantPolicy,
    priority: u32,
) -> BTreeMap<String, String> {
    let preemption = if promise.allow_preemption { "allowed" } else { "never" };
    BTreeMap::from([
        ("class".into(), <&str>::from(class).into()),
        ("preemption".into(), preemption.into()),
        ("priority".into(), priority.to_string()),
    ])
}
