//! Drops a victim just before its eviction if the reclaim no longer needs its GPUs.

use crate::{
    scheduling::admission::{reclaims::steps::GrantAttempt, unit_of_work::AdmissionTx},
    tenancy::{ActiveReclaim, AdmissionVerdict, LoanState, Resource, TenantId, Workload, WorkloadState},
    workload_start::WorkloadStart,
};
use engine::{Undecided, View};
use store::ExecutionId;

/// Starts the eviction of a victim: its loans drain. Spares a victim that is no longer needed and returns the reason. A victim reported as `exited` is not
/// spared; the eviction verifies the exit. A repeated call returns the same result.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
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
        WorkloadState::Admitted => return Ok(Some("no reclaim needs its GPUs any more".to_owned())),
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
    /// Returns the reason why a reclaim needs no further victims, if so.
    ///
    /// Expected releases do not count against the missing amount. They may fail, and the demand would wait for another grace period.
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
            return Ok(Some("no queued workload needs its GPUs any more"));
        }
        // Dry run of the grant. The changes are discarded. Stale observations do not matter here; they are renewed before the grant.
        let mut trial = Self::open(view, &self.tenant.id, [])?;
        trial.seen_at = Some(trial.now);
        let granted = match trial.try_grant(view, resource, reclaim)? {
            GrantAttempt::Gone => true,
            GrantAttempt::Missing(_) => false,
            GrantAttempt::Decided { decided, .. } => decided.admission.answer == AdmissionVerdict::Admit,
        };
        Ok(granted.then_some("the beneficiary has enough GPUs without it"))
    }

    /// Returns true if another workload waits within its workspace's own quota and the victims also serve it.
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

    /// Spares a victim.
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
        // The eviction may have suspended it, or come before its start. The start waits until the eviction has ended.
        let start = WorkloadStart::new(self.tenant.id.clone(), name.to_owned(), victim.decision.clone());
        self.effects.starts.push(WorkloadStart { again: Some(execution), ..start });
        self.enrol(view, &victim)?;
        self.put_workload(victim);
        Ok(())
    }
}
