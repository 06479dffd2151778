//! Ledger actions of a capacity exhaustion.

use super::{ExhaustionTerms, RungOutcome, RungTerms};
use crate::{
    capacity::record::CapacityMeasurement,
    ledger::candidates,
    policy::{
        self, ApprovalGate, PlatformPolicy, Rung,
        decisions::{Approval, ApprovalFor, Failure, Remedy, approval, has_recovered, on_failure},
    },
    reclaim,
    scheduling::admission,
    tenancy::{
        Cents, Cohort, GpuModel, Gpus, OpenLoans, Region, RegionId, Resource, Tenant, TenantId, Tier,
        Waitlist,
    },
};
use engine::{Call, Entity, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{CompositeKey, ExecutionId};
use strum::VariantArray as _;

/// Measures the capacity of a model in a region, and reads the terms. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AssessCapacity {
    pub(super) region: RegionId,
    pub(super) model: GpuModel,
    /// GPUs requested in addition to the waitlists.
    pub(super) wanted: Gpus,
    /// The tenants whose loans are checked.
    pub(super) tenants: Vec<TenantId>,
}

impl LedgerAction for AssessCapacity {
    const NAME: &'static str = "AssessCapacity";
    type Output = (ExhaustionTerms, CapacityMeasurement);

    fn decide(&self, view: &mut View, _: &Call) -> Result<Self::Output, Undecided> {
        self.assess(view)
    }
}

impl AssessCapacity {
    pub(super) fn assess(
        &self,
        view: &mut View,
    ) -> Result<(ExhaustionTerms, CapacityMeasurement), Undecided> {
        let policy = policy::in_force(view)?;
        let Stock { total, free, buffer } = stock(view, &self.region, &self.model, &policy)?;
        let list = view.get::<Waitlist>(&Waitlist::key(&self.region, &self.model))?;
        let queued: Gpus = list.iter().flat_map(|list| &list.waiters).map(|waiter| waiter.gpus).sum();
        let waited_for = queued.saturating_add(self.wanted);
        let overdue = overdue(view, &self.tenants, &self.model)?;
        let enough = free >= waited_for && has_recovered(total, free, &policy);
        let at = view.now();
        view.prefetch::<Tenant>(self.tenants.iter().map(ToString::to_string))?;
        let mut tiers = BTreeSet::new();
        for tenant in &self.tenants {
            tiers.extend(view.get::<Tenant>(tenant.as_str())?.map(|tenant| tenant.tier));
        }
        let monthly = policy.monthly(&self.model, waited_for);
        Ok((
            terms(&policy, &tiers, monthly),
            CapacityMeasurement { at, total, free, buffer, waited_for, overdue, enough },
        ))
    }
}

/// Returns the `tenants` with overdue loans of the model.
fn overdue(view: &mut View, tenants: &[TenantId], model: &GpuModel) -> Result<Vec<TenantId>, Undecided> {
    let resource = Resource::gpus(model.clone());
    view.prefetch::<OpenLoans>(tenants.iter().map(|tenant| OpenLoans::key(tenant, &resource)))?;
    let now = view.now();
    let mut found = Vec::new();
    for tenant in tenants {
        let open = view.get::<OpenLoans>(&OpenLoans::key(tenant, &resource))?;
        if open.is_some_and(|loans| loans.open.iter().any(|loan| loan.due <= now)) {
            found.push(tenant.clone());
        }
    }
    Ok(found)
}

/// The capacity of a model in a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stock {
    /// All GPUs.
    pub(crate) total: Gpus,
    /// GPUs that are free above the reserve.
    pub(crate) free: Gpus,
    /// The reserve.
    pub(crate) buffer: Gpus,
}

/// Counts the GPUs of `model` in `region`.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub(crate) fn stock(
    view: &mut View,
    region: &RegionId,
    model: &GpuModel,
    policy: &PlatformPolicy,
) -> Result<Stock, Undecided> {
    let all = candidates(view, model)?;
    let here: Vec<_> = all.into_iter().filter(|candidate| candidate.region == *region).collect();
    let total: Gpus = here.iter().map(|candidate| candidate.total).sum();
    let all_free: Gpus = here.iter().map(|candidate| candidate.free).sum();
    let kept = here.iter().map(|candidate| candidate.buffer).max().unwrap_or_default();
    let buffer = kept.saturating_add(policy.buffer_in(region));
    Ok(Stock { total, free: all_free.saturating_sub(buffer), buffer })
}

/// Returns the rungs of policy for tenants of `tier`, in order.
fn ladder_of(tier: Tier, policy: &PlatformPolicy) -> Vec<Rung> {
    let (mut tried, mut ladder) = (BTreeSet::new(), Vec::new());
    while let Remedy::Climb(rung) =
        on_failure(&Failure::Exhausted { tier, tried: tried.clone() }, policy).answer
    {
        ladder.push(rung);
        if !tried.insert(rung) {
            break;
        }
    }
    ladder
}

/// Returns the terms for tenants of `tiers`, or of every tier if empty. The ladder of one tier keeps its order; several are merged mildest first. Leaves out a
/// rung that policy refuses to all of them, such as one above its cap.
pub(crate) fn terms(policy: &PlatformPolicy, tiers: &BTreeSet<Tier>, monthly: Cents) -> ExhaustionTerms {
    let every: BTreeSet<Tier> = Tier::VARIANTS.iter().copied().collect();
    let tiers = if tiers.is_empty() { &every } else { tiers };
    let mut ladder: Vec<RungTerms> = Vec::new();
    for tier in tiers {
        for rung in ladder_of(*tier, policy) {
            let gate = match approval(&ApprovalFor::Rung { rung, tier: *tier, monthly }, policy).answer {
                Approval::Refused => continue,
                answer @ (Approval::Nobody | Approval::People { .. }) => answer.gate(),
            };
            if ladder.iter().any(|climb| climb.rung == rung) {
                continue;
            }
            let gate = gate.unwrap_or_else(|| ApprovalGate::plain(engine::DAY, Vec::new()));
            let ApprovalGate { within, seats, procedure } = gate;
            ladder.push(RungTerms { rung, seats, within, procedure });
        }
    }
    if tiers.len() > 1 {
        ladder.sort_by_key(|climb| climb.rung);
    }
    ExhaustionTerms {
        policy: policy.reference.clone(),
        ladder,
        settle: policy.capacity.settle,
        procure_within: policy.capacity.procure_within,
    }
}

/// A lowered reserve, recorded so that it can be restored exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoweredBuffer {
    /// The region.
    pub region: RegionId,
    /// The model.
    pub model: GpuModel,
    /// The region's own entry for the model before; `None` if it had none.
    pub before: Option<Gpus>,
    /// The execution that lowered it.
    pub by: ExecutionId,
}

impl Entity for LoweredBuffer {
    const COLLECTION: &'static str = "buffers-lowered";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        CompositeKey::of(&[&self.region, &self.model]).into()
    }
}

/// Releases the region's own reserve of a model.
///
/// Safe to repeat. Its undo, [`RestoreBuffer`], tolerates that nothing was lowered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LowerBuffer {
    pub(super) region: RegionId,
    pub(super) model: GpuModel,
}

impl LedgerAction for LowerBuffer {
    const NAME: &'static str = "LowerBuffer";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let id = CompositeKey::of(&[&self.region, &self.model]);
        if view.get::<LoweredBuffer>(&id)?.is_some() {
            return Ok(());
        }
        let mut region = view.require::<Region>(self.region.as_str())?;
        let before = region.buffer.by_model.insert(self.model.clone(), Gpus::ZERO);
        view.put(&region)?;
        let (region, model) = (self.region.clone(), self.model.clone());
        view.put(&LoweredBuffer { region, model, before, by: call.execution })
    }
}

/// Restores the reserve. Safe to repeat. Does not change what another execution lowered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RestoreBuffer {
    pub(super) region: RegionId,
    pub(super) model: GpuModel,
}

impl LedgerAction for RestoreBuffer {
    const NAME: &'static str = "RestoreBuffer";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let id = CompositeKey::of(&[&self.region, &self.model]);
        let lowered = view.get::<LoweredBuffer>(&id)?.filter(|lowered| lowered.by == call.execution);
        let Some(lowered) = lowered else { return Ok(()) };
        let mut region = view.require::<Region>(self.region.as_str())?;
        match lowered.before {
            Some(before) => region.buffer.by_model.insert(self.model.clone(), before),
            None => region.buffer.by_model.remove(&self.model),
        };
        view.put(&region)?;
        view.delete::<LoweredBuffer>(&id)
    }
}

/// Stops admissions for tenants whose tier policy allows to degrade. Running workloads continue.
///
/// Safe to repeat. Its undo, [`OpenTiers`], opens only accounts that this execution closed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ShutTiers {
    pub(super) tenants: Vec<TenantId>,
}

impl LedgerAction for ShutTiers {
    const NAME: &'static str = "ShutTiers";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let policy = policy::in_force(view)?;
        view.prefetch::<Tenant>(self.tenants.iter().map(ToString::to_string))?;
        view.prefetch::<Cohort>(self.tenants.iter().map(ToString::to_string))?;
        for id in &self.tenants {
            let Some(tenant) = view.get::<Tenant>(id.as_str())? else { continue };
            let degrades = ladder_of(tenant.tier, &policy).contains(&Rung::Degrade);
            let Some(cohort) = view.get::<Cohort>(id.as_str())?.filter(|_| degrades) else { continue };
            let workspaces: Vec<_> = cohort.accounts.keys().cloned().collect();
            admission::freeze(view, id, &workspaces, call.execution)?;
        }
        Ok(())
    }
}

/// Reopens admission for all tenants that this execution closed, and wakes queued workloads. Safe to repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OpenTiers {
    pub(super) tenants: Vec<TenantId>,
}

impl LedgerAction for OpenTiers {
    const NAME: &'static str = "OpenTiers";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        view.prefetch::<Cohort>(self.tenants.iter().map(ToString::to_string))?;
        for id in &self.tenants {
            let Some(cohort) = view.get::<Cohort>(id.as_str())? else { continue };
            let workspaces: Vec<_> = cohort.accounts.keys().cloned().collect();
            let news = admission::thaw(view, id, &workspaces, call.execution)?;
            reclaim::ledger::start_reclaims(view, &news)?;
        }
        Ok(())
    }
}

/// Records the outcome of a rung. Changes nothing else; the execution's history is the evidence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NoteRung {
    pub(super) rung: Option<Rung>,
    pub(super) fate: RungOutcome,
}

impl LedgerAction for NoteRung {
    const NAME: &'static str = "NoteRung";
    type Output = (Option<Rung>, RungOutcome);

    fn decide(&self, _: &mut View, _: &Call) -> Result<Self::Output, Undecided> {
        Ok((self.rung, self.fate))
    }
}
