//! Thorough checks: documents against each other and against the running workloads, and promises against the clock.

use crate::replay::{Replay, ReplayError};
use engine::Entity;
use std::collections::BTreeMap;
use workflows::{
    scheduling::admission::Rules,
    tenancy::{
        Cohort, Loan, MonthlyUsage, NodeUse, QueuedWorkload, Resource, Workload, WorkloadState,
        WorkspaceName, WorkspaceQueue, workspace_key,
    },
};

impl Replay<'_> {
    /// Compares all documents: I-3, I-4, I-8, I-9, I-24.
    pub(crate) async fn check_all(&mut self) -> Result<(), ReplayError> {
        self.check_nodes().await?;
        self.check_loans().await?;
        self.check_hours().await
    }

    /// I-3, I-4: each user of a GPU runs there. I-10: GPUs in transit belong to a queued demand.
    async fn check_nodes(&mut self) -> Result<(), ReplayError> {
        let now = self.stage.now();
        let mut uses = 0;
        for machine in &self.scene.machines {
            let Some(node) = self.stage.get::<NodeUse>(machine.node.as_str()).await? else { continue };
            if node.tenant != self.scene.tenant {
                self.checks.note(now, "I-3", format!("{} is used by another tenant", node.node));
            }
            for (index, gpu) in (0_u16..).zip(&node.gpus) {
                let sum: u32 = gpu.users.iter().map(|user| u32::from(user.slices)).sum();
                if sum > u32::from(gpu.slices) {
                    self.checks.note(now, "I-4", format!("GPU {index} of {} is allocated twice", node.node));
                }
                for user in &gpu.users {
                    let there = self.checks.runs(&user.workload).is_some_and(|placed| {
                        placed.iter().any(|part| part.node == node.node && part.gpus.contains_key(&index))
                    });
                    if user.in_transit {
                        self.check_transit(&user.workload).await?;
                    } else if !there {
                        let what = format!(
                            "{} has GPU {index} of {}, but does not run there",
                            user.workload, node.node
                        );
                        self.checks.note(now, "I-4", what);
                    } else {
                        uses += 1;
                    }
                }
            }
        }
        let mut wanted = 0;
        for name in self.checks.running() {
            wanted +=
                self.checks.runs(name).map_or(0, |placed| placed.iter().map(|part| part.gpus.len()).sum());
        }
        if uses != wanted {
            self.checks.note(
                now,
                "I-4",
                format!("{uses} uses of GPUs are recorded, but {wanted} were observed"),
            );
        }
        Ok(())
    }

    async fn check_transit(&mut self, workload: &str) -> Result<(), ReplayError> {
        let key = Workload::key(&self.scene.tenant, workload);
        let state = self.stage.get::<Workload>(&key).await?.map(|workload| workload.state);
        if state != Some(WorkloadState::Waiting) {
            let what = format!("GPUs are in transit to {workload}, which is not queued");
            self.checks.note(self.stage.now(), "I-10", what);
        }
        Ok(())
    }

    /// I-8: the sums of loans match the account. I-9: an ended loan stays ended.
    async fn check_loans(&mut self) -> Result<(), ReplayError> {
        let now = self.stage.now();
        let mut open: BTreeMap<(Resource, WorkspaceName), (u64, u64)> = BTreeMap::new();
        for number in 1..=self.cohort.loans {
            let Some(loan) = self.stage.get::<Loan>(&Loan::key(&self.scene.tenant, number)).await? else {
                self.checks.note(now, "I-9", format!("loan {number} has no row"));
                continue;
            };
            match (self.loans_ended.get(&number), loan.ended_at) {
                (Some(before), after) if after != Some(*before) => {
                    self.checks.note(
                        now,
                        "I-9",
                        format!("loan {number} ended at {before:?} and again at {after:?}"),
                    );
                }
                (None, Some(at)) => _ = self.loans_ended.insert(number, at),
                (Some(_) | None, _) => {}
            }
            if loan.state.is_ended() != loan.ended_at.is_some() {
                self.checks.note(
                    now,
                    "I-9",
                    format!("loan {number} is {:?}, but ended at {:?}", loan.state, loan.ended_at),
                );
            }
            if !loan.state.is_ended() {
                open.entry((loan.resource.clone(), loan.borrower)).or_default().0 += loan.amount;
                if let Some(lender) = loan.lender.workspace() {
                    open.entry((loan.resource, lender.clone())).or_default().1 += loan.amount;
                }
            }
        }
        for (workspace, account) in &self.cohort.accounts {
            for (resource, balance) in
                account.balances.iter().filter(|(resource, _)| resource.gpu().is_some())
            {
                let rows = open.get(&(resource.clone(), workspace.clone())).copied().unwrap_or_default();
                if rows != (balance.borrowed, balance.lent) {
                    let what = format!(
                        "{workspace} borrows {} and lends {} {resource}, but its loans add up to {} and {}",
                        balance.borrowed, balance.lent, rows.0, rows.1
                    );
                    self.checks.note(now, "I-8", what);
                }
            }
        }
        Ok(())
    }

    /// I-24: at every moment, each GPU was free, resting, or used by one workspace.
    async fn check_hours(&mut self) -> Result<(), ReplayError> {
        let tenant = self.scene.tenant.as_str();
        let Some(cohort) = self.stage.get::<Cohort>(tenant).await? else { return Ok(()) };
        let mut spent: BTreeMap<Resource, u64> = BTreeMap::new();
        for account in cohort.accounts.values() {
            for (resource, balance) in &account.balances {
                *spent.entry(resource.clone()).or_default() += balance.spent.consumed();
            }
        }
        let mut after = None;
        loop {
            let page = self
                .stage
                .engine
                .store()
                .documents(MonthlyUsage::COLLECTION, tenant, after.as_deref(), 1_000)
                .await;
            let page = page.map_err(engine::Error::from)?;
            for document in &page.items {
                let usage: MonthlyUsage = serde_json::from_slice(&document.body)
                    .map_err(|error| ReplayError::Unreadable(error.to_string()))?;
                for (resource, used) in usage.spent {
                    *spent.entry(resource).or_default() += used.consumed();
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let now = self.stage.now();
        for (resource, stock) in &cohort.stock {
            let taken = spent.get(resource).copied().unwrap_or(0);
            if stock.pieces_spent != stock.free_spent + stock.resting_spent + taken {
                let what = format!(
                    "{resource}: {} ms in total, {} free, {} out of service, {taken} in use",
                    stock.pieces_spent, stock.free_spent, stock.resting_spent
                );
                self.checks.note(now, "I-24", what);
            }
        }
        Ok(())
    }

    /// S-32: a demand that waits inside its reservation past the deadline is recorded as a missed promise. S-33: no
    /// demand waits while suitable GPUs are idle. S-35: no loan exceeds its term while a demand waits for it.
    pub(crate) async fn check_promises(&mut self) -> Result<(), ReplayError> {
        let waiting: Vec<_> = self
            .cohort
            .accounts
            .iter()
            .filter(|(_, account)| account.waiting > 0)
            .map(|(name, _)| name.clone())
            .collect();
        let mut idle = None;
        let rules = Rules::from(&self.stage.policy);
        for workspace in waiting {
            let key = workspace_key(&self.scene.tenant, &workspace);
            let Some(line) = self.stage.get::<WorkspaceQueue>(&key).await? else { continue };
            for waits in &line.waiting {
                self.check_deadline(&workspace, waits).await?;
                if idle.is_none()
                    && self.could_borrow(&workspace, waits)
                    && !self.behind_its_own(&rules, &line, waits)
                {
                    idle = Some(format!("{} of {workspace}", waits.workload));
                }
            }
        }
        let now = self.stage.now();
        let before = std::mem::replace(&mut self.idle, idle.is_some());
        if let Some(who) = idle.filter(|_| before) {
            self.checks.note(now, "S-33", format!("{who} waits for GPUs that are lent but idle"));
        }
        Ok(())
    }

    async fn check_deadline(
        &mut self,
        workspace: &WorkspaceName,
        waits: &QueuedWorkload,
    ) -> Result<(), ReplayError> {
        let now = self.stage.now();
        let Some(number) = self.names.get(waits.workload.as_str()).copied() else { return Ok(()) };
        let Some(account) = self.cohort.accounts.get(workspace) else { return Ok(()) };
        let inside = waits.requests.iter().all(|(resource, amount)| {
            let balance = account.balance(resource);
            // GPUs in transit to the workspace count as its own.
            balance.used + amount <= account.reserved(resource, now)
        });
        let deadline = self.stage.policy.reclaim.deadline;
        let late = waits.demanded_at.is_some_and(|since| now > since.after(deadline));
        if !late || !inside || !self.late.insert(number) {
            return Ok(());
        }
        self.gauge.missed += 1;
        let mut told = false;
        for resource in waits.requests.keys() {
            told |= self.flagged(resource, &waits.workload).await?;
        }
        if !told {
            self.gauge.unflagged += 1;
            let since = now.since(waits.demanded_at.unwrap_or(now));
            let what = format!(
                "{} waits inside the reservation of {workspace} for {} s without a reclaim or notification",
                waits.workload,
                since.as_secs()
            );
            self.checks.note(now, "S-32", what);
        }
        Ok(())
    }

    /// Returns true if the counts allow this queued workload to borrow. Only if all demands are for single GPUs; others
    /// may wait for room on one node, or behind such a demand.
    fn could_borrow(&self, workspace: &WorkspaceName, waits: &QueuedWorkload) -> bool {
        let now = self.stage.now();
        let lending = &self.stage.policy.lending;
        let Some(account) = self.cohort.accounts.get(workspace) else { return false };
        let cools = waits.cooling_until.is_some_and(|until| now < until);
        let slowed = account.slowed_until.is_some_and(|until| now < until);
        let single = self.single && waits.requests.values().all(|amount| *amount == 1);
        let of_its_class = waits.class.is_none_or(|class| lending.workloads.contains(&class));
        let allowed = waits.preemptible && of_its_class && lending.classes.contains(&account.class);
        single
            && allowed
            && !cools
            && !slowed
            && waits.requests.iter().all(|(resource, amount)| {
                let free = self.cohort.stock.get(resource).map_or(0, |stock| stock.free);
                *amount <= self.cohort.available(workspace, resource) && *amount <= free
            })
    }

    /// Returns true if an older workload in its queue requests the same kind and has reached the aged priority. A
    /// workspace's queue is served in that order, and a workload that may not borrow waits for GPUs of its own
    /// workspace. The promise covers only waiting for other workspaces.
    fn behind_its_own(&self, rules: &Rules, line: &WorkspaceQueue, waits: &QueuedWorkload) -> bool {
        let now = self.stage.now();
        let place = |waits: &QueuedWorkload| (waits.since, waits.workload.clone());
        let same =
            |other: &QueuedWorkload| other.requests.keys().any(|kind| waits.requests.contains_key(kind));
        let older = |other: &&QueuedWorkload| same(other) && place(other) < place(waits);
        line.waiting.iter().filter(older).any(|other| rules.aged_priority(now.since(other.entered_at)).1)
    }
}
