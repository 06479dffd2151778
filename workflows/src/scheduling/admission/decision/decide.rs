//! Turns a workload into a recorded decision, and an admission into GPUs in use.

use crate::{
    policy::sha256,
    scheduling::admission::{
        admit,
        apply_loans::SettlementCause,
        decision::aging::Claimant,
        gpu_allocation::{GpuChoice, kinds},
        unit_of_work::{AdmissionTx, corrupt},
    },
    tenancy::{
        Admission, AdmissionFacts, GpuKind, NodeRoom, Resource, ResourceFacts, RunningEntry, RunningList,
        Workload, WorkloadState, WorkspaceName,
    },
};
use engine::{ActionError, Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// A decision before it is recorded, and the GPUs that the workload would use.
pub(in crate::scheduling::admission) struct PendingDecision {
    pub(in crate::scheduling::admission) admission: Admission,
    pub(in crate::scheduling::admission) choice: Option<GpuChoice>,
}

/// The origin of a decision.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduling::admission) enum DecisionOrigin {
    /// A new request. Only this one can be rejected.
    New,
    /// A workload that waits, or that ran before.
    Queued {
        /// It may not borrow until this time.
        cooling_until: Option<Timestamp>,
    },
    /// GPUs were reclaimed for it, so it waits behind no workload.
    Granted,
}

impl AdmissionTx {
    /// Decides on a workload without any change.
    pub(in crate::scheduling::admission) fn decide(
        &mut self,
        view: &mut View,
        workload: &Workload,
        turn: DecisionOrigin,
    ) -> Result<PendingDecision, Undecided> {
        let (choice, misfits) =
            self.choose(view, &workload.workspace, &workload.requests, workload.together)?;
        let choice = misfits.is_empty().then_some(choice);
        let grounds = self.facts(view, workload, turn, &misfits)?;
        let (answer, weighed) = admit(&grounds, &self.rules);
        let json = serde_json::to_vec(&grounds).map_err(|e| ActionError::permanent("ledger.encode", e))?;
        let admission = Admission {
            number: 0,
            tenant: self.tenant.id.clone(),
            workspace: workload.workspace.clone(),
            workload: workload.name.clone(),
            requests: workload.requests.clone(),
            answer,
            weighed,
            policy: self.rules.policy.clone(),
            facts_digest: sha256(&json),
            grounds,
            at: self.now,
        };
        Ok(PendingDecision { admission, choice })
    }

    /// Records a decision and returns its id.
    pub(in crate::scheduling::admission) fn record(&mut self, mut admission: Admission) -> Admission {
        self.cohort.decisions = self.cohort.decisions.saturating_add(1);
        admission.number = self.cohort.decisions;
        self.decisions.push(admission.clone());
        admission
    }

    fn facts(
        &mut self,
        view: &mut View,
        workload: &Workload,
        turn: DecisionOrigin,
        misfits: &BTreeSet<GpuKind>,
    ) -> Result<AdmissionFacts, Undecided> {
        let mut resources = BTreeMap::new();
        for (resource, amount) in &workload.requests {
            let mut ground = self.resource_facts(view, workload, resource, *amount, misfits)?;
            match turn {
                DecisionOrigin::New | DecisionOrigin::Queued { .. } => {
                    let ahead = self.ahead(view, Claimant::new(workload, resource), resource, &ground)?;
                    ground.ahead = ahead.first().map(|(_, name)| name.clone());
                }
                // Earmarked GPUs belong to the workspace's own quota. Its other workloads move to loans from now on.
                DecisionOrigin::Granted if resource.gpu().is_some() => {
                    if *amount <= self.earmarkable(view, &workload.workspace, resource)? {
                        let rest = ground.allowance.nominal.saturating_sub(*amount);
                        ground.taken = ground.taken.min(rest);
                    }
                }
                DecisionOrigin::Granted => {}
            }
            resources.insert(resource.clone(), ground);
        }
        let cooling_until = match turn {
            DecisionOrigin::Queued { cooling_until } => cooling_until,
            DecisionOrigin::New | DecisionOrigin::Granted => None,
        };
        let part = RunningList::part_of(&workload.name);
        let listable = self.running_list(view, &workload.workspace, part)?.running.len() < RunningList::MOST;
        let refused = match turn {
            DecisionOrigin::New => self.refused_kinds(view, workload)?,
            DecisionOrigin::Queued { .. } | DecisionOrigin::Granted => BTreeMap::new(),
        };
        let account = self.account(&workload.workspace)?;
        let occupancy = self.occupancy.as_deref();
        let tags = self.tenant.compliance.iter().map(|tag| <&str>::from(*tag).to_owned());
        Ok(AdmissionFacts {
            requests: workload.requests.clone(),
            together: workload.together,
            class: workload.class,
            preemptible: workload.preemptible,
            labels: workload.labels.iter().cloned().chain(tags).collect(),
            workspace_class: account.class,
            open: account.admitting == crate::tenancy::AccountState::Open,
            allow_preemption: self.tenant.allow_preemption,
            cooling: cooling_until.is_some_and(|until| self.now < until),
            place: occupancy.map(|nodes| (nodes.region.clone(), nodes.cluster.clone())),
            listable,
            queued: match turn {
                DecisionOrigin::New => false,
                DecisionOrigin::Queued { .. } | DecisionOrigin::Granted => true,
            },
            seen: self.seen_at.map(|at| self.now.since(at)),
            refused,
            resources,
        })
    }

    /// Returns the allowance of a workspace, with the borrowing limit in force now.
    pub(in crate::scheduling::admission) fn effective(
        &self,
        workspace: &WorkspaceName,
        resource: &Resource,
    ) -> Result<crate::tenancy::Balance, Undecided> {
        let account = self.account(workspace)?;
        let mut balance = account.balance(resource);
        if account.slowed_until.is_some_and(|until| self.now < until) {
            let most = self.cohort.lent_at_most(resource);
            let limit = balance.allowance.borrowing_limit.unwrap_or(most).min(most);
            let share = u128::from(limit) * u128::from(self.rules.thrash.share) / 1_000;
            balance.allowance.borrowing_limit = Some(u64::try_from(share).unwrap_or(limit));
        }
        Ok(balance)
    }

    fn resource_facts(
        &mut self,
        view: &mut View,
        workload: &Workload,
        resource: &Resource,
        amount: u64,
        misfits: &BTreeSet<GpuKind>,
    ) -> Result<ResourceFacts, Undecided> {
        let workspace = &workload.workspace;
        let balance = self.effective(workspace, resource)?;
        let account = self.account(workspace)?;
        let lasting = account.balance(resource).allowance;
        let mut ground = ResourceFacts {
            allowance: balance.allowance,
            slowed: balance.allowance != lasting,
            ceiling: lasting.borrowing_limit.map(|limit| lasting.nominal.saturating_add(limit)),
            taken: balance.in_use(),
            available: self.cohort.available_within(&balance, resource),
            potential: self.potential(workspace, &lasting, resource),
            ..ResourceFacts::default()
        };
        let Some(kind) = resource.gpu().cloned() else { return Ok(ground) };
        ground.reserved = account.reserved(resource, self.now);
        (ground.lendable, ground.kept_apart) = self.lendable(workspace, resource);
        let borrows = ground.taken.saturating_add(amount) > ground.allowance.nominal;
        if borrows && ground.lendable > 0 {
            ground.loans = u64::try_from(self.loans(view, resource)?.open.len()).unwrap_or(u64::MAX);
        }
        let rooms = || self.occupancy.iter().flat_map(|nodes| nodes.nodes.values());
        let sum = |of: &dyn Fn(&NodeRoom) -> u64| rooms().filter_map(|kinds| kinds.get(&kind)).map(of).sum();
        ground.serving = sum(&|room| room.capacity);
        ground.free = sum(&|room| room.assignable());
        if ground.serving == 0 {
            let offered: BTreeSet<&GpuKind> = rooms().flat_map(BTreeMap::keys).collect();
            ground.offered = offered.into_iter().cloned().collect();
        }
        ground.largest = rooms().filter_map(|kinds| kinds.get(&kind)).map(|room| room.capacity).max();
        ground.fits = !misfits.contains(&kind);
        // Loans that no other lender can take over do not keep a lender from its own free GPUs.
        if borrows || amount > ground.free {
            ground.uncovered = self.uncovered_with(view, workspace, resource, amount)?;
        }
        Ok(ground)
    }

    /// Assigns GPUs to a workload by an admission.
    pub(in crate::scheduling::admission) fn admit(
        &mut self,
        view: &mut View,
        mut workload: Workload,
        decided: PendingDecision,
    ) -> Result<Admission, Undecided> {
        let admission = self.record(decided.admission);
        let choice =
            decided.choice.ok_or_else(|| corrupt(format!("{} is admitted to nowhere", workload.name)))?;
        self.assign_gpus(view, &workload.name, &workload.workspace, &choice, false)?;
        let mut nodes: Vec<_> = choice.values().flat_map(BTreeMap::keys).cloned().collect();
        nodes.sort();
        nodes.dedup();
        workload.placed = self.placed(view, &workload.name, nodes)?;
        workload.state = WorkloadState::Admitted;
        workload.observed = None;
        workload.admitted_at = Some(self.now);
        workload.decision = Admission::key(&self.tenant.id, admission.number);
        self.note_start(&admission);
        self.put_workload(workload.clone());
        self.enrol(view, &workload)?;
        for (resource, amount) in &workload.requests {
            self.use_more(&workload.workspace, resource, *amount)?;
        }
        for (kind, _) in kinds(&workload) {
            self.settle_loans(view, &Resource::Gpu(kind.clone()), SettlementCause::Admitted(&workload))?;
        }
        Ok(admission)
    }

    /// Adds a workload to the list of running ones.
    pub(in crate::scheduling::admission) fn enrol(
        &mut self,
        view: &mut View,
        workload: &Workload,
    ) -> Result<(), Undecided> {
        let now = self.now;
        let roster = self.roster_mut(view, &workload.workspace, &workload.name)?;
        let running = RunningEntry {
            class: workload.class,
            priority: workload.priority,
            preemptible: workload.preemptible,
            checkpoint: workload.checkpoint,
            requests: workload.requests.clone(),
            submitted_at: workload.submitted_at,
            admitted_at: workload.admitted_at.unwrap_or(now),
            reclaimed: matches!(workload.state, WorkloadState::Reclaimed { .. }),
        };
        roster.running.insert(workload.name.clone(), running);
        Ok(())
    }
}
