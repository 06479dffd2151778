//! What is set aside for the demand of a reclaim: what is free at its fence, what its victims let go, and what is free again when it
//! ends or nobody wants it any more.

use super::{desk::Desk, gpus::Choice, loans::Cause, place};
use crate::tenancy::{Reclaiming, Resource, Workload};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::ExecutionId;

impl Desk {
    /// Sets aside for every demand that a reclaim executes for what is free and it lacks still.
    pub(super) fn top_up(&mut self, view: &mut View) -> Result<(), Undecided> {
        let reclaims: Vec<_> =
            self.cohort.reclaims.iter().map(|(r, reclaim)| (r.clone(), reclaim.clone())).collect();
        for (resource, reclaim) in reclaims {
            self.set_aside(view, &resource, &reclaim, u64::MAX, None)?;
        }
        Ok(())
    }

    /// Sets aside up to `most`, on `nodes` first if given.
    fn set_aside(
        &mut self,
        view: &mut View,
        resource: &Resource,
        reclaim: &Reclaiming,
        most: u64,
        nodes: Option<&Workload>,
    ) -> Result<(), Undecided> {
        let (Some(demand), Some(kind)) = (&reclaim.workload, resource.gpu()) else { return Ok(()) };
        let aside = self.account(&reclaim.workspace)?.balance(resource).in_transit;
        let missing = reclaim.aside().saturating_sub(aside).min(most);
        let mut rest = missing.min(self.cohort.available(&reclaim.workspace, resource));
        if rest == 0 {
            return Ok(());
        }
        let rooms = self.rooms(view, kind, &reclaim.workspace)?;
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
            let account = self.account_mut(&reclaim.workspace)?;
            let mut balance = account.balance(resource);
            balance.in_transit = balance.in_transit.saturating_add(some);
            account.balances.insert(resource.clone(), balance);
            let choice = Choice::from([(kind.clone(), chosen)]);
            self.give(view, demand, &reclaim.workspace, &choice, true)?;
        }
        self.settle(view, resource, Cause::Allowance)?;
        Ok(())
    }

    /// A workload that was reclaimed is gone: as much of its GPUs as the demand lacks is set aside for it.
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
        let reclaim = reclaim.clone();
        self.set_aside(view, resource, &reclaim, amount, Some(workload))
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
        if let Some(demand) = &reclaim.workload {
            let placed = self.placed(view, demand, reclaim.nodes.iter().cloned())?;
            self.take(view, demand, resource.gpu(), &placed)?;
        }
        let account = self.account_mut(&reclaim.workspace)?;
        let mut balance = account.balance(resource);
        balance.in_transit = 0;
        account.balances.insert(resource.clone(), balance);
        self.cohort.reclaims.remove(resource);
        self.settle(view, resource, Cause::Allowance)?;
        Ok(reclaim.victims)
    }

    /// A waiting workload is no longer wanted: what was set aside for it is free.
    pub(super) fn withdraw(&mut self, view: &mut View, name: &str) -> Result<(), Undecided> {
        let serves = |reclaim: &Reclaiming| reclaim.workload.as_deref() == Some(name);
        let kinds: Vec<_> = self
            .cohort
            .reclaims
            .iter()
            .filter(|(_, r)| serves(r))
            .map(|(resource, _)| resource.clone())
            .collect();
        for resource in kinds {
            let Some(reclaim) = self.cohort.reclaims.get(&resource).cloned() else { continue };
            let placed = self.placed(view, name, reclaim.nodes.iter().cloned())?;
            self.take(view, name, resource.gpu(), &placed)?;
            let account = self.account_mut(&reclaim.workspace)?;
            let mut balance = account.balance(&resource);
            balance.in_transit = 0;
            account.balances.insert(resource.clone(), balance);
            self.cohort.reclaims.insert(
                resource.clone(),
                Reclaiming { workload: None, wanted: 0, more: 0, nodes: BTreeSet::new(), ..reclaim },
            );
            self.settle(view, &resource, Cause::Allowance)?;
        }
        Ok(())
    }
}
