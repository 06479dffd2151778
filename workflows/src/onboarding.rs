//! Tenant onboarding: from a request for GPUs to a tenant that can run jobs.
//!
//! A failure in any state before `HandingOver` undoes the trail and leaves the platform and the ledger unchanged. No workload of the tenant runs before that:
//! queues stay on hold, and credentials stay unpublished. The page with the diagram and the actors is `docs/workflows/onboarding.md`.

mod examples;
mod plan;
mod preview;
mod record;
mod resources;
mod results;
mod waits;

pub use preview::{Preview, preview};
pub use record::Onboarding;
pub(crate) use waits::{Waits, default_seats};

use crate::{
    ledger::{
        ActivateTenant, ClaimNodes, ClaimReplacements, ClearQuotas, Evaluate, ExtendWait, JoinedWaitlist,
        LeaveWaitlist, PrepareNodes, QuarantineNodes, ReleaseClaim, RevokeClusterKey, SetQuotas,
        UnregisterTenant, codes,
    },
    platform::{
        ClearResourceQuota, CreateIdentity, CreateTenantKey, CredentialReference, DeleteAccount,
        DeleteBucket, DeleteCohort, DeleteFlavor, DeleteIdentity, DeleteNamespace, DeleteQueue,
        DestroyTenantKey, GpuLayout, HoldQueue, Platform, PublishCredentials, RestoreNetwork, TakeNode,
    },
};
use engine::{
    HOUR, MINUTE, Outcome, Plan, Step, Subject, Workflow, act, act_each, approval, await_signal, end, when,
};

/// The state of an onboarding. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/onboarding.md"
)]
pub enum State {
    Evaluating,
    Deciding,
    AwaitingApproval,
    Registering,
    Claiming,
    JoiningWaitlist,
    Waitlisted,
    ClaimingFreed,
    KeepingPlace,
    CheckingPatience,
    AwaitingPatience,
    ExtendingWait,
    CreatingKey,
    CreatingIdentity,
    CreatingAccount,
    CreatingNamespaces,
    PreparingNodes,
    TakingNodes,
    ReadingLayouts,
    ShapingGpus,
    CheckingQueues,
    CreatingCohort,
    CreatingFlavor,
    CreatingQueues,
    SettingQuotas,
    LimitingResources,
    IsolatingNetwork,
    CreatingBucket,
    IssuingClusterKey,
    Qualifying,
    Judging,
    Quarantining,
    CountingUnfit,
    Replacing,
    Probing,
    OpeningQueues,
    HandingOver,
    Activating,
    Active,
    Rejected,
    Declined,
    Lapsed,
    OutOfNodes,
}

/// The signal that wakes an onboarding on the waitlist.
pub const CAPACITY_FREED: &str = "capacity.freed";

impl Workflow for Onboarding {
    const NAME: &'static str = "onboarding";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Evaluating;
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let tenant = self.request.name.clone();
        let of = tenant.to_string();
        let (ask, constraints) = (self.ask(), self.constraints());
        match state {
            // The request and its approval. The decision is kept in every outcome.
            Evaluating => act(Evaluate { request: self.request.clone() })
                .nothing_to_undo()
                .record(Self::evaluated)
                .then(Deciding),
            Deciding => when(self.rejected(), "rejected by policy", Rejected)
                .or_when(self.waived(), "self-service", Registering)
                .waived_by(self.rule())
                .otherwise("approval is needed", AwaitingApproval),
            AwaitingApproval => approval(self.seats())
                .within(self.waits().approve)
                .with_procedure(self.procedure())
                .granted(Registering)
                .refused(Declined)
                .expired(Lapsed),

            // The name and the nodes, in the ledger.
            Registering => act(self.registration()).undo(UnregisterTenant { tenant }).then(Claiming),
            Claiming => act(ClaimNodes { tenant: tenant.clone(), ask, constraints })
                .undo(ReleaseClaim { tenant })
                .record(Self::claimed)
                .on_failure(codes::SHORT, JoiningWaitlist)
                .then(CreatingKey),
            JoiningWaitlist => act(self.joining())
                .undo(LeaveWaitlist { ask, constraints })
                .record(|me: &mut Self, joined: JoinedWaitlist| me.overdue = joined.overdue)
                .then(Waitlisted),
            Waitlisted => await_signal(CAPACITY_FREED)
                .within(self.waits().recheck)
                .then(ClaimingFreed)
                .expired(ClaimingFreed),
            // The undo of `Claiming` and `JoiningWaitlist` on the trail covers these states, even if they are entered again.
            ClaimingFreed => act(ClaimNodes { tenant, ask, constraints })
                .nothing_to_undo()
                .record(Self::claimed)
                .on_failure(codes::SHORT, KeepingPlace)
                .then(CreatingKey),
            KeepingPlace => act(self.joining())
                .nothing_to_undo()
                .record(|me: &mut Self, joined: JoinedWaitlist| me.overdue = joined.overdue)
                .then(CheckingPatience),
            CheckingPatience => when(self.overdue, "waited too long", AwaitingPatience)
                .otherwise("continue to wait", Waitlisted),
            AwaitingPatience => approval(self.patience_seats())
                .within(self.waits().patience)
                .with_procedure(self.procedure())
                .granted(ExtendingWait)
                .refused(Declined)
                .expired(Lapsed),
            ExtendingWait => {
                act(ExtendWait { ask, constraints, by: self.waits().wait }).nothing_to_undo().then(Waitlisted)
            }

            // The tenant's key and cluster objects.
            CreatingKey => act(CreateTenantKey { tenant: of.clone() })
                .undo(DestroyTenantKey { tenant: of })
                .then(CreatingIdentity),
            CreatingIdentity => act(CreateIdentity { tenant: of.clone(), groups: self.groups() })
                .undo(DeleteIdentity { tenant: of })
                .then(CreatingAccount),
            CreatingAccount => act_each(self.accounts())
                .undo_each(|account| DeleteAccount {
                    cluster: account.cluster.clone(),
                    tenant: account.tenant.clone(),
                })
                .then(CreatingNamespaces),
            CreatingNamespaces => act_each(self.namespaces())
                .undo_each(|namespace| DeleteNamespace {
                    cluster: namespace.cluster.clone(),
                    tenant: namespace.tenant.clone(),
                    workspace: namespace.workspace.clone(),
                })
                .within(15 * MINUTE)
                .then(PreparingNodes),

            // The nodes: labelled, tainted and partitioned as agreed. Replacement nodes pass through here again.
            PreparingNodes => act(PrepareNodes { tenant }).nothing_to_undo().then(TakingNodes),
            TakingNodes => act_each(self.new_nodes().takings())
                .undo_each(TakeNode::undo)
                .within(self.new_nodes().time_limit(HOUR))
                .then(ReadingLayouts),
            ReadingLayouts => act_each(self.new_nodes().layout_readings())
                .nothing_to_undo()
                .record(|me: &mut Self, layout: GpuLayout| me.layouts.push(layout.profile))
                .within(self.new_nodes().time_limit(HOUR))
                .then(ShapingGpus),
            ShapingGpus => act_each(self.new_nodes().layout_settings(&self.profile()))
                .undo_each(self.new_nodes().layout_before())
                .within(self.new_nodes().time_limit(HOUR))
                .then(CheckingQueues),
            CheckingQueues => when(!self.quarantined.is_empty(), "replacement nodes join", Qualifying)
                .otherwise("the tenant needs queues", CreatingCohort),

            // Queues on hold, quotas and isolation; parent before child.
            CreatingCohort => act_each(self.cohorts())
                .undo_each(|cohort| DeleteCohort {
                    cluster: cohort.cluster.clone(),
                    tenant: cohort.tenant.clone(),
                })
                .then(CreatingFlavor),
            CreatingFlavor => act_each(self.flavors())
                .undo_each(|flavor| DeleteFlavor {
                    cluster: flavor.cluster.clone(),
                    tenant: flavor.tenant.clone(),
                    model: flavor.model.clone(),
                })
                .then(CreatingQueues),
            CreatingQueues => act_each(self.queues())
                .undo_each(|queue| DeleteQueue {
                    cluster: queue.cluster.clone(),
                    tenant: queue.tenant.clone(),
                    workspace: queue.workspace.clone(),
                })
                .then(SettingQuotas),
            SettingQuotas => act(SetQuotas {
                tenant: tenant.clone(),
                model: self.request.entitlement.gpu_model.clone(),
                limits: self.limits(),
                overcommit: self.overcommit(),
            })
            .undo(ClearQuotas { tenant, workspaces: self.workspace_names() })
            .then(LimitingResources),
            LimitingResources => act_each(self.resource_quotas())
                .undo_each(|quota| ClearResourceQuota {
                    cluster: quota.cluster.clone(),
                    tenant: quota.tenant.clone(),
                    workspace: quota.workspace.clone(),
                    containers: quota.containers.is_some(),
                })
                .then(IsolatingNetwork),
            IsolatingNetwork => act_each(self.isolations())
                .undo_each(|isolation| RestoreNetwork {
                    cluster: isolation.cluster.clone(),
                    tenant: isolation.tenant.clone(),
                    workspace: isolation.workspace.clone(),
                })
                .then(CreatingBucket),
            CreatingBucket => act_each(self.buckets())
                .undo_each(|bucket| DeleteBucket {
                    tenant: bucket.tenant.clone(),
                    region: bucket.region.clone(),
                })
                .then(IssuingClusterKey),
            IssuingClusterKey => act_each(self.cluster_keys())
                .undo_each(|key| RevokeClusterKey {
                    cluster: key.cluster.clone(),
                    tenant: key.tenant.clone(),
                })
                .then(Qualifying),

            // Test the nodes, then the isolation.
            Qualifying => act_each(self.new_nodes().qualifications())
                .nothing_to_undo()
                .record(Self::qualified)
                .attempt_within(20 * MINUTE)
                .within(self.new_nodes().time_limit(45 * MINUTE))
                .then(Judging),
            Judging => when(self.unfit.is_empty(), "all nodes are fit", Probing)
                .otherwise("some nodes are unfit", Quarantining),
            Quarantining => act(QuarantineNodes { tenant, unfit: self.unfit.clone() })
                .nothing_to_undo()
                .record(Self::quarantined)
                .then(CountingUnfit),
            CountingUnfit => {
                when(self.replaceable(), "replace", Replacing).otherwise("too many unfit nodes", OutOfNodes)
            }
            Replacing => act(ClaimReplacements { tenant, ask, constraints })
                .nothing_to_undo()
                .record(Self::claimed)
                .then(PreparingNodes),
            Probing => act_each(self.probes()).nothing_to_undo().within(10 * MINUTE).then(OpeningQueues),

            // The hand-over. Only offboarding undoes the following steps.
            OpeningQueues => act_each(self.openings())
                .undo_each(|queue| HoldQueue {
                    cluster: queue.cluster.clone(),
                    tenant: queue.tenant.clone(),
                    workspace: queue.workspace.clone(),
                })
                .then(HandingOver),
            HandingOver => act(PublishCredentials { tenant: of })
                .forward_only()
                .record(|me: &mut Self, published: CredentialReference| {
                    me.credentials = Some(published.reference)
                })
                .within(HOUR)
                .then(Activating),
            Activating => act(ActivateTenant { tenant }).forward_only().then(Active),

            Active => end(Outcome::Completed),
            Rejected => end(Outcome::Rejected),
            Declined => end(Outcome::Refused),
            Lapsed => end(Outcome::Expired),
            OutOfNodes => end(Outcome::RolledBack),
        }
    }

    fn subject(&self) -> Subject {
        let name = format!("tenant/{}", self.request.name);
        Subject { tenant: self.request.name.to_string(), guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        plan::of(self)
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}
