//! What an eviction decides on the books: its begin, and the GPUs that it freed or barred.

use crate::{
    platform::ObservedGpus,
    reclaim::ledger::start_reclaims,
    scheduling::admission::{self, VictimExit},
    tenancy::{NodeId, NodeUse, TenantId, Workload, WorkloadState},
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
/// place. Its booking first moves to the nodes on which it was observed, so that room is kept where GPUs were cleaned. Safe to decide
/// again; a victim that has ended by itself is left as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FreeVictim {
    /// Whose.
    pub tenant: TenantId,
    /// Which workload.
    pub workload: String,
    /// Where it was observed.
    #[serde(default)]
    pub observed: ObservedGpus,
}

impl LedgerAction for FreeVictim {
    const NAME: &'static str = "FreeVictim";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let Some((by, _)) = reclaimed_by(view, &self.tenant, &self.workload)? else { return Ok(()) };
        admission::move_to_observed(view, &self.tenant, &self.workload, &self.observed)?;
        let news = admission::release_victim(view, &self.tenant, by, &self.workload, VictimExit::Evicted)?;
        view.signal(by, crate::reclaim::VICTIM_FREED);
        start_reclaims(view, &news)
    }
}

/// A victim is gone and the memory of its GPUs was not cleaned: nobody gets the GPUs on which it was observed until an operator says so.
/// Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BarGpus {
    /// Whose.
    pub tenant: TenantId,
    /// Which workload.
    pub workload: String,
    /// Where it was observed. Empty in an eviction that an earlier version began: then what is booked for it is barred.
    #[serde(default)]
    pub observed: ObservedGpus,
}

impl LedgerAction for BarGpus {
    const NAME: &'static str = "BarGpus";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let Some((by, workload)) = reclaimed_by(view, &self.tenant, &self.workload)? else { return Ok(()) };
        let why = format!("not cleaned after {}", self.workload);
        admission::move_to_observed(view, &self.tenant, &self.workload, &self.observed)?;
        for (node, gpu) in self.barred(view, &workload)? {
            admission::bar_gpu(view, &self.tenant, &node, gpu, Some(&why))?;
        }
        let news = admission::release_victim(view, &self.tenant, by, &self.workload, VictimExit::Evicted)?;
        view.signal(by, crate::reclaim::VICTIM_FREED);
        start_reclaims(view, &news)
    }
}

impl BarGpus {
    /// The GPUs to bar, as far as the books have them as the tenant's.
    fn barred(&self, view: &mut View, workload: &Workload) -> Result<Vec<(NodeId, u16)>, Undecided> {
        let mut barred = Vec::new();
        if self.observed.is_empty() {
            for placed in &workload.placed {
                barred.extend(placed.gpus.keys().map(|gpu| (placed.node.clone(), *gpu)));
            }
            return Ok(barred);
        }
        view.prefetch::<NodeUse>(self.observed.iter().map(|(node, _)| node.as_str()))?;
        for (name, gpus) in self.observed.iter() {
            let known = view.get::<NodeUse>(name)?.filter(|node| node.tenant == self.tenant);
            let Some(known) = known else { continue };
            let there = gpus.iter().filter(|gpu| usize::from(**gpu) < known.gpus.len());
            barred.extend(there.map(|gpu| (known.node.clone(), *gpu)));
        }
        Ok(barred)
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
