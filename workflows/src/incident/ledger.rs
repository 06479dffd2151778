//! The ledger actions of an incident.

use super::IncidentCause;
use crate::{
    incident::record::{IncidentTriage, Severity},
    platform::WorkloadRef,
    policy::{
        self, ApprovalGate,
        decisions::{ApprovalFor, approval},
    },
    reclaim,
    scheduling::admission,
    tenancy::{Cohort, Node, NodeId, NodeUse, TenantId},
};
use engine::{Call, Entity, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use store::{ExecutionId, Timestamp};

/// An incident. Kept permanently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// The execution of its response.
    pub execution: ExecutionId,
    /// Its severity.
    pub severity: Severity,
    /// Its cause.
    pub happening: IncidentCause,
    /// Its detector.
    pub detector: String,
    /// The time when it was opened.
    pub opened_at: Timestamp,
}

impl Entity for Incident {
    const COLLECTION: &'static str = "incidents";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        self.execution.to_string()
    }
}

/// Records an incident with its severity. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OpenIncident {
    pub(super) happening: IncidentCause,
    pub(super) detector: String,
}

impl LedgerAction for OpenIncident {
    const NAME: &'static str = "OpenIncident";
    type Output = IncidentTriage;

    fn decide(&self, view: &mut View, call: &Call) -> Result<IncidentTriage, Undecided> {
        let opened = triage(view, &self.happening)?;
        let (opened_at, severity) = (view.now(), opened.severity);
        let (execution, happening, detector) =
            (call.execution, self.happening.clone(), self.detector.clone());
        view.put(&Incident { execution, severity, happening, detector, opened_at })?;
        Ok(opened)
    }
}

/// Returns the severity and the approval by policy.
pub(super) fn triage(view: &mut View, happening: &IncidentCause) -> Result<IncidentTriage, Undecided> {
    let policy = policy::in_force(view)?;
    let severity = match happening {
        IncidentCause::GpuFault { .. } => Severity::Medium,
        IncidentCause::KeyLeak { .. } | IncidentCause::IsolationBreach { .. } => Severity::High,
        IncidentCause::Other { .. } => Severity::Low,
    };
    let asked = approval(&ApprovalFor::Incident { disturbs: true }, &policy).answer.gate();
    let ApprovalGate { seats, procedure, .. } = asked.unwrap_or_else(|| policy.approvals.incident.clone());
    Ok(IncidentTriage { severity, policy: policy.reference.clone(), seats, procedure })
}

/// Takes a node out of service for new work. Reports if this execution did it, and the workloads on the node. Safe to decide again. Its undo,
/// [`ServeNode`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RestNode {
    pub(super) tenant: TenantId,
    pub(super) node: NodeId,
}

/// Result of taking a node out of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RestOutcome {
    /// True if this incident did it.
    pub(super) ours: bool,
    /// The epoch of the tenant's ownership.
    pub(super) owner_epoch: u64,
    /// The holders of cordons that earlier incidents left.
    pub(super) cordons: Vec<String>,
    /// The workloads on the node.
    pub(super) running: Vec<WorkloadRef>,
}

impl LedgerAction for RestNode {
    const NAME: &'static str = "RestNode";
    type Output = RestOutcome;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Self::Output, Undecided> {
        let before = view.get::<NodeUse>(self.node.as_str())?;
        let served = before.is_some_and(|node| node.serving && node.tenant == self.tenant);
        // Another incident may have left the node out of service. That incident has ended, because this one could start.
        let earlier = view.get::<RestedNode>(self.node.as_str())?;
        let ours = served || earlier.is_some();
        let cordons = earlier.as_ref().map(|rested| rested.cordons.clone()).unwrap_or_default();
        // In a repeated decision, the takeover is already recorded.
        let taken_over = earlier.as_ref().is_some_and(|rested| rested.by == call.execution);
        if ours && !taken_over {
            let (cordons, former) = (cordons.clone(), earlier.map(|rested| (rested.by, rested.cordons)));
            view.put(&RestedNode { node: self.node.clone(), by: call.execution, cordons, former })?;
        }
        let owner = view.get::<Node>(self.node.as_str())?.filter(|n| n.owner.as_ref() == Some(&self.tenant));
        let owner_epoch = owner.map_or(0, |node| node.owner_epoch.0);
        let names = admission::rest_nodes(view, &self.tenant, std::slice::from_ref(&self.node))?;
        let mut running = Vec::new();
        for name in names.into_values().flatten() {
            running.extend(
                reclaim::ledger::start_command(view, &self.tenant, &name)?.map(|start| start.workload),
            );
        }
        Ok(RestOutcome { ours, owner_epoch, cordons, running })
    }
}

/// The incident that took a node out of service. Only this incident returns it to service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RestedNode {
    node: NodeId,
    by: ExecutionId,
    /// The holders of its cordons.
    cordons: Vec<String>,
    /// The incident that left it out of service before, with the holders of its cordons then.
    #[serde(default)]
    former: Option<(ExecutionId, Vec<String>)>,
}

impl Entity for RestedNode {
    const COLLECTION: &'static str = "nodes-rested";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.node.to_string()
    }
}

/// Records the holder of the node's cordon, so that a later incident can remove it. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NoteCordon {
    pub(super) node: NodeId,
    pub(super) by: String,
}

impl LedgerAction for NoteCordon {
    const NAME: &'static str = "NoteCordon";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        match view.get::<RestedNode>(self.node.as_str())?.filter(|rested| rested.by == call.execution) {
            Some(mut rested) if !rested.cordons.contains(&self.by) => {
                rested.cordons.push(self.by.clone());
                view.put(&rested)
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns a node to service, if this incident took it out. Safe to run twice. As an undo it leaves a node that was already out of service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ServeNode {
    pub(super) tenant: TenantId,
    pub(super) node: NodeId,
}

impl LedgerAction for ServeNode {
    const NAME: &'static str = "ServeNode";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let rested = view.get::<RestedNode>(self.node.as_str())?.filter(|rested| rested.by == call.execution);
        let Some(rested) = rested else { return Ok(()) };
        if let (true, Some((by, cordons))) = (call.undo, rested.former) {
            return view.put(&RestedNode { node: rested.node, by, cordons, former: None });
        }
        view.delete::<RestedNode>(self.node.as_str())?;
        let news = admission::serve_nodes(view, &self.tenant, std::slice::from_ref(&self.node))?;
        reclaim::ledger::start_reclaims(view, &news)
    }
}

/// Returns all workloads of a node to their places in the queue, after none was observed on it. Ends their loans. Work since their last checkpoint is
/// lost, so this has no undo. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ClearNode {
    pub(super) tenant: TenantId,
    pub(super) node: NodeId,
}

impl LedgerAction for ClearNode {
    const NAME: &'static str = "ClearNode";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let (_, news) = admission::lose_nodes(view, &self.tenant, std::slice::from_ref(&self.node))?;
        reclaim::ledger::start_reclaims(view, &news)
    }
}

/// Quarantines an unfit node. Only a sanitisation ends the quarantine. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeepApart {
    pub(super) tenant: TenantId,
    pub(super) node: NodeId,
}

impl LedgerAction for KeepApart {
    const NAME: &'static str = "KeepApart";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        if let Some(node) =
            view.get::<Node>(self.node.as_str())?.filter(|node| node.owner.as_ref() == Some(&self.tenant))
            && let Ok(apart) = node.quarantine(node.owner_epoch)
        {
            view.put(&apart)?;
        }
        Ok(())
    }
}

/// Stops the admission of these tenants. Safe to decide again. [`ThawTenants`] is the undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FreezeTenants {
    pub(super) tenants: Vec<TenantId>,
}

impl LedgerAction for FreezeTenants {
    const NAME: &'static str = "FreezeTenants";
    const PROTECTS: bool = true;
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        for (tenant, cohort) in cohorts(view, &self.tenants)? {
            let workspaces: Vec<_> = cohort.accounts.into_keys().collect();
            admission::freeze(view, &tenant, &workspaces, call.execution)?;
        }
        Ok(())
    }
}

/// Restores the admission of tenants that this incident stopped. Safe to run twice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ThawTenants {
    pub(super) tenants: Vec<TenantId>,
}

impl LedgerAction for ThawTenants {
    const NAME: &'static str = "ThawTenants";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        for (tenant, cohort) in cohorts(view, &self.tenants)? {
            let workspaces: Vec<_> = cohort.accounts.into_keys().collect();
            let news = admission::thaw(view, &tenant, &workspaces, call.execution)?;
            reclaim::ledger::start_reclaims(view, &news)?;
        }
        Ok(())
    }
}

/// Returns the accounts of the tenants that have one.
fn cohorts(view: &mut View, tenants: &[TenantId]) -> Result<Vec<(TenantId, Cohort)>, Undecided> {
    view.prefetch::<Cohort>(tenants.iter().map(ToString::to_string))?;
    let mut all = Vec::new();
    for tenant in tenants {
        all.extend(view.get::<Cohort>(tenant.as_str())?.map(|cohort| (tenant.clone(), cohort)));
    }
    Ok(all)
}
