//! What an incident decides on the books.

use super::Happening;
use crate::{
    admission,
    policy::{self, PolicyRef},
    reclaim,
    tenancy::{Cohort, Node, NodeId, NodeUse, TenantId},
};
use engine::{Call, Entity, LedgerAction, Seat, Undecided, View};
use serde::{Deserialize, Serialize};
use store::{ExecutionId, Timestamp};

/// How bad it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Severity {
    /// Work is slowed.
    Low,
    /// A promise may be broken.
    Medium,
    /// Tenants are not kept apart, or a secret is out.
    High,
}

/// An incident, kept for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// The execution that sees to it.
    pub execution: ExecutionId,
    /// How bad it is.
    pub severity: Severity,
    /// What happened.
    pub happening: Happening,
    /// Who saw it.
    pub detector: String,
    /// When it was opened.
    pub opened_at: Timestamp,
}

impl Entity for Incident {
    const COLLECTION: &'static str = "incidents";

    fn id(&self) -> String {
        self.execution.to_string()
    }
}

/// What opening an incident came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// How bad it is, by rule.
    pub severity: Severity,
    /// The policy in force.
    pub policy: PolicyRef,
    /// Who is asked before anybody is disturbed.
    pub seats: Vec<Seat>,
}

/// Writes an incident down, with its severity. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OpenIncident {
    pub(super) happening: Happening,
    pub(super) detector: String,
}

impl LedgerAction for OpenIncident {
    type Output = Opened;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Opened, Undecided> {
        let policy = policy::in_force(view)?;
        let severity = match &self.happening {
            Happening::GpuFault { .. } => Severity::Medium,
            Happening::KeyLeak { .. } | Happening::IsolationBreach { .. } => Severity::High,
            Happening::Other { .. } => Severity::Low,
        };
        let opened_at = view.now();
        let (execution, happening, detector) =
            (call.execution, self.happening.clone(), self.detector.clone());
        view.put(&Incident { execution, severity, happening, detector, opened_at })?;
        let seats = policy.approvals.incident.seats.clone();
        Ok(Opened { severity, policy: policy.reference.clone(), seats })
    }
}

/// Takes a node out of service for new work; answers whether this did it, and who runs there. Safe to decide again. Its
/// undo, [`ServeNode`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RestNode {
    pub(super) tenant: TenantId,
    pub(super) node: NodeId,
}

impl LedgerAction for RestNode {
    type Output = (bool, Vec<String>);

    fn decide(&self, view: &mut View, call: &Call) -> Result<Self::Output, Undecided> {
        let before = view.get::<NodeUse>(self.node.as_str())?;
        let served = before.is_some_and(|node| node.serving && node.tenant == self.tenant);
        let ours = view.get::<Rested>(self.node.as_str())?.is_some_and(|rested| rested.by == call.execution);
        if served {
            view.put(&Rested { node: self.node.clone(), by: call.execution })?;
        }
        let running = admission::rest_nodes(view, &self.tenant, std::slice::from_ref(&self.node))?;
        Ok((served || ours, running.into_values().flatten().collect()))
    }
}

/// Which incident took a node out of service: nobody else puts it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rested {
    node: NodeId,
    by: ExecutionId,
}

impl Entity for Rested {
    const COLLECTION: &'static str = "nodes-rested";

    fn id(&self) -> String {
        self.node.to_string()
    }
}

/// Puts a node back in service, if it was this incident that took it out. Safe to run twice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ServeNode {
    pub(super) tenant: TenantId,
    pub(super) node: NodeId,
}

impl LedgerAction for ServeNode {
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let rested = view.get::<Rested>(self.node.as_str())?;
        if rested.is_none_or(|rested| rested.by != call.execution) {
            return Ok(());
        }
        view.delete::<Rested>(self.node.as_str())?;
        let news = admission::serve_nodes(view, &self.tenant, std::slice::from_ref(&self.node))?;
        reclaim::ledger::announce(view, &news)
    }
}

/// Moves everybody off a node that is unfit, back to their old places in line, and keeps it apart; its loans are written
/// off. What they did since they last saved is lost, so this is not undone. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EvacuateNode {
    pub(super) tenant: TenantId,
    pub(super) node: NodeId,
}

impl LedgerAction for EvacuateNode {
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let (_, news) = admission::lose_nodes(view, &self.tenant, std::slice::from_ref(&self.node))?;
        if let Some(node) =
            view.get::<Node>(self.node.as_str())?.filter(|node| node.owner.as_ref() == Some(&self.tenant))
            && let Ok(apart) = node.quarantine(node.owner_epoch)
        {
            view.put(&apart)?;
        }
        reclaim::ledger::announce(view, &news)
    }
}

/// Admits nothing new for these tenants. Safe to decide again. Its undo is [`ThawTenants`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FreezeTenants {
    pub(super) tenants: Vec<TenantId>,
}

impl LedgerAction for FreezeTenants {
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        for (tenant, cohort) in cohorts(view, &self.tenants)? {
            let workspaces: Vec<_> = cohort.accounts.into_keys().collect();
            admission::freeze(view, &tenant, &workspaces, call.execution)?;
        }
        Ok(())
    }
}

/// Admits again for those whom this incident shut out. Safe to run twice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ThawTenants {
    pub(super) tenants: Vec<TenantId>,
}

impl LedgerAction for ThawTenants {
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        for (tenant, cohort) in cohorts(view, &self.tenants)? {
            let workspaces: Vec<_> = cohort.accounts.into_keys().collect();
            let news = admission::thaw(view, &tenant, &workspaces, call.execution)?;
            reclaim::ledger::announce(view, &news)?;
        }
        Ok(())
    }
}

/// The accounts of those tenants that have one.
fn cohorts(view: &mut View, tenants: &[TenantId]) -> Result<Vec<(TenantId, Cohort)>, Undecided> {
    view.want::<Cohort>(tenants.iter().map(ToString::to_string))?;
    let mut all = Vec::new();
    for tenant in tenants {
        all.extend(view.get::<Cohort>(tenant.as_str())?.map(|cohort| (tenant.clone(), cohort)));
    }
    Ok(all)
}
