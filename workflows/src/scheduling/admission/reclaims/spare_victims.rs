//! Who need not give way after all: nobody whom the reclaim serves lacks anything, in the moment before an eviction begins.

use crate::{
    scheduling::admission::{reclaims::steps::GrantAttempt, unit_of_work::AdmissionTx},
    tenancy::{ActiveReclaim, AdmissionVerdict, LoanState, Resource, TenantId, Workload, WorkloadState},
    workload_start::WorkloadStart,
};
use engine::{Undecided, View};
use store::ExecutionId;

/// A victim's eviction is about to begin: its loans drain. One that nobody needs any more is its workspace's again instead; answers why.
/// One that has `exited`, as somebody says, is not spared: whether it has is for the eviction to see. Called again, it answers the same.
///
/// # Errors
/// What the view lacks.
pub fn drain_victim(
    view: &mut View,
    tenant: &TenantId,
    execution: ExecutionId,
    victim: &str,
    exited: bool,
) -> Result<Option<String>, Undecided> {
    let mut desk =
        AdmissionTx::open(view, tenant, [view.prefetch::<Workload>([Workload::key(tenant, victim)])])?;
    let Some(workload) = desk.workload(view, victim)?.cloned() else { return Ok(None) };
    match workload.state {
        WorkloadState::Reclaimed { by } if by == execution => {}
        WorkloadState::Admitted => return Ok(Some("nobody calls it back any more".to_owned())),
        WorkloadState::Reclaimed { .. }
        | WorkloadState::Waiting
        | WorkloadState::Finished
        | WorkloadState::Rejected => return Ok(None),
    }
    let ours = desk.cohort.reclaims.iter().find(|(_, reclaim)| reclaim.execution == execution);
    let ours = ours.map(|(resource, reclaim)| (resource.clone(), reclaim.clone()));
    if let Some((resource, reclaim)) = ours.filter(|_| !exited)
        && let Some(why) = desk.unneeded_reason(view, &resource, &reclaim)?
    {
        desk.spare(view, &resource, execution, victim)?;
        desk.save(view)?;
        return Ok(Some(why.to_owned()));
    }
    for resource in workload.requests.keys().filter(|resource| resource.gpu().is_some()) {
        desk.mark_loans(view, resource, victim, LoanState::Draining)?;
    }
    desk.save(view)?;
    Ok(None)
}

impl AdmissionTx {
    /// Why no victim of a reclaim is needed any more, if none is.
    ///
    /// How much is to come is not weighed against what is lacking: what others would give up may not come, and whoever counted on it would
    /// wait for another grace.
    fn unneeded_reason(
        &mut self,
        view: &mut View,
        resource: &Resource,
        reclaim: &ActiveReclaim,
    ) -> Result<Option<&'static str>, Undecided> {
        let for_somebody = reclaim.workload.is_some() || reclaim.withdrawn;
        let complete = reclaim.others.iter().all(|other| other.aside >= other.wanted);
        if !for_somebody || !complete || self.another_waits(view, resource, reclaim)? {
            return Ok(None);
        }
        if reclaim.workload.is_none() {
            return Ok(Some("nobody waits any more for what it holds"));
        }
        // As the grant itself would go, on a desk that nobody saves. Facts may be stale now, and are seen anew until then.
        let mut trial = Self::open(view, &self.tenant.id, [])?;
        trial.seen_at = Some(trial.now);
        let granted = match trial.try_grant(view, resource, reclaim)? {
            GrantAttempt::Gone => true,
            GrantAttempt::Missing(_) => false,
            GrantAttempt::Decided { decided, .. } => decided.admission.answer == AdmissionVerdict::Admit,
        };
        Ok(granted.then_some("whoever it was called back for has all without it"))
    }

    /// Whether another waits inside what the workspace owns, for whom the victims are as well.
    fn another_waits(
        &mut self,
        view: &mut View,
        resource: &Resource,
        reclaim: &ActiveReclaim,
    ) -> Result<bool, Undecided> {
        let balance = self.account(&reclaim.workspace)?.balance(resource);
        let room = balance.allowance.nominal.saturating_sub(balance.in_use());
        let waiting = &self.queue_of(view, &reclaim.workspace)?.waiting;
        let mut others = waiting.iter().filter(|waits| reclaim.workload.as_ref() != Some(&waits.workload));
        Ok(others.any(|waits| waits.requests.get(resource).is_some_and(|amount| (1..=room).contains(amount))))
    }

    /// Lets a victim go.
    pub(in crate::scheduling::admission) fn spare(
        &mut self,
        view: &mut View,
        resource: &Resource,
        execution: ExecutionId,
        name: &str,
    ) -> Result<(), Undecided> {
        if let Some(reclaim) = self.cohort.reclaims.get_mut(resource) {
            reclaim.victims.remove(name);
        }
        let victim = self.need_workload(view, name)?;
        if victim.state != (WorkloadState::Reclaimed { by: execution }) {
            return Ok(());
        }
        for resource in victim.requests.keys().filter(|resource| resource.gpu().is_some()) {
            self.mark_loans(view, resource, name, LoanState::Active)?;
        }
        let victim = Workload { state: WorkloadState::Admitted, ..victim };
        // Its eviction may have made it inactive, or come before its start. The start waits until the eviction has ended.
        let start = WorkloadStart::new(self.tenant.id.clone(), name.to_owned(), victim.decision.clone());
        self.effects.starts.push(WorkloadStart { again: Some(execution), ..start });
        self.enrol(view, &victim)?;
        self.put_workload(victim);
        Ok(())
    }
}
