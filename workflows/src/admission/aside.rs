//! What is set aside for the demand of a reclaim: what is free at its fence, what its victims let go, and what is free again when it
//! ends or nobody wants it any more.

use super::{desk::Desk, gpus::Choice, loans::Cause, place};
use crate::tenancy::{NodeId, Reclaiming, Resource, Served, Workload, WorkspaceName};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::ExecutionId;

impl Desk {
    /// Sets aside for everybody whom a reclaim serves what is free and they lack still.
    pub(super) fn top_up(&mut self, view: &mut View) -> Result<(), Undecided> {
        let reclaims: Vec<_> =
            self.cohort.reclaims.iter().map(|(r, reclaim)| (r.clone(), reclaim.clone())).collect();
        for (resource, reclaim) in reclaims {
            for served in reclaim.served() {
                self.set_aside(view, &resource, &served, u64::MAX, None)?;
            }
        }
        Ok(())
    }

    /// What a workspace could use more of its own. Nothing is set aside beyond that: it would be lent to nobody who runs.
    pub(super) fn own(&self, workspace: &WorkspaceName, resource: &Resource) -> Result<u64, Undecided> {
        let balance = self.account(workspace)?.balance(resource);
        let room = balance.allowance.nominal.saturating_sub(balance.taken());
        Ok(room.min(self.cohort.available(workspace, resource)))
    }

    /// Sets aside up to `most`, on `nodes` first if given; answers how much.
    fn set_aside(
        &mut self,
        view: &mut View,
        resource: &Resource,
        served: &Served,
        most: u64,
        nodes: Option<&Workload>,
    ) -> Result<u64, Undecided> {
        let Some(kind) = resource.gpu() else { return Ok(0) };
        let aside = self.account(&served.workspace)?.balance(resource).in_transit;
        let missing = served.wanted.saturating_sub(aside).min(most);
        let all = missing.min(self.own(&served.workspace, resource)?);
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
            let Some(chosen) = place::choose(place::each(&rooms), some, 0) else { continue };
            rest -= some;
            if let Some(reclaim) = self.cohort.reclaims.get_mut(resource) {
                reclaim.nodes.extend(chosen.keys().cloned());
            }
            let account = self.account_mut(&served.workspace)?;
            let mut balance = account.balance(resource);
            balance.in_transit = balance.in_transit.saturating_add(some);
            account.balances.insert(resource.clone(), balance);
            let choice = Choice::from([(kind.clone(), chosen)]);
            self.give(view, &served.workload, &served.workspace, &choice, true)?;
        }
        self.settle(view, resource, Cause::Allowance)?;
        Ok(all - rest)
    }

    /// What was set aside for one is free.
    fn let_go(
        &mut self,
        view: &mut View,
        resource: &Resource,
        served: &Served,
        nodes: &BTreeSet<NodeId>,
    ) -> Result<(), Undecided> {
        let placed = self.placed(view, &served.workload, nodes.iter().cloned())?;
        self.take(view, &served.workload, resource.gpu(), &placed)?;
        let account = self.account_mut(&served.workspace)?;
        let mut balance = account.balance(resource);
        balance.in_transit = 0;
        account.balances.insert(resource.clone(), balance);
        Ok(())
    }

    /// A workload that was reclaimed is gone: as much of its GPUs as those lack who are served is set aside for them.
    pub(super) fn hand_over(
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
        let served: Vec<Served> = reclaim.served().collect();
        let mut left = amount;
        for served in served {
            left -= self.set_aside(view, resource, &served, left, Some(workload))?;
        }
        Ok(())
    }

    /// Ends a reclaim: frees what was set aside and spares who is left.
    pub(super) fn unfence(
        &mut self,
        view: &mut View,
        resource: &Resource,
    ) -> Result<BTreeSet<String>, Undecided> {
        let Some(reclaim) = self.cohort.reclaims.get(resource).cloned() else { return Ok(BTreeSet::new()) };
        for victim in &reclaim.victims {
            self.spare(view, resource, reclaim.execution, victim)?;
        }
        for served in reclaim.served() {
            self.let_go(view, resource, &served, &reclaim.nodes)?;
        }
        self.cohort.reclaims.remove(resource);
        self.settle(view, resource, Cause::Allowance)?;
        Ok(reclaim.victims)
    }

    /// What was set aside beyond what a workspace owns since its quota was lowered is free: it would be borrowed, and nobody runs on it
    /// whose loan that could be.
    pub(super) fn keep_to_own(&mut self, view: &mut View) -> Result<(), Undecided> {
        let reclaims = self.cohort.reclaims.clone();
        for (resource, reclaim) in &reclaims {
            for served in reclaim.served() {
                let balance = self.account(&served.workspace)?.balance(resource);
                if balance.in_transit > 0 && balance.beyond() > 0 {
                    self.let_go(view, resource, &served, &reclaim.nodes)?;
                }
            }
        }
        Ok(())
    }

    /// A waiting workload is no longer wanted: what was set aside for it is free.
    pub(super) fn withdraw(&mut self, view: &mut View, name: &str) -> Result<(), Undecided> {
        let serves = |reclaim: &Reclaiming| reclaim.served().find(|served| served.workload == name);
        let serving: Vec<_> = self
            .cohort
            .reclaims
            .iter()
            .filter_map(|(resource, reclaim)| Some((resource.clone(), reclaim.clone(), serves(reclaim)?)))
            .collect();
        for (resource, mut reclaim, served) in serving {
            self.let_go(view, &resource, &served, &reclaim.nodes)?;
            if reclaim.workload.as_deref() == Some(name) {
                (reclaim.workload, reclaim.wanted, reclaim.more) = (None, 0, 0);
            }
            reclaim.others.retain(|other| other.workload != name);
            self.cohort.reclaims.insert(resource.clone(), reclaim);
            self.settle(view, &resource, Cause::Allowance)?;
        }
        Ok(())
    }
}
