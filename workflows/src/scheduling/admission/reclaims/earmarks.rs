//! Earmarks of a reclaim: GPUs free at its fence, GPUs that its victims release, and their release when the reclaim ends or its beneficiary leaves.

use crate::{
    placement::best_fit,
    scheduling::admission::{
        apply_loans::SettlementCause, decision::decide::DecisionOrigin, gpu_allocation::GpuChoice,
        unit_of_work::AdmissionTx,
    },
    tenancy::{
        AccountState, ActiveReclaim, AdmissionVerdict, Beneficiary, NodeId, Resource, RunningList, Workload,
        WorkloadState, WorkspaceName,
    },
};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::ExecutionId;

impl AdmissionTx {
    /// The beneficiaries of a reclaim, the demand first, each with its earmarks.
    fn beneficiaries(
        &self,
        resource: &Resource,
        reclaim: &ActiveReclaim,
    ) -> Result<Vec<Beneficiary>, Undecided> {
        let mut serving: Vec<Beneficiary> = reclaim.beneficiaries().collect();
        if let (Some(demand), Some(_)) = (serving.first_mut(), &reclaim.workload) {
            demand.aside = self.account(&demand.workspace)?.balance(resource).in_transit;
        }
        Ok(serving)
    }

    /// The beneficiaries of all reclaims.
    fn all_serving(&self) -> Result<Vec<(Resource, Beneficiary)>, Undecided> {
        let mut all = Vec::new();
        for (resource, reclaim) in &self.cohort.reclaims {
            let serving = self.beneficiaries(resource, reclaim)?.into_iter();
            all.extend(serving.map(|served| (resource.clone(), served)));
        }
        Ok(all)
    }

    /// Earmarks free GPUs for every beneficiary that still lacks some.
    pub(in crate::scheduling::admission) fn top_up(&mut self, view: &mut View) -> Result<(), Undecided> {
        for (resource, served) in self.all_serving()? {
            self.earmark(view, &resource, &served, u64::MAX, None)?;
        }
        Ok(())
    }

    /// Returns how much more of a workspace's own quota can be earmarked. Its workloads that may borrow can move to loans, the others cannot. An earmark beyond
    /// that would be a loan without a running workload.
    pub(in crate::scheduling::admission) fn earmarkable(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        resource: &Resource,
    ) -> Result<u64, Undecided> {
        let balance = self.account(workspace)?.balance(resource);
        let available = self.cohort.available(workspace, resource);
        let nominal = balance.allowance.nominal;
        if available <= nominal.saturating_sub(balance.in_use()) {
            return Ok(available);
        }
        let mut room = nominal.saturating_sub(balance.in_transit);
        view.prefetch::<RunningList>(RunningList::keys(&self.tenant.id, workspace))?;
        for part in 0..RunningList::PARTS {
            let running: Vec<_> =
                self.running_list(view, workspace, part)?.running.values().cloned().collect();
            let account = self.account(workspace)?;
            let firm = running.iter().filter(|one| !self.borrows(account, one.preemptible, one.class));
            let firm = firm.filter_map(|one| one.requests.get(resource));
            room = firm.fold(room, |room, amount| room.saturating_sub(*amount));
        }
        Ok(room.min(available))
    }

    /// Earmarks up to `most`, on `nodes` first if given. Returns the amount.
    fn earmark(
        &mut self,
        view: &mut View,
        resource: &Resource,
        served: &Beneficiary,
        most: u64,
        nodes: Option<&Workload>,
    ) -> Result<u64, Undecided> {
        let Some(kind) = resource.gpu() else { return Ok(0) };
        let free = self.cohort.stock.get(resource).map_or(0, |stock| stock.free);
        let missing = served.wanted.saturating_sub(served.aside).min(most).min(free);
        if missing == 0 {
            return Ok(0);
        }
        let all = missing.min(self.earmarkable(view, &served.workspace, resource)?);
        let mut rest = all;
        if rest == 0 {
            return Ok(0);
        }
        let rooms = self.rooms(view, kind, &served.workspace)?;
        let near: BTreeSet<_> = nodes.iter().flat_map(|w| &w.placed).map(|part| part.node.clone()).collect();
        let (first, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            rooms.into_iter().partition(|(node, _)| near.contains(node));
        for rooms in [first, others] {
            let some = rest.min(rooms.values().copied().fold(0, u64::saturating_add));
            let Some(chosen) = best_fit::choose(best_fit::each(&rooms), some, 0) else { continue };
            rest -= some;
            if let Some(reclaim) = self.cohort.reclaims.get_mut(resource) {
                reclaim.nodes.extend(chosen.keys().cloned());
            }
            self.count_earmark(resource, served, |aside| aside.saturating_add(some))?;
            let choice = GpuChoice::from([(kind.clone(), chosen)]);
            self.assign_gpus(view, &served.workload, &served.workspace, &choice, true)?;
        }
        self.settle_loans(view, resource, SettlementCause::Allowance)?;
        Ok(all - rest)
    }

    /// Adds an earmark to the beneficiary's account and to the reclaim.
    pub(in crate::scheduling::admission) fn count_earmark(
        &mut self,
        resource: &Resource,
        served: &Beneficiary,
        change: impl Fn(u64) -> u64,
    ) -> Result<(), Undecided> {
        let account = self.account_mut(&served.workspace)?;
        let mut balance = account.balance(resource);
        balance.in_transit = change(balance.in_transit);
        account.balances.insert(resource.clone(), balance);
        let others = self.cohort.reclaims.get_mut(resource).map(|reclaim| &mut reclaim.others);
        for other in others.into_iter().flatten().filter(|other| other.workload == served.workload) {
            other.aside = change(other.aside);
        }
        Ok(())
    }

    /// Frees the earmarks of a beneficiary.
    fn let_go(
        &mut self,
        view: &mut View,
        resource: &Resource,
        served: &Beneficiary,
    ) -> Result<(), Undecided> {
        let nodes = self.cohort.reclaims.get(resource).map(|reclaim| reclaim.nodes.clone());
        let placed = self.placed(view, &served.workload, nodes.into_iter().flatten())?;
        self.release_gpus(view, &served.workload, resource.gpu(), &placed)?;
        self.count_earmark(resource, served, |aside| aside.saturating_sub(served.aside))
    }

    /// Ends the service of a beneficiary other than the demand, and frees its earmarks.
    fn release_beneficiary(
        &mut self,
        view: &mut View,
        resource: &Resource,
        served: &Beneficiary,
    ) -> Result<(), Undecided> {
        self.let_go(view, resource, served)?;
        if let Some(reclaim) = self.cohort.reclaims.get_mut(resource) {
            reclaim.others.retain(|other| other.workload != served.workload);
        }
        self.settle_loans(view, resource, SettlementCause::Allowance)
    }

    /// Admits beneficiaries other than the demands whose earmarks are complete, before any queued workload. If no remaining victim can free the missing GPUs,
    /// they wait like others, and their earmarks go to the remaining beneficiaries.
    pub(in crate::scheduling::admission) fn serve_others(
        &mut self,
        view: &mut View,
    ) -> Result<(), Undecided> {
        let mut left = false;
        let seen = self.seen_at.map(|at| self.now.since(at));
        let fresh = seen.is_some_and(|seen| seen <= self.rules.max_staleness);
        for (resource, reclaim) in self.cohort.reclaims.clone() {
            for served in &reclaim.others {
                let complete = served.aside >= served.wanted;
                let open = self.account(&served.workspace)?.admitting == AccountState::Open;
                if complete && fresh && open {
                    self.release_beneficiary(view, &resource, served)?;
                    self.admit_served(view, served)?;
                } else if !complete && reclaim.victims.is_empty() {
                    self.release_beneficiary(view, &resource, served)?;
                    left = true;
                }
            }
        }
        if left { self.top_up(view) } else { Ok(()) }
    }

    /// Admits a workload whose GPUs were freed if every finding allows it; otherwise it keeps its place in the queue.
    fn admit_served(&mut self, view: &mut View, served: &Beneficiary) -> Result<(), Undecided> {
        let workload = self.need_workload(view, &served.workload)?;
        if workload.state != WorkloadState::Waiting {
            return Ok(());
        }
        let decided = self.decide(view, &workload, DecisionOrigin::Granted)?;
        if decided.admission.answer == AdmissionVerdict::Admit {
            self.change_line(view, &served.workspace, |line| {
                line.waiting.retain(|waits| waits.workload != served.workload);
            })?;
            let admission = self.admit(view, workload, decided)?;
            self.effects.admitted.push(admission);
        }
        Ok(())
    }

    /// Earmarks the GPUs of a released victim for the beneficiaries that lack them.
    pub(in crate::scheduling::admission) fn hand_over(
        &mut self,
        view: &mut View,
        resource: &Resource,
        by: ExecutionId,
        workload: &Workload,
        amount: u64,
    ) -> Result<(), Undecided> {
        let Some(reclaim) = self.cohort.reclaims.get_mut(resource).filter(|r| r.execution == by) else {
            return Ok(());
        };
        reclaim.victims.remove(&workload.name);
        let reclaim = reclaim.clone();
        let mut left = amount;
        for served in self.beneficiaries(resource, &reclaim)? {
            left -= self.earmark(view, resource, &served, left, Some(workload))?;
        }
        Ok(())
    }

    /// Ends a reclaim: frees its earmarks and spares the remaining victims.
    pub(in crate::scheduling::admission) fn unfence(
        &mut self,
        view: &mut View,
        resource: &Resource,
    ) -> Result<BTreeSet<String>, Undecided> {
        let Some(reclaim) = self.cohort.reclaims.get(resource).cloned() else { return Ok(BTreeSet::new()) };
        for victim in &reclaim.victims {
            self.spare(view, resource, reclaim.execution, victim)?;
        }
        for served in self.beneficiaries(resource, &reclaim)? {
            self.let_go(view, resource, &served)?;
        }
        self.cohort.reclaims.remove(resource);
        self.settle_loans(view, resource, SettlementCause::Allowance)?;
        Ok(reclaim.victims)
    }

    /// Frees earmarks above a workspace's own quota after the quota was lowered. They would be a loan without a running workload.
    pub(in crate::scheduling::admission) fn keep_to_own(&mut self, view: &mut View) -> Result<(), Undecided> {
        for (resource, served) in self.all_serving()? {
            let balance = self.account(&served.workspace)?.balance(&resource);
            let own = balance.used.saturating_sub(balance.borrowed);
            if served.aside > 0 && own.saturating_add(balance.in_transit) > balance.allowance.nominal {
                self.let_go(view, &resource, &served)?;
            }
        }
        Ok(())
    }

    /// Withdraws a queued workload and frees its earmarks.
    pub(in crate::scheduling::admission) fn withdraw(
        &mut self,
        view: &mut View,
        name: &str,
    ) -> Result<(), Undecided> {
        for (resource, served) in self.all_serving()? {
            if served.workload == name {
                self.release_beneficiary(view, &resource, &served)?;
            }
        }
        for reclaim in self.cohort.reclaims.values_mut() {
            if reclaim.workload.as_deref() == Some(name) {
                (reclaim.workload, reclaim.wanted, reclaim.more) = (None, 0, 0);
                reclaim.withdrawn = true;
            }
        }
        Ok(())
    }

    /// Removes earmarks on nodes and reclaims the amount elsewhere if possible.
    pub(in crate::scheduling::admission) fn drop_earmarks(
        &mut self,
        view: &mut View,
        nodes: &[NodeId],
    ) -> Result<(), Undecided> {
        for (resource, served) in self.all_serving()? {
            let placed = self.placed(view, &served.workload, nodes.iter().cloned())?;
            let there = |desk: &Self| desk.cohort.stock.get(&resource).map_or(0, |it| it.free + it.resting);
            let before = there(self);
            self.release_gpus(view, &served.workload, resource.gpu(), &placed)?;
            let lost = there(self).saturating_sub(before);
            self.count_earmark(&resource, &served, |aside| aside.saturating_sub(lost))?;
            self.settle_loans(view, &resource, SettlementCause::Allowance)?;
        }
        Ok(())
    }
}
