//! Ledger actions of an eviction: its start, and the GPUs that it freed or barred.

use crate::{
    platform::{GpuSet, ObservedGpus},
    reclaim::ledger::start_reclaims,
    scheduling::admission::{self, VictimExit},
    tenancy::{NodeId, NodeUse, TenantId, Workload, WorkloadState},
};
use engine::{Call, LedgerAction, Notification, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::ExecutionId;

/// Records the start of a victim's eviction: its loans drain. Returns the reason if the victim is spared because it is no longer needed. Safe to repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginEviction {
    /// The tenant.
    pub tenant: TenantId,
    /// The workload.
    pub workload: String,
    /// True if an exit was reported. Then it is not spared.
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

/// Releases a victim whose GPUs were observed free and are clean: they are earmarked for the demand, and the victim returns to its place in the queue. First
/// moves its booking to the observed nodes, so that the clean GPUs are earmarked. Without an observation, bars booked GPUs that were not scrubbed. Safe to
/// repeat. Does not change a victim that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FreeVictim {
    /// The tenant.
    pub tenant: TenantId,
    /// The workload.
    pub workload: String,
    /// The observed GPUs. Empty in an eviction of an earlier version.
    #[serde(default)]
    pub observed: ObservedGpus,
    /// The checked and scrubbed GPUs without an observation: those approved under an earlier version.
    #[serde(default, skip_serializing_if = "GpuSet::is_empty")]
    pub earlier: GpuSet,
}

impl LedgerAction for FreeVictim {
    const NAME: &'static str = "FreeVictim";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        self.free(view)
    }
}

impl FreeVictim {
    pub(crate) fn free(&self, view: &mut View) -> Result<(), Undecided> {
        let Some((by, victim)) = reclaimed_by(view, &self.tenant, &self.workload)? else { return Ok(()) };
        admission::move_to_observed(view, &self.tenant, &self.workload, &self.observed)?;
        let dirty = self.not_cleaned(&victim);
        if !dirty.is_empty() {
            let why = not_cleaned_after(&self.workload);
            let news = admission::bar_gpus_after(view, &self.tenant, &dirty, &self.workload, &why)?;
            start_reclaims(view, &news)?;
        }
        let news = admission::release_victim(view, &self.tenant, by, &self.workload, VictimExit::Evicted)?;
        view.signal(by, crate::reclaim::VICTIM_FREED);
        start_reclaims(view, &news)
    }

    /// Returns the GPUs to which facts moved the booking after an earlier version planned. They were not checked.
    fn not_cleaned(&self, victim: &Workload) -> Places {
        let mut dirty = Places::new();
        if !self.observed.is_empty() || self.earlier.is_empty() {
            return dirty;
        }
        for placed in &victim.placed {
            let cleaned = self.earlier.get(placed.node.as_str());
            let left =
                placed.gpus.keys().filter(|gpu| !cleaned.is_some_and(|cleaned| cleaned.contains(*gpu)));
            dirty.extend(left.map(|gpu| (placed.node.clone(), *gpu)));
        }
        dirty
    }
}

fn not_cleaned_after(workload: &str) -> String {
    format!("not cleaned after the eviction of {workload}")
}

/// Bars the GPUs of a victim that has ended without a scrub, until an operator lifts the bars. The GPUs stay barred wherever the victim's booking moves.
/// Notifies operators of GPUs that the ledger does not have as the tenant's. Safe to repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BarGpus {
    /// The tenant.
    pub tenant: TenantId,
    /// The workload.
    pub workload: String,
    /// The observed GPUs. Empty in an eviction of an earlier version.
    #[serde(default)]
    pub observed: ObservedGpus,
    /// The GPUs to scrub without an observation: those approved under an earlier version.
    #[serde(default, skip_serializing_if = "GpuSet::is_empty")]
    pub earlier: GpuSet,
}

impl LedgerAction for BarGpus {
    const NAME: &'static str = "BarGpus";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        self.bar(view, call.execution)
    }
}

/// GPUs by node and index.
type Places = Vec<(NodeId, u16)>;

impl BarGpus {
    pub(crate) fn bar(&self, view: &mut View, eviction: ExecutionId) -> Result<(), Undecided> {
        let why = not_cleaned_after(&self.workload);
        let reclaimed = reclaimed_by(view, &self.tenant, &self.workload)?;
        if reclaimed.is_some() {
            admission::move_to_observed(view, &self.tenant, &self.workload, &self.observed)?;
        }
        let (barred, unknown) = self.barred(view, reclaimed.as_ref().map(|(_, workload)| workload))?;
        self.tell_unknown(view, eviction, &unknown)?;
        if !barred.is_empty() {
            let news = admission::bar_gpus_after(view, &self.tenant, &barred, &self.workload, &why)?;
            start_reclaims(view, &news)?;
        }
        let Some((by, _)) = reclaimed else { return Ok(()) };
        let news = admission::release_victim(view, &self.tenant, by, &self.workload, VictimExit::Evicted)?;
        view.signal(by, crate::reclaim::VICTIM_FREED);
        start_reclaims(view, &news)
    }

    /// Returns the GPUs to bar, and the GPUs that do not belong to the tenant in the ledger.
    fn barred(&self, view: &mut View, victim: Option<&Workload>) -> Result<(Places, Vec<String>), Undecided> {
        let (mut barred, mut unknown) = (Places::new(), Vec::new());
        let earlier = self.earlier.iter().filter(|_| self.observed.is_empty());
        let named: Vec<(&String, &BTreeSet<u16>)> = self.observed.iter().chain(earlier).collect();
        if named.is_empty() {
            // For evictions of earlier versions, whose call does not name the GPUs.
            for placed in victim.iter().flat_map(|victim| &victim.placed) {
                barred.extend(placed.gpus.keys().map(|gpu| (placed.node.clone(), *gpu)));
            }
            return Ok((barred, unknown));
        }
        view.prefetch::<NodeUse>(named.iter().map(|(node, _)| node.as_str()))?;
        for (name, gpus) in named {
            let known = view.get::<NodeUse>(name)?.filter(|node| node.tenant == self.tenant);
            for gpu in gpus {
                match known.as_ref().filter(|known| usize::from(*gpu) < known.gpus.len()) {
                    Some(known) => barred.push((known.node.clone(), *gpu)),
                    None => unknown.push(format!("{name}/{gpu}")),
                }
            }
        }
        Ok((barred, unknown))
    }

    fn tell_unknown(
        &self,
        view: &mut View,
        eviction: ExecutionId,
        unknown: &[String],
    ) -> Result<(), Undecided> {
        if unknown.is_empty() {
            return Ok(());
        }
        let about = format!("{}/{}", self.tenant, self.workload);
        let text = format!(
            "{about} was evicted, and the memory of these GPUs was not cleaned: {}. The ledger does not list them for the tenant, so they could not be barred; take their nodes out of service and clean them",
            unknown.join(", ")
        );
        view.put(&Notification {
            id: format!("{about}.{eviction}.gpus_not_barred"),
            kind: "gpus.not_barred".into(),
            reason: None,
            tenant: self.tenant.to_string(),
            to: vec!["platform_ops".into()],
            text,
            about,
            at: view.now(),
        })
    }
}

/// Returns the execution that reclaims a workload, if any.
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
