//! Ledger actions of a start.

use crate::{
    platform::{GpuSet, StartWorkload, WorkloadRef},
    tenancy::{NodeAllocation, NodeUse, TenantId, Workload, WorkloadClass, WorkloadState},
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Returns the start command for a workload's cluster, if the workload is still admitted by this decision. Changes nothing, so it is safe to repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfirmAdmission {
    /// The tenant.
    pub tenant: TenantId,
    /// The name.
    pub workload: String,
    /// The decision that admitted it.
    pub decision: String,
}

impl LedgerAction for ConfirmAdmission {
    const NAME: &'static str = "ConfirmAdmission";
    type Output = Option<StartWorkload>;

    fn decide(&self, view: &mut View, _: &Call) -> Result<Self::Output, Undecided> {
        let found = view.get::<Workload>(&Workload::key(&self.tenant, &self.workload))?;
        let stands = found.is_some_and(|workload| {
            workload.state == WorkloadState::Admitted && workload.decision == self.decision
        });
        if stands { start_command(view, &self.tenant, &self.workload) } else { Ok(None) }
    }
}

/// Returns the start command for the cluster of an admitted workload.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn start_command(
    view: &mut View,
    tenant: &TenantId,
    name: &str,
) -> Result<Option<StartWorkload>, Undecided> {
    let Some(workload) = view.get::<Workload>(&Workload::key(tenant, name))? else { return Ok(None) };
    let Some(holding) = view.get::<NodeAllocation>(tenant.as_str())? else { return Ok(None) };
    let mut gpus = GpuSet::new();
    let mut profiles = BTreeMap::new();
    view.prefetch::<NodeUse>(workload.placed.iter().map(|placed| placed.node.to_string()))?;
    for placed in &workload.placed {
        gpus.entry(placed.node.to_string()).or_default().extend(placed.gpus.keys().copied());
        let uses = view.get::<NodeUse>(placed.node.as_str())?;
        let first = placed.gpus.keys().next().copied().map(usize::from);
        let gpu = uses.as_ref().zip(first).and_then(|(uses, first)| uses.gpus.get(first));
        let profile = gpu.and_then(|gpu| gpu.profile.as_ref());
        profiles.extend(profile.map(|profile| (placed.node.to_string(), profile.to_string())));
    }
    let service = workload.class == WorkloadClass::Service;
    let workload = WorkloadRef {
        cluster: holding.cluster.to_string(),
        tenant: tenant.to_string(),
        workspace: workload.workspace.to_string(),
        name: workload.name,
    };
    Ok(Some(StartWorkload { workload, gpus: gpus.into(), service, profiles }))
}
