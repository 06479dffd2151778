//! What an eviction decides on the books: its begin, and the GPUs that it freed or barred.

use crate::{
    reclaim::ledger::start_reclaims,
    scheduling::admission::{self, VictimExit},
    tenancy::{TenantId, Workload, WorkloadState},
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// Says that a victim's eviction begins: its loans drain. Answers why it is spared instead, if nobody needs it any more. Safe to decide
/// again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginEviction {
    /// Whose.
    pub tenant: TenantId,
    /// Which workload.
    pub workload: String,
    /// Whether somebody says that it has ended: it is not spared then.
    #[serde(default)]
    pub exited: bool,
}

impl LedgerAction for BeginEviction {
    const NAME: &'static str = "BeginEviction";
    type Output = Option<String>;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Option<String>, Undecided> {
        let by = reclaimed_by(view, &self.tenant, &self.workload)?.map_or(call.execution, |(by, _)| by);
        admission::drain_victim(view, &self.tenant, by, &self.workload, self.exited)
    }
}

/// A victim's GPUs were seen free and are clean: they are kept for the demand, and the victim waits in line at its old
/// place. Safe to decide again; a victim that has ended by itself is left as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FreeVictim {
    /// Whose.
    pub tenant: TenantId,
    /// Which workload.
    pub workload: String,
}

impl LedgerAction for FreeVictim {
    const NAME: &'static str = "FreeVictim";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let Some((by, _)) = reclaimed_by(view, &self.tenant, &self.workload)? else { return Ok(()) };
        let news = admission::release_victim(view, &self.tenant, by, &self.workload, VictimExit::Evicted)?;
        view.signal(by, crate::reclaim::VICTIM_FREED);
        start_reclaims(view, &news)
    }
}

/// A victim is gone and the memory of its GPUs was not cleaned: nobody gets them until an operator says so. Safe to decide
/// again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BarGpus {
    /// Whose.
    pub tenant: TenantId,
    /// Which workload.
    pub workload: String,
}

impl LedgerAction for BarGpus {
    const NAME: &'static str = "BarGpus";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let Some((by, workload)) = reclaimed_by(view, &self.tenant, &self.workload)? else { return Ok(()) };
        let why = format!("not cleaned after {}", self.workload);
        for placed in &workload.placed {
            for gpu in placed.gpus.keys() {
                admission::bar_gpu(view, &self.tenant, &placed.node, *gpu, Some(&why))?;
            }
        }
        let news = admission::release_victim(view, &self.tenant, by, &self.workload, VictimExit::Evicted)?;
        view.signal(by, crate::reclaim::VICTIM_FREED);
        start_reclaims(view, &news)
    }
}

/// Who reclaims a workload, if anybody does.
fn reclaimed_by(
    view: &mut View,
    tenant: &TenantId,
    name: &str,
) -> Result<Option<(ExecutionId, Workload)>, Undecided> {
    let found = view.get::<Workload>(&Workload::key(tenant, name))?;
    Ok(found.and_then(|workload| match workload.state {
        WorkloadState::Reclaimed { by } => Some((by, workload)),
        WorkloadState::Waiting
        | WorkloadState::Admitted
        | WorkloadState::Finished
        | WorkloadState::Rejected => None,
    }))
}
